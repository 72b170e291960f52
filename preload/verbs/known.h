/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * With --gpu, what is known of libibverbs' own ibv_mr objects that the program has: what it asked
 * for, which a reregistration needs, and the hmreg region of device memory. A forked child knows
 * of none: what it does with its parent's ibv_mr objects goes to libibverbs as it would without us.
 */
#ifndef HMREG_PRELOAD_VERBS_KNOWN_H
#define HMREG_PRELOAD_VERBS_KNOWN_H

#include "preload/verbs/asked.h"

struct known {
    struct ibv_mr *mr;
    struct hmreg_mr *region; /* hmreg_mr_close() deregisters mr; NULL: ibv_dereg_mr() does */
    bool device;             /* mr is of device memory; with a region or, after a reregistration,
                                without */
    struct asked asked;
};

/* False: no memory. An element of the same mr is replaced. */
bool known_add(const struct known *known);
/* Takes the element of mr out, before its address may be used again. False: there is none. */
bool known_take(const struct ibv_mr *mr, struct known *out);

#endif
