/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A memory region: one registration, and how it came about. Applications have very many cached
 * ones of host memory, so what few regions have is out of line.
 */
#ifndef HMREG_CORE_MR_MR_H
#define HMREG_CORE_MR_MR_H

#include "core/base/itree.h"
#include "core/context/domain.h"
#include "core/mr/mapping.h"

/* What few regions have. */
struct mr_more {
    uint32_t refused;             /* paths, */
    struct hmreg_reason *reasons; /* and why, in the order tried; NULL: none was */
    uint64_t identity;            /* of the first range's allocation */
    int device;
    uint64_t taken_key; /* if key_taken */
    void *context;
    atomic_bool pending;   /* registered asynchronously, not complete yet */
    atomic_bool published; /* the call that registered it has done its part */
    bool closing;          /* a composite that has lost pieces to a close that was busy */
    size_t count;
    struct iovec *iov;        /* count ranges as registered; the mappings' for MAPPED */
    struct iovec *asked;      /* the same as the caller named them */
    struct mapping *mappings; /* count, for MAPPED; else NULL */
    struct hmreg_mr **pieces; /* of a composite: count regions, NULL once closed; made, iov
                                 and mappings are unused then */
};

struct hmreg_mr {
    struct hmreg_domain *domain;
    atomic_uint sequence;   /* of a cached one: odd while threads may remember it (hot.h) */
    uint32_t slot_offset;   /* of hmreg_mr_get()'s: as slots have it (hot.h); 0: explicit */
    struct itree_node node; /* from the first range's address, as long as all of them */
    struct provider_mr made;
    struct mr_more *more; /* NULL: one range, registered as it was asked for, and nothing else */
    uint16_t access;
    uint8_t iface : 4;   /* enum hmreg_iface */
    uint8_t path : 4;    /* enum hmreg_path */
    bool cached : 1;     /* it is remembered, for other gets as well */
    bool registered : 1; /* hmreg_mr_get()'s: there is something to deregister */
    bool key_taken : 1;  /* of the domain's keys: more->taken_key, or without `more` made.key */
    /* hmreg_mr_get()'s, once it is made: */
    bool ask_monitor : 1;  /* each hit asks whether the monitor has read all that happened */
    bool ask_identity : 1; /* each hit asks whether its memory's identity is still the same */
    bool monitored : 1;    /* it is right as long as the monitor has told of no change */
    bool watched : 1;      /* the monitor watches its memory, and is told when to stop */
    uint8_t : 0;           /* what follows is written under a lock, what precedes read without */
    /* The cache's, under its lock: see enum cache_state, and cache_pool.c. */
    uint8_t state : 3;
    bool cold : 1, changed : 1, unmapped : 1, zombie : 1;
    bool used : 1;     /* by a get under the lock, since eviction last considered it */
    bool roomless : 1; /* registered, and not published for lack of room */
    uint16_t cache;
};

_Static_assert(HMREG_ACCESS_ALL <= UINT16_MAX, "access rights fit a region's");

static inline int mr_device(const struct hmreg_mr *mr)
{
    return mr->more ? mr->more->device : -1;
}

static inline uint64_t mr_len(const struct hmreg_mr *mr)
{
    return mr->node.end - mr->node.start;
}

static inline uint64_t mr_identity(const struct hmreg_mr *mr)
{
    return mr->more ? mr->more->identity : 0;
}

static inline size_t mr_count(const struct hmreg_mr *mr)
{
    return mr->more ? mr->more->count : 1;
}

/* NULL: not a composite. */
static inline struct hmreg_mr **mr_pieces(const struct hmreg_mr *mr)
{
    return mr->more ? mr->more->pieces : NULL;
}

/* A range as the caller named it; and as it was registered. */
static inline struct iovec mr_asked(const struct hmreg_mr *mr, size_t index)
{
    struct iovec plain = {(void *)(uintptr_t)mr->node.start, mr_len(mr)};

    return mr->more ? mr->more->asked[index] : plain;
}

static inline struct iovec mr_iov(const struct hmreg_mr *mr, size_t index)
{
    struct iovec plain = {(void *)(uintptr_t)mr->node.start, mr_len(mr)};

    return mr->more ? mr->more->iov[index] : plain;
}

/* Not complete yet: only explicit regions are ever. */
static inline bool mr_is_pending(const struct hmreg_mr *mr)
{
    return mr->more && atomic_load(&mr->more->pending);
}

/* An explicit region is about to be its caller's: counts it, and tells the provider. Once each. */
void mr_publish(struct hmreg_mr *mr);

/* Where registrations complete in a queue of the fabric's, the event may be read before the call
 * that registered has stored what it got: waits for that. */
void mr_settle(const struct hmreg_mr *mr);

/* The provider's part, with desc and key as they are now. */
struct provider_mr mr_now(const struct hmreg_mr *mr);

/* The memory changed: tells the provider, which may forbid access at once. It takes no lock and
 * calls nothing, so it is called under the lock of the domain's caches. */
void mr_revoke(struct hmreg_mr *mr);

/* -EAGAIN while a registration of a region with remote access is not complete. */
int mr_check_complete(const struct hmreg_mr *mr);

/* mr is not NULL, belongs to this process, and is whole: 0, -EINVAL or -EPERM. */
int mr_check(const struct hmreg_mr *mr);

#endif
