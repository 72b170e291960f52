/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See scarce.h.
 */
#include "tests/support/scarce.h"

#include "core/base/error.h"
#include "core/context/domain.h"
#include "tests/support/lock_limit.h"
#include "tests/support/test.h"

#include <pthread.h>

struct scarce scarce;

enum kind { NONE, LOCKED, REGIONS, WINDOW, MAPPINGS };

/* What the last failed registration of a thread was short of, until its next one. */
static struct {
    _Atomic enum kind kind;
    atomic_uint nic;
    atomic_int device;
} short_of;

struct scarce_domain {
    unsigned nic;
    bool any_thread;
    pthread_t owner;
    _Atomic uint64_t locked, window;
    atomic_uint mappings, regions;
};

struct scarce_region {
    enum hmreg_path path;
    int device;
    uint64_t bytes;
};

/* ---- taking ----------------------------------------------------------------------------- */

static bool take(_Atomic uint64_t *used, uint64_t most, uint64_t bytes)
{
    uint64_t now = atomic_load(used);

    do {
        if (most && now + bytes > most)
            return false;
    } while (!atomic_compare_exchange_weak(used, &now, now + bytes));
    return true;
}

static bool take_one(atomic_uint *used, unsigned most)
{
    unsigned now = atomic_load(used);

    do {
        if (most && now >= most)
            return false;
    } while (!atomic_compare_exchange_weak(used, &now, now + 1));
    return true;
}

static void give(const struct scarce_domain *domain, const struct scarce_region *region)
{
    atomic_fetch_sub(&scarce.regions[domain->nic], 1);
    if (region->path == HMREG_PATH_SYSTEM)
        atomic_fetch_sub(&scarce.locked, region->bytes);
    else if (region->path == HMREG_PATH_PEERMEM)
        atomic_fetch_sub(&scarce.window[region->device], region->bytes);
    else
        atomic_fetch_sub(&scarce.mappings, 1);
}

static int run_short(enum kind kind, unsigned nic, int device)
{
    atomic_store(&short_of.nic, nic);
    atomic_store(&short_of.device, device);
    atomic_store(&short_of.kind, kind);
    return kind == REGIONS && !scarce.enomem ? -ENOSPC : kind == MAPPINGS ? -EMFILE : -ENOMEM;
}

/* What the memory takes besides the region. */
static int take_memory(unsigned nic, const struct scarce_region *region)
{
    switch (region->path) {
    case HMREG_PATH_SYSTEM:
        return take(&scarce.locked, scarce.most_locked, region->bytes) ? 0
                                                                       : run_short(LOCKED, nic, -1);
    case HMREG_PATH_PEERMEM:
        return take(&scarce.window[region->device], scarce.most_window, region->bytes)
                   ? 0
                   : run_short(WINDOW, nic, region->device);
    default:
        return take_one(&scarce.mappings, scarce.most_mappings) ? 0 : run_short(MAPPINGS, nic, -1);
    }
}

/* Of the domain: sign 1 or -1. */
static void count(struct scarce_domain *domain, const struct scarce_region *region, int sign)
{
    atomic_fetch_add(&domain->regions, (unsigned)sign);
    if (region->path == HMREG_PATH_SYSTEM)
        atomic_fetch_add(&domain->locked, (uint64_t)sign * region->bytes);
    else if (region->path == HMREG_PATH_PEERMEM)
        atomic_fetch_add(&domain->window, (uint64_t)sign * region->bytes);
    else
        atomic_fetch_add(&domain->mappings, (unsigned)sign);
}

struct scarce_use scarce_use_of(const struct hmreg_domain *domain)
{
    const struct scarce_domain *self = domain->self;

    return (struct scarce_use){atomic_load(&self->locked), atomic_load(&self->window),
                               atomic_load(&self->mappings), atomic_load(&self->regions)};
}

void scarce_begin(void)
{
    atomic_store(&short_of.kind, NONE);
}

