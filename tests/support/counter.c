/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See counter.h.
 */
#include "tests/support/counter.h"

#include "core/base/error.h"
#include "core/contract/provider.h"
#include "tests/support/test.h"

struct counter counter;

struct counter_region {
    uint64_t key;
    uint64_t len;
    uint64_t seen;
    const void *endpoint;
    bool enabled;
};

/* Does this call fail? */
static bool fails(atomic_int *times)
{
    int left = atomic_load(times);

    while (left > 0 && !atomic_compare_exchange_weak(times, &left, left - 1))
        ;
    return left != 0;
}

static int fail_full(void)
{
    int code = counter.full_code ? counter.full_code : -ENOMEM;

    return hmreg_fail_vendor(code, "ofi", -code, "as asked",
                             "the test's fabric has no room for more than %u regions",
                             counter.room);
}

static bool take_room(void)
{
    unsigned now = atomic_load(&counter.regions), most;

    do {
        if (counter.room && now >= counter.room)
            return false;
    } while (!atomic_compare_exchange_weak(&counter.regions, &now, now + 1));
    most = atomic_load(&counter.most);
    while (most < now + 1 && !atomic_compare_exchange_weak(&counter.most, &most, now + 1))
        ;
    return true;
}

static int reg(void *self, const struct provider_request *request, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    void (*hook)(const struct provider_request *request) = counter.reg_hook;
    struct counter_region *region;
    unsigned serial = atomic_fetch_add(&counter.regs, 1) + 1;

    if (hook)
        hook(request);
    if (fails(&counter.reg_times))
        return hmreg_fail_vendor(atomic_load(&counter.reg_code), "ofi", 4711, "as asked",
                                 "the test's fabric was asked to fail");
    if (!take_room())
        return fail_full();
    if (counter.room_bytes &&
        atomic_load(&counter.bytes) + request->iov[0].iov_len > counter.room_bytes) {
        atomic_fetch_sub(&counter.regions, 1);
        return fail_full();
    }
    atomic_fetch_add(&counter.bytes, request->iov[0].iov_len);
    region = malloc(sizeof(*region)); /* the test may make the library's calloc() fail */
    assert_non_null(region);
    *region = (struct counter_region){.key = serial, .len = request->iov[0].iov_len};
    if (counter.look)
        memcpy(&region->seen, request->iov[0].iov_base, sizeof(region->seen));
    *out = (struct hmreg_mr_keys){.native = region, .priv = region, .key = serial};
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    void (*hook)(uint64_t key) = counter.dereg_hook;
    struct counter_region *region = mr->priv;
    int code = atomic_load(&counter.dereg_code);

    atomic_fetch_add(&counter.deregs, 1);
    if (hook)
        hook(region->key);
    if (fails(&counter.dereg_times)) {
        hmreg_fail_vendor(code, "ofi", 4712, "as asked", "the test's fabric was asked to fail");
        if (code == -EBUSY)
            return code;
    } else {
        code = 0;
    }
    if (region->endpoint)
        return hmreg_fail(-EBUSY, "the region is bound to an endpoint");
    atomic_fetch_sub(&counter.regions, 1);
    atomic_fetch_sub(&counter.bytes, region->len);
    free(region);
    return code;
}

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    if (path != HMREG_PATH_DMABUF)
        return 0;
    return hmreg_refuse(why, -EOPNOTSUPP, "test-by-address-only",
                        "the test's fabric registers by address only");
}

static enum provider_room room(void *self, int rc)
{
    return (enum provider_room)counter.says;
}

static void destroy(void *self)
{
    if (counter.destroy_hook)
        counter.destroy_hook();
}

static const struct provider_ops counter_ops = {
    .name = "ofi", .can = can, .reg = reg, .room = room, .dereg = dereg, .destroy = destroy};

static int fail_ready(const char *call)
{
    return hmreg_fail_vendor(counter.ready_code, "ofi", 4713, "as asked",
                             "the test's fabric was asked to fail to %s", call);
}

static int bind_endpoint(void *self, const struct hmreg_mr_keys *mr, void *object, uint64_t flags)
{
    struct counter_region *region = mr->priv;

    assert_false(region->endpoint || region->enabled || flags);
    if (atomic_fetch_add(&counter.binds, 1) + 1 == counter.bind_fails)
        return fail_ready("bind");
    region->endpoint = object;
    return 0;
}

static int enable(void *self, const struct hmreg_mr_keys *mr)
{
    struct counter_region *region = mr->priv;

    assert_true(region->endpoint && !region->enabled);
    if (atomic_fetch_add(&counter.enables, 1) + 1 == counter.enable_fails)
        return fail_ready("enable");
    region->enabled = true;
    return 0;
}

static void unbind(void *self, struct hmreg_mr_keys *mr)
{
    ((struct counter_region *)mr->priv)->endpoint = NULL;
}

static const struct provider_ops binding_ops = {.name = "ofi",
                                                .can = can,
                                                .reg = reg,
                                                .room = room,
                                                .dereg = dereg,
                                                .bind = bind_endpoint,
                                                .enable = enable,
                                                .unbind = unbind};

static int try_on(struct hmreg *lib, const struct hmreg_domain_config *config, bool any_thread,
                  uint32_t more_modes, struct hmreg_domain **out)
{
    struct provider_caps caps = {
        .fabric = "test",
        .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY | HMREG_MR_HMEM | more_modes,
        .key_size = 8,
        .iov_limit = 1,
        .max_len = 1ull << 40,
        .any_thread = any_thread,
    };

    return hmreg_domain_create(lib, more_modes & HMREG_MR_ENDPOINT ? &binding_ops : &counter_ops,
                               &caps, NULL, config, out);
}

int counter_try(struct hmreg *lib, const struct hmreg_domain_config *config,
                struct hmreg_domain **out)
{
    return try_on(lib, config, false, 0, out);
}

static struct hmreg_domain *open_on(struct hmreg *lib, const struct hmreg_domain_config *config,
                                    bool any_thread, uint32_t more_modes)
{
    struct hmreg_domain *domain;

    assert_ok(try_on(lib, config, any_thread, more_modes, &domain));
    return domain;
}

struct hmreg_domain *counter_open_more(struct hmreg *lib, const struct hmreg_domain_config *config)
{
    return open_on(lib, config, false, 0);
}

struct hmreg_domain *counter_open(struct hmreg *lib, const struct hmreg_domain_config *config)
{
    counter = (struct counter){.regs = 0};
    return counter_open_more(lib, config);
}

struct hmreg_domain *counter_open_served(struct hmreg *lib,
                                         const struct hmreg_domain_config *config)
{
    counter = (struct counter){.regs = 0};
    return open_on(lib, config, true, 0);
}

struct hmreg_domain *counter_open_binding(struct hmreg *lib,
                                          const struct hmreg_domain_config *config)
{
    return open_on(lib, config, false, HMREG_MR_ENDPOINT);
}

struct hmreg_domain *counter_open_allocated(struct hmreg *lib)
{
    return open_on(lib, NULL, false, HMREG_MR_ALLOCATED);
}

const void *counter_endpoint(const struct hmreg_mr *mr)
{
    const struct counter_region *region = hmreg_mr_head_of(mr)->keys->native;

    return region->enabled ? region->endpoint : NULL;
}

uint64_t counter_seen(const struct hmreg_mr *mr)
{
    return ((struct counter_region *)hmreg_mr_head_of(mr)->keys->native)->seen;
}
