/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fork_wiped.h. Before Linux 4.14, and in emulators, the kernel does not wipe. Then the first
 * call in a child wipes, and must come before the child starts threads.
 */
#include "preload/fork_wiped.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *make(struct fork_wiped *wiped)
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

void *fork_wiped_peek(struct fork_wiped *wiped)
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

void *fork_wiped_get(struct fork_wiped *wiped)
{
    void *memory = fork_wiped_peek(wiped);

    return memory ? memory : make(wiped);
}
