/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The monotonic clock as a number.
 */
#ifndef HMREG_CORE_BASE_NOW_H
#define HMREG_CORE_BASE_NOW_H

#include <stdint.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)

/* CLOCK_MONOTONIC in ns. Needs no system call where the kernel maps a vDSO. */
static inline int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

#endif
