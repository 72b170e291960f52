/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Domains: made by providers, checked, configured and closed here.
 */
#include "core/domain.h"

#include "core/cache.h"
#include "core/cache_set.h"
#include "core/error.h"
#include "core/token.h"
#include "core/validate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a provider left out ----------------------------------------------------------- */

static int absent(const char *what)
{
    return hmreg_fail(-EOPNOTSUPP, "this domain's provider has no %s", what);
}

static int no_path(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
                   struct hmreg_reason *why)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "provider-host-only",
                        "this provider registers host memory only");
}

static int no_raw_key(void *self, const struct provider_mr *mr, uint64_t *base, uint8_t *key,
                      size_t *size)
{
    return absent("raw keys");
}

static int no_map_key(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key)
{
    return absent("raw keys");
}

static int no_unmap_key(void *self, uint64_t key)
{
    return absent("raw keys");
}

static int no_bind(void *self, struct provider_mr *mr, void *object, uint64_t flags)
{
    return absent("objects to bind a region to");
}

/* A provider without these has nothing to enable and no pages to look up. */
static int no_enable(void *self, struct provider_mr *mr)
{
    return 0;
}

static int no_refresh(void *self, struct provider_mr *mr, const struct iovec *iov, size_t count,
                      uint64_t flags)
{
    return 0;
}

static int no_bind_domain(void *self, void *object, uint64_t flags)
{
    return absent("event queues that can be bound here");
}

static void no_look(void *self, struct provider_mr *mr)
{
}

static void no_published(void *self, struct provider_mr *mr, struct hmreg_mr *region, void *context)
{
}

static int no_address(void *self, uint8_t *buf, size_t *size)
{
    *size = 0;
    return 0;
}

static int no_remote_open(void *self, const uint8_t *address, size_t size, void **out)
{
    *out = NULL;
    return 0;
}

static void no_remote_close(void *self, void *remote)
{
}

static void no_destroy(void *self)
{
}

static struct provider_ops complete(const struct provider_ops *given)
{
    struct provider_ops ops = *given;

    ops.can = ops.can ? ops.can : no_path;
    ops.bind = ops.bind ? ops.bind : no_bind;
    ops.enable = ops.enable ? ops.enable : no_enable;
    ops.refresh = ops.refresh ? ops.refresh : no_refresh;
    ops.bind_domain = ops.bind_domain ? ops.bind_domain : no_bind_domain;
    ops.look = ops.look ? ops.look : no_look;
    ops.published = ops.published ? ops.published : no_published;
    ops.raw_key = ops.raw_key ? ops.raw_key : no_raw_key;
    ops.map_key = ops.map_key ? ops.map_key : no_map_key;
    ops.unmap_key = ops.unmap_key ? ops.unmap_key : no_unmap_key;
    ops.address = ops.address ? ops.address : no_address;
    ops.remote_open = ops.remote_open ? ops.remote_open : no_remote_open;
    ops.remote_close = ops.remote_close ? ops.remote_close : no_remote_close;
    ops.destroy = ops.destroy ? ops.destroy : no_destroy;
    return ops;
}

/* ---- configuration ---------------------------------------------------------------------- */

#define KNOWN_FLAGS (HMREG_DOMAIN_EXACT | HMREG_DOMAIN_NO_CACHE)

static int check_order(const enum hmreg_path *order)
{
    unsigned seen = 0;
    int count = 0;

    while (count < HMREG_PATH_COUNT - 1 && order[count] != HMREG_PATH_NONE)
        count++;
    for (int i = count; i < HMREG_PATH_COUNT - 1; i++)
        if (order[i] != HMREG_PATH_NONE)
            return hmreg_fail(-EINVAL, "config->order[%d] comes after its end, order[%d]", i,
                              count);
    for (int i = 0; i < count; i++) {
        if ((unsigned)order[i] >= HMREG_PATH_COUNT || order[i] == HMREG_PATH_SYSTEM)
            return hmreg_fail(-EINVAL,
                              "config->order[%d] is %d; accepted are HMREG_PATH_DMABUF, PEERMEM, "
                              "MAPPED",
                              i, (int)order[i]);
        if (seen & 1u << order[i])
            return hmreg_fail(-EINVAL, "config->order has %s twice", hmreg_path_name(order[i]));
        seen |= 1u << order[i];
    }
    return 0;
}

/* Two caches on top of each other pin each other's entries, so where the fabric has one that is
 * on, ours is off unless the caller set its limits, knowing better. */
