/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Did the program call a function of this library, or did libibverbs? libibverbs' ibv_reg_mr() and
 * ibv_reg_mr_iova() end in a jump to ibv_reg_mr_iova2(), which reaches this library's with the
 * return address of their caller. If that was a program which has looked ibv_reg_mr() up on
 * a handle of libibverbs, its ibv_dereg_mr() is libibverbs' too, and must not be given our region.
 */
#ifndef HMREG_PRELOAD_VERBS_BOUND_H
#define HMREG_PRELOAD_VERBS_BOUND_H

#include <stdbool.h>

/* Whether the module with this return address calls `ours` by this name: the dynamic linker has
 * bound the name so there, or the module defines it and interposes too. False also for code of no
 * module, and where the module has looked ours up by dlsym(3), which cannot be told apart. Any
 * thread. */
bool bound_to(const void *caller, const char *name, const void *ours);

/* A variable of libhmreg-preload.so, a char. Not 0: programs look this library's functions up,
 * since libhmreg-audit.so answers lookups on handles of libibverbs with them. In
 * libhmreg-ibverbs.so it is always 1. */
#define BOUND_LOOKED_UP "hmreg_preload_looked_up"

#endif
