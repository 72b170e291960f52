/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's limit of locked memory, for processes that may exceed it, as root's.
 */
#ifndef TESTS_LOCK_LIMIT_H
#define TESTS_LOCK_LIMIT_H

#include <stdint.h>

/* From now on until the case returns the limit counts, for this thread and those that it starts.
 * Skips the case where the process cannot give up its right to exceed it. */
void lock_limit_begin(uint64_t bytes);
void lock_limit_end(void);

#endif
