/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Room for a registration that has failed: whether idle regions that give way may help, how many,
 * and when to stop. What cannot fit evicts nothing, and nothing evicts more than it needs.
 */
#ifndef HMREG_CORE_CACHE_ROOM_H
#define HMREG_CORE_CACHE_ROOM_H

#include "core/cache/cache_set.h"

#include <stdbool.h>
#include <stdint.h>

/* One registration's search for room, for as long as its get lasts. */
struct room {
    struct cache_set *set;
    struct cache *cache;     /* whose regions give way first */
    bool host;               /* it is of host memory */
    uint64_t bytes;          /* that it needs, in whole pages */
    unsigned count;          /* regions that it needs */
    uint64_t given;          /* bytes that have given way */
    unsigned gone;           /* and regions */
    uint64_t registered;     /* in the process, by then */
    unsigned taken;          /* how often others may have taken what had given way */
    unsigned tries;          /* how often some have */
    bool emptied;            /* nothing idle was left */
    enum provider_room says; /* the last error */
};

void room_init(struct room *room, struct cache_set *set, struct cache *cache, bool host,
               uint64_t bytes, unsigned count);
/* The registration has failed with rc, the thread's last error: makes room. False: that cannot
 * help, or what it needs has given way already. True: try again. */
bool room_make(struct room *room, int rc);
/* The search has ended, with rc. Remembers what did not fit into an empty cache. */
void room_end(struct room *room, int rc);

/* What does the error of a registration with the domain, a group too, say of room? */
enum provider_room room_says(const struct hmreg_domain *domain, int rc);

#endif
