/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Who called: a program's calls are ours to answer only if the region's end will be ours to see.
 */
#ifndef HMREG_PRELOAD_VERBS_ORIGIN_H
#define HMREG_PRELOAD_VERBS_ORIGIN_H

enum origin {
    ORIGIN_PROGRAM,
    /* libibverbs itself: its ibv_reg_mr() calls ibv_reg_mr_iova2() by the dynamic linker. Outside
     * of a call of ours, that is a program that has looked ibv_reg_mr() up on a handle of
     * libibverbs, and deregisters past us too. */
    ORIGIN_LIBIBVERBS,
    /* libhmreg-verbs, for a domain of ours, on any thread; or for one of a program that uses hmreg.
     */
    ORIGIN_HMREG,
};

/* caller: a return address; NULL: libibverbs', which jumped (bound.h). */
enum origin origin_of(const void *caller);

#endif
