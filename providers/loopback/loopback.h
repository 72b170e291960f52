/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Internal header of the loopback provider, the strict reference for registration semantics:
 *   loopback.c          the domain, its peers, RMA on the initiator's side
 *   loopback_region.c   the table of regions, and the checks of accesses to them
 *   loopback_pages.c    the resident pages that a region knows (HMREG_MR_MMU_NOTIFY)
 *   loopback_events.c   asynchronous registration: complete once its event has been read
 *   loopback_objects.c  opens and closes endpoints, counters and event queues
 *
 * Peers are domains of the same process: an access is a function call on the initiator's thread,
 * which the target's table permits or denies.
 */
#ifndef HMREG_PROVIDERS_LOOPBACK_LOOPBACK_H
#define HMREG_PROVIDERS_LOOPBACK_LOOPBACK_H

#include "core/contract/provider.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOOPBACK_AUTH_MAX     64
#define LOOPBACK_RAW_BYTES    16
#define LOOPBACK_COUNTERS_MAX 8 /* counters one region can be bound to */

struct pages;

/* An authorization key; size 0: none. */
struct loopback_auth {
    uint32_t size;
    uint8_t bytes[LOOPBACK_AUTH_MAX];
};

/* ---- the domain ------------------------------------------------------------------------- */

struct loopback {
    struct loopback *next; /* in the process's list of domains */
    struct hmreg *lib;
    struct hmreg_domain *domain;
    uint64_t number; /* number in the process; tokens carry it */
    uint32_t mr_mode;
    uint64_t max_key;
    struct loopback_auth auth;
    _Atomic(const char *) lost; /* why the domain is; NULL: it is not */
    atomic_uint objects;        /* open endpoints, counters and queues */
    unsigned users;             /* threads that hold it after a lookup in the list */
    pthread_mutex_t lock;       /* protects everything below; never held while copying */
    pthread_cond_t idle;        /* signalled when a region's last access in progress ends */
    void *by_key;               /* tsearch(3) tree of the regions that peers may access */
    uint64_t keys;              /* entries in by_key */
    void *by_desc;              /* tree of all regions, by the region's address */
    void *mapped;               /* tree of struct mapped_key */
    uint64_t last_key;          /* last key that the domain chose (HMREG_MR_PROV_KEY) */
    uint64_t last_serial;       /* of a region */
    uint64_t last_mapped;
    struct hmreg_loopback_eq *eq;
};

/* ---- objects ---------------------------------------------------------------------------- */

enum object_kind { OBJECT_EP = 0x686d6570, OBJECT_COUNTER = 0x686d6374, OBJECT_EQ = 0x686d6571 };

/* The header of each object: its kind and its domain. */
struct object {
    uint32_t kind;
    struct loopback *loopback;
};

struct hmreg_loopback_ep {
    struct object object;
};

struct hmreg_loopback_counter {
    struct object object;
    atomic_ullong count;
};

/* A linked list of regions, protected by the domain's lock; so queueing an event cannot fail. */
struct hmreg_loopback_eq {
    struct object object;
    struct region *first, **end;
    pthread_cond_t arrived;
};

/* ---- regions (loopback_region.c) -------------------------------------------------------- */

struct region {
    uint64_t key;    /* first member: the tree compares it; HMREG_KEY_NOTAVAIL: no remote access */
    uint64_t serial; /* the other half of a raw key, unique in the domain */
    uint64_t access, flags;
    struct loopback_auth auth;
    struct hmreg_mr *public; /* the public handle; NULL until published */
    unsigned busy;           /* accesses in progress */
    atomic_bool revoked;     /* cached, and its memory changed: other memory may be there now */
    bool enabled;
    bool refreshing;
    bool pending; /* in the event queue: registered, event not read yet */
    struct region *next_event;
    void *context; /* for its event */
    struct hmreg_loopback_ep *ep;
    struct hmreg_loopback_counter *counters[LOOPBACK_COUNTERS_MAX];
    struct pages *pages; /* an array of `count`; NULL: all pages count as resident */
    bool has_iova;       /* peers reach the first byte at iova, and the ranges follow each other */
    uint64_t iova;
    size_t count;
    struct iovec iov[];
};

/* One access that a peer requests. */
struct loopback_access {
    bool write; /* into the region */
    uint64_t key;
    uint64_t serial; /* 0 if the initiator's domain has no raw keys */
    uint64_t addr;   /* address or offset, as the target domain's mr_mode says */
    uint64_t len;
    const struct loopback_auth *auth; /* the initiator's */
};

/* provider_ops. */
int region_reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why);
int region_dereg(void *self, struct hmreg_mr_keys *mr);
void region_revoke(void *self, struct hmreg_mr_keys *mr);
int region_bind(void *self, const struct hmreg_mr_keys *mr, void *object, uint64_t flags);
void region_unbind(void *self, struct hmreg_mr_keys *mr);
bool region_is_bound(void *self, const struct hmreg_mr_keys *mr);
int region_enable(void *self, const struct hmreg_mr_keys *mr);
int region_refresh(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov,
                   size_t count, uint64_t flags);
int region_raw_key(void *self, const struct hmreg_mr_keys *mr, uint64_t *base, uint8_t *key,
                   size_t *size);

/* Checks the whole access, then copies between the region and local memory. -EKEYREJECTED, -EACCES,
 * -ERANGE, -EFAULT, or the copy's error. */
int loopback_perform(struct loopback *loopback, const struct loopback_access *access, void *local);
/* Is desc the descriptor of an open region that covers the local range with this right? */
bool region_covers(struct loopback *loopback, void *desc, uint64_t right, uint64_t addr,
                   uint64_t len);
/* Orders a tree of structs that begin with a 64-bit key. */
int compare_keys(const void *left, const void *right);
/* Unbinds an object from every region. */
void regions_untie(struct loopback *loopback, const void *object);
bool regions_any(struct loopback *loopback);

/* ---- events (loopback_events.c) --------------------------------------------------------- */

/* provider_ops. */
void events_published(void *self, struct hmreg_mr_keys *mr, struct hmreg_mr *region, void *context);
/* Removes a region's unread event from the queue. The caller holds the domain's lock. */
void events_forget(struct loopback *loopback, const struct region *region);

/* ---- pages (loopback_pages.c) ----------------------------------------------------------- */

/* Records which pages of the ranges are resident now. NULL: no memory. */
struct pages *pages_new(const struct iovec *iov, size_t count);
void pages_free(struct pages *pages, size_t count);
/* Are all pages of the part known to be resident? The part lies inside range `index`. */
bool pages_known(const struct pages *pages, size_t index, uint64_t addr, uint64_t len);
/* Marks the part's pages as known; -EFAULT, with its address in *hole, if one is not mapped. */
int pages_refresh(struct pages *pages, size_t index, uint64_t addr, uint64_t len, uint64_t *hole);

/* ---- opening and closing objects (loopback_objects.c) ----------------------------------- */

/* provider_ops. */
void objects_lost(void *self, const char *why);
unsigned objects_count(void *self);
int objects_bind_domain(void *self, void *object, uint64_t flags);

#endif
