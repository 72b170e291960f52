/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which life of a process this is. A process that was saved and restored (CRIU), or restored twice,
 * has the memory of the first one, and so its epoch (process.h): only the kernel knows another. So
 * a life's number is compared with what the kernel says of the process, and drawn anew if that has
 * changed. docs/lives.md says what is found, and what is missed.
 */
#ifndef HMREG_CORE_BASE_LIFE_H
#define HMREG_CORE_BASE_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* The number of this life, random, never 0. Another one
 * - in each forked child, however it was forked;
 * - in a process restored from an image, from the first call in a later tick of the coarse clock
 *   (1 to 10 ms) than the last call before the image was taken.
 * No call tells of a restored virtual machine. Where /proc is not readable, or no descriptor is
 * left, the number stays until it is. 0: no memory for the page, which the first call in a process
 * makes. Any thread; not in a signal handler. A few ns, and a microsecond once in a tick. */
uint64_t life_number(void);

/* Begins another life of the process, and returns its number; 0 as life_number(). */
uint64_t life_renew(void);

/* Are these two lives of one process: the one that drew the first number, and those restored from
 * its images? Of lives of two processes it says so once in 2^24 times. */
static inline bool life_is_of_same_process(uint64_t one, uint64_t other)
{
    return (one ^ other) >> 40 == 0;
}

#endif
