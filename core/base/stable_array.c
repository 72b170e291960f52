/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stable_array.h. The reservation is a PROT_NONE mapping, which costs address space but no
 * memory. If the address space is limited, a smaller one is reserved.
 */
#include "core/base/stable_array.h"

#include "core/base/populate.h"

#include <sys/mman.h>
#include <unistd.h>

#define MOST_ELEMENTS  ((size_t)1 << 24)
#define LEAST_ELEMENTS ((size_t)1 << 10)
#define MOST_GROWTH    ((size_t)64 << 10) /* bytes */

void stable_array_init(struct stable_array *array, size_t size)
{
    *array = (struct stable_array){.size = size, .end = STABLE_ARRAY_FIRST};
}

void stable_array_free(struct stable_array *array)
{
    if (array->base)
        munmap(array->base, array->reserved);
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) & ~(page - 1);
}

/* Reserves addresses. *bytes: out, how many. NULL: no addresses. */
static void *reserve(size_t size, size_t *bytes)
{
    void *base = MAP_FAILED;

    for (size_t count = MOST_ELEMENTS; count >= LEAST_ELEMENTS && base == MAP_FAILED; count /= 4) {
        *bytes = whole_pages(count * size);
        base = mmap(NULL, *bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    return base == MAP_FAILED ? NULL : base;
}

static bool have_addresses(struct stable_array *array, pthread_mutex_t *lock)
{
    size_t bytes = 0;
    void *base, *other;

    pthread_mutex_lock(lock);
    base = array->base;
    pthread_mutex_unlock(lock);
    if (base)
        return true;
    base = reserve(array->size, &bytes);
    if (!base)
        return false;
    pthread_mutex_lock(lock);
    other = array->base;
    if (!other) {
        array->base = base;
        array->reserved = bytes;
    }
    pthread_mutex_unlock(lock);
    if (other) /* another thread was faster */
        munmap(base, bytes);
    return true;
}

/* Bytes after the next growth, which doubles a small array. */
static size_t next_usable(const struct stable_array *array, uint32_t end)
{
    size_t used = end * array->size, more = used < MOST_GROWTH ? used : MOST_GROWTH;
    size_t usable = whole_pages(used + more);

    return usable < array->reserved ? usable : array->reserved;
}

/* Threads that grow the array at the same time make the same bytes usable. */
bool stable_array_grow(struct stable_array *array, uint32_t end, pthread_mutex_t *lock)
{
    size_t usable, had;

    if (!have_addresses(array, lock))
        return false;
    usable = next_usable(array, end);
    if (usable / array->size <= end || mprotect(array->base, usable, PROT_READ | PROT_WRITE))
        return false;
    had = whole_pages(end * array->size);
    if (had < usable)
        populate(array->base + had, usable - had);
    pthread_mutex_lock(lock);
    if (usable > array->usable) {
        array->usable = usable;
        array->end = (uint32_t)(usable / array->size);
    }
    pthread_mutex_unlock(lock);
    return true;
}
