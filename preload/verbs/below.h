/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In libhmreg-preload-verbs.so: what calls are passed on to.
 */
#ifndef HMREG_PRELOAD_VERBS_BELOW_H
#define HMREG_PRELOAD_VERBS_BELOW_H

#include "preload/record.h"
#include "preload/verbs/verbs_calls.h"

/* The calls below. */
const struct verbs_calls *verbs_below(void);
/* Sets them; the first are kept. */
void verbs_set_below(const struct verbs_calls *calls);

/* A registration that the program asks for. */
struct verbs_request {
    enum record_call_kind kind;
    struct ibv_pd *pd;
    void *addr; /* of ibv_reg_dmabuf_mr(): NULL */
    size_t length;
    uint64_t iova; /* addr's, if the call has none */
    unsigned access;
    int fd; /* of a dmabuf; -1: none */
    uint64_t offset;
    void *attr; /* of ibv_reg_mr_ex(); the buffer of ibv_reg_buf_mr() */
    bool more;  /* attr says more than the fields above */
};

/* What libibverbs answers. */
struct ibv_mr *verbs_pass_on(const struct verbs_request *request);

#endif
