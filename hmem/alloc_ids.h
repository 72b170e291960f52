/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Allocation ids for a runtime that has none of its own but calls back when memory is freed.
 *
 * When the vendor meets an allocation for the first time, it draws an id and registers a
 * deallocation callback with the runtime, with the id's slot as the callback's argument. Until the
 * callback runs, the id identifies the allocation, and a lookup makes no call into the runtime.
 * The callback does an atomic store, and reports the end (hmem_ended()): it may run on any thread,
 * with any lock of the runtime held.
 *
 *     slot = alloc_ids_draw(&table, base, len);
 *     if (the runtime accepts a callback that calls alloc_ids_end(slot))
 *         number = alloc_ids_enter(&table, slot);
 *     else
 *         alloc_ids_end(slot);
 *
 * No function here calls a runtime with the table's lock held. Slots live as long as the process,
 * since a callback may be in flight whatever the vendor does.
 */
#ifndef HMREG_HMEM_ALLOC_IDS_H
#define HMREG_HMEM_ALLOC_IDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct alloc_id {
    struct alloc_id *next;   /* in one of the table's lists */
    _Atomic uint64_t number; /* the id; 0: the allocation has ended */
    uint64_t base, len;
};

struct alloc_ids {
    pthread_mutex_t lock; /* never held across a runtime call */
    struct alloc_id
        *drawn; /* slots whose callback is outstanding, or ran and was not collected yet */
    struct alloc_id *spare; /* free slots */
    size_t drawn_count, collect_at;
    struct alloc_id **index; /* slots of live allocations, and of some that have ended */
    size_t count, room;
};
#define ALLOC_IDS_INITIALIZER                                                                      \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

/* The id of the live allocation that covers the range; 0: none known. */
uint64_t alloc_ids_find(struct alloc_ids *table, uint64_t addr, size_t len);

/* A slot with an id never used before; NULL: no memory. */
struct alloc_id *alloc_ids_draw(struct alloc_ids *table, uint64_t base, size_t len);

/* Publishes the slot, after the runtime accepted the callback. Returns the allocation's id: the
 * slot's, or the one that another thread published first. 0: 0: the allocation has ended, it
 * overlaps a live one (so one of both is wrong), or there is no memory. */
uint64_t alloc_ids_enter(struct alloc_ids *table, struct alloc_id *slot);

/* Ends the slot: the callback ran, or the runtime refused it. The caller must not use the slot
 * afterwards. */
void alloc_ids_end(struct alloc_id *slot);

/* Forgets all allocations. Of the functions here, only alloc_ids_end() may run concurrently.
 * revoke deregisters the runtime's callbacks for base, if any remain. */
void alloc_ids_forget(struct alloc_ids *table, void (*revoke)(void *arg, uint64_t base), void *arg);

#endif
