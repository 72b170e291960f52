/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Did the program call a function of this library, or did libibverbs? libibverbs' ibv_reg_mr() and
 * ibv_reg_mr_iova() end in a jump to ibv_reg_mr_iova2(), that is, to this library's, with the
 * return address of their caller. A program that looked ibv_reg_mr() up on a handle of libibverbs
 * calls libibverbs' ibv_dereg_mr() too, and must not get our region.
 */
#ifndef HMREG_PRELOAD_VERBS_RELOC_CALLER_H
#define HMREG_PRELOAD_VERBS_RELOC_CALLER_H

#include <stdbool.h>

/* Does the module with this return address call `ours` by this name? The dynamic linker bound the
 * name to ours there, or the module interposes and defines the name itself. Also false for code
 * outside of modules, and for a module that found our function by dlsym(3), which cannot be
 * distinguished. Any thread. */
bool reloc_calls(const void *caller, const char *name, const void *ours);

/* A char variable of libhmreg-preload.so. Not 0: programs look up this library's functions, since
 * libhmreg-audit.so returns them for look-ups on handles of libibverbs. In libhmreg-ibverbs.so it
 * is always 1. */
#define RELOC_LOOKED_UP "hmreg_preload_looked_up"

#endif
