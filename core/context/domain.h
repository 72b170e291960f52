/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A domain, on which memory is registered: a provider's domain with its keys, its configuration and
 * its caches.
 */
#ifndef HMREG_CORE_CONTEXT_DOMAIN_H
#define HMREG_CORE_CONTEXT_DOMAIN_H

#include "core/context/context.h"
#include "core/context/keys.h"
#include "core/contract/provider.h"

#include <stdatomic.h>

struct cache_set;
struct gate;
struct group;
struct room;

#define LOST_WHY_BYTES 256

/* Whether the domain is lost: see core/context/lost.h. */
struct lost {
    pthread_mutex_t lock;     /* guards why until `is` is set; then why is constant */
    char why[LOST_WHY_BYTES]; /* never empty */
    atomic_bool is, settled;
    struct gate *gate; /* the gate of the domain's caches */
    void (*end_idle)(struct hmreg_domain *domain);
    /* Set by core/group for a member of groups: withdraws it from each of them. NULL: none. */
    void (*group_lost)(struct hmreg_domain *member, const char *why);
};

/* Registrations that must still be ended: see core/mr/undone.h. */
struct undone {
    pthread_mutex_t lock; /* guards the list, and the fields after `inside` */
    struct mr_note *first, *last;
    atomic_uint count;  /* in the list, or taken from it for an attempt */
    atomic_uint inside; /* is a lost domain's thread inside the fabric: 0 or 1 */
    /* For a lost domain's thread: */
    pthread_cond_t changed;
    pthread_t thread;
    pid_t task;
    bool started, wanted, ends;
};

/* The explicit regions: see core/explicit/origin.h. */
struct origins {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct origin *first;
};

struct hmreg_domain {
    const struct hmreg_mr_place *places; /* first, for the public head of regions: places on each
                                            member */
    struct hmreg_mr_place place;         /* for a domain that is no group */
    struct hmreg *lib;
    struct provider_ops ops; /* a copy with no NULL entry */
    struct provider_caps caps;
    void *self; /* the provider's */
    uint32_t flags;
    enum hmreg_path order[HMREG_PATH_COUNT];   /* for device memory, ended by NONE */
    uint64_t max_regions, max_bytes;           /* initial limits of each cache */
    enum hmreg_check check[HMREG_IFACE_COUNT]; /* never DEFAULT */
    struct keys keys;
    struct cache_set *caches;
    /* Set by its caches; called after a registration has failed with rc, the thread's last error.
     * True: regions have given way, try again. False: the error is final, and names the domains
     * that hold the room: core/mr/room.h */
    bool (*make_room)(struct room *room, int rc);
    char *entries;   /* base of the stable array of the regions of hmreg_mr_get(), see mr_body() */
    uint64_t serial; /* its thread caches, see thread_cache.h */
    bool check_puts; /* see put_check.h, also for the two fields below */
    atomic_bool closed;
    struct hmreg_domain *next_closed;
    atomic_uint regions;     /* open explicit regions */
    atomic_uint remotes;     /* open remotes */
    atomic_uint tables;      /* open key tables */
    atomic_uint mapped_keys; /* keys mapped by hmreg_domain_map_raw(), and for key tables */
    atomic_uint groups;      /* groups that it is a member of */
    atomic_uint columns;     /* columns of groups' regions that are, or may be, registered on it */
    atomic_bool asleep;      /* the library hibernates: the caller may have closed self's fabric
                                objects */
    atomic_bool owned;       /* a group owns it, and closes it with itself */
    atomic_uint jobs;        /* open jobs of hmreg_job_start() */
    struct undone undone;
    struct lost lost;
    struct origins origins;
    struct group *group;  /* NULL: the domain is no group */
    uint64_t more_rights; /* the rights that a region may have beyond the get's, to be a hit */
    /* From the configuration: */
    void (*made)(const struct hmreg_mr *, const struct hmreg_mr_info *, void *);
    void (*ended)(const struct hmreg_mr *, const struct hmreg_mr_info *, void *);
    void *callback_context;
    enum hmreg_way ways[HMREG_WAY_COUNT]; /* for path dmabuf, ended by NONE; empty: the pair
                                             decides, see core/context/ways.h */
    bool sync_memops;
    enum hmreg_policy policy;
    enum hmreg_cover cover;
    uint64_t cover_max; /* bytes; UINT64_MAX: no limit */
    uint32_t key_size;  /* bytes of keys that the fabric does not choose */
    uint64_t key_first, key_last;
};

/* Fills a zeroed domain, except for its keys and caches. config: NULL for the defaults. On failure
 * (-EINVAL, -HMREG_EBADFLAGS) the caller still owns self. */
int domain_init(struct hmreg_domain *domain, struct hmreg *lib, const struct provider_ops *ops,
                const struct provider_caps *caps, void *self,
                const struct hmreg_domain_config *config);

/* Checks that domain is not NULL and belongs to this process. -EINVAL, -EPERM. */
int domain_check(const struct hmreg_domain *domain);
/* For calls of its fabric that concern no region: -EAGAIN: the library hibernates. */
int domain_check_awake(const struct hmreg_domain *domain);
/* The present abilities of its fabric. */
void domain_set_caps(struct hmreg_domain *domain, const struct provider_caps *caps);
/* Its library's log, for failure.h; NULL: domain is NULL or of another process. */
static inline struct log *domain_log(const struct hmreg_domain *domain)
{
    return domain ? hmreg_lib_log(domain->lib) : NULL;
}
/* What does a registration's error, the thread's last error, say about room in the domain? Not for
 * a group. */
enum provider_room domain_room(const struct hmreg_domain *domain, int rc);
/* Checks that a valid iface has this device; SYSTEM accepts -1 and 0. -ENODEV. */
int domain_check_device(const struct hmreg_domain *domain, enum hmreg_iface iface, int device);

#endif
