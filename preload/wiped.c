/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See wiped.h. Before Linux 4.14, and in emulators, the kernel does not wipe; then the first call
 * in a child does, and the child must not have threads before.
 */
#include "preload/wiped.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *make(struct wiped *wiped)
{
    void *made =
        mmap(NULL, wiped->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *before = NULL;

    if (made == MAP_FAILED)
        return NULL;
    if (madvise(made, wiped->size, MADV_WIPEONFORK)) {
        atomic_store(&wiped->pid, getpid());
        atomic_store(&wiped->by_hand, true);
    }
    if (atomic_compare_exchange_strong(&wiped->memory, &before, made))
        return made;
    munmap(made, wiped->size);
    return before;
}

void *wiped_peek(struct wiped *wiped)
{
    /* Acquire: pairs with make(). */
    void *memory = atomic_load_explicit(&wiped->memory, memory_order_acquire);

    if (memory && atomic_load_explicit(&wiped->by_hand, memory_order_relaxed) &&
        atomic_load(&wiped->pid) != getpid()) {
        memset(memory, 0, wiped->size);
        atomic_store(&wiped->pid, getpid());
    }
    return memory;
}

void *wiped_get(struct wiped *wiped)
{
    void *memory = wiped_peek(wiped);

    return memory ? memory : make(wiped);
}
