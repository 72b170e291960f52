/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See pass_on.h.
 */
#include "preload/verbs/pass_on.h"

#include <stdatomic.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Set before the first call. Several threads may set it, to equal values. */
static _Atomic(const struct verbs_calls *) known_target;

const struct verbs_calls *verbs_target(void)
{
    return atomic_load_explicit(&known_target, memory_order_relaxed);
}

void verbs_set_target(const struct verbs_calls *calls)
{
    if (!verbs_target())
        atomic_store(&known_target, calls);
}

struct ibv_mr *verbs_pass_on(const struct verbs_request *request)
{
    switch (request->kind) {
    case RECORD_REG_MR:
        return verbs_target()->reg_mr(request->pd, request->addr, request->length,
                                      (int)request->access, NULL);
    case RECORD_REG_MR_IOVA:
        return verbs_target()->reg_mr_iova(request->pd, request->addr, request->length,
                                           request->iova, (int)request->access, NULL);
    case RECORD_REG_MR_IOVA2:
        return verbs_target()->reg_mr_iova2(request->pd, request->addr, request->length,
                                            request->iova, request->access, NULL);
    case RECORD_REG_DMABUF_MR:
        return verbs_target()->reg_dmabuf_mr(request->pd, request->offset, request->length,
                                             request->iova, request->fd, (int)request->access,
                                             NULL);
    case RECORD_REG_BUF_MR:
        return verbs_target()->reg_buf_mr(request->pd, request->attr, request->addr,
                                          request->length, (int)request->access, NULL);
    default:
        return verbs_target()->reg_mr_ex(request->pd, request->attr, NULL);
    }
}
