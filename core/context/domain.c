/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See domain.h. domain_init() replaces each operation that the provider lacks by a default, so that
 * no caller checks for NULL.
 */
#include "core/context/domain.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The most for one registration: older versions can read its token. */
#define MOST_RANGES 64

/* ---- default operations ----------------------------------------------------------------- */

static int fail_absent(const char *what)
{
    return hmreg_fail(-EOPNOTSUPP,
                      "the provider of this domain (see hmreg_domain_query()) has no %s", what);
}

static int no_path(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
                   struct hmreg_reason *why)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "provider-host-only",
                        "this provider registers host memory only");
}

static int no_data_direct(void *self, struct hmreg_reason *why)
{
    return hmreg_refuse(why, -EOPNOTSUPP, "no-data-direct", "this provider has no data direct");
}

static uint64_t no_requested_key(void *self, const struct hmreg_mr_keys *mr)
{
    return HMREG_KEY_NOTAVAIL;
}

static int no_raw_key(void *self, const struct hmreg_mr_keys *mr, uint64_t *base, uint8_t *key,
                      size_t *size)
{
    return fail_absent("raw keys");
}

static int no_map_raw(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key)
{
    return fail_absent("raw keys");
}

static int no_unmap_raw(void *self, uint64_t key)
{
    return fail_absent("raw keys");
}

static int no_bind(void *self, const struct hmreg_mr_keys *mr, void *object, uint64_t flags)
{
    return fail_absent("objects to which a region can be bound");
}

/* A provider without these two operations has nothing to enable and no pages to look up. */
static int no_enable(void *self, const struct hmreg_mr_keys *mr)
{
    return 0;
}

static int no_refresh(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov,
                      size_t count, uint64_t flags)
{
    return 0;
}

static int no_bind_domain(void *self, void *object, uint64_t flags)
{
    return fail_absent("event queues that can be bound");
}

static void no_look(void *self, struct hmreg_mr_keys *mr)
{
}

static void no_published(void *self, struct hmreg_mr_keys *mr, struct hmreg_mr *region,
                         void *context)
{
}

static void no_unbind(void *self, struct hmreg_mr_keys *mr)
{
}

static bool not_bound(void *self, const struct hmreg_mr_keys *mr)
{
    return false;
}

static void no_revoke(void *self, struct hmreg_mr_keys *mr)
{
}

static enum provider_room no_room(void *self, int rc)
{
    return PROVIDER_ROOM_UNKNOWN;
}

static bool not_gone(void *self, int rc, char *why, size_t size)
{
    return false;
}

static void no_lost(void *self, const char *why)
{
}

static unsigned no_objects(void *self)
{
    return 0;
}

static void no_destroy(void *self)
{
}

static struct provider_ops complete(const struct provider_ops *given)
{
    struct provider_ops ops = *given;

    ops.can = ops.can ? ops.can : no_path;
    ops.can_data_direct = ops.can_data_direct ? ops.can_data_direct : no_data_direct;
    ops.room = ops.room ? ops.room : no_room;
    ops.gone = ops.gone ? ops.gone : not_gone;
    ops.lost = ops.lost ? ops.lost : no_lost;
    ops.bind = ops.bind ? ops.bind : no_bind;
    ops.unbind = ops.unbind ? ops.unbind : no_unbind;
    ops.is_bound = ops.is_bound ? ops.is_bound : not_bound;
    ops.enable = ops.enable ? ops.enable : no_enable;
    ops.refresh = ops.refresh ? ops.refresh : no_refresh;
    ops.bind_domain = ops.bind_domain ? ops.bind_domain : no_bind_domain;
    ops.look = ops.look ? ops.look : no_look;
    ops.published = ops.published ? ops.published : no_published;
    ops.revoke = ops.revoke ? ops.revoke : no_revoke;
    ops.requested_key = ops.requested_key ? ops.requested_key : no_requested_key;
    ops.raw_key = ops.raw_key ? ops.raw_key : no_raw_key;
    ops.map_raw = ops.map_raw ? ops.map_raw : no_map_raw;
    ops.unmap_raw = ops.unmap_raw ? ops.unmap_raw : no_unmap_raw;
    ops.objects = ops.objects ? ops.objects : no_objects;
    ops.destroy = ops.destroy ? ops.destroy : no_destroy;
    return ops;
}

