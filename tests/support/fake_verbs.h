/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * libibverbs' registration calls, defined by the test: definitions in the executable precede
 * libibverbs' own. They are as strict as a device about access rights.
 */
#ifndef TESTS_FAKE_VERBS_H
#define TESTS_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct fake_verbs {
    struct ibv_device_attr limits; /* the device's capabilities */
    int query_error;               /* the result of ibv_query_device() */
    unsigned takes;                /* access bits that the device accepts besides the usual ones */
    bool odp;                      /* it supports on-demand paging */
    bool no_reg_dmabuf;            /* libibverbs lacks ibv_reg_dmabuf_mr()... */
    bool reg_mr_ex;                /* ...and has ibv_reg_mr_ex() */
    int dmabuf_probe;              /* ibv_reg_dmabuf_mr()'s errno for descriptor -1... */
    int ex_probe;                  /* ...and ibv_reg_mr_ex()'s */
    int dmabuf_error;              /* not 0: ibv_reg_dmabuf_mr() fails with it */
    /* How the memory's driver attaches a device to a dmabuf (struct fake_control), NULL: not asked.
     */
    char *(*attach)(int fd);
    void (*detach)(char *bytes);
    int mlx5_error;      /* not 0: fake_verbs_reg_mlx5() fails with it */
    bool mlx5_whole;     /* it takes a dmabuf from its beginning only */
    unsigned room;       /* regions that the device has; 0: no limit */
    uint64_t room_bytes; /* the same of their bytes */
    int full_error;      /* what it answers beyond them */
    int reg_error;       /* errno of the next ibv_reg_mr() */
    bool reg_fails;      /* ...which fails even with errno 0 */
    int dereg_result;    /* ibv_dereg_mr() returns this while it is not 0... */
    int dereg_errno;     /* ...with this errno */
    uint32_t local_rkey; /* rkey of regions without remote access, as drivers differ */
    /* The arguments of the last registration. */
    void *addr;
    size_t length;
    uint64_t iova;
    unsigned access;
    int fd; /* of a dmabuf, -1: none */
    uint64_t offset;
    bool by_ex;     /* ibv_reg_mr_ex() was called */
    int by_mlx5;    /* not 0: fake_verbs_reg_mlx5() was, with this mlx5_access */
    uint64_t bytes; /* registered now */
    unsigned regs, deregs, live, probes, ex_probes;
    /* Memory windows. A work request that binds one is executed at once; one that the device does
     * not accept completes in an error. */
    int window_error, post_error, end_error; /* not 0: what the three calls answer */
    /* Asked by each call of the device but for probes: 0, or the errno with which it fails; a
     * deregistration that fails with it is done, as for hmreg. NULL: 0. */
    int (*each_call)(void);
    enum ibv_wc_status bound; /* of the last binding */
    unsigned window_access;   /* its rights */
    uint64_t wr_id;
    unsigned windows;
};
extern struct fake_verbs fake_verbs;

/* The vendors (HMREG_IFACE_BIT()) whose memory the kernel has a client for, in programs with
 * fake_peers.c in the place of the provider's verbs_peers.c. */
extern unsigned fake_peers;

/* Resets it: one device named "fake0" of transport IB. Borrowed. */
struct ibv_pd *fake_verbs_reset(void);
struct ibv_device *fake_verbs_device(void);

/* As the kernel with the context's end: those that the device did not deallocate. */
void fake_verbs_end_windows(void);

/* What mlx5dv_reg_dmabuf_mr() does. */
struct ibv_mr *fake_verbs_reg_mlx5(struct ibv_pd *on, uint64_t offset, size_t length, uint64_t iova,
                                   int fd, int access, int mlx5_access);

/* Grants RMA as the device does: desc's region and what has this rkey, a region or a window,
 * contain the bytes, and have the rights. Both addresses are the regions' iovas. */
bool fake_verbs_rma(bool write, void *local, size_t len, const struct ibv_mr *desc, uint64_t addr,
                    uint64_t rkey);

/* The provider is compiled with this in place of dlsym(). */
void *test_dlsym(void *handle, const char *name);

#endif