static int reg(void *self, const struct provider_request *request, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    struct scarce_domain *domain = self;
    struct scarce_region *region = malloc(sizeof(*region));
    void (*hook)(void) = atomic_load(&scarce.reg_hook);
    int rc;

    atomic_fetch_add(&scarce.regs, 1);
    if (hook)
        hook();
    if (!region)
        return hmreg_fail(-ENOMEM, "the test's fabric has no memory");
    *region = (struct scarce_region){request->path, request->device, request->iov[0].iov_len};
    rc = take_memory(domain->nic, region);
    if (!rc && !take_one(&scarce.regions[domain->nic], scarce.most_regions)) {
        atomic_fetch_add(&scarce.regions[domain->nic], 1);
        give(domain, region);
        rc = run_short(REGIONS, domain->nic, -1);
    }
    if (!rc) {
        scarce_begin();
        count(domain, region, 1);
        *out =
            (struct hmreg_mr_keys){.native = region, .priv = region, .key = request->requested_key};
        return 0;
    }
    free(region);
    if (request->path == HMREG_PATH_PEERMEM && rc == -ENOMEM)
        return hmreg_refuse(why, rc, "test-window-full", "the test's window is full");
    return hmreg_fail_vendor(rc, "ofi", -rc, "as asked", "the test's fabric is full");
}

/* ---- giving back ------------------------------------------------------------------------- */

static bool helps(const struct scarce_domain *domain, const struct scarce_region *region)
{
    switch (atomic_load(&short_of.kind)) {
    case LOCKED:
        return region->path == HMREG_PATH_SYSTEM;
    case REGIONS:
        return domain->nic == atomic_load(&short_of.nic);
    case WINDOW:
        return region->path == HMREG_PATH_PEERMEM &&
               region->device == atomic_load(&short_of.device);
    case MAPPINGS:
        return region->path == HMREG_PATH_MAPPED;
    default:
        return true;
    }
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    struct scarce_domain *domain = self;
    struct scarce_region *region = mr->priv;

    atomic_fetch_add(&scarce.deregs, 1);
    if (domain->any_thread && !scarce.several && !helps(domain, region))
        atomic_fetch_add(&scarce.useless, 1);
    if (!domain->any_thread && !pthread_equal(domain->owner, pthread_self()))
        atomic_fetch_add(&scarce.strayed, 1);
    give(domain, region);
    count(domain, region, -1);
    free(region);
    return 0;
}

/* ---- domains ----------------------------------------------------------------------------- */

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    if (path == (device == 1 ? HMREG_PATH_MAPPED : HMREG_PATH_PEERMEM))
        return 0;
    return hmreg_refuse(why, -EOPNOTSUPP, "test-one-path", "the test's fabric takes another path");
}

static enum provider_room room(void *self, int rc)
{
    return scarce.enomem && rc == -ENOMEM ? PROVIDER_ROOM_FULL : PROVIDER_ROOM_UNKNOWN;
}

static void destroy(void *self)
{
    free(self);
}

struct hmreg_domain *scarce_open(struct hmreg *lib, unsigned nic, bool any_thread,
                                 const struct hmreg_domain_config *config)
{
    static const struct provider_ops ops = {
        .name = "ofi", .can = can, .reg = reg, .room = room, .dereg = dereg, .destroy = destroy};
    struct provider_caps caps = {
        .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_HMEM,
        .key_size = scarce.key_size ? scarce.key_size : 8,
        .iov_limit = 1,
        .max_len = 1ull << 40,
        .any_thread = any_thread,
        .pins = true,
    };
    struct scarce_domain *self = malloc(sizeof(*self));
    struct hmreg_domain *domain;

    assert_non_null(self);
    *self = (struct scarce_domain){.nic = nic, .any_thread = any_thread, .owner = pthread_self()};
    snprintf(caps.fabric, sizeof(caps.fabric), "scarce");
    snprintf(caps.nic, sizeof(caps.nic), "nic%u", nic);
    assert_ok(hmreg_domain_create(lib, &ops, &caps, self, config, &domain));
    return domain;
}

void scarce_reset(void)
{
    assert_int_equal(atomic_load(&scarce.locked), 0);
    scarce = (struct scarce){.most_locked = 0};
    scarce_begin();
}

void scarce_limit_locked(uint64_t most)
{
    lock_limit_begin(most);
    scarce.most_locked = most;
}

/* Linked with -Wl,--wrap=locked_now: the kernel counts what the fabric has locked. */
uint64_t __wrap_locked_now(void);
uint64_t __wrap_locked_now(void)
{
    return atomic_load(&scarce.locked);
}
