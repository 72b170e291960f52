/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ibv_rereg_mr() with --gpu. A change to or from device memory makes a new registration, which
 * replaces the old one in the program's struct ibv_mr.
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

/* As ibv_rereg_mr(). Fills *made if hmreg made a new registration. */
int rereg(const struct rereg *call, struct made *made);

#endif
