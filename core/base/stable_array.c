/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See stable_array.h. The reservation is a PROT_NONE mapping, which costs address space but no
 * memory. If the address space is limited, a smaller one is reserved.
 */
#include "core/base/stable_array.h"

#include "core/base/populate.h"

#include <sys/mman.h>
#include <unistd.h>

#define MOST_ELEMENTS  (1u << 24)
#define LEAST_ELEMENTS (1u << 10)
#define MOST_GROWTH    ((size_t)64 << 10) /* bytes */

void stable_array_init(struct stable_array *array, size_t size, size_t below)
{
    *array = (struct stable_array){.size = size, .below = below, .end = STABLE_ARRAY_FIRST};
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) & ~(page - 1);
}

/* The memory of elements 0 to end - 1: `above` bytes from the array's base on, and `below` bytes
 * before it. */
struct extent {
    size_t above, below;
};

static struct extent extent_of(const struct stable_array *array, uint32_t end)
{
    return (struct extent){whole_pages(end * array->size), whole_pages(end * array->below)};
}

static void unmap(const struct stable_array *array, char *base, uint32_t end)
{
    struct extent extent = extent_of(array, end);

    munmap(base - extent.below, extent.below + extent.above);
}

void stable_array_free(struct stable_array *array)
{
    if (array->base)
        unmap(array, array->base, array->reserved_end);
}

/* Reserves addresses and returns the new base. *end: out, how many elements have addresses. NULL:
 * there are not enough. */
static char *reserve(const struct stable_array *array, uint32_t *end)
{
    for (*end = MOST_ELEMENTS; *end >= LEAST_ELEMENTS; *end /= 4) {
        struct extent extent = extent_of(array, *end);
        char *start = mmap(NULL, extent.below + extent.above, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (start != MAP_FAILED)
            return start + extent.below;
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
        unmap(array, base, end);
    return true;
}

/* The first number after the next growth, which doubles a small array. */
static uint32_t next_end(const struct stable_array *array, uint32_t end)
{
    uint32_t most = (uint32_t)(MOST_GROWTH / array->size), next = end + (end < most ? end : most);

    return next < array->reserved_end ? next : array->reserved_end;
}

/* As many elements as the pages of an extent hold. */
static uint32_t end_of(const struct stable_array *array, const struct extent *extent)
{
    size_t above = extent->above / array->size;
    size_t below = array->below ? extent->below / array->below : above;

    return (uint32_t)(above < below ? above : below);
}

static bool make_usable(const struct stable_array *array, const struct extent *had,
                        const struct extent *now)
{
    if (mprotect(array->base - now->below, now->below + now->above, PROT_READ | PROT_WRITE))
        return false;
    populate(array->base + had->above, now->above - had->above);
    populate(array->base - now->below, now->below - had->below);
    return true;
}

/* Threads that grow the array at the same time make the same memory usable. */
bool stable_array_grow(struct stable_array *array, uint32_t end, pthread_mutex_t *lock)
{
    struct extent had, now;
    uint32_t next;

    if (!have_addresses(array, lock))
        return false;
    had = extent_of(array, end);
    now = extent_of(array, next_end(array, end));
    next = end_of(array, &now);
    if (next <= end || !make_usable(array, &had, &now))
        return false;
    pthread_mutex_lock(lock);
    if (next > array->end)
        array->end = next;
    pthread_mutex_unlock(lock);
    return true;
}
