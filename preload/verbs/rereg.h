/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ibv_rereg_mr() with --gpu. To or from device memory a new registration takes the place of the old
 * one, in the struct ibv_mr that the program has.
 */
#ifndef HMREG_PRELOAD_VERBS_REREG_H
#define HMREG_PRELOAD_VERBS_REREG_H

#include "preload/verbs/pd.h"

struct rereg {
    struct ibv_mr *mr;
    int flags;
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    int access;
};

/* As ibv_rereg_mr(). Where hmreg registered anew, *made has how. */
int rereg(const struct rereg *call, struct made *made);

#endif
