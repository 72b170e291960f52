/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_domain_plan() in rows: whose memory, how much of it, and on which domain;
 * then the path, the regions, and the limits. plan.c has the system's limits, and NICs that pin.
 */
#include "tests/support/table.h"

#include <hmreg/plan.h>

#define MIB (UINT64_C(1) << 20)

struct args {
    int usual_;
    enum hmreg_iface iface;
    int device;
    uint64_t len;
    enum { ALL, NO_DOMAIN, NO_OUT, SHORT_OUT } with;
    /* What is planned: */
    enum hmreg_path path;
    uint64_t region_len, last_len, exports, fits, cacheable;
};

#define HOST(...)         ARGS(HMREG_IFACE_SYSTEM, -1, __VA_ARGS__)
#define CUDA(...)         ARGS(HMREG_IFACE_CUDA, 0, __VA_ARGS__)
#define WRONG(text)       FAILS(-EINVAL, text, "")
#define ON(name)          .path = HMREG_PATH_##name
#define EACH(bytes, last) .region_len = (bytes), .last_len = (last)
#define FITS(bytes, held) .fits = (bytes), .cacheable = (held)
#define REGIONS(number)   RETURNS(number, NULL)

static struct hmreg_plan plan;

static void no_path(void)
{
    for (int path = 0; path < HMREG_PATH_COUNT; path++)
        world.cannot[path] = -EOPNOTSUPP;
}

static void no_dmabuf(void)
{
    world.cannot[HMREG_PATH_DMABUF] = -EOPNOTSUPP;
}

/* A region that is there does not count. */
static void get_one(void)
{
    world_key(world.host, 4096);
}

static void registers_nothing(void)
{
    assert_int_equal(world_calls("reg"), 0);
}

static void no_limit_of(enum hmreg_plan_kind kind, const char *words)
{
    assert_true(plan.limits[kind].limit == HMREG_LIMIT_NONE);
    assert_true(plan.limits[kind].fits == plan.len);
    assert_non_null(strstr(plan.limits[kind].text, words));
}

static void nothing_is_pinned(void)
{
    assert_int_equal(plan.pinned, 0);
    no_limit_of(HMREG_PLAN_MEMLOCK, "pins no host memory");
    no_limit_of(HMREG_PLAN_MEMORY, "pins no host memory");
    no_limit_of(HMREG_PLAN_MAX_MR, "states no number of regions");
    no_limit_of(HMREG_PLAN_DESCRIPTORS, "needs no dmabuf");
    registers_nothing();
}

static void is_split_in_five(void)
{
    const struct hmreg_plan_limit *limit = &plan.limits[HMREG_PLAN_MAX_LEN];

    assert_true(limit->limit == 2 * MIB && limit->fits == 9 * MIB);
    assert_non_null(strstr(limit->text, "at most 2097152 bytes; the range takes 5"));
    registers_nothing();
}

static void states_no_longest(void)
{
    no_limit_of(HMREG_PLAN_MAX_LEN, "states no longest region");
}

static void check_caches(uint64_t regions, uint64_t bytes, const char *words)
{
    const struct hmreg_plan_limit *limits = plan.limits;

    assert_true(limits[HMREG_PLAN_CACHE_REGIONS].limit == regions);
    assert_true(limits[HMREG_PLAN_CACHE_REGIONS].needed == plan.regions);
    assert_true(limits[HMREG_PLAN_CACHE_BYTES].limit == bytes);
    assert_true(limits[HMREG_PLAN_CACHE_BYTES].needed == plan.len);
    assert_non_null(strstr(limits[HMREG_PLAN_CACHE_REGIONS].text, words));
    assert_non_null(strstr(limits[HMREG_PLAN_CACHE_BYTES].text, words));
}