/* ---- room ------------------------------------------------------------------------------- */

/* Is the thread's last error the fabric's, or hmreg's own? */
static bool is_fabrics(const struct hmreg_domain *domain, int rc)
{
    const struct hmreg_error *error = hmreg_last_error();

    return error->code == rc && !strcmp(error->source, domain->ops.name);
}

enum provider_room domain_room(const struct hmreg_domain *domain, int rc)
{
    switch (rc) {
    case -ENOMEM:
    case -ENOSPC:
    case -HMREG_ENOKEY:
    case -EMFILE:
    case -ENFILE:
        return PROVIDER_ROOM_FULL;
    case 0:
    case -EFAULT:
    case -EACCES:
    case -EPERM:
    case -ENODEV:
    case -ENOSYS:
    case -EOPNOTSUPP:
        return PROVIDER_ROOM_ENOUGH;
    default:
        return is_fabrics(domain, rc) ? domain->ops.room(domain->self, rc) : PROVIDER_ROOM_ENOUGH;
    }
}

/* ---- configuration ---------------------------------------------------------------------- */

#define PARTS_FLAGS (HMREG_DOMAIN_SINGLE | HMREG_DOMAIN_PARTS)
#define KNOWN_FLAGS (HMREG_DOMAIN_EXACT | HMREG_DOMAIN_NO_CACHE | PARTS_FLAGS)

static int check_flags(const struct hmreg_domain *domain, uint32_t flags)
{
    if ((flags & PARTS_FLAGS) == PARTS_FLAGS)
        return hmreg_fail(-HMREG_EBADFLAGS, "config->flags has HMREG_DOMAIN_SINGLE and "
                                            "HMREG_DOMAIN_PARTS; give one of them");
    return validate_flags(flags, KNOWN_FLAGS | domain->caps.domain_flags, "config->flags");
}

