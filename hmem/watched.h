/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The watched memory of a vendor, for its hooks. A hook of a function that frees receives only an
 * allocation's start, and must find in a few nanoseconds whether it is watched, and its length. No
 * function here takes a lock, allocates or fails. Answers may include memory that is not watched.
 */
#ifndef HMREG_HMEM_WATCHED_H
#define HMREG_HMEM_WATCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WATCHED_INDEX_BITS 14

/* The bounds of all memory ever watched; all zero: none. */
struct watched_bounds {
    _Atomic uint64_t not_start; /* the complement of the lowest address */
    _Atomic uint64_t end;
};

/* Static: it begins all zero, and stays, as hooks do. */
struct watched {
    struct watched_bounds all, mapped;
    _Atomic uint64_t words[1 << WATCHED_INDEX_BITS];
    _Atomic uint32_t frees[1 << WATCHED_INDEX_BITS]; /* frees under way, for each word */
};

struct watched_extent {
    uint64_t start, end; /* start == end: none */
};

/* Watches the allocation [start, end). False: it may be being freed, and is not watched; the reason
 * is WATCHED_NOT. */
#define WATCHED_NOT "it was being freed during the registration"
bool watched_add(struct watched *watched, uint64_t start, uint64_t end);
/* Watches virtual memory: mapped pieces, which are unmapped by range. */
void watched_add_virtual(struct watched *watched, uint64_t start, uint64_t end);

/* Returns [start, end) if watched virtual memory may lie there. */
struct watched_extent watched_virtual(const struct watched *watched, uint64_t start, uint64_t end);
/* A range with all watched memory, or with all watched virtual memory. */
struct watched_extent watched_all(const struct watched *watched);
struct watched_extent watched_all_virtual(const struct watched *watched);

/* Reports the range to hmem_ended(), unless it is empty. */
void watched_report(struct watched_extent ended);
/* Call before and after the call that frees the allocation at addr. A watched allocation is
 * reported only before the call: the address may be another allocation's before the call returns,
 * and a report would end that one's regions. So none can be watched there meanwhile. An allocation
 * whose call failed still exists and stays watched. */
struct watched_extent watched_begin_free(struct watched *watched, uint64_t addr);
void watched_end_free(struct watched *watched, uint64_t addr, bool failed,
                      struct watched_extent ended);

#endif
