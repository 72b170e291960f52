/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Room for one native registration that failed for want of it. Each registration of the library is
 * made by one function (core/mr/region.c), which asks the domain's caches for room: idle cached
 * regions give way, of this domain and of the process's others (core/cache/room.c).
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
    ROOM_DOMAIN, /* the domain's keys, or what its fabric does not name */
    ROOM_KINDS
};

/* What has given way of the regions that help one kind. */
struct room_given {
    uint64_t bytes;
    unsigned regions;
};

/* One registration's search for room. */
struct room {
    struct hmreg_domain *domain;    /* whose call it is */
    struct hmreg_domain *member;    /* which has no room: of a group one of its members */
    const struct resolved *found;   /* the memory */
    uint64_t bytes;                 /* of the registration, in whole pages */
    uint64_t locks;                 /* bytes that the whole region locks on all members together */
    const _Atomic uint64_t *locked; /* ... of these, what other registrations of the region lock
                                       that are made or under way; other threads change it */
    bool any_key;                   /* any key will do */
    bool is_get;
    /* core/cache/room.c's: */
    unsigned kinds;  /* bits of what may be full, by the last error */
    unsigned helped; /* ... of what the last region that gave way may have helped */
    struct room_given given[ROOM_KINDS];
    uint64_t traffic;    /* the count at the last look */
    uint64_t returned;   /* the count by then */
    unsigned taken;      /* how often others may have taken what had given way */
    unsigned long_waits; /* ... and have, since the last look */
    unsigned waits;      /* how often others may have been about to give way */
    unsigned tries;      /* how often some have */
    bool emptied;        /* nothing idle was left */
    bool stuck;          /* the library's thread does not deregister, or is this one */
    bool promised;       /* some will give way at the next call with their domain */
};

/* Of this process. It is wiped in a forked child, where what its parent's threads did never ends.
 */
struct room_counts {
    /* The registrations: the low half are those under way, the high half has how many have ended.
     * What they take may be what others gave for another one. */
    _Atomic uint64_t traffic;
    _Atomic uint64_t returned; /* the same of regions that are deregistered */
    _Atomic uint64_t gave_way; /* regions */
    atomic_uint makers;        /* threads that make room */
};

#define ROOM_ENDED (UINT64_C(1) << 32)

extern _Atomic(void *) room_page;

/* Before the first domain. False: no memory. */
bool room_begin(void);

static inline struct room_counts *room_counts(void)
{
    return atomic_load_explicit(&room_page, memory_order_relaxed);
}

/* The bytes of the whole pages that ranges touch, which a fabric pins. */
uint64_t room_pages(const struct iovec *iov, size_t count);

#endif
