/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds who called. We register for a program only if we will see its deregistration too.
 */
#ifndef HMREG_PRELOAD_VERBS_ORIGIN_H
#define HMREG_PRELOAD_VERBS_ORIGIN_H

enum origin {
    ORIGIN_PROGRAM,
    /* libibverbs itself: its ibv_reg_mr() calls ibv_reg_mr_iova2() through the dynamic linker.
     * Outside of a call of ours, a program then has looked ibv_reg_mr() up on a handle of
     * libibverbs, and deregisters past us too. */
    ORIGIN_LIBIBVERBS,
    /* libhmreg-verbs, on any thread, for a domain of ours or of a program that uses hmreg. */
    ORIGIN_HMREG,
};

/* caller: a return address; NULL: libibverbs', which jumped (reloc_caller.h). */
enum origin origin_of(const void *caller);

#endif
