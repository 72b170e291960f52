/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See change_queue.h. A producer takes a ticket by one atomic addition. Ticket t has slot t %
 * CHANGES_SIZE. The slot's sequence is 2t + 1 while the producer of ticket t writes it, and 2t + 2
 * once it has finished. The sequence of a slot only grows. A producer that finds its slot being
 * written must neither wait nor write it: the writing thread is a whole ring behind, or was killed
 * as a child of vfork(2). The producer increments `refused`, which each reader takes for a change
 * of all memory.
 *
 * A reader that comes to a ticket whose producer has not finished records the ticket as open and
 * continues behind it. The producer marks the gate when it has finished, so the reader comes back.
 *
 * The ring is static: hooks may use it as long as the library is loaded, and they are removed from
 * libc before it can be unloaded. A forked child inherits a copy, which may contain slots that no
 * producer will ever finish; the child treats each like a refused producer.
 */
#include "core/monitor/change/change_queue.h"

#include "core/base/reaper.h"

#include <stdatomic.h>

struct slot {
    _Atomic uint64_t sequence, start, end, rest;
};

static struct slot ring[CHANGES_SIZE];
static _Atomic uint64_t tickets, refused;

#define UNMAPPED 0x100u
#define SOURCES  0xffu

/* ---- producers -------------------------------------------------------------------------- */

static bool slot_write(struct slot *slot, uint64_t ticket, const struct change *change)
{
    uint64_t found = atomic_load(&slot->sequence);

    if (found % 2 || found > 2 * ticket ||
        !atomic_compare_exchange_strong(&slot->sequence, &found, 2 * ticket + 1))
        return false;
    /* Each is a release, so a reader that sees one of these values also sees the odd sequence. */
    atomic_store_explicit(&slot->start, change->start, memory_order_release);
    atomic_store_explicit(&slot->end, change->end, memory_order_release);
    atomic_store_explicit(&slot->rest,
                          (uint64_t)change->library << 32 | (change->unmapped ? UNMAPPED : 0) |
                              (unsigned)change->source,
                          memory_order_release);
    atomic_store(&slot->sequence, 2 * ticket + 2);
    return true;
}

void changes_push(const struct change *change)
{
    uint64_t ticket = atomic_fetch_add(&tickets, 1);

    if (!slot_write(&ring[ticket % CHANGES_SIZE], ticket, change))
        atomic_fetch_add(&refused, 1);
    gates_mark_pending(change->source, change->library);
    reaper_wake();
}

/* ---- readers ---------------------------------------------------------------------------- */

enum slot_state { WRITTEN, NOT_YET, OVERWRITTEN };

/* Reads a ticket's slot. *out may be written in any case, and is valid only for WRITTEN. */
static enum slot_state slot_read(uint64_t ticket, struct change *out)
{
    struct slot *slot = &ring[ticket % CHANGES_SIZE];
    uint64_t sequence = atomic_load(&slot->sequence), rest;

    if (sequence < 2 * ticket + 2)
        return NOT_YET;
    /* Acquire: the sequence is read again after these; pairs with the next writer's releases. */
    out->start = atomic_load_explicit(&slot->start, memory_order_acquire);
    out->end = atomic_load_explicit(&slot->end, memory_order_acquire);
    rest = atomic_load_explicit(&slot->rest, memory_order_acquire);
    out->source = (enum change_source)(rest & SOURCES);
    out->unmapped = rest & UNMAPPED;
    out->library = (uint32_t)(rest >> 32);
    return atomic_load(&slot->sequence) == 2 * ticket + 2 ? WRITTEN : OVERWRITTEN;
}

uint64_t changes_end(void)
{
    return atomic_load(&tickets);
}

/* `refused` is read first: a producer that is refused later either has a later ticket, or marks the
 * gate after this. */
void changes_start(struct change_reader *reader)
{
    reader->refused = atomic_load(&refused);
    reader->next = changes_end();
    reader->open_count = 0;
}

static bool lose(struct change_reader *reader, struct change *out)
{
    changes_start(reader);
    *out = (struct change){0, UINT64_MAX, .source = CHANGE_LOST};
    return true;
}

/* Returns an open ticket's change, if its producer has finished meanwhile. */
static enum slot_state next_open(struct change_reader *reader, struct change *out)
{
    for (unsigned i = 0; i < reader->open_count; i++) {
        enum slot_state state = slot_read(reader->open[i], out);

        if (state == NOT_YET)
            continue;
        reader->open[i] = reader->open[--reader->open_count];
        return state;
    }
    return NOT_YET;
}

static enum slot_state next_in_order(struct change_reader *reader, struct change *out)
{
    uint64_t end = changes_end();

    if (end - reader->next > CHANGES_SIZE)
        return OVERWRITTEN;
    for (; reader->next != end; reader->next++) {
        enum slot_state state = slot_read(reader->next, out);

        if (state == NOT_YET && reader->open_count == CHANGES_OPEN)
            return OVERWRITTEN;
        if (state == NOT_YET) {
            reader->open[reader->open_count++] = reader->next;
            continue;
        }
        reader->next++;
        return state;
    }
    return NOT_YET;
}

bool changes_next(struct change_reader *reader, struct change *out)
{
    enum slot_state state;

    if (atomic_load(&refused) != reader->refused)
        return lose(reader, out);
    state = next_open(reader, out);
    if (state == NOT_YET)
        state = next_in_order(reader, out);
    return state == OVERWRITTEN ? lose(reader, out) : state == WRITTEN;
}
