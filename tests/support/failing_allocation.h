/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An allocation of the library that fails, for a program linked with -Wl,--wrap=calloc and, where
 * it defines FAILING_MALLOC, -Wl,--wrap=malloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free.
 */
#ifndef TESTS_FAILING_ALLOCATION_H
#define TESTS_FAILING_ALLOCATION_H

#include <stddef.h>

/* How many since the test's last reset; which of them fails, from 1, 0: none. */
static _Atomic unsigned allocations, failing;
static _Atomic long blocks; /* allocated and not freed, with FAILING_MALLOC */

static inline void *had(void *block)
{
    blocks += block != NULL;
    return block;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return ++allocations == failing ? NULL : had(__real_calloc(count, size));
}

#ifdef FAILING_MALLOC
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return ++allocations == failing ? NULL : had(__real_malloc(size));
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size)
{
    return block ? __real_realloc(block, size) : had(__real_realloc(NULL, size));
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return had(__real_aligned_alloc(alignment, size));
}

static void (*after_free)(void); /* NULL: nothing is called */

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    blocks -= block != NULL;
    __real_free(block);
    if (after_free)
        after_free();
}
#endif

#endif
