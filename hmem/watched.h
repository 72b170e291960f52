/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which memory of a vendor is watched, as far as its hooks must know: a hook of a function that
 * frees receives only where an allocation begins, and must find in a few nanoseconds how long it
 * is, and whether it is watched. Nothing here takes a lock, allocates or fails; all answers may
 * name more memory than is watched.
 */
#ifndef HMREG_HMEM_WATCHED_H
#define HMREG_HMEM_WATCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WATCHED_INDEX_BITS 14

/* The bounds of what was ever watched; all zero: nothing. */
struct watched_bounds {
    _Atomic uint64_t not_start; /* the complement of the lowest address */
    _Atomic uint64_t end;
};

/* Static, so that it begins all zero and stays: hooks do. */
struct watched {
    struct watched_bounds all, mapped;
    _Atomic uint64_t words[1 << WATCHED_INDEX_BITS];
    _Atomic uint32_t frees[1 << WATCHED_INDEX_BITS]; /* under way, for each word */
};

struct watched_extent {
    uint64_t start, end; /* start == end: none */
};

/* The allocation [start, end) is watched from now on. False: it may be being freed, and is not:
 * WATCHED_NOT. */
#define WATCHED_NOT "it was being freed while it was registered"
bool watched_add(struct watched *watched, uint64_t start, uint64_t end);
/* Virtual memory: mapped pieces, which are unmapped by their range. */
void watched_add_virtual(struct watched *watched, uint64_t start, uint64_t end);

/* [start, end), if watched virtual memory may lie there. */
struct watched_extent watched_virtual(const struct watched *watched, uint64_t start, uint64_t end);
/* A range with all watched memory, or all that is virtual. */
struct watched_extent watched_all(const struct watched *watched);
struct watched_extent watched_all_virtual(const struct watched *watched);

/* Reports to hmem_ended(), if there is anything. */
void watched_report(struct watched_extent ended);
/* Before and after the call that frees the allocation at addr: what is watched there is reported
 * before the call only, since the address may be another allocation's before the call returns, and
 * a report would end that one's regions. So nothing there can be watched meanwhile. An allocation
 * whose call failed is still there, and watched. */
struct watched_extent watched_begin_free(struct watched *watched, uint64_t addr);
void watched_end_free(struct watched *watched, uint64_t addr, bool failed,
                      struct watched_extent ended);

#endif
