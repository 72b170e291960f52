/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Inside the loopback provider, the strict reference for what a registration means:
 *   loopback.c          the domain, its peers, RMA as an initiator sees it
 *   loopback_region.c   the table of regions: what is registered, who may do what to it
 *   loopback_pages.c    which pages of a region are known to be there (HMREG_MR_MMU_NOTIFY)
 *   loopback_events.c   registrations that are not complete until somebody has read so
 *   loopback_objects.c  endpoints, counters, event queues: opened and closed
 *   loopback_wire.c     the way to the table from other processes
 *
 * In one process a peer's access is a call. Between processes each domain that has packed a token
 * listens on an abstract Unix socket; one thread a domain serves it, one request at a time. The
 * target checks every request against its own table, so nothing depends on the peer's honesty;
 * only processes of the same user are let in.
 */
#ifndef HMREG_PROVIDERS_LOOPBACK_LOOPBACK_H
#define HMREG_PROVIDERS_LOOPBACK_LOOPBACK_H

#include "providers/provider.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOOPBACK_AUTH_MAX     64
#define LOOPBACK_RAW_BYTES    16
#define LOOPBACK_COUNTERS_MAX 8 /* counters one region can be bound to */

struct wire_server;
struct wire_client;
struct pages;

/* An authorization key; size 0: none. */
struct loopback_auth {
    uint32_t size;
    uint8_t bytes[LOOPBACK_AUTH_MAX];
};

/* ---- the domain ------------------------------------------------------------------------- */

struct loopback {
    struct loopback *next; /* in the process's list */
    struct hmreg *lib;
    struct hmreg_domain *_Atomic domain; /* NULL until it is made */
    uint32_t mr_mode;
    uint64_t max_key;
    uint64_t serial;
    struct loopback_auth auth;
    unsigned users;       /* threads that found it in the list */
    pthread_mutex_t lock; /* everything below; never held while copying */
    pthread_cond_t idle;  /* a region's last access under way has ended */
    void *by_key;         /* tsearch(3) tree of struct region: those that peers may reach */
    uint64_t keys;        /* how many */
    void *by_desc;        /* the same by address: all of them */
    void *mapped;         /* tree of struct mapped_key */
    unsigned mapped_count;
    uint64_t next_key; /* the provider's choice */
    uint64_t next_mapped;
    struct hmreg_loopback_eq *eq;
    struct wire_server *server;
    uint64_t nonce;
    struct wire_client *clients; /* the domains in other processes that we reach */
};

/* ---- objects ---------------------------------------------------------------------------- */

enum object_kind { OBJECT_EP = 0x686d6570, OBJECT_COUNTER = 0x686d6374, OBJECT_EQ = 0x686d6571 };

/* The beginning of each object: what it is, and whose. */
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

/* A queue of regions, under the domain's lock: publishing one cannot fail. */
struct hmreg_loopback_eq {
    struct object object;
    struct region *first, **end;
    pthread_cond_t arrived;
};

/* ---- regions (loopback_region.c) -------------------------------------------------------- */

struct region {
    uint64_t key;    /* first: the tree compares it; HMREG_KEY_NOTAVAIL: peers cannot reach it */
    uint64_t secret; /* the other half of a raw key */
    uint64_t access, flags;
    struct loopback_auth auth;
    struct hmreg_mr *public; /* its name outside; NULL until published */
    unsigned busy;           /* accesses under way */
    atomic_bool revoked;     /* a cached region whose memory changed: another may be there now */
    bool enabled;
    bool refreshing;
    bool pending; /* registered, its event not read yet: it is in the queue */
    struct region *next_event;
    void *context; /* of its event */
    struct hmreg_loopback_ep *ep;
    struct hmreg_loopback_counter *counters[LOOPBACK_COUNTERS_MAX];
    struct pages *pages; /* count of them; NULL: all pages are taken to be there */
    size_t count;
    struct iovec iov[];
};

