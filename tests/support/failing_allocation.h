/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An allocation of the library that fails, for a program linked with -Wl,--wrap=calloc and, where
 * it defines FAILING_MALLOC, -Wl,--wrap=malloc.
 */
#ifndef TESTS_FAILING_ALLOCATION_H
#define TESTS_FAILING_ALLOCATION_H

#include <stddef.h>

/* How many since the test's last reset; which of them fails, from 1, 0: none. */
static unsigned allocations, failing;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return ++allocations == failing ? NULL : __real_calloc(count, size);
}

#ifdef FAILING_MALLOC
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return ++allocations == failing ? NULL : __real_malloc(size);
}
#endif

#endif
