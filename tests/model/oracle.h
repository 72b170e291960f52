/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model: what a cache may and must do, whatever its engine. It is told of each change of
 * memory and of each answer of the library, and judges the answer.
 *
 *  - A get must hit if some region surely is still cached, right, covers the range and has exactly
 *    the rights; it may hit if one may be; else it must register, once.
 *  - A miss must be remembered if its room can be made, and must not if it cannot.
 *  - Only what is idle may be evicted, only as much as the room takes, and what was just used only
 *    after everything that was not (second chance).
 *  - Only what is dead may be deregistered, and only when nobody holds it.
 *
 * Where the library has a choice (which region of several, which of those to evict), the model
 * takes what it sees: a region that may have gone is MAYBE until it is seen again.
 */
#ifndef TESTS_MODEL_ORACLE_H
#define TESTS_MODEL_ORACLE_H

#include "tests/model/plan.h"
#include "tests/support/pinning.h"

#include <setjmp.h>

struct oracle_want {
    unsigned area;
    uint64_t start, end, access;
};

/* What was seen of a get that succeeded. */
struct oracle_seen {
    const struct pinned *region;
    bool registered; /* for it; else it was there */
    bool cached;
    uint64_t evictions;      /* meanwhile */
    bool others_evicted_too; /* to help a registration that failed: any cache's */
};

void oracle_open(const struct plan *plan);

/* Other limits from now on: so many were evicted for it. */
void oracle_limits(uint64_t max_regions, uint64_t max_bytes, uint64_t evictions);

/* The same of the limits that all caches have together. */
void oracle_all_limits(uint64_t max_regions, uint64_t max_bytes, uint64_t evictions);

void oracle_get(const struct oracle_want *want, const struct oracle_seen *seen);
/* A get that registered nothing because the fabric failed; it may have evicted. */
void oracle_get_failed(const struct oracle_want *want, uint64_t evictions, bool others_evicted_too);
void oracle_put(uint64_t key);

/* What touches it is dead; the bytes, or the memory itself. */
void oracle_changed(unsigned area, uint64_t start, uint64_t end);
void oracle_invalidated(uint64_t start, uint64_t end);
/* The same, within the get that is judged next. */
void oracle_invalidated_meanwhile(uint64_t start, uint64_t end);
/* Device memory is another than before: found out at the next look. */
void oracle_betrayed(unsigned area, uint64_t start, uint64_t end);
/* The fabric may refuse deregistrations from now on: what is dead may stay. */
void oracle_busy(void);
/* All that nobody holds was let go of. busy: the fabric may have refused. */
void oracle_flushed(bool busy);

/* The fabric has deregistered it: kept until the call at which it may have died is judged. */
void oracle_deregistered(const struct pinned *region);
/* That call is judged: was each of them dead? */
void oracle_settle(void);

/* Compares all counters. NULL, or what is wrong. */
const char *oracle_compare(const struct hmreg_stats *stats);

/* Ends the episode with what is wrong. */
void oracle_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
