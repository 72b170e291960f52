/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Makes room for a native registration that failed for want of it. One function makes all
 * registrations of the library (core/mr/filling.c). It asks the domain's caches for room: idle
 * cached regions give way, of this domain and of the process's others (core/cache/room.c).
 */
#ifndef HMREG_CORE_MR_ROOM_H
#define HMREG_CORE_MR_ROOM_H

#include "core/context/domain.h"
#include "core/context/resolve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* What may be full. */
enum room_kind {
    ROOM_LOCKED, /* the process's locked memory */
    ROOM_FILES,  /* the process's descriptors and mappings */
    ROOM_NIC,    /* the NIC's regions, keys and page tables */
    ROOM_DEVICE, /* the device's window for other devices (BAR1) */
    ROOM_DOMAIN, /* the domain's keys, or a shortage that the fabric does not name */
    ROOM_KINDS
};

/* Counts the regions of one kind that were evicted for others. */
struct room_given {
    uint64_t bytes;
    unsigned regions;
};

/* One registration's search for room. */
struct room {
    struct hmreg_domain *domain;    /* the calling domain */
    struct hmreg_domain *member;    /* the domain without room: for a group, a member */
    const struct resolved *found;   /* the memory */
    uint64_t bytes;                 /* the registration's bytes, in whole pages */
    uint64_t locks;                 /* bytes that the whole region locks on all members together */
    const _Atomic uint64_t *locked; /* ... of these, bytes locked by the region's other
                                       registrations, made or under way; other threads change it */
    bool any_key;                   /* any key will do */
    bool is_get;
    /* private to core/cache/room.c: */
    unsigned kinds;  /* bits of the kinds that may be full, by the last error */
    unsigned helped; /* ... that the last evicted region may have helped */
    struct room_given given[ROOM_KINDS];
    uint64_t traffic;    /* the count at the last look */
    uint64_t returned;   /* the count at the end of that look */
    unsigned taken;      /* how often other threads may have taken the room */
    unsigned long_waits; /* ... and have, since the last look */
    unsigned waits;      /* how often other regions may have been about to be evicted */
    unsigned tries;      /* how often some were */
    bool emptied;        /* nothing idle was left */
    bool stuck;          /* the library's thread does not deregister, or is this thread */
    bool promised;       /* some regions will end at the next call with their domain */
};

/* Counters of this process. A fork wipes them in the child, where the parent's running calls would
 * never end.
 */
struct room_counts {
    /* Registrations: the low half counts those under way, the high half those that have ended. They
     * may take room that was made for another one. */
    _Atomic uint64_t traffic;
    _Atomic uint64_t returned; /* likewise for deregistrations */
    _Atomic uint64_t gave_way; /* regions */
    atomic_uint makers;        /* threads that make room */
};

#define ROOM_ENDED (UINT64_C(1) << 32)

extern _Atomic(void *) room_page;

/* Call before the first domain. False: no memory. */
bool room_begin(void);

static inline struct room_counts *room_counts(void)
{
    return atomic_load_explicit(&room_page, memory_order_relaxed);
}

/* The bytes of the whole pages that ranges touch; a fabric pins these. */
uint64_t room_pages(const struct iovec *iov, size_t count);

#endif
