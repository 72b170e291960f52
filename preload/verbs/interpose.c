/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The symbols that programs bind to in place of libibverbs'; preload.map gives them libibverbs'
 * versions. The compatibility functions of IBVERBS_1.0 are not interposed on: their structs differ.
 */
#include "preload/verbs/reloc_caller.h"
#include "preload/verbs/verbs_calls.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define CALLER __builtin_return_address(0)

#pragma GCC visibility push(default)

/* RELOC_LOOKED_UP. Protected, so that libhmreg-ibverbs.so has its own. */
extern volatile char hmreg_preload_looked_up __attribute__((visibility("protected")));
volatile char hmreg_preload_looked_up = HMREG_PRELOAD_LOOKED_UP;

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return verbs_calls()->reg_mr(pd, addr, length, access, CALLER);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access)
{
    return verbs_calls()->reg_mr_iova(pd, addr, length, iova, access, CALLER);
}

static __typeof__(ibv_reg_mr_iova2) own_iova2 __attribute__((alias("ibv_reg_mr_iova2")));

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    const void *caller = CALLER;

    if (!hmreg_preload_looked_up && !reloc_calls(caller, "ibv_reg_mr_iova2", own_iova2))
        caller = NULL;
    return verbs_calls()->reg_mr_iova2(pd, addr, length, iova, access, caller);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
    return verbs_calls()->reg_mr_ex(pd, attr, CALLER);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access)
{
    return verbs_calls()->reg_buf_mr(pd, buf, addr, length, access, CALLER);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    return verbs_calls()->reg_dmabuf_mr(pd, offset, length, iova, fd, access, CALLER);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    return verbs_calls()->rereg_mr(mr, flags, pd, addr, length, access, CALLER);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    return verbs_calls()->dereg_mr(mr, CALLER);
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return verbs_calls()->dealloc_pd(pd);
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
    verbs_calls()->unimport_pd(pd);
}

int ibv_close_device(struct ibv_context *context)
{
    return verbs_calls()->close_device(context);
}

#pragma GCC visibility pop
