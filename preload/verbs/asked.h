/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a program asks of libibverbs, in the words of hmreg. Only what can be said exactly is
 * translated; everything else is passed on as the program made it.
 */
#ifndef HMREG_PRELOAD_VERBS_ASKED_H
#define HMREG_PRELOAD_VERBS_ASKED_H

#include <hmreg/hmreg.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

/* A registration by address: ibv_reg_mr(), _iova(), _iova2(), and _ex() without a descriptor. */
struct asked {
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    uint64_t iova;
    unsigned access; /* IBV_ACCESS_* */
};

/* Why a call is passed on. */
struct passed_on {
    const char *slug, *text;
};

/* May peers use a region with this access? */
bool asked_remote(unsigned access);
/* May the NIC write it for the program itself: received messages, what it reads from peers? */
bool asked_written(unsigned access);

/* Fills *attr, which refers to *iov, with what hmreg registers in its place. Returns NULL, or why
 * the call must be passed on. */
const struct passed_on *asked_translate(const struct asked *asked, struct iovec *iov,
                                        struct hmreg_mr_attr *attr);

#endif