static void set_limits(struct hmreg_domain *domain, const struct hmreg_domain_config *config)
{
    const struct settings *settings = &domain->lib->settings;

    domain->flags = config->flags;
    domain->max_regions = config->max_regions ? config->max_regions : settings->max_regions;
    domain->max_bytes = config->max_bytes ? config->max_bytes : settings->max_bytes;
    if (!domain->max_regions || !domain->max_bytes)
        domain->flags |= HMREG_DOMAIN_NO_CACHE;
    if (domain->caps.caches && !config->max_regions && !config->max_bytes)
        domain->flags |= HMREG_DOMAIN_NO_CACHE;
}

/* Callers built before `check` end here. */
#define CONFIG_FIRST_SIZE offsetof(struct hmreg_domain_config, check)

static int set_checks(struct hmreg_domain *domain, const enum hmreg_check *check)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++) {
        if ((unsigned)check[i] > HMREG_CHECK_NOTICE)
            return hmreg_fail(-EINVAL,
                              "config->check[%d] is %d; accepted are HMREG_CHECK_DEFAULT, ALWAYS, "
                              "NOTICE",
                              i, (int)check[i]);
        domain->check[i] = check[i] ? check[i] : domain->lib->settings.check[i];
    }
    return 0;
}

static int configure(struct hmreg_domain *domain, const struct hmreg_domain_config *callers)
{
    static const enum hmreg_path usual[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM,
                                            HMREG_PATH_MAPPED, HMREG_PATH_NONE};
    struct hmreg_domain_config config = {0};
    int rc = 0;

    if (callers)
        rc = validate_copy_in(&config, sizeof(config), callers, CONFIG_FIRST_SIZE,
                              "struct hmreg_domain_config");
    rc =
        rc ? rc
           : validate_flags(config.flags, KNOWN_FLAGS | domain->caps.domain_flags, "config->flags");
    rc = rc ? rc : check_order(config.order);
    rc = rc ? rc : set_checks(domain, config.check);
    if (rc)
        return rc;
    set_limits(domain, &config);
    if (config.order[0] != HMREG_PATH_NONE)
        memcpy(domain->order, config.order, sizeof(config.order));
    else
        memcpy(domain->order, usual, sizeof(usual));
    return 0;
}

/* ---- life ------------------------------------------------------------------------------- */

int domain_check(const struct hmreg_domain *domain)
{
    if (!domain)
        return hmreg_fail(-EINVAL, "domain is NULL");
    return context_check(domain->lib);
}

int domain_check_device(const struct hmreg_domain *domain, enum hmreg_iface iface, int device)
{
    int devices = domain->lib->runtimes[iface].devices;

    if (iface == HMREG_IFACE_SYSTEM)
        return validate_system_device(device, -ENODEV);
    if (device < 0 || device >= devices)
        return hmreg_fail(-ENODEV, "%s has no device %d; it has %d devices",
                          hmreg_iface_name(iface), device, devices);
    return 0;
}

int hmreg_domain_create(struct hmreg *lib, const struct provider_ops *ops,
                        const struct provider_caps *caps, void *self,
                        const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    struct provider_ops full = complete(ops);
    struct hmreg_domain *domain = NULL;
    int rc = context_check(lib);

    rc = rc ? rc : validate_pointer(out, "out");
    if (rc)
        goto destroy_self;
    domain = calloc(1, sizeof(*domain));
    if (!domain) {
        rc = hmreg_fail(-ENOMEM, "no memory for a domain");
        goto destroy_self;
    }
    domain->lib = lib;
    domain->ops = full;
    domain->caps = *caps;
    if (domain->caps.iov_limit >
        TOKEN_MAX_SEGMENTS) /* each range is one, where they have addresses */
        domain->caps.iov_limit = TOKEN_MAX_SEGMENTS;
    domain->self = self;
    rc = configure(domain, config);
    if (rc)
        goto free_domain;
    domain->caches = cache_set_new(domain);
    if (!domain->caches) {
        rc = hmreg_fail(-ENOMEM, "no memory for a domain's caches");
        goto free_domain;
    }
    keys_init(&domain->keys, caps->key_size);
    atomic_fetch_add(&lib->domains, 1);
    *out = domain;
    return 0;

free_domain:
    free(domain);
destroy_self:
    full.destroy(self);
    return rc;
}

