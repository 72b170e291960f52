/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Asks the kernel for access to pages.
 */
#ifndef HMREG_CORE_BASE_POPULATE_H
#define HMREG_CORE_BASE_POPULATE_H

#include <stdbool.h>
#include <stddef.h>

/* Populates all pages that have a byte of [start, start + bytes), for reading. False: the process
 * may not read one of them, or the kernel cannot do this. */
bool populate_for_reading(const void *start, size_t bytes);

#endif
