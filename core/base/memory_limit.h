/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How much memory this process can have at all, and so pin: the machine's, and what its control
 * group of version 2 and all groups above it that it can see permit (memory.max). Huge pages of
 * hugetlbfs are not counted in these.
 */
#ifndef HMREG_CORE_BASE_MEMORY_LIMIT_H
#define HMREG_CORE_BASE_MEMORY_LIMIT_H

#include <stdint.h>

struct memory_limit {
    uint64_t bytes;   /* UINT64_MAX: unknown */
    const char *what; /* what sets it: "this machine's memory" */
};

/* Reads the files of control groups below root: "", or a test's folder. */
struct memory_limit memory_limit_read(const char *root);

#endif
