/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Translates a program's registration by libibverbs into hmreg's. A request without an exact
 * translation is passed on as the program made it.
 */
#ifndef HMREG_PRELOAD_VERBS_REQUEST_H
#define HMREG_PRELOAD_VERBS_REQUEST_H

#include <hmreg/hmreg.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

/* A registration by address: ibv_reg_mr(), _iova(), _iova2(), and _ex() without a descriptor. */
struct addr_request {
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
bool request_remote(unsigned access);
/* May the NIC write the memory for the program: received messages, reads from peers? */
bool request_written(unsigned access);

/* Fills *attr, which refers to *iov, with hmreg's equal registration. Returns NULL, or why the call
 * must be passed on. */
const struct passed_on *request_translate(const struct addr_request *wanted, struct iovec *iov,
                                          struct hmreg_mr_attr *attr);

#endif
