/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See below.h.
 */
#include "preload/verbs/below.h"

#include <stdatomic.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Set before the first call. Several threads may set it, to equal values. */
static _Atomic(const struct verbs_calls *) known_below;

const struct verbs_calls *verbs_below(void)
{
    return atomic_load_explicit(&known_below, memory_order_relaxed);
}

void verbs_set_below(const struct verbs_calls *calls)
{
    if (!verbs_below())
        atomic_store(&known_below, calls);
}

struct ibv_mr *verbs_pass_on(const struct verbs_request *request)
{
    switch (request->kind) {
    case RECORD_REG_MR:
        return verbs_below()->reg_mr(request->pd, request->addr, request->length,
                                     (int)request->access, NULL);
    case RECORD_REG_MR_IOVA:
        return verbs_below()->reg_mr_iova(request->pd, request->addr, request->length,
                                          request->iova, (int)request->access, NULL);
    case RECORD_REG_MR_IOVA2:
        return verbs_below()->reg_mr_iova2(request->pd, request->addr, request->length,
                                           request->iova, request->access, NULL);
    case RECORD_REG_DMABUF_MR:
        return verbs_below()->reg_dmabuf_mr(request->pd, request->offset, request->length,
                                            request->iova, request->fd, (int)request->access, NULL);
    case RECORD_REG_BUF_MR:
        return verbs_below()->reg_buf_mr(request->pd, request->attr, request->addr, request->length,
                                         (int)request->access, NULL);
    default:
        return verbs_below()->reg_mr_ex(request->pd, request->attr, NULL);
    }
}
