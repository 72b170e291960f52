/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * libibverbs' registration calls, answered by the test: these definitions in the executable come
 * before libibverbs' own. It is as strict as a device can be about access rights.
 */
#ifndef TESTS_FAKE_VERBS_H
#define TESTS_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct fake_verbs {
    struct ibv_device_attr limits; /* what the device says it can do */
    int query_error;               /* ibv_query_device() answers this */
    unsigned takes;                /* access bits the device takes besides the usual */
    bool odp;                      /* it pages on demand */
    bool no_reg_dmabuf;            /* libibverbs lacks ibv_reg_dmabuf_mr()... */
    bool reg_mr_ex;                /* ...and has ibv_reg_mr_ex() */
    int dmabuf_probe;              /* ibv_reg_dmabuf_mr()'s errno for descriptor -1... */
    int ex_probe;                  /* ...and ibv_reg_mr_ex()'s */
    int dmabuf_error;              /* not 0: ibv_reg_dmabuf_mr() fails with it */
    int reg_error;                 /* errno of the next ibv_reg_mr() */
    bool reg_fails;                /* ...which fails even with errno 0 */
    int dereg_result;              /* ibv_dereg_mr() returns this while it is not 0... */
    int dereg_errno;               /* ...with this errno */
    uint32_t local_rkey;           /* rkey of regions without remote access, as drivers differ */
    /* What was asked last. */
    void *addr;
    size_t length;
    uint64_t iova;
    unsigned access;
    int fd; /* of a dmabuf, -1: none */
    uint64_t offset;
    bool by_ex; /* ibv_reg_mr_ex() was asked */
    unsigned regs, deregs, live, probes, ex_probes;
};
extern struct fake_verbs fake_verbs;

/* As new: one device named "fake0" of transport IB. Borrowed. */
struct ibv_pd *fake_verbs_reset(void);
struct ibv_device *fake_verbs_device(void);

/* RMA as the device grants it: desc's region and the one with this rkey contain the bytes, with the
 * rights that it takes. */
bool fake_verbs_rma(bool write, void *local, size_t len, const struct ibv_mr *desc, uint64_t addr,
                    uint64_t rkey);

/* What the provider is compiled with for dlsym(). */
void *test_dlsym(void *handle, const char *name);

#endif
