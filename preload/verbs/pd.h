/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The hmreg domain of a protection domain, and the result of a registration there.
 */
#ifndef HMREG_PRELOAD_VERBS_PD_H
#define HMREG_PRELOAD_VERBS_PD_H

#include <hmreg/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* How hmreg registered, for the record. */
struct made {
    uint8_t iface;  /* enum hmreg_iface */
    int16_t device; /* -1: host memory */
    uint8_t path;   /* enum hmreg_path */
};

/* NULL: it cannot be opened; the reason is recorded. */
struct hmreg_domain *pd_domain(struct ibv_pd *pd);

/* The region's ibv_mr. Fills *made. */
struct ibv_mr *pd_native(const struct hmreg_mr *region, struct made *made);

/* Records why hmreg did not register: the failure's code, or the thread's last error. */
void pd_refused(int rc);

/* Is ibv_fork_init() in force, on a kernel that needs it? Then libibverbs withholds registered
 * pages from children (MADV_DONTFORK) until their deregistration. Cached at the first registration,
 * after which ibv_fork_init() fails. */
bool pd_keeps_pages_from_children(void);

#endif
