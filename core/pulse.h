/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What hits look at besides the entry itself: a word of their domain's. A hit needs PULSE_LIVE and
 * nothing else there; any other bit sends it aside. Pulses lie in pages that the kernel wipes in
 * the child of a fork, where nothing is in force, so that the child has no hits.
 *
 * Pages of pulses are never unmapped, nor are they freed in any other way. So whoever must may
 * doubt in all pulses at any moment without a lock, an allocation or a word to those who open and
 * close domains: a hook on munmap(2) that has interrupted its own thread inside a lock of the
 * library. What it reaches too late is a pulse that nobody uses, or another domain's, which then
 * doubts for nothing. What it does not reach is a pulse that was opened after it began: memory that
 * has been registered there since is memory whose unmapping had begun before, in the caller's own
 * program.
 *
 * Doubts of two kinds, since two may doubt at once: the thread that reads the kernel's events sets
 * PULSE_DOUBT before it reads, and clears it when it has told the domain. Who could tell nobody
 * sets PULSE_LATE, and leaves it to the next that looks up to say that everything has changed:
 *
 *     late:     or LATE                        --- then the kernel is asked to change memory ---
 *     look-up:  or TELLING, and not LATE, tell, and not TELLING
 *
 * At no time between the hook and the end of the telling is the word PULSE_LIVE alone, and what a
 * hook says while everything is being told is left for the next look-up.
 */
#ifndef HMREG_CORE_PULSE_H
#define HMREG_CORE_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>

struct pulse {
    atomic_uint state;
    atomic_uint clock;  /* goes on by 4 with each region that is remembered */
    atomic_bool hooked; /* pulse_doubt_hooked() is meant for this one */
    atomic_bool taken;
};

#define PULSE_DOUBT   1u  /* the kernel's events are being read, or told */
#define PULSE_LIVE    2u  /* the process is the one that opened the domain */
#define PULSE_REAP    4u  /* something is left for the next call to bring to its end */
#define PULSE_LATE    8u  /* a hook could not tell of a change */
#define PULSE_TELLING 16u /* everything is being told for changed */

/* What is remembered of memory that the monitor watches may be wrong. */
#define PULSE_DOUBTS (PULSE_DOUBT | PULSE_LATE | PULSE_TELLING)

/* A pulse that is live; NULL: no memory. */
struct pulse *pulse_open(void);
void pulse_close(struct pulse *pulse);

/* Sets PULSE_LATE in all that are hooked. Anywhere: inside malloc, in a signal's handler, in a
 * child of vfork(2). In the child of a fork nothing is hooked. */
void pulse_doubt_hooked(void);

static inline bool pulse_is_late(const struct pulse *pulse)
{
    return atomic_load(&pulse->state) & (PULSE_LATE | PULSE_TELLING);
}

/* False: there is nothing to tell. One thread at a time, for each pulse. */
static inline bool pulse_begin_telling(struct pulse *pulse)
{
    if (!(atomic_load(&pulse->state) & PULSE_LATE))
        return false;
    atomic_fetch_or(&pulse->state, PULSE_TELLING);
    atomic_fetch_and(&pulse->state, ~PULSE_LATE);
    return true;
}

/* A release: who finds the pulse live alone finds what has been told, too. */
static inline void pulse_end_telling(struct pulse *pulse)
{
    atomic_fetch_and(&pulse->state, ~PULSE_TELLING);
}

#endif
