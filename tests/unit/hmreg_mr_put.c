/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_mr_put() in rows: which region, who else holds it, and which registrations
 * end before the put returns. A put has no result: what fails is logged, or done by a later call.
 */
#include "tests/support/table.h"

#include <hmreg/suspend.h>

#define LEN 4096u

struct args {
    int usual_;
    bool null, rail; /* else it is what was held first */
};

/* How many registrations are left. */
#define LEFT(number, log) RETURNS(number, log)

#define LAST_PUT .domain.policy = HMREG_POLICY_LAST_PUT
static const struct hmreg_domain_config last_put = {.size = sizeof(last_put),
                                                    .policy = HMREG_POLICY_LAST_PUT};
static const struct hmreg_domain_config no_cache = {.size = sizeof(no_cache),
                                                    .flags = HMREG_DOMAIN_NO_CACHE};
#define NO_CACHE .domain.flags = HMREG_DOMAIN_NO_CACHE

static struct hmreg_mr *held[2];
static unsigned count;

static void put_all(void)
{
    while (count)
        hmreg_mr_put(held[--count]);
}

static void hold(const void *addr, size_t len)
{
    held[count++] = world_get(addr, len);
    test_after(put_all);
}

static void hold_it(void)
{
    hold(world.host, 2 * LEN);
}

static void hold_twice(void)
{
    hold_it();
    hold(world.host + LEN, LEN);
}

static void hold_device(void)
{
    hold(world.gpu[1], LEN);
}

static void hold_one_too_many(void)
{
    hold_it();
    hold(world.host + 2 * LEN, LEN);
    hmreg_mr_put(held[0]);
    held[0] = held[--count];
}

static void hold_and_change(void)
{
    hold_it();
    world_change(world.host, 1);
}

/* A call with the domain finds what has changed. */
static void hold_change_and_look(void)
{
    hold_and_change();
    assert_int_equal(world_stats().retired, 1);
}

static void hold_twice_and_change(void)
{
    hold_twice();
    world_change(world.host, 1);
}

static void hold_and_renew(void)
{
    hold_device();
    world_renew(world.gpu[1]);
}

static void end_suspension(void)
{
    assert_ok(hmreg_resume(world.lib, world.host, LEN, NULL));
}

static void hold_and_suspend(void)
{
    hold_it();
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
    test_after(end_suspension);
}

static void hold_and_resume(void)
{
    hold_it();
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
    end_suspension();
}

static void hold_a_claim(void)
{
    assert_ok(hmreg_mr_get(world.domain, world.host, LEN, HMREG_SEND | HMREG_GET_HOST, &held[0]));
    count = 1;
    test_after(put_all);
}

static void be_busy(void)
{
    hold_it();
    world.busy = 1;
}

static void nic_fails(void)
{
    hold_it();
    world_fail("dereg", 1, 0, -EIO);
}

/* A later call tries again. */
static void progress(void)
{
    assert_int_equal(world_stats().retired, 1);
    assert_ok(hmreg_domain_progress(world.domain));
    assert_int_equal(world_live(WORLD_EACH), 1);
    world_heal();
    assert_ok(hmreg_domain_progress(world.domain));
    assert_int_equal(world_live(WORLD_EACH), 0);
    assert_int_equal(world_stats().retired, 0);
}

static void get_finds_it(void)
{
    assert_int_equal(world_key(world.host, LEN), 1);
}

static void get_registers(void)
{
    assert_int_equal(world_key(world.host, LEN), 2);
}

static void is_uncounted(void)
{
    assert_int_equal(world_stats().regions, 0);
    assert_int_equal(world_stats().retired, 0);
}

