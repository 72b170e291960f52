/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds whether the memory of a range that a program registers again is unchanged: then a cached
 * region would have served.
 */
#ifndef HMREG_PRELOAD_SHADOW_H
#define HMREG_PRELOAD_SHADOW_H

#include <stdint.h>

/* The number of the memory at [addr, addr+len). Memory that was unmapped, remapped or freed gets a
 * new number; memory that no cache keeps gets one at each call. 0: without --trace=watch, or
 * unknown. The first call opens a library, whose monitor watches the memory. Keeps errno.
 */
uint64_t shadow_memory(uint64_t addr, uint64_t len);

#endif
