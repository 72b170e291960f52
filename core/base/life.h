/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Detects the incarnations of a process. A process that was saved and restored (CRIU), even twice,
 * has the memory of the first incarnation, its epoch too (process.h). Only the kernel can
 * distinguish them. So an incarnation's number is drawn anew when the kernel's data about the
 * process has changed. docs/lives.md says which restores are found, and which are missed.
 */
#ifndef HMREG_CORE_BASE_LIFE_H
#define HMREG_CORE_BASE_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* The number of this incarnation, random, never 0. It changes
 * - in each forked child, however it was forked;
 * - in a process restored from an image, from the first call in a later tick of the coarse clock
 *   (1 to 10 ms) than the last call before the image was taken.
 * No call detects a restored virtual machine. While /proc cannot be read, or no descriptor is left,
 * the number stays. 0: no memory for the page that the first call in a process allocates. Any
 * thread; not in a signal handler. A few ns, and a microsecond once in a tick. */
uint64_t life_number(void);

/* Begins another incarnation of the process, and returns its number; 0 as for life_number(). */
uint64_t life_renew(void);

/* Are these incarnations of one process, that is, restored from images of the process that drew the
 * first number? For two different processes it is wrong with probability 2^-24. */
static inline bool life_is_of_same_process(uint64_t one, uint64_t other)
{
    return (one ^ other) >> 40 == 0;
}

#endif
