/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hit gates: one word for each domain, which a hit reads besides the entry itself. A hit needs the
 * word to be GATE_LIVE and nothing else; any other bit sends it to the slow path. Gates lie in
 * pages that the kernel wipes in the child of a fork, where no domain of the parent is valid, so
 * the child has no hits.
 *
 * Gate pages are never unmapped or freed in any other way. So a producer of changes
 * (change_queue.h) can mark every gate at any moment, without a lock, an allocation, or
 * synchronization with threads that open and close domains. A mark that comes too late reaches a
 * gate that no domain uses, or that another domain has taken over, which then drains for nothing. A
 * producer may miss a gate that was opened after the producer began: memory registered there since
 * is memory whose unmapping had begun before, which is a mistake of the caller's program.
 *
 *     producer:  push the change; set PENDING     --- then the kernel is asked to change memory ---
 *     domain:    set DRAINING; clear PENDING; read the queue, unpublish; clear DRAINING
 *
 * At no time between the push and the end of the drain is the word GATE_LIVE alone, and a change
 * pushed while a domain drains leaves PENDING set for the next drain. The thread that reads the
 * kernel's events cannot push before the kernel proceeds; it sets READING before it reads, and
 * clears it when it has pushed what it read.
 */
#ifndef HMREG_CORE_MONITOR_GATE_H
#define HMREG_CORE_MONITOR_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The source of a report that memory changed. */
enum change_source {
    CHANGE_HOOKS = 1,
    CHANGE_KERNEL = 2,
    CHANGE_NOTICE = 4,  /* the application: hmreg_invalidate() */
    CHANGE_LOST = 8,    /* the queue, which cannot say what changed */
    CHANGE_VENDOR = 16, /* a vendor: memory of its runtime ends, or has ended */
};

struct gate {
    atomic_uint state;
    atomic_uint sources;      /* enum change_source bits: the sources that concern the domain */
    _Atomic uint32_t library; /* the monitor whose notices concern the domain */
    atomic_bool taken;
};

#define GATE_READING  1u  /* the kernel's events are being read */
#define GATE_LIVE     2u  /* the process is the one that opened the domain */
#define GATE_REAP     4u  /* the next call of the domain has retired entries to free */
#define GATE_PENDING  8u  /* a change has been pushed that the domain has not read */
#define GATE_DRAINING 16u /* the domain is reading changes */
#define GATE_LOOKING  32u /* code was loaded that may change memory unnoticed */

#define GATE_QUEUED (GATE_PENDING | GATE_DRAINING)
/* Entries of memory that the monitor watches may be stale. */
#define GATE_CHANGES (GATE_READING | GATE_QUEUED | GATE_LOOKING)

/* Opens a gate, which is live, for a domain of this library. NULL: no memory. */
struct gate *gate_open(void);
void gate_close(struct gate *gate);

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
 * looked at what was loaded, and clears it. */
void gates_begin_looking(void);

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