static int check_closed(const struct hmreg_domain *domain)
{
    const struct {
        unsigned count;
        const char *what;
    } open[] = {
        {atomic_load(&domain->regions), "regions"},
        {cache_set_held(domain->caches), "cached regions"},
        {atomic_load(&domain->remotes), "remotes"},
        {atomic_load(&domain->objects), "endpoints, counters or queues"},
        {atomic_load(&domain->mapped_keys), "mapped keys"},
    };

    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
        if (open[i].count)
            return hmreg_fail(-EBUSY, "%u %s of this domain are open", open[i].count, open[i].what);
    return 0;
}

int hmreg_domain_close(struct hmreg_domain *domain)
{
    unsigned busy;
    int rc;

    if (!domain)
        return 0;
    rc = domain_check(domain);
    if (rc)
        return rc;
    rc = check_closed(domain);
    if (rc)
        return rc;
    busy = cache_set_flush(domain->caches);
    if (busy)
        return hmreg_fail(-EBUSY,
                          "%u cached regions of this domain are still in use below: the fabric "
                          "does not deregister them yet",
                          busy);
    cache_set_free(domain->caches);
    keys_destroy(&domain->keys);
    domain->ops.destroy(domain->self);
    atomic_fetch_sub(&domain->lib->domains, 1);
    free(domain);
    return 0;
}

void *hmreg_domain_priv(const struct hmreg_domain *domain, const char *provider_name)
{
    return domain && !strcmp(domain->ops.name, provider_name) ? domain->self : NULL;
}

int hmreg_domain_bind(struct hmreg_domain *domain, void *object, uint64_t flags)
{
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(object, "object");
    if (!rc && flags != HMREG_REG_MR)
        rc = hmreg_fail(-HMREG_EBADFLAGS, "flags are %#llx; accepted is HMREG_REG_MR",
                        (unsigned long long)flags);
    return rc ? rc : domain->ops.bind_domain(domain->self, object, flags);
}

/* ---- asking ----------------------------------------------------------------------------- */

int hmreg_domain_query(struct hmreg_domain *domain, struct hmreg_domain_info *out)
{
    struct hmreg_domain_info info = {0};
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(out, "out");
    rc = rc ? rc : validate_out_size(out->size, sizeof(info), "struct hmreg_domain_info");
    if (rc)
        return rc;
    snprintf(info.provider, sizeof(info.provider), "%s", domain->ops.name);
    snprintf(info.fabric, sizeof(info.fabric), "%s", domain->caps.fabric);
    info.mr_mode = domain->caps.mr_mode;
    info.key_size = domain->caps.key_size;
    info.iov_limit = domain->caps.iov_limit;
    info.max_len = domain->caps.max_len;
    cache_set_limits(domain->caches, &info.max_regions, &info.max_bytes);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

int hmreg_domain_set_limits(struct hmreg_domain *domain, uint64_t max_regions, uint64_t max_bytes)
{
    int rc = domain_check(domain);

    if (rc)
        return rc;
    if (domain->flags & HMREG_DOMAIN_NO_CACHE)
        return hmreg_fail(-EINVAL, "this domain was opened without a cache: by its flags, by a "
                                   "limit of 0, or because its fabric has a cache of its own");
    cache_set_change_limits(domain->caches, max_regions, max_bytes);
    return 0;
}

int hmreg_domain_flush(struct hmreg_domain *domain)
{
    int rc = domain_check(domain);

    if (!rc)
        cache_set_flush(domain->caches);
    return rc;
}

/* Of the first version; later callers have more. */
#define LEAST_STATS offsetof(struct hmreg_stats, caches)

static int check_stats(const struct hmreg_domain *domain, const struct hmreg_stats *out)
{
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(out, "out");
    return rc ? rc : validate_out_size(out->size, LEAST_STATS, "struct hmreg_stats");
}

int hmreg_domain_stats(struct hmreg_domain *domain, struct hmreg_stats *out)
{
    struct hmreg_stats stats = {0};
    int rc = check_stats(domain, out);

    if (rc)
        return rc;
    cache_set_stats(domain->caches, &stats);
    validate_copy_out(out, &stats, sizeof(stats));
    return 0;
}

int hmreg_cache_stats(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                      struct hmreg_stats *out)
{
    struct hmreg_stats stats = {0};
    int rc = check_stats(domain, out);

    rc = rc ? rc : validate_iface(iface);
    if (!rc && device != -1)
        rc = domain_check_device(domain, iface, device);
    if (rc)
        return rc;
    if (iface == HMREG_IFACE_SYSTEM)
        device = -1;
    cache_stats(cache_set_at(domain->caches, iface, device), &stats);
    validate_copy_out(out, &stats, sizeof(stats));
    return 0;
}
