/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Serial numbers for the allocations of a runtime that has no ids, but tells when one ends.
 *
 * The vendor draws a number for an allocation it meets for the first time and asks the runtime
 * for a notice of its end, with the number's slot as the notice's argument. While no notice came,
 * the number names the allocation: asking for it costs no call into the runtime. The notice does
 * one atomic store: it may come on any thread, with any lock of the runtime held.
 *
 *     slot = alloc_ids_draw(&table, base, len);
 *     if (the runtime accepts a notice that calls alloc_ids_end(slot))
 *         number = alloc_ids_enter(&table, slot);
 *     else
 *         alloc_ids_end(slot);
 *
 * No function here calls a runtime under the table's lock. Slots live as long as the process,
 * since a notice may be on its way whatever the vendor does.
 */
#ifndef HMREG_HMEM_ALLOC_IDS_H
#define HMREG_HMEM_ALLOC_IDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct serial {
    struct serial *next; /* in one of the table's lists */
    bool indexed;
    _Atomic uint64_t number; /* 0: ended */
    _Atomic uint64_t base, len;
};

struct alloc_ids_index;

struct alloc_ids {
    pthread_mutex_t lock; /* writers; never held across a runtime's call */
    struct serial *drawn; /* a notice is outstanding, or it came and nobody collected yet */
    struct serial *spare;
    size_t drawn_count, collect_at;
    _Atomic uint64_t turn; /* odd while the index changes */
    _Atomic(struct alloc_ids_index *) index;
    _Atomic size_t count; /* entries in the index */
};
#define SERIALS_INITIALIZER                                                                        \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

/* The number of the live allocation that covers the range; 0: none is known. Takes no
 * lock unless writers overtake it several times in a row. */
uint64_t alloc_ids_find(struct alloc_ids *table, uint64_t addr, size_t len);

/* A slot with a number never used before; NULL: no memory. */
struct serial *alloc_ids_draw(struct alloc_ids *table, uint64_t base, size_t len);

/* The runtime will give the notice: makes the slot findable. Returns the allocation's number: the
 * slot's, or that of another thread that was faster. 0: it has ended, or it overlaps a live one
 * (one of the two is surely wrong), or there is no memory. */
uint64_t alloc_ids_enter(struct alloc_ids *table, struct serial *slot);

/* The notice came, or the runtime refused to give one. The slot is not to be used any more. */
void alloc_ids_end(struct serial *slot);

/* Forgets all: nobody may be in another function meanwhile, but for alloc_ids_end(). revoke
 * withdraws the runtime's notices for base, where there still are any. */
void alloc_ids_forget(struct alloc_ids *table, void (*revoke)(void *arg, uint64_t base), void *arg);

#endif
