/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model: what a cache may and must do, whatever its implementation. The test reports each
 * change of memory and each result of the library to it, and it judges the result.
 *
 *  - A get must hit if some region surely is still cached, right, covers the range, has the rights,
 *    as the domain's policy says, and was got with the same attributes; it may hit if one may be;
 *    else it must register, once.
 *  - A list of ranges has a region of its own, which ends when any of them changes.
 *  - A region that a trusted claim registered serves those that claim the same.
 *  - A get that ends with its last put shares only regions that do, and replaces kept ones that
 *    would serve it. Such a region is never evicted, and the last put deregisters it. Where nothing
 *    watches it, it serves gets of exactly its range, and keeps its memory (oracle_keeps()).
 *  - A miss must be cached if room can be made for it, and must not if it cannot.
 *  - Only idle regions may be evicted, only as many as the room takes, and recently used ones only
 *    after all others (second chance).
 *  - Only dead regions may be deregistered, and only without users.
 *
 * Where the library has a choice (which region of several, which of those to evict), the model
 * accepts what it observes: a region that may be gone is MAYBE until it is seen again.
 */
#ifndef TESTS_MODEL_ORACLE_H
#define TESTS_MODEL_ORACLE_H

#include "tests/model/plan.h"
#include "tests/support/pinning.h"

#include <setjmp.h>

struct oracle_want {
    unsigned area;
    uint64_t start, end;
    uint64_t next_start, next_end; /* of a list of two ranges: the second; else 0 */
    uint64_t access;
    unsigned attributes; /* which ones the get has of those that are compared; 0: none */
    bool claims;         /* that the memory is the system's */
    bool ends;           /* with its last put */
};

/* The result of a get that succeeded. */
struct oracle_seen {
    const struct pinned *region;
    bool registered; /* for this get; else it was cached */
    bool cached;
    uint64_t evictions;      /* during the get */
    bool others_evicted_too; /* any cache's, after a registration failed */
};

void oracle_open(const struct plan *plan);

/* The limits of each cache; those of all together are the plan's. */
void oracle_limits(uint64_t max_regions, uint64_t max_bytes);

void oracle_get(const struct oracle_want *want, const struct oracle_seen *seen);
/* A get that registered nothing because the fabric failed. others_evicted_too: eviction could have
 * cured that. */
void oracle_get_failed(const struct oracle_want *want, uint64_t evictions, bool others_evicted_too);
void oracle_put(uint64_t key);

/* A region that nothing watches is held there: the application must not change its memory. */
bool oracle_keeps(unsigned area, uint64_t start, uint64_t end);

/* Regions that overlap it are dead; the bytes, or the memory itself, changed. */
void oracle_changed(unsigned area, uint64_t start, uint64_t end);
void oracle_invalidated(uint64_t start, uint64_t end);
/* The same, within the get that is judged next. */
void oracle_invalidated_meanwhile(const struct oracle_want *want, uint64_t start, uint64_t end);
/* Device memory was replaced: detected at the next validation. */
void oracle_betrayed(unsigned area, uint64_t start, uint64_t end);
/* The fabric may refuse deregistrations from now on: dead regions may stay. */
void oracle_busy(void);
/* A flush ended all idle regions. busy: the fabric may have refused. */
void oracle_flushed(bool busy);

/* The fabric has deregistered it: kept until the call at which it may have died is judged. */
void oracle_deregistered(const struct pinned *region);
/* Judges that call: was each of them dead? */
void oracle_settle(void);

/* Compares all counters. NULL, or the difference. */
const char *oracle_compare(const struct hmreg_stats *stats);

/* Ends the episode with this error. */
void oracle_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
