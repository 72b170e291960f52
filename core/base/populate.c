/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See populate.h.
 */
#include "core/base/populate.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

bool populate_for_reading(const void *start, size_t bytes)
{
    uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    uintptr_t from = (uintptr_t)start & ~mask, to = ((uintptr_t)start + bytes + mask) & ~mask;
    int before = errno, rc;

    do
        rc = madvise((void *)from, to - from, MADV_POPULATE_READ);
    while (rc && errno == EINTR);
    errno = before;
    return !rc;
}
