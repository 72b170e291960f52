/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A small model of hmreg_mr_get_attr(3) and hmreg_group_open(3), for one domain or group: which
 * attributes are right, which cached regions serve a get, which may be kept, and which calls end
 * them. It does not use the library: cached.c drives both and compares. Nothing is evicted here, so
 * a get must hit if a region serves it, and must register if none does.
 */
#ifndef TESTS_CONFORMANCE_MODEL_CACHE_H
#define TESTS_CONFORMANCE_MODEL_CACHE_H

#include "tests/conformance/model.h"

#define CACHE_ENTRIES 64
#define CACHE_RAILS   2
#define CACHE_AREAS   3 /* host memory, and memory of cuda's devices 0 and 1 */

/* A claim of the caller's about memory. base is an offset in the area. */
struct cache_claim {
    int how; /* HMREG_CLAIM_* */
    enum hmreg_iface iface;
    int device;
    enum hmreg_mem_kind kind;
    struct model_range allocation; /* len 0: none */
    bool half;                     /* the length is passed without the base */
    uint64_t identity;
};

/* What a call asks for. Endpoints are numbers, -1: NULL. */
struct cache_want {
    unsigned area;
    struct model_range range; /* in the area */
    uint64_t access, flags, key, rails;
    size_t page_size;
    int endpoint;
    bool listed;
    size_t listed_count;
    int endpoints[CACHE_RAILS];
    struct cache_claim claim;
    bool explicit; /* by hmreg_mr_regattr() */
};

struct cache_entry_model {
    bool open; /* registered */
    bool live; /* serves gets */
    unsigned users;
    struct cache_want want; /* of the get that registered it */
};

struct cache_model {
    bool is_group;
    bool binds[CACHE_RAILS]; /* regions on this rail are bound to endpoints */
    bool provider_keys;
    bool exact; /* HMREG_DOMAIN_EXACT */
    enum hmreg_rights rights;
    uint64_t max_len;
    struct cache_entry_model entries[CACHE_ENTRIES];
    uint64_t hits, misses, uncached, invalidations;
};

size_t cache_model_rails(const struct cache_model *model);
/* Does the call register on this rail? */
bool cache_model_on(const struct cache_model *model, const struct cache_want *want, size_t rail);
/* The endpoint that a rail of the region is bound to, -1: none. */
int cache_model_endpoint(const struct cache_want *want, size_t rail);

/* The errors that the call may return; none: it succeeds. */
struct verdict cache_model_get(const struct cache_model *model, const struct cache_want *want);
/* Does the entry serve the get? */
bool cache_model_serves(const struct cache_model *model, int entry, const struct cache_want *want);
/* Does any? */
bool cache_model_hits(const struct cache_model *model, const struct cache_want *want);
/* Is what the get registers kept for others? */
bool cache_model_keeps(const struct cache_model *model, const struct cache_want *want);

/* A get registered this entry, which was not open; or hit it. */
void cache_model_registered(struct cache_model *model, int entry, const struct cache_want *want);
void cache_model_hit(struct cache_model *model, int entry);
void cache_model_put(struct cache_model *model, int entry);
void cache_model_invalidate(struct cache_model *model, unsigned area, struct model_range range);
void cache_model_flush(struct cache_model *model);
/* Regions in the cache; and those that were, and wait for their last put. */
unsigned cache_model_live(const struct cache_model *model);
unsigned cache_model_retired(const struct cache_model *model);

#endif
