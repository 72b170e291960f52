/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache.h.
 */
#include "core/cache.h"

#include "core/error.h"
#include "core/register.h"
#include "core/validate.h"

#include <errno.h>
#include <stdlib.h>

struct cache_set {
    atomic_uint held;
    atomic_ullong uncached;
};

struct cache_set *cache_set_new(struct hmreg_domain *domain)
{
    return calloc(1, sizeof(struct cache_set));
}

unsigned cache_set_flush(struct cache_set *set)
{
    return atomic_load(&set->held);
}

void cache_set_free(struct cache_set *set)
{
    free(set);
}

void cache_set_stats(struct cache_set *set, struct hmreg_stats *out)
{
    out->uncached += atomic_load(&set->uncached);
}

int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **mr)
{
    struct iovec iov = {(void *)(uintptr_t)addr, len};
    struct request request = {.iov = &iov, .count = 1, .access = access, .any_key = true};
    struct resolved found;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : validate_range(addr, len);
    rc = rc ? rc : validate_access(access);
    rc = rc ? rc : request_resolve(domain, &request, &found);
    rc = rc ? rc : region_create(domain, &request, &found, mr);
    if (rc)
        return rc;
    (*mr)->cached = true;
    atomic_fetch_add(&domain->caches->held, 1);
    atomic_fetch_add(&domain->caches->uncached, 1);
    return 0;
}

void hmreg_mr_put(struct hmreg_mr *mr)
{
    struct cache_set *set;

    if (!mr || domain_check(mr->domain))
        return;
    set = mr->domain->caches;
    if (region_destroy(mr) != -EBUSY)
        atomic_fetch_sub(&set->held, 1);
}

int hmreg_invalidate(struct hmreg *lib, const void *addr, size_t len)
{
    int rc = context_check(lib);

    return rc ? rc : validate_range(addr, len);
}
