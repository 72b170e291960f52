/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An array that grows in place: it reserves addresses for all elements it may ever have, and makes
 * their memory usable as it grows. So an element never moves, and a thread that has its number may
 * read it without a lock. Elements are numbered from STABLE_ARRAY_FIRST; 0 means none.
 *
 * An element may have a second part. The first parts of STABLE_ARRAY_GROUP elements lie together,
 * followed by their second parts. So code that reads only first parts reads less memory. All usable
 * memory is one mapping, next to the reserved one.
 */
#ifndef HMREG_CORE_BASE_STABLE_ARRAY_H
#define HMREG_CORE_BASE_STABLE_ARRAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STABLE_ARRAY_FIRST 1u
#define STABLE_ARRAY_GROUP 256u /* a power of two */

struct stable_array {
    char *base;          /* address of element 0; NULL: nothing is reserved yet */
    size_t size, second; /* bytes of an element's first and second part; second may be 0 */
    _Atomic uint32_t
        end; /* elements STABLE_ARRAY_FIRST to end - 1 are usable; written under a lock */
    uint32_t reserved_end; /* elements before this one have addresses */
};

static inline void *stable_array_at(const struct stable_array *array, uint32_t number)
{
    size_t before = number & ~(STABLE_ARRAY_GROUP - 1); /* in earlier groups */

    return array->base + number * array->size + before * array->second;
}

/* Where an element's second part begins, in bytes from the base. */
static inline size_t stable_array_second_offset(const struct stable_array *array, uint32_t number)
{
    size_t until = (number | (STABLE_ARRAY_GROUP - 1)) + (size_t)1; /* in its group and earlier */

    return until * array->size + number * array->second;
}

/* The element's second part. */
static inline void *stable_array_second_at(const struct stable_array *array, uint32_t number)
{
    return array->base + stable_array_second_offset(array, number);
}

void stable_array_init(struct stable_array *array, size_t size, size_t second);
void stable_array_free(struct stable_array *array);

/* Grows the array beyond `end` elements; new elements are zero. The caller does not hold the lock,
 * which is released during system calls. False: no memory. */
bool stable_array_grow(struct stable_array *array, uint32_t end, pthread_mutex_t *lock);

#endif
