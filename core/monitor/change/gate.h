/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hit gates: one word for each domain, which a hit reads besides the entry itself. A hit needs the
 * word to be GATE_LIVE and nothing else; any other bit sends it to the slow path. Gates lie in
 * pages that the kernel wipes in the child of a fork, where no domain of the parent is valid, so
 * the child has no hits.
 *
 * Gate pages are never unmapped or freed in any other way. So a producer of changes
 * (change_queue.h) can mark every gate at any moment, without a lock, an allocation, or
 * synchronization with threads that open and close domains. A late mark reaches a gate that no
 * domain uses, or that another domain has taken over, which then drains without need. A producer
 * may miss a gate that was opened after the producer began. Memory registered there since was
 * already being unmapped, which is an error of the caller's program.
 *
 *     producer:  push the change; set PENDING     --- then the kernel is asked to change memory ---
 *     domain:    set DRAINING; clear PENDING; read the queue, unpublish; clear DRAINING
 *
 * At no time between the push and the end of the drain is the word GATE_LIVE alone, and a change
 * pushed while a domain drains leaves PENDING set for the next drain. The thread that reads the
 * kernel's events cannot push before the kernel proceeds; it sets READING before it reads, and
 * clears it when it has pushed what it read.
 *
 * If the kernel counts changes (the monitor counter), no thread marks a gate before the kernel
 * proceeds. Instead the gate has COUNTED, and a hit also compares the counted changes with the
 * pushed ones. gate_state() leaves COUNTED out if both are equal.
 */
#ifndef HMREG_CORE_MONITOR_CHANGE_GATE_H
#define HMREG_CORE_MONITOR_CHANGE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The source of a report that memory changed. */
enum change_source {
    CHANGE_HOOKS = 1,
    CHANGE_KERNEL = 2,
    CHANGE_NOTICE = 4,  /* the application: hmreg_invalidate() */
    CHANGE_LOST = 8,    /* the queue, for a change of unknown memory */
    CHANGE_VENDOR = 16, /* a vendor: memory of its runtime ends, or has ended */
};

/* Changes that the kernel has counted. */
struct gate_counts {
    /* The kernel stores it, with release, before it makes the change. */
    const uint64_t *made;
    _Atomic uint64_t read; /* the number pushed, with every gate marked that they concern */
};

struct gate {
    atomic_uint state;
    atomic_uint sources;      /* enum change_source bits: the sources that concern the domain */
    _Atomic uint32_t library; /* the monitor whose notices concern the domain */
    atomic_bool taken;
    const struct gate_counts *counts; /* with GATE_COUNTED */
};

#define GATE_READING  1u   /* the kernel's events are being read */
#define GATE_LIVE     2u   /* the process is the one that opened the domain */
#define GATE_REAP     4u   /* the next call of the domain has retired entries to free */
#define GATE_PENDING  8u   /* a change has been pushed that the domain has not read */
#define GATE_DRAINING 16u  /* the domain is reading changes */
#define GATE_LOOKING  32u  /* code may have been loaded that changes memory unnoticed */
#define GATE_COUNTED  64u  /* changes of memory that the monitor watches are counted */
#define GATE_LOST     128u /* the domain is lost: no hits any more */

#define GATE_QUEUED (GATE_PENDING | GATE_DRAINING)
/* Entries of memory that the monitor watches may be stale. */
#define GATE_CHANGES (GATE_READING | GATE_QUEUED | GATE_LOOKING | GATE_COUNTED)

/* Opens a live gate for a domain of this library. NULL: no memory. */
struct gate *gate_open(void);
void gate_close(struct gate *gate);

/* Sets GATE_LOST, until the gate is closed. */
void gate_lose(struct gate *gate);

/* Sets GATE_COUNTED; NULL: clears it. Call it before the first range is watched with these counts.
 * They must exist until the gate is closed. */
void gate_count_by(struct gate *gate, const struct gate_counts *counts);

/* The functions below may run anywhere: inside malloc, in a signal handler, in a child of
 * vfork(2). In the child of a fork they mark no gate of the parent's domains. */

/* Sets GATE_PENDING in all gates that a change from this source concerns. library: the monitor of a
 * notice. */
void gates_mark_pending(enum change_source source, uint32_t library);
/* begin: sets GATE_READING in all gates that CHANGE_KERNEL concerns. end: clears it in all gates.
 */
void gates_begin_reading(void);
void gates_end_reading(void);

/* Sets GATE_LOOKING in all gates that CHANGE_HOOKS concerns: a domain has no hits until it has
 * examined the loaded code and cleared the bit. */
void gates_begin_looking(void);

static inline bool gate_counts_are_read(const struct gate_counts *counts)
{
    uint64_t made = __atomic_load_n(counts->made, __ATOMIC_ACQUIRE);

    return made == atomic_load_explicit(&counts->read, memory_order_acquire);
}

/* The state, without GATE_COUNTED if every count was pushed. It is read again after the counts,
 * since a count that is pushed meanwhile marks the gate. An acquire: pairs with gate_end_drain(),
 * before which the sequences of entries that have ended were made even. */
static inline unsigned gate_state(const struct gate *gate)
{
    unsigned state = atomic_load_explicit(&gate->state, memory_order_acquire);

    if (!(state & GATE_COUNTED) || !gate_counts_are_read(gate->counts))
        return state;
    return atomic_load_explicit(&gate->state, memory_order_acquire) & ~GATE_COUNTED;
}

static inline bool gate_is_open(const struct gate *gate)
{
    return __builtin_expect(gate_state(gate) == GATE_LIVE, 1);
}

static inline bool gate_listens_to(const struct gate *gate, enum change_source source,
                                   uint32_t library)
{
    if (source == CHANGE_NOTICE)
        return atomic_load(&gate->library) == library;
    return source & (CHANGE_LOST | CHANGE_VENDOR) || atomic_load(&gate->sources) & (unsigned)source;
}

static inline bool gate_is_queued(const struct gate *gate)
{
    return atomic_load(&gate->state) & GATE_QUEUED;
}

/* False: there is nothing to drain. This and gate_end_drain() are called with the lock of the
 * domain's caches held. */
static inline bool gate_begin_drain(struct gate *gate)
{
    if (!gate_is_queued(gate))
        return false;
    atomic_fetch_or(&gate->state, GATE_DRAINING);
    atomic_fetch_and(&gate->state, ~GATE_PENDING);
    return true;
}

/* Call it when the queue was empty after gate_begin_drain(), under the same hold of the lock. It is
 * at least a release: a hit that finds GATE_LIVE alone sees which entries have ended. */
static inline void gate_end_drain(struct gate *gate)
{
    atomic_fetch_and(&gate->state, ~GATE_DRAINING);
}

#endif
