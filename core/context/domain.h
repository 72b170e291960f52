/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What memory is registered with: a provider's domain, its keys, its caches.
 */
#ifndef HMREG_CORE_CONTEXT_DOMAIN_H
#define HMREG_CORE_CONTEXT_DOMAIN_H

#include "core/context/context.h"
#include "core/context/keys.h"
#include "providers/provider.h"

#include <stdatomic.h>

struct cache_set;

struct hmreg_domain {
    struct hmreg *lib;
    struct provider_ops ops; /* a copy with no NULL entry */
    struct provider_caps caps;
    void *self; /* the provider's */
    uint32_t flags;
    enum hmreg_path order[HMREG_PATH_COUNT];   /* for device memory, ended by NONE */
    uint64_t max_regions, max_bytes;           /* per cache, at first */
    enum hmreg_check check[HMREG_IFACE_COUNT]; /* never DEFAULT */
    struct keys keys;
    struct cache_set *caches;
    uint64_t serial, place; /* of what threads remember of the caches, see hot.h */
    bool check_puts;        /* see put_check.h, as for the two below */
    atomic_bool closed;
    struct hmreg_domain *next_closed;
    atomic_uint regions; /* explicit ones, open */
    atomic_uint remotes;
    atomic_uint objects;     /* of the provider, that regions can be bound to */
    atomic_uint mapped_keys; /* of hmreg_mr_map_raw() */
};

/* Fills a zeroed domain, but for its keys and caches. config: NULL for the defaults. -EINVAL,
 * -HMREG_EBADFLAGS; self stays the caller's. */
int domain_init(struct hmreg_domain *domain, struct hmreg *lib, const struct provider_ops *ops,
                const struct provider_caps *caps, void *self,
                const struct hmreg_domain_config *config);

/* domain is not NULL and belongs to this process: 0, -EINVAL or -EPERM. */
int domain_check(const struct hmreg_domain *domain);
/* iface, a valid one, has this device; host memory of the system has -1 and 0. -ENODEV. */
int domain_check_device(const struct hmreg_domain *domain, enum hmreg_iface iface, int device);

#endif
