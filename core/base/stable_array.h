/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An array that grows in its place: addresses are reserved for all it may ever hold, and memory for
 * them is had from the kernel as it grows. So an element never moves, and whoever knows its number
 * may look at it without a lock. Elements are numbered from STABLE_ARRAY_FIRST; 0 is none.
 */
#ifndef HMREG_CORE_BASE_STABLE_ARRAY_H
#define HMREG_CORE_BASE_STABLE_ARRAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STABLE_ARRAY_FIRST 1u

struct stable_array {
    char *base;              /* of element 0; NULL: nothing is reserved yet */
    size_t size;             /* of an element */
    uint32_t end;            /* elements STABLE_ARRAY_FIRST to end - 1 are there */
    size_t reserved, usable; /* bytes */
};

static inline void *stable_array_at(const struct stable_array *shelf, uint32_t number)
{
    return shelf->base + number * shelf->size;
}

void stable_array_init(struct stable_array *shelf, size_t size);
void stable_array_free(struct stable_array *shelf);

/* Makes the stable array longer than `end` was, all zero. The lock is not held by the caller, and
 * not while the kernel is asked. False: no memory. */
bool stable_array_grow(struct stable_array *shelf, uint32_t end, pthread_mutex_t *lock);

#endif
