/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A get and a put that do nothing, in a separate shared library: the least cost of any library's
 * get and put on this machine.
 */
#ifndef BENCH_EMPTY_H
#define BENCH_EMPTY_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* Sets *out to addr. Returns 0. */
int bench_empty_get(void *domain, const void *addr, size_t len, uint64_t access, const void **out);
void bench_empty_put(const void *region);

#pragma GCC visibility pop

#endif