static const struct row rows[] = {
    {"NULL", ARGS(.null = true), LEFT(0, "")},
    {"a rail, which is no get's", .as = {.nics = 2, .group = true, .groups.domain = &last_put},
     .before = hold_it, ARGS(.rail = true), LEFT(2, "")},

    /* the policy KEEP, which is the usual one */
    {"it was held once", .before = hold_it, LEFT(1, ""), .after = get_finds_it},
    {"it is held twice", .before = hold_twice, LEFT(1, ""), .after = get_finds_it},
    {"device memory", .before = hold_device, LEFT(1, "")},
    {"by the caller's claim", .before = hold_a_claim, LEFT(1, "")},
    {"its memory has changed", .before = hold_change_and_look, LEFT(0, "nic0.dereg"),
     .after = get_registers},
    {"its memory has changed, of a group", .as = {.nics = 2, .group = true},
     .before = hold_change_and_look, LEFT(0, "nic0.dereg nic1.dereg")},
    {"its memory has changed, which the next get finds", .before = hold_and_change, LEFT(1, ""),
     .after = get_registers},
    {"its memory has changed, it is held twice", .before = hold_twice_and_change, LEFT(1, ""),
     .after = get_registers},
    {"its memory was freed and allocated again, which none has asked", .before = hold_and_renew,
     LEFT(1, "")},
    {"the cache is full of what others hold", .as = {.domain.max_regions = 1},
     .before = hold_one_too_many, LEFT(1, "nic0.dereg")},
    {"it is suspended", .before = hold_and_suspend, LEFT(0, "")},

    /* the other ones */
    {"LAST_PUT, it was held once", .as = {LAST_PUT}, .before = hold_it, LEFT(0, "nic0.dereg"),
     .after = is_uncounted},
    {"LAST_PUT, it is held twice", .as = {LAST_PUT}, .before = hold_twice, LEFT(1, "")},
    {"LAST_PUT, device memory", .as = {LAST_PUT}, .before = hold_device, LEFT(0, "nic0.dereg")},
    {"LAST_PUT, its memory has changed", .as = {LAST_PUT}, .before = hold_and_change,
     LEFT(0, "nic0.dereg")},
    {"LAST_PUT, it was suspended", .as = {LAST_PUT}, .before = hold_and_resume,
     LEFT(0, "nic0.dereg")},
    {"LAST_PUT, without a monitor", .as = {LAST_PUT, .monitor = HMREG_MONITOR_DISABLED},
     .before = hold_it, LEFT(0, "nic0.dereg")},
    {"LAST_PUT, of several parts", .as = {LAST_PUT, .max_len = LEN}, .before = hold_it,
     LEFT(0, "nic0.dereg nic0.dereg")},
    {"LAST_PUT, of a group", .as = {.nics = 2, .group = true, .groups.domain = &last_put},
     .before = hold_it, LEFT(0, "nic0.dereg nic1.dereg")},
    {"without a cache", .as = {NO_CACHE}, .before = hold_it, LEFT(0, "nic0.dereg"),
     .after = is_uncounted},
    {"without a cache, of a group", .as = {.nics = 2, .group = true, .groups.domain = &no_cache},
     .before = hold_it, LEFT(0, "nic0.dereg nic1.dereg")},
    {"without a cache, another has the same", .as = {NO_CACHE}, .before = hold_twice,
     LEFT(1, "nic0.dereg")},
    {"without a monitor", .as = {.monitor = HMREG_MONITOR_DISABLED}, .before = hold_it,
     LEFT(0, "nic0.dereg")},

    /* NICs that fail */
    {"LAST_PUT, the NIC is busy with it", .as = {LAST_PUT}, .before = be_busy,
     LEFT(1, "nic0.dereg"), .after = progress},
    {"without a cache, the NIC is busy with it", .as = {NO_CACHE}, .before = be_busy,
     LEFT(1, "nic0.dereg"), .after = progress},
    {"LAST_PUT, the NIC fails", .as = {LAST_PUT}, .before = nic_fails, LEFT(0, "nic0.dereg"),
     .after = is_uncounted},
};

static int put(const struct row *row)
{
    struct hmreg_mr *mr = held[0];
    const struct args *args = row->args;

    if (args) {
        hmreg_mr_put(args->rail ? hmreg_mr_rail(mr, 1) : NULL);
    } else {
        held[0] = held[--count];
        hmreg_mr_put(mr);
    }
    assert_int_equal(world_live(WORLD_EACH), row->value);
    return 0;
}

TEST(put__each_row)
{
    CHECK_EACH(rows, put);
}

TEST_MAIN()
