/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In libhmreg-preload-verbs.so: the table of functions that calls are passed on to.
 */
#ifndef HMREG_PRELOAD_VERBS_PASS_ON_H
#define HMREG_PRELOAD_VERBS_PASS_ON_H

#include "preload/record.h"
#include "preload/verbs/verbs_calls.h"

/* The table. */
const struct verbs_calls *verbs_target(void);
/* Sets the table; the first set is kept. */
void verbs_set_target(const struct verbs_calls *calls);

/* A registration that the program asks for. */
struct verbs_request {
    enum record_call_kind kind;
    struct ibv_pd *pd;
    void *addr; /* NULL for ibv_reg_dmabuf_mr() */
    size_t length;
    uint64_t iova; /* addr, if the call has no iova */
    unsigned access;
    int fd; /* a dmabuf; -1: none */
    uint64_t offset;
    void *attr; /* ibv_reg_mr_ex()'s; the buffer of ibv_reg_buf_mr() */
    bool more;  /* attr has more than the fields above */
};

/* libibverbs' result. */
struct ibv_mr *verbs_pass_on(const struct verbs_request *request);

#endif
