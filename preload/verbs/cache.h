/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * --cache: a registration by hmreg_mr_get(), whose region outlives the program's deregistration,
 * or with --cache=last-put serves all that the program has registered of the same.
 */
#ifndef HMREG_PRELOAD_VERBS_CACHE_H
#define HMREG_PRELOAD_VERBS_CACHE_H

#include "preload/verbs/asked.h"
#include "preload/verbs/pd.h"

/* Gets a region. *native: its ibv_mr, which is not the caller's. NULL: pass the call on; the reason
 * is recorded. Release it with hmreg_mr_put(). */
struct hmreg_mr *cache_get(const struct asked *asked, struct ibv_mr **native, struct made *made);

/* Releases a region of cache_get() that must not outlive its users: its keys end with the last. */
void cache_revoke(struct hmreg_mr *region, const struct asked *asked);

#endif
