/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Judges what a get returned: a peer writes to the pages that the region has pinned, and the
 * program must find the bytes in its memory. Both are restored.
 */
#ifndef TESTS_DIFFERENTIAL_WITNESS_H
#define TESTS_DIFFERENTIAL_WITNESS_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>

/* Can regions be pinned here? */
bool witness_is_possible(void);

void witness_open(void);
/* In a forked child, which has no pins. */
void witness_close(void);

/* NULL, or what is wrong. Nothing is, without witness_open(). */
const char *witness_judge(const struct hmreg_mr *mr, const void *addr, size_t len);

#endif