static int check_order(const enum hmreg_path *order)
{
    unsigned seen = 0;
    int count = 0;

    while (count < HMREG_PATHS_MAX && order[count] != HMREG_PATH_NONE)
        count++;
    for (int i = count; i < HMREG_PATHS_MAX; i++)
        if (order[i] != HMREG_PATH_NONE)
            return hmreg_fail(-EINVAL, "config->order[%d] is set after the list's end, order[%d]",
                              i, count);
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

/* Two stacked caches pin each other's entries. So if the fabric's own cache is on, the domain's is
 * off unless the caller sets its limits. */
static void set_limits(struct hmreg_domain *domain, const struct hmreg_domain_config *config)
{
    const struct settings *settings = &domain->lib->settings;

    domain->flags = config->flags;
    if (domain->caps.single && !(config->flags & PARTS_FLAGS))
        domain->flags |= HMREG_DOMAIN_SINGLE;
    domain->max_regions = config->max_regions ? config->max_regions : settings->max_regions;
    domain->max_bytes = config->max_bytes ? config->max_bytes : settings->max_bytes;
    if (!domain->max_regions || !domain->max_bytes)
        domain->flags |= HMREG_DOMAIN_NO_CACHE;
    if (domain->caps.caches && !config->max_regions && !config->max_bytes)
        domain->flags |= HMREG_DOMAIN_NO_CACHE;
}

static int set_checks(struct hmreg_domain *domain, const enum hmreg_check *check)
{
    for (int i = 0; i <= HMREG_IFACE_MAX; i++) {
        bool known = i < HMREG_IFACE_COUNT;

        if ((unsigned)check[i] > (known ? HMREG_CHECK_NOTICE : HMREG_CHECK_DEFAULT))
            return hmreg_fail(-EINVAL,
                              "config->check[%d] is %d; accepted are HMREG_CHECK_DEFAULT%s", i,
                              (int)check[i], known ? ", ALWAYS, NOTICE" : " only");
        if (known)
            domain->check[i] = check[i] ? check[i] : domain->lib->settings.check[i];
    }
    return 0;
}

static int set_ways(struct hmreg_domain *domain, const enum hmreg_way *ways)
{
    unsigned seen = 0;
    int count = 0;

    for (int i = 0; i < HMREG_WAYS_MAX; i++) {
        if ((unsigned)ways[i] >= HMREG_WAY_COUNT)
            return hmreg_fail(-EINVAL,
                              "config->ways[%d] is %d; accepted are HMREG_WAY_PLAIN, DATA_DIRECT, "
                              "PCIE, DATA_DIRECT_PCIE",
                              i, (int)ways[i]);
        if (!ways[i])
            continue;
        if (count != i)
            return hmreg_fail(-EINVAL, "config->ways[%d] is set after the list's end, ways[%d]", i,
                              count);
        if (seen & 1u << ways[i])
            return hmreg_fail(-EINVAL, "config->ways has %s twice", hmreg_way_name(ways[i]));
        seen |= 1u << ways[i];
        domain->ways[count++] = ways[i];
    }
    if (!count)
        memcpy(domain->ways, domain->lib->settings.ways, sizeof(domain->ways));
    return 0;
}

static int set_rights(struct hmreg_domain *domain, enum hmreg_rights rights)
{
    static const uint64_t more[] = {0, HMREG_ACCESS_LOCAL, HMREG_ACCESS_ALL};

    if ((unsigned)rights > HMREG_RIGHTS_ANY)
        return hmreg_fail(-EINVAL,
                          "config->rights is %d; accepted are HMREG_RIGHTS_EXACT, LOCAL, ANY",
                          (int)rights);
    domain->more_rights = more[rights];
    return 0;
}

static int set_sync_memops(struct hmreg_domain *domain, enum hmreg_choice choice)
{
    if ((unsigned)choice > HMREG_CHOICE_ON)
        return hmreg_fail(-EINVAL,
                          "config->sync_memops is %d; accepted are 0 (default), 1 (off), 2 (on)",
                          (int)choice);
    domain->sync_memops = choice == HMREG_CHOICE_DEFAULT ? domain->lib->settings.sync_memops
                                                         : choice == HMREG_CHOICE_ON;
    return 0;
}

static int set_policy(struct hmreg_domain *domain, enum hmreg_policy policy)
{
    if ((unsigned)policy > HMREG_POLICY_LAST_PUT)
        return hmreg_fail(-EINVAL,
                          "config->policy is %d; accepted are HMREG_POLICY_DEFAULT, KEEP, LAST_PUT",
                          (int)policy);
    domain->policy = policy;
    return 0;
}

static int set_cover(struct hmreg_domain *domain, const struct hmreg_domain_config *config)
{
    if ((unsigned)config->cover > HMREG_COVER_REMOTE)
        return hmreg_fail(-EINVAL,
                          "config->cover is %d; accepted are HMREG_COVER_DEFAULT, EXACT, "
                          "ALLOCATION, REMOTE",
                          (int)config->cover);
    if (config->cover > HMREG_COVER_EXACT && (config->flags & HMREG_DOMAIN_EXACT))
        return hmreg_fail(-EINVAL, "config->cover requests regions of whole allocations, but "
                                   "config->flags has HMREG_DOMAIN_EXACT; give one of them");
    domain->cover = config->cover;
    domain->cover_max = config->cover_max ? config->cover_max : UINT64_MAX;
    return 0;
}

/* A fabric that chooses keys takes neither a size nor a range of them; a raw key keeps its own
 * length, of which the caller chooses 8 bytes. */
static int set_keys(struct hmreg_domain *domain, const struct hmreg_domain_config *config)
{
    struct provider_caps *caps = &domain->caps;
    uint32_t most = caps->key_size < 8 ? caps->key_size : 8;
    uint32_t size = config->key_size ? config->key_size : most;

    if ((caps->mr_mode & HMREG_MR_PROV_KEY) &&
        (config->key_size || config->key_first || config->key_last))
        return hmreg_fail(-EINVAL, "config->key_size, key_first or key_last is set; it must be 0, "
                                   "because this domain chooses keys itself (HMREG_MR_PROV_KEY)");
    if (size > most)
        return hmreg_fail(-EINVAL,
                          "config->key_size is %u; accepted are 1 to %u, the bytes of a key of %s, "
                          "or 0 for %u",
                          size, most, caps->fabric, most);
    if (config->key_first > config->key_last || config->key_last > keys_largest(size))
        return hmreg_fail(-EINVAL,
                          "config->key_first is %#" PRIx64 " and key_last %#" PRIx64
                          "; accepted are 0 to %#" PRIx64 ", the first not above the last",
                          config->key_first, config->key_last, keys_largest(size));
    if (config->key_size && !(caps->mr_mode & HMREG_MR_RAW))
        caps->key_size = size;
    domain->key_size = size;
    domain->key_first = config->key_first;
    domain->key_last = config->key_last;
    return 0;
}

static int configure(struct hmreg_domain *domain, const struct hmreg_domain_config *callers)
{
    static const enum hmreg_path usual[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM,
                                            HMREG_PATH_MAPPED, HMREG_PATH_NONE};
    struct hmreg_domain_config config = {0};
    int rc = 0;

    if (callers)
        rc = validate_copy_in(&config, sizeof(config), callers, sizeof(config),
                              "struct hmreg_domain_config");
    rc = rc ? rc : check_flags(domain, config.flags);
    rc = rc ? rc : check_order(config.order);
    rc = rc ? rc : set_checks(domain, config.check);
    rc = rc ? rc : set_rights(domain, config.rights);
    rc = rc ? rc : set_ways(domain, config.ways);
    rc = rc ? rc : set_sync_memops(domain, config.sync_memops);
    rc = rc ? rc : set_policy(domain, config.policy);
    rc = rc ? rc : set_cover(domain, &config);
    rc = rc ? rc : set_keys(domain, &config);
    if (rc)
        return rc;
    set_limits(domain, &config);
    domain->made = config.made;
    domain->ended = config.ended;
    domain->callback_context = config.callback_context;
    if (config.order[0] != HMREG_PATH_NONE)
        memcpy(domain->order, config.order, sizeof(domain->order));
    else
        memcpy(domain->order, usual, sizeof(usual));
    return 0;
}

void domain_set_caps(struct hmreg_domain *domain, const struct provider_caps *caps)
{
    domain->caps = *caps;
    if (domain->caps.iov_limit > MOST_RANGES)
        domain->caps.iov_limit = MOST_RANGES;
    domain->place.by_offset = caps->mr_mode & HMREG_MR_VIRT_ADDR ? 0 : UINT64_MAX;
}

int domain_init(struct hmreg_domain *domain, struct hmreg *lib, const struct provider_ops *ops,
                const struct provider_caps *caps, void *self,
                const struct hmreg_domain_config *config)
{
    domain->lib = lib;
    domain->ops = complete(ops);
    domain_set_caps(domain, caps);
    domain->self = self;
    domain->places = &domain->place;
    return configure(domain, config);
}

/* ---- checks ------------------------------------------------------------------------------ */

int domain_check(const struct hmreg_domain *domain)
{
    if (!domain)
        return hmreg_fail(-EINVAL, "domain is NULL");
    return context_check(domain->lib);
}

int domain_check_awake(const struct hmreg_domain *domain)
{
    if (!atomic_load(&domain->asleep))
        return 0;
    return hmreg_fail(
        -EAGAIN, "the domain (%s) hibernates (hmreg_hibernate()): call again after hmreg_thaw()",
        domain->caps.fabric);
}

int domain_check_device(const struct hmreg_domain *domain, enum hmreg_iface iface, int device)
{
    if (iface == HMREG_IFACE_SYSTEM)
        return validate_system_device(device, -ENODEV);
    return context_check_device(domain->lib, iface, device);
}

int hmreg_lib_check(const struct hmreg *lib)
{
    return context_check(lib);
}

int hmreg_config_copy(void *ours, size_t size, const void *callers, const char *type)
{
    return validate_copy_in(ours, size, callers, size, type);
}

void *hmreg_domain_priv(const struct hmreg_domain *domain, const char *provider_name)
{
    return domain && !strcmp(domain->ops.name, provider_name) ? domain->self : NULL;
}
