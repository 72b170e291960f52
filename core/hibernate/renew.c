/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_domain_renew(): the domain of a library that hibernates gets another self of its provider.
 * hmreg_domain_query()'s earlier answers stay true.
 */
#include "core/base/error.h"
#include "core/base/uncancelled.h"
#include "core/context/lost.h"

#include <errno.h>

/* Has `now` all abilities of `before`? */
static bool permits(const struct provider_caps *before, const struct provider_caps *now)
{
    return !(before->flags & ~now->flags) && now->iov_limit >= before->iov_limit &&
           now->max_len >= before->max_len && !(before->orderings & ~now->orderings) &&
           !(before->atomics & ~now->atomics) && !(before->on_demand & ~now->on_demand) &&
           !(before->optional_access & ~now->optional_access) &&
           !(before->provider_flags & ~now->provider_flags) && before->iova <= now->iova &&
           before->local_iova <= now->local_iova && before->any_thread <= now->any_thread;
}

/* The length of keys that the caller may choose is the domain's. */
static bool demands_the_same(const struct hmreg_domain *domain, const struct provider_caps *now)
{
    const struct provider_caps *before = &domain->caps;
    bool chooses = now->mr_mode & HMREG_MR_PROV_KEY;

    return now->mr_mode == before->mr_mode && now->async == before->async &&
           now->local_keys == before->local_keys && now->single == before->single &&
           (chooses ? now->key_size == before->key_size : now->key_size >= before->key_size);
}

/* For the thread whose turn it is (core/context/suspended.h). */
static int check(const struct hmreg_domain *domain, const struct provider_caps *caps)
{
    if (domain_is_lost(domain))
        return domain_fail_lost(domain);
    if (!domain->lib->asleep)
        return hmreg_fail(-EBUSY, "the library does not hibernate, or hmreg_thaw() has begun: call "
                                  "hmreg_hibernate() first");
    if (!demands_the_same(domain, caps) || !permits(&domain->caps, caps))
        return hmreg_fail(-EINVAL,
                          "%s demands more, or permits less, than hmreg_domain_query() reported "
                          "for the domain on %s: close that domain, and open a new one",
                          *caps->nic ? caps->nic : caps->fabric,
                          *domain->caps.nic ? domain->caps.nic : domain->caps.fabric);
    return 0;
}

static void *exchange(struct hmreg_domain *domain, const struct provider_caps *caps, void *self)
{
    struct provider_caps now = *caps;
    void *before = domain->self;

    if (!(now.mr_mode & (HMREG_MR_PROV_KEY | HMREG_MR_RAW)))
        now.key_size = domain->caps.key_size; /* the config may have made it shorter */
    domain_set_caps(domain, &now);
    domain->self = self;
    atomic_store(&domain->asleep, false);
    return before;
}

int hmreg_domain_renew(struct hmreg_domain *domain, const struct provider_caps *caps, void *self)
{
    struct suspended *suspended = &domain->lib->suspended;
    void *gone = self;
    int rc;
    UNCANCELLED;

    suspended_take_turn(suspended);
    rc = check(domain, caps);
    if (!rc)
        gone = exchange(domain, caps, self);
    suspended_end_turn(suspended);
    domain->ops.destroy(gone);
    return rc;
}
