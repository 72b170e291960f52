/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Unpublishes cached regions whose memory ended without a report. A get of the same addresses finds
 * such a region by its identity; if there is none, the region would keep freed memory alive, by its
 * descriptor, until it is evicted. So the reaper's thread compares identities now and then, only of
 * regions whose hits compare them.
 */
#ifndef HMREG_CORE_CACHE_SWEEP_H
#define HMREG_CORE_CACHE_SWEEP_H

#include "core/cache/cache.h"

struct sweep {
    atomic_bool expected; /* some live entry's memory can end without a report */
    uint32_t number;      /* for the reaper's thread only: number of the next entry; 0: a sweep
                             begins */
    size_t segment;       /* the next segment of that entry's memory: mr_segment() */
};

/* Call when a region was published whose memory can end without a report. Any thread. True: wake
 * the reaper, which sleeps without a limit until it knows of such a region. */
bool sweep_expect(struct sweep *sweep);
/* Is there such a region? */
bool sweep_is_expected(struct sweep *sweep);
/* Compares the identities of the pool's next regions; on the reaper's thread, without a lock.
 * False: all have been compared, and the next call begins again. */
bool sweep_some(struct sweep *sweep, struct cache_pool *pool);

#endif
