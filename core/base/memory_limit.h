/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The most memory that this process can have, and so pin: the machine's, or the least memory.max of
 * its control group (version 2) and of the visible groups above it. Huge pages of hugetlbfs are not
 * included.
 */
#ifndef HMREG_CORE_BASE_MEMORY_LIMIT_H
#define HMREG_CORE_BASE_MEMORY_LIMIT_H

#include <stdint.h>

struct memory_limit {
    uint64_t bytes;   /* UINT64_MAX: unknown */
    const char *what; /* the cause of the limit: "this machine's memory" */
};

/* Reads the files of control groups below root: "", or a test's folder. */
struct memory_limit memory_limit_read(const char *root);

#endif