static void two_and_five_mib(void)
{
    check_caches(2, 5 * MIB, "a cache holds at most ");
    assert_true(plan.limits[HMREG_PLAN_CACHE_REGIONS].fits == 4 * MIB);
    assert_true(plan.limits[HMREG_PLAN_CACHE_BYTES].fits == 4 * MIB);
}

static void no_cache(void)
{
    check_caches(0, 0, "the domain has no cache");
}

static void needs_a_descriptor(void)
{
    const struct hmreg_plan_limit *limit = &plan.limits[HMREG_PLAN_DESCRIPTORS];

    assert_true(limit->needed > 1 && limit->needed <= limit->limit);
    assert_true(limit->fits == plan.len);
    registers_nothing();
}

static const struct row rows[] = {
    {"domain is NULL", HOST(1, NO_DOMAIN), WRONG("domain is NULL")},
    {"out is NULL", HOST(1, NO_OUT), WRONG("out is NULL")},
    {"out->size is 8", HOST(1, SHORT_OUT), WRONG("struct hmreg_plan")},
    {"len is 0", HOST(0), WRONG("len is 0")},
    {"no iface", ARGS((enum hmreg_iface)(HMREG_IFACE_MAX + 1), 0, 1), WRONG("iface is 16")},
    {"no device of the iface", ARGS(HMREG_IFACE_CUDA, 9, 1), FAILS(-ENODEV, "9", NULL)},
    {"no device of the host", ARGS(HMREG_IFACE_SYSTEM, 9, 1), FAILS(-ENODEV, "9", "")},

    /* a range, and the fabric's longest region */
    {"a byte", HOST(1, ON(SYSTEM), EACH(1, 1), FITS(1, 1)), REGIONS(1), .after = nothing_is_pinned},
    {"a byte beside a region", .before = get_one, HOST(1, ON(SYSTEM), EACH(1, 1), FITS(1, 1)),
     REGIONS(1), .after = nothing_is_pinned},
    {"device 0 of the host", ARGS(HMREG_IFACE_SYSTEM, 0, 1, ON(SYSTEM), EACH(1, 1), FITS(1, 1)),
     REGIONS(1)},
    {"the longest region", .as = {.max_len = 2 * MIB},
     HOST(2 * MIB, ON(SYSTEM), EACH(2 * MIB, 2 * MIB), FITS(2 * MIB, 2 * MIB)), REGIONS(1)},
    {"a byte more", .as = {.max_len = 2 * MIB},
     HOST(2 * MIB + 1, ON(SYSTEM), EACH(2 * MIB, 1), FITS(2 * MIB + 1, 2 * MIB + 1)), REGIONS(2)},
    {"several regions and a rest", .as = {.max_len = 2 * MIB},
     HOST(9 * MIB, ON(SYSTEM), EACH(2 * MIB, MIB), FITS(9 * MIB, 9 * MIB)), REGIONS(5),
     .after = is_split_in_five},
    {"at multiples of 2 MiB", .as = {.max_len = 5 * MIB + 4096},
     HOST(9 * MIB, ON(SYSTEM), EACH(4 * MIB, MIB), FITS(9 * MIB, 9 * MIB)), REGIONS(3)},
    {"at multiples of a page", .as = {.max_len = 3 * 4096 + 1},
     HOST(8 * 4096, ON(SYSTEM), EACH(3 * 4096, 2 * 4096), FITS(8 * 4096, 8 * 4096)), REGIONS(3)},
    {"regions shorter than a page", .as = {.max_len = 100},
     HOST(250, ON(SYSTEM), EACH(100, 50), FITS(250, 250)), REGIONS(3)},
    {"no longest region", .as = {.max_len = UINT64_MAX},
     HOST(MIB, ON(SYSTEM), EACH(MIB, MIB), FITS(MIB, MIB)), REGIONS(1), .after = states_no_longest},
    {"of a group", .as = {.nics = 2, .group = true, .max_len = 2 * MIB},
     HOST(9 * MIB, ON(SYSTEM), EACH(2 * MIB, MIB), FITS(9 * MIB, 9 * MIB)), REGIONS(5),
     .after = is_split_in_five},

    /* caches */
    {"caches of less",
     .as = {.max_len = 2 * MIB, .domain = {.max_regions = 2, .max_bytes = 5 * MIB}},
     HOST(9 * MIB, ON(SYSTEM), EACH(2 * MIB, MIB), FITS(9 * MIB, 4 * MIB)), REGIONS(5),
     .after = two_and_five_mib},
    {"caches of fewer regions", .as = {.max_len = 2 * MIB, .domain.max_regions = 3},
     HOST(9 * MIB, ON(SYSTEM), EACH(2 * MIB, MIB), FITS(9 * MIB, 6 * MIB)), REGIONS(5)},
    {"caches of fewer bytes", .as = {.max_len = 2 * MIB, .domain.max_bytes = 3 * MIB},
     HOST(9 * MIB, ON(SYSTEM), EACH(2 * MIB, MIB), FITS(9 * MIB, 2 * MIB)), REGIONS(5)},
    {"no cache", .as = {.domain.flags = HMREG_DOMAIN_NO_CACHE},
     HOST(4096, ON(SYSTEM), EACH(4096, 4096), FITS(4096, 0)), REGIONS(1), .after = no_cache},

    /* devices' memory */
    {"a device's", .as = {.max_len = 2 * MIB},
     CUDA(8 * MIB, ON(DMABUF), EACH(2 * MIB, 2 * MIB), .exports = 4, FITS(8 * MIB, 8 * MIB)),
     REGIONS(4), .after = needs_a_descriptor},
    {"a device's, without dmabuf", .before = no_dmabuf,
     CUDA(8 * MIB, ON(PEERMEM), EACH(8 * MIB, 8 * MIB), FITS(8 * MIB, 8 * MIB)), REGIONS(1),
     .after = nothing_is_pinned},
    {"of an iface without a runtime, whose dmabufs the caller exports", .as = {.max_len = 2 * MIB},
     ARGS(HMREG_IFACE_NEURON, HMREG_DEVICE_ANY, 8 * MIB, ON(DMABUF), EACH(2 * MIB, 2 * MIB),
          FITS(8 * MIB, 8 * MIB)),
     REGIONS(4), .after = nothing_is_pinned},
    {"a device's, every path is refused", .before = no_path,
     CUDA(4096, ON(NONE), EACH(4096, 4096), FITS(0, 0)), REGIONS(1), .after = registers_nothing},
};

