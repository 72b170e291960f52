/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library between hmreg's and libibverbs that raises SIGUSR1 inside a registration, on demand: so
 * a signal handler interrupts a call of hmreg's at a place that is known.
 */
#include "tests/preload/verbs/raises.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>

#pragma GCC visibility push(default)

struct raises preload_raises;

typedef struct ibv_mr *iova2_type(struct ibv_pd *, void *, size_t, uint64_t, unsigned);

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned access)
{
    iova2_type *next = (iova2_type *)dlvsym(RTLD_NEXT, "ibv_reg_mr_iova2", "IBVERBS_1.8");

    if (preload_raises.next) {
        preload_raises.next = 0;
        raise(SIGUSR1);
    }
    return next(pd, addr, length, iova, access);
}

#pragma GCC visibility pop
