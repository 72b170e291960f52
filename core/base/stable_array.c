/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stable_array.h. The reservation is a PROT_NONE mapping, which costs address space but no
 * memory. If the address space is limited, a smaller one is reserved.
 */
#include "core/base/stable_array.h"

#include <sys/mman.h>
#include <unistd.h>

#define MOST_ELEMENTS  ((size_t)1 << 24)
#define LEAST_ELEMENTS ((size_t)1 << 10)

void stable_array_init(struct stable_array *shelf, size_t size)
{
    *shelf = (struct stable_array){.size = size, .end = STABLE_ARRAY_FIRST};
}

void stable_array_free(struct stable_array *shelf)
{
    if (shelf->base)
        munmap(shelf->base, shelf->reserved);
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

static bool have_addresses(struct stable_array *shelf, pthread_mutex_t *lock)
{
    size_t bytes = 0;
    void *base, *other;

    pthread_mutex_lock(lock);
    base = shelf->base;
    pthread_mutex_unlock(lock);
    if (base)
        return true;
    base = reserve(shelf->size, &bytes);
    if (!base)
        return false;
    pthread_mutex_lock(lock);
    other = shelf->base;
    if (!other) {
        shelf->base = base;
        shelf->reserved = bytes;
    }
    pthread_mutex_unlock(lock);
    if (other) /* another thread was faster */
        munmap(base, bytes);
    return true;
}

/* Threads that grow the array at the same time make the same bytes usable. */
bool stable_array_grow(struct stable_array *shelf, uint32_t end, pthread_mutex_t *lock)
{
    size_t usable;

    if (!have_addresses(shelf, lock))
        return false;
    usable = whole_pages(2 * end * shelf->size);
    if (usable > shelf->reserved)
        usable = shelf->reserved;
    if (usable / shelf->size <= end || mprotect(shelf->base, usable, PROT_READ | PROT_WRITE))
        return false;
    pthread_mutex_lock(lock);
    if (usable > shelf->usable) {
        shelf->usable = usable;
        shelf->end = (uint32_t)(usable / shelf->size);
    }
    pthread_mutex_unlock(lock);
    return true;
}
