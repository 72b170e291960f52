/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stable_array.h. The reservation is a PROT_NONE mapping, which costs address space but no
 * memory. If the address space is limited, a smaller one is reserved.
 */
#include "core/base/stable_array.h"

#include <sys/mman.h>
#include <unistd.h>

#define MOST_ELEMENTS  (1u << 24)
#define LEAST_ELEMENTS (1u << 10)
#define MOST_GROWTH    ((size_t)16 << 10) /* bytes */

void stable_array_init(struct stable_array *array, size_t size, size_t second)
{
    *array = (struct stable_array){.size = size, .second = second, .end = STABLE_ARRAY_FIRST};
}

/* The memory of elements 0 to end - 1, whole pages. */
static size_t bytes_of(const struct stable_array *array, uint32_t end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = end * array->size;

    if (array->second)
        bytes = stable_array_second_offset(array, end - 1) + array->second;
    return (bytes + page - 1) & ~(page - 1);
}

void stable_array_free(struct stable_array *array)
{
    if (array->base)
        munmap(array->base, bytes_of(array, array->reserved_end));
}

/* Reserves addresses and returns the new base. *end: out, how many elements have addresses. NULL:
 * there are not enough. */
static char *reserve(const struct stable_array *array, uint32_t *end)
{
    for (*end = MOST_ELEMENTS; *end >= LEAST_ELEMENTS; *end /= 4) {
        char *base = mmap(NULL, bytes_of(array, *end), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (base != MAP_FAILED)
            return base;
    }
    return NULL;
}

static bool have_addresses(struct stable_array *array, pthread_mutex_t *lock)
{
    uint32_t end = 0;
    char *base, *other;

    pthread_mutex_lock(lock);
    base = array->base;
    pthread_mutex_unlock(lock);
    if (base)
        return true;
    base = reserve(array, &end);
    if (!base)
        return false;
    pthread_mutex_lock(lock);
    other = array->base;
    if (!other) {
        array->base = base;
        array->reserved_end = end;
    }
    pthread_mutex_unlock(lock);
    if (other) /* another thread was faster */
        munmap(base, bytes_of(array, end));
    return true;
}

/* The first number after the next growth, which doubles a small array. */
static uint32_t next_end(const struct stable_array *array, uint32_t end)
{
    uint32_t most = (uint32_t)(MOST_GROWTH / array->size), next = end + (end < most ? end : most);

    return next < array->reserved_end ? next : array->reserved_end;
}

/* As many elements as that memory holds. */
static uint32_t end_of(const struct stable_array *array, size_t bytes)
{
    size_t group = STABLE_ARRAY_GROUP * (array->size + array->second), more = bytes % group;
    size_t firsts = array->second ? STABLE_ARRAY_GROUP * array->size : 0;
    size_t end = bytes / group * STABLE_ARRAY_GROUP;

    if (more > firsts)
        end += (more - firsts) / (array->second ? array->second : array->size);
    return end < array->reserved_end ? (uint32_t)end : array->reserved_end;
}

/* Threads that grow the array at the same time make the same memory usable. */
bool stable_array_grow(struct stable_array *array, uint32_t end, pthread_mutex_t *lock)
{
    size_t now;
    uint32_t next;

    if (!have_addresses(array, lock))
        return false;
    now = bytes_of(array, next_end(array, end));
    next = end_of(array, now);
    if (next <= end || mprotect(array->base, now, PROT_READ | PROT_WRITE))
        return false;
    pthread_mutex_lock(lock);
    if (next > array->end)
        array->end = next;
    pthread_mutex_unlock(lock);
    return true;
}
