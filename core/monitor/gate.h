/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hit gates: one word for each domain that a hit looks at besides the entry itself. A hit needs
 * GATE_LIVE and nothing else there; any other bit sends it to the slow path. Gates lie in pages
 * that the kernel wipes in the child of a fork, where no domain of the parent is in force, so the
 * child has no hits.
 *
 * Gate pages are never unmapped or freed in any other way. So a producer of changes (changes.h) can
 * mark every gate at any moment without a lock, an allocation or a word to the threads that open
 * and close domains. What it reaches too late is a gate that no domain uses, or another domain's,
 * which then drains for nothing. What it does not reach is a gate that was opened after it began:
 * memory that was registered there since is memory whose unmapping had begun before, in the
 * caller's own program.
 *
 *     producer:  push the change; or PENDING      --- then the kernel is asked to change memory ---
 *     domain:    or DRAINING; and not PENDING; read the queue, end entries; and not DRAINING
 *
 * At no time between the push and the end of the drain is the word GATE_LIVE alone, and what is
 * pushed while a domain drains is left PENDING for its next drain. The thread that reads the
 * kernel's events cannot push before the kernel goes on; it sets READING before it reads, and
 * clears it when it has pushed what it read.
 */
#ifndef HMREG_CORE_MONITOR_GATE_H
#define HMREG_CORE_MONITOR_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Who says that memory changed. */
enum change_source {
    CHANGE_HOOKS = 1,
    CHANGE_KERNEL = 2,
    CHANGE_NOTICE = 4, /* the application: hmreg_invalidate() */
    CHANGE_LOST = 8,   /* the queue, which does not know what changed */
};

struct gate {
    atomic_uint state;
    atomic_uint sources;      /* enum change_source bits: whose changes concern the domain */
    _Atomic uint32_t library; /* whose notices do */
    atomic_bool taken;
};

#define GATE_READING  1u  /* the kernel's events are being read */
#define GATE_LIVE     2u  /* the process is the one that opened the domain */
#define GATE_REAP     4u  /* something is left for the next call to bring to its end */
#define GATE_PENDING  8u  /* a change has been pushed that the domain has not read */
#define GATE_DRAINING 16u /* the domain is reading changes */

#define GATE_QUEUED (GATE_PENDING | GATE_DRAINING)
/* What is remembered of memory that the monitor watches may be wrong. */
#define GATE_CHANGES (GATE_READING | GATE_QUEUED)

/* A gate that is live, of a domain of this library; NULL: no memory. */
struct gate *gate_open(void);
void gate_close(struct gate *gate);

/* The three below may run anywhere: inside malloc, in a signal handler, in a child of vfork(2). In
 * the child of a fork no gate hears anything. */

/* Sets GATE_PENDING in all gates that a change from this source concerns. library: of a notice. */
void gates_mark_pending(enum change_source source, uint32_t library);
/* Sets GATE_READING in all that hear the kernel, and clears it in all there are. */
void gates_begin_reading(void);
void gates_end_reading(void);

static inline bool gate_listens_to(const struct gate *gate, enum change_source source,
                                   uint32_t library)
{
    if (source == CHANGE_NOTICE)
        return atomic_load(&gate->library) == library;
    return source == CHANGE_LOST || atomic_load(&gate->sources) & (unsigned)source;
}

static inline bool gate_is_queued(const struct gate *gate)
{
    return atomic_load(&gate->state) & GATE_QUEUED;
}

/* False: there is nothing to drain. With the lock of the domain's caches held, as the next. */
static inline bool gate_begin_drain(struct gate *gate)
{
    if (!gate_is_queued(gate))
        return false;
    atomic_fetch_or(&gate->state, GATE_DRAINING);
    atomic_fetch_and(&gate->state, ~GATE_PENDING);
    return true;
}

/* The queue was empty after gate_begin_drain(), under the same hold of the lock. A release: a hit
 * that finds the gate live alone sees which entries have ended. */
static inline void gate_end_drain(struct gate *gate)
{
    atomic_fetch_and(&gate->state, ~GATE_DRAINING);
}

#endif
