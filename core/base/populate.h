/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Populates memory that is about to be written: one system call instead of a page fault, or two,
 * for each page.
 */
#ifndef HMREG_CORE_BASE_POPULATE_H
#define HMREG_CORE_BASE_POPULATE_H

#include <stdbool.h>
#include <stddef.h>

/* Populates the whole pages of [start, start + bytes), private memory of the library. Where the
 * kernel cannot (before Linux 5.14), page faults do, one by one. */
void populate(void *start, size_t bytes);

/* Populates all pages that have a byte of [start, start + bytes), for reading. False: the process
 * may not read one of them, or the kernel cannot do this. */
bool populate_for_reading(const void *start, size_t bytes);

#endif