/* One access a peer asks for. */
struct loopback_access {
    bool write; /* into the region */
    bool last;  /* the last piece: counters count it */
    uint64_t key;
    uint64_t secret; /* 0 where the initiator's domain has no raw keys */
    uint64_t addr;   /* as the target domain's mr_mode has it */
    uint64_t len;
    const struct loopback_auth *auth; /* the initiator's */
};

/* provider_ops. */
int region_reg(void *self, const struct provider_request *req, struct provider_mr *out,
               struct hmreg_reason *why);
int region_dereg(void *self, struct provider_mr *mr);
void region_revoke(void *self, struct provider_mr *mr);
int region_bind(void *self, struct provider_mr *mr, void *object, uint64_t flags);
int region_enable(void *self, struct provider_mr *mr);
int region_refresh(void *self, struct provider_mr *mr, const struct iovec *iov, size_t count,
                   uint64_t flags);
int region_raw_key(void *self, const struct provider_mr *mr, uint64_t *base, uint8_t *key,
                   size_t *size);

/* Would this access be granted, for all its length? 0, -EKEYREJECTED, -EACCES, -ERANGE, -EFAULT. */
int loopback_check(struct loopback *loopback, const struct loopback_access *access);
/* Makes the access with local memory on the other side. Checks again. */
int loopback_perform(struct loopback *loopback, const struct loopback_access *access, void *local);
/* Is desc that of an open region that covers local memory with this right? */
bool region_covers(struct loopback *loopback, void *desc, uint64_t right, uint64_t addr,
                   uint64_t len);
/* Takes an object away from every region. */
void regions_untie(struct loopback *loopback, const void *object);
bool regions_any(struct loopback *loopback);

/* ---- events (loopback_events.c) --------------------------------------------------------- */

/* provider_ops. */
void events_published(void *self, struct provider_mr *mr, struct hmreg_mr *region, void *context);
/* Forgets a region's event, if it was not read. Under the domain's lock. */
void events_forget(struct loopback *loopback, const struct region *region);

/* ---- pages (loopback_pages.c) ----------------------------------------------------------- */

/* Notes which pages of the ranges are resident now. NULL: no memory. */
struct pages *pages_new(const struct iovec *iov, size_t count);
void pages_free(struct pages *pages, size_t count);
/* Are all pages of the part known? The part lies inside range index. */
bool pages_known(const struct pages *pages, size_t index, uint64_t addr, uint64_t len);
/* Makes the part's pages known; -EFAULT, with *hole, if one is not mapped. */
int pages_refresh(struct pages *pages, size_t index, uint64_t addr, uint64_t len, uint64_t *hole);

/* ---- objects' life (loopback_objects.c) ------------------------------------------------- */

/* provider_ops. */
int objects_bind_domain(void *self, void *object, uint64_t flags);

/* ---- between processes (loopback_wire.c) ------------------------------------------------ */

/* Where a domain is reached; travels in tokens. */
struct loopback_address {
    uint64_t epoch;  /* of its process, see core/base/process.h */
    uint64_t serial; /* of the domain in it */
    uint64_t nonce;  /* of the socket's name */
    uint32_t pid;
};
#define LOOPBACK_ADDRESS_BYTES 28

/* Listens; *nonce names the socket. Stopped and freed by wire_server_stop(). */
int wire_server_start(struct loopback *loopback, struct wire_server **out, uint64_t *nonce);
void wire_server_stop(struct wire_server *server);

/* A domain in another process, one for all remotes that lead there; connects when first used.
 * Both under our domain's lock, which owns the list. NULL: no memory. */
struct wire_client *wire_client_hold(struct wire_client **list,
                                     const struct loopback_address *address);
void wire_client_release(struct wire_client **list, struct wire_client *client);
/* lib: to copy from and to memory of any kind. -EHOSTUNREACH, the target's answer, or -EIO. */
int wire_client_access(struct wire_client *client, struct hmreg *lib,
                       const struct loopback_access *access, void *local);

#endif