/* ---- each row --------------------------------------------------------------------------- */

static void check_plan(const struct args *args)
{
    assert_int_equal(plan.size, sizeof(plan));
    assert_true(plan.len == args->len);
    assert_int_equal(plan.path, args->path);
    assert_true(plan.region_len == args->region_len);
    assert_true(plan.last_len == args->last_len);
    assert_true(plan.exports == args->exports);
    assert_true(plan.fits == args->fits);
    assert_true(plan.cacheable == args->cacheable);
    for (int i = 0; i < HMREG_PLAN_KINDS; i++)
        assert_true(plan.limits[i].text[0] && plan.limits[i].fits <= plan.len);
}

static int make_plan(const struct row *row)
{
    const struct args *args = row->args;
    size_t size = args->with == SHORT_OUT ? 8 : sizeof(plan);
    int rc;

    plan = (struct hmreg_plan){.size = size, .len = 5};
    rc = hmreg_domain_plan(args->with == NO_DOMAIN ? NULL : world.domain, args->iface, args->device,
                           args->len, args->with == NO_OUT ? NULL : &plan);
    if (rc) {
        assert_true(plan.size == size && plan.len == 5);
        return rc;
    }
    table_value(row, plan.regions);
    check_plan(args);
    return 0;
}

TEST(plan__each_row)
{
    CHECK_EACH(rows, make_plan);
}

TEST_MAIN()
