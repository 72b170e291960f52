/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An array that grows in place: it reserves addresses for all elements it may ever have, and makes
 * their memory usable as it grows. So an element never moves, and a thread that has its number may
 * read it without a lock. Elements are numbered from STABLE_ARRAY_FIRST; 0 means none.
 */
#ifndef HMREG_CORE_BASE_STABLE_ARRAY_H
#define HMREG_CORE_BASE_STABLE_ARRAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STABLE_ARRAY_FIRST 1u

struct stable_array {
    char *base;              /* address of element 0; NULL: nothing is reserved yet */
    size_t size;             /* of an element, bytes */
    uint32_t end;            /* elements STABLE_ARRAY_FIRST to end - 1 are usable */
    size_t reserved, usable; /* bytes */
};

static inline void *stable_array_at(const struct stable_array *array, uint32_t number)
{
    return array->base + number * array->size;
}

void stable_array_init(struct stable_array *array, size_t size);
void stable_array_free(struct stable_array *array);

/* Grows the array beyond `end` elements; new elements are zero. The caller does not hold the lock,
 * which is released during system calls. False: no memory. */
bool stable_array_grow(struct stable_array *array, uint32_t end, pthread_mutex_t *lock);

#endif
