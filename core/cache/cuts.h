/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a change of memory does to a cache: the live entries that it touches are unpublished, and
 * those that are being registered are marked. A change may touch a million entries, and no call
 * unpublishes so many: the first few at once, the others are cut from the tree together. From then
 * on no search finds them; they are unpublished a few at a time. Until they all are, the gate stays
 * shut, since threads remember them. They count as live meanwhile, and eviction takes them first.
 *
 * The pool's lock is held for all functions here.
 */
#ifndef HMREG_CORE_CACHE_CUTS_H
#define HMREG_CORE_CACHE_CUTS_H

#include "core/cache/cache_pool.h"

/* With the lock held: the threads that register entries that the change touches, one each, do not
 * publish them. */
void cuts_mark_claims(struct cache *cache, const struct change *change);
/* Applies a change to the pool's caches that it concerns. *room: how many entries may be
 * unpublished; lowered. False: some touched entries may still serve; call it again with more room.
 */
bool cuts_apply(struct cache_pool *pool, const struct change *change, unsigned *room);

/* Unpublishes at most `most` entries that were cut from the trees. In one cache, or in all of a
 * pool. */
void cuts_unpublish(struct cache *cache, unsigned most);
void cuts_unpublish_any(struct cache_pool *pool, unsigned most);

/* Unpublishes this live entry if it was cut from the tree, and as many others as precede it in the
 * cut. Releases the lock after each batch, and holds it again in the end. */
void cuts_unpublish_entry(struct cache *cache, struct hmreg_mr *entry);

/* Has the cache entries that were cut from its tree and are not unpublished? */
bool cuts_are_left(const struct cache *cache);

/* Was this live entry cut from its cache's tree? */
static inline bool cuts_have(const struct cache *cache, const struct hmreg_mr *entry)
{
    return atomic_load(&cache->pool->cuts) && !itree_has(&cache->tree, &entry->node);
}

/* The first range of an entry that touches [start, end): of a list that of a segment, by address.
 * False: there is none, though its node touches it. */
bool cuts_first_range(const struct hmreg_mr *entry, uint64_t start, uint64_t end, struct span *out);

#endif
