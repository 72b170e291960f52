/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Applies a change of memory to a cache: unpublishes the live entries that it touches, and marks
 * the pending ones. A change may touch a million entries, more than one call unpublishes: the call
 * unpublishes the first few, and cuts the others from the tree together. From then on no search
 * finds them; later calls unpublish a few at a time. Until then the gate stays shut, since threads
 * remember them. They count as live meanwhile, and eviction takes them first.
 *
 * The pool's lock is held for all functions here.
 */
#ifndef HMREG_CORE_CACHE_CUTS_H
#define HMREG_CORE_CACHE_CUTS_H

#include "core/cache/cache_pool.h"

/* Applies a change to the pool's caches. *room: how many entries may be unpublished; lowered.
 * False: some touched entries may still serve; call it again with more room.
 */
bool cuts_apply(struct cache_pool *pool, const struct change *change, unsigned *room);

/* Unpublishes at most `most` entries that were cut from the trees, in one cache or in all of a
 * pool. */
void cuts_unpublish(struct cache *cache, unsigned most);
void cuts_unpublish_any(struct cache_pool *pool, unsigned most);

/* Unpublishes this live entry if it was cut from the tree, together with the entries that precede
 * it in the cut. Releases the lock after each batch, and holds it again in the end. */
void cuts_unpublish_entry(struct cache *cache, struct hmreg_mr *entry);

/* Has the cache cut entries? */
bool cuts_are_left(const struct cache *cache);

/* Was this live entry cut from its cache's tree? */
static inline bool cuts_contain(const struct cache *cache, const struct hmreg_mr *entry)
{
    return atomic_load(&cache->pool->cuts) && !itree_has(&cache->tree, &entry->node);
}

/* The entry's first range that touches [start, end); for a list, the lowest segment's. False: none
 * does, though its node touches it. */
bool cuts_first_range(const struct hmreg_mr *entry, uint64_t start, uint64_t end, struct span *out);

#endif
