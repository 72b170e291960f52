/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tells whether memory that a program registers again is still the same, so that a cached region
 * would have served.
 */
#ifndef HMREG_PRELOAD_SHADOW_H
#define HMREG_PRELOAD_SHADOW_H

#include <stdint.h>

/* The number of the memory at [addr, addr+len): another one each time after it was unmapped,
 * remapped or freed, and always of memory that no cache would keep. 0: the mode does not ask, or it
 * cannot be known. The first call opens a library, whose monitor watches the memory. Keeps errno.
 */
uint64_t shadow_memory(uint64_t addr, uint64_t len);

#endif
