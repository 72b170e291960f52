/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens a group: a domain with a cache of its own and no fabric. Its members register its regions
 * (core/mr/region.c). It closes as every domain does.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/cache/group_member.h"
#include "core/group/nearest.h"

#include <errno.h>

#define KNOWN_FLAGS (HMREG_GROUP_PARTIAL | HMREG_GROUP_OWNS_MEMBERS)

static void destroy(void *self)
{
    struct group *group = self;
    struct nearest *nearest = group->nearest;

    group_member_join(group);
    group_free(group); /* waits until no thread visits it */
    nearest_free(nearest);
}

/* Its members' operations register and deregister. */
static const struct provider_ops ops = {.name = "group", .destroy = destroy};

static int check_config(const struct hmreg_group_config *callers, struct hmreg_group_config *config)
{
    const struct hmreg_domain_config *domain;
    int rc;

    if (!callers)
        return 0;
    rc = validate_copy_in(config, sizeof(*config), callers, sizeof(*config),
                          "struct hmreg_group_config");
    rc = rc ? rc : validate_flags(config->flags, KNOWN_FLAGS, "config->flags");
    domain = rc ? NULL : config->domain;
    if (!domain || domain->size < sizeof(*domain)) /* refused when the domain is created */
        return rc;
    if (domain->ways[0])
        return hmreg_fail(-EINVAL,
                          "config->domain->ways is set; a group has no ways of path dmabuf: each "
                          "member keeps its own");
    if (domain->sync_memops)
        return hmreg_fail(-EINVAL, "config->domain->sync_memops is set; a group has no such "
                                   "setting: each member has its own");
    if (domain->order[0])
        return hmreg_fail(-EINVAL, "config->domain->order is set; a group has no order of paths: "
                                   "each member has its own");
    if (domain->key_size || domain->key_first || domain->key_last)
        return hmreg_fail(-EINVAL, "config->domain->key_size, key_first or key_last is set; a "
                                   "group has no keys: each member has its own");
    return 0;
}

int hmreg_group_open(struct hmreg *lib, struct hmreg_domain *const *members, size_t count,
                     const struct hmreg_group_config *callers, struct hmreg_domain **out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_group_config config = {0};
    struct hmreg_domain *domain = NULL;
    struct provider_caps caps;
    struct group *group;
    int rc = context_check(lib);

    rc = rc ? rc : validate_pointer(out, "out");
    rc = rc ? rc : check_config(callers, &config);
    rc = rc ? rc : group_new(lib, members, count, config.flags, &group);
    if (rc)
        return rc;
    caps = group_caps(group);
    rc = hmreg_domain_create(lib, &ops, &caps, group, config.domain, &domain);
    if (rc)
        return rc;
    pthread_mutex_lock(&lib->sets_lock);
    domain->group = group;
    domain->places = group->places;
    group->domain = domain;
    group->end_left = group_member_end_left;
    pthread_mutex_unlock(&lib->sets_lock);
    *out = domain;
    return 0;
}
