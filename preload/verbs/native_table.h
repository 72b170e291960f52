/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * With --gpu, a table of the program's ibv_mr objects: the program's request, which a
 * reregistration needs, and the hmreg region of device memory. A forked child finds it empty: its
 * calls on its parent's ibv_mr objects go to libibverbs, as without us.
 */
#ifndef HMREG_PRELOAD_VERBS_NATIVE_TABLE_H
#define HMREG_PRELOAD_VERBS_NATIVE_TABLE_H

#include "preload/verbs/request.h"

struct native_entry {
    struct ibv_mr *mr;
    struct hmreg_mr *region; /* hmreg_mr_close() deregisters mr; NULL: ibv_dereg_mr() does */
    bool device;             /* device memory; region may be NULL after a reregistration */
    struct addr_request wanted;
};

/* Adds the entry, or replaces that with its mr. False: no memory. */
bool native_table_add(const struct native_entry *entry);
/* Takes the entry of mr out, before its address can be reused. False: there is none. */
bool native_table_take(const struct ibv_mr *mr, struct native_entry *out);

#endif
