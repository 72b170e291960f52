/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_invalidate(), hmreg_domain_flush(), hmreg_domain_progress() and
 * hmreg_domain_close() in rows: what is cached, who holds it, and which registrations end. The NICs
 * of a world may be called in calls with their domain only: hmreg_invalidate() calls none.
 */
#include "tests/support/table.h"

#include <hmreg/job.h>

#define LEN 4096u

struct args {
    int usual_;
    enum { HOST, GPU, ADDRESS } of;
    uint64_t at, len;
    bool null; /* the library, or the domain */
};

static void get_three(void)
{
    for (unsigned i = 0; i < 3; i++)
        world_key(world.host + i * LEN, LEN);
}

static void get_device(void)
{
    world_key(world.gpu[1], LEN);
}

static struct hmreg_mr *held;

static void put_held(void)
{
    hmreg_mr_put(held);
}

static void hold_the_second(void)
{
    get_three();
    held = world_get(world.host + LEN, LEN);
    test_after(put_held);
}

static void close_held(void)
{
    assert_ok(hmreg_mr_close(held));
}

static void register_it(void)
{
    assert_ok(hmreg_mr_reg(world.domain, world.host, LEN, HMREG_ACCESS_ALL, 0, 0, 0, &held, NULL));
    test_after(close_held);
}

static void get_on_both(void)
{
    struct hmreg_mr *mr = NULL;

    get_three();
    assert_ok(hmreg_mr_get(world.nic[1], world.host, LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
}

static void get_a_large_one(void)
{
    world_key(world.host, 2 * LEN);
}

static void the_second_is_busy(void)
{
    get_three();
    world.busy = 2;
}

static void the_second_fails(void)
{
    get_three();
    world_fail("dereg", 2, 0, -EIO);
}

static void one_is_retired(void)
{
    assert_int_equal(world_stats().retired, 1);
    assert_int_equal(world_stats().regions, 2);
}

/* It is tried once per call. */
static void one_has_been_busy(void)
{
    get_three();
    world_change(world.host, LEN);
    world_fail("dereg", 1, 1, -EBUSY);
    world_key(world.host + LEN, LEN);
    one_is_retired();
}

static void change_the_second(void)
{
    get_three();
    world_change(world.host + LEN, 1);
}

static void change_the_held(void)
{
    hold_the_second();
    world_change(world.host + LEN, 1);
}

static void a_rail_is_busy(void)
{
    get_a_large_one();
    world.busy = 2;
}

static void again_ends_it(void)
{
    assert_int_equal(world_stats().retired, 1);
    world_heal();
    assert_ok(hmreg_domain_progress(world.domain));
    assert_int_equal(world_live(WORLD_EACH), 0);
    assert_int_equal(world_calls("dereg"), 3);
}

static void none_is_left(void)
{
    assert_int_equal(world_stats().regions, 0);
    assert_int_equal(world_stats().retired, 0);
}

static void one_stays_retired(void)
{
    assert_int_equal(world_stats().regions, 0);
    assert_int_equal(world_stats().retired, 1);
}

static void held_one_serves(void)
{
    assert_int_equal(world_stats().regions, 1);
    assert_int_equal(world_key(world.host + LEN, LEN), 2);
}

static void get_registers(void)
{
    assert_int_equal(world_key(world.host + LEN, LEN), 4);
}

/* ---- hmreg_invalidate() ----------------------------------------------------------------- */

/* How many regions of the first domain it ends; then what the domains' next calls end. */
#define ENDS(number, log) RETURNS(number, log)
#define WRONG(text)       FAILS(-EINVAL, text, "")

static const struct row invalidations[] = {
    {"lib is NULL", ARGS(HOST, 0, LEN, .null = true), WRONG("lib is NULL")},
    {"addr is NULL", ARGS(ADDRESS, 0, LEN), WRONG("addr is NULL")},
    {"len is 0", ARGS(HOST, 0, 0), WRONG("len is 0")},
    {"the range wraps", ARGS(HOST, 0, SIZE_MAX), WRONG("wraps")},

    {"nothing is cached", ARGS(HOST, 0, LEN), ENDS(0, "")},
    {"the same range", .before = get_three, ARGS(HOST, LEN, LEN), ENDS(1, "nic0.dereg")},
    {"its first byte", .before = get_three, ARGS(HOST, LEN, 1), ENDS(1, "nic0.dereg")},
    {"its last byte", .before = get_three, ARGS(HOST, 2 * LEN - 1, 1), ENDS(1, "nic0.dereg")},
    {"two, by a byte of each", .before = get_three, ARGS(HOST, LEN - 1, 2),
     ENDS(2, "nic0.dereg nic0.dereg")},
    {"all", .before = get_three, ARGS(HOST, 0, WORLD_BYTES),
     ENDS(3, "nic0.dereg nic0.dereg nic0.dereg")},
    {"the byte behind them", .before = get_three, ARGS(HOST, 3 * LEN, LEN), ENDS(0, "")},
    {"device memory", .before = get_device, ARGS(GPU, LEN - 1, 1), ENDS(1, "nic0.dereg")},
    {"the byte behind device memory's", .before = get_device, ARGS(GPU, LEN, 1), ENDS(0, "")},
    {"a region of several parts", .as = {.max_len = LEN}, .before = get_a_large_one,
     ARGS(HOST, 2 * LEN - 1, 1), ENDS(1, "nic0.dereg nic0.dereg")},
    {"a group", .as = {.nics = 2, .group = true}, .before = get_a_large_one, ARGS(HOST, 0, 1),
     ENDS(1, "nic0.dereg nic1.dereg")},
    {"two domains", .as = {.nics = 2}, .before = get_on_both, ARGS(HOST, 0, 1),
     ENDS(1, "nic0.dereg nic1.dereg")},
    {"it is held", .before = hold_the_second, ARGS(HOST, LEN, LEN), ENDS(1, ""),
     .after = get_registers},
    {"a group's is held", .as = {.nics = 2, .group = true}, .before = hold_the_second,
     ARGS(HOST, LEN, LEN), ENDS(1, "")},
    {"no cached region", .before = register_it, ARGS(HOST, 0, LEN), ENDS(0, "")},
    {"the NIC is busy with it", .before = the_second_is_busy, ARGS(HOST, LEN, LEN),
     ENDS(1, "nic0.dereg"), .after = one_is_retired},
};

static int invalidate(const struct row *row)
{
    const struct args *args = row->args;
    char *base = args->of == HOST ? world.host : args->of == GPU ? world.gpu[1] : NULL;
    int rc = hmreg_invalidate(args->null ? NULL : world.lib, table_at(base, args->at), args->len);

    assert_string_equal(world_log(), "");
    if (rc)
        return rc;
    assert_int_equal(world_stats().invalidations, row->value);
    for (unsigned i = 0; i < world.nics; i++)
        assert_ok(hmreg_domain_progress(world.nic[i]));
    return world.domain == world.nic[0] ? 0 : hmreg_domain_progress(world.domain);
}

TEST(invalidate__each_row)
{
    CHECK_EACH(invalidations, invalidate);
}

TEST(invalidate__another_library__ends_none_of_this_one)
{
    struct hmreg *other = NULL;

    world_open();
    get_three();
    assert_ok(hmreg_open(NULL, &other));
    assert_ok(hmreg_invalidate(other, world.host, LEN));
    assert_int_equal(world_key(world.host, LEN), 1);
    assert_ok(hmreg_close(other));
}

/* ---- hmreg_domain_flush() and hmreg_domain_progress() ----------------------------------- */

static const struct row flushes[] = {
    {"domain is NULL", ARGS(.null = true), WRONG("domain is NULL")},
    {"nothing is cached", ENDS(0, "")},
    {"three are cached", .before = get_three, ENDS(0, "nic0.dereg nic0.dereg nic0.dereg"),
     .after = none_is_left},
    {"one of them is held", .before = hold_the_second, ENDS(1, "nic0.dereg nic0.dereg"),
     .after = held_one_serves},
    {"one of them is held, and its memory has changed", .before = change_the_held,
     ENDS(1, "nic0.dereg nic0.dereg"), .after = one_stays_retired},
    {"the NIC is busy with one", .before = the_second_is_busy,
     ENDS(1, "nic0.dereg nic0.dereg nic0.dereg"), .after = one_stays_retired},
    {"the NIC was busy with one, and is", .before = one_has_been_busy,
     ENDS(1, "nic0.dereg nic0.dereg nic0.dereg"), .after = one_stays_retired},
    {"the NIC fails", .before = the_second_fails, ENDS(0, "nic0.dereg nic0.dereg nic0.dereg"),
     .after = none_is_left},
    {"a group", .as = {.nics = 2, .group = true}, .before = get_a_large_one,
     ENDS(0, "nic0.dereg nic1.dereg")},
    {"a group, of which the NIC is busy with a rail", .as = {.nics = 2, .group = true},
     .before = a_rail_is_busy, ENDS(1, "nic0.dereg nic1.dereg"), .after = again_ends_it},
    {"a group, whose member has its own", .as = {.nics = 2, .group = true}, .before = get_on_both,
     ENDS(1, "nic0.dereg nic1.dereg nic0.dereg nic1.dereg nic0.dereg nic1.dereg")},
    {"no cached region", .before = register_it, ENDS(1, "")},
};

static const struct row progresses[] = {
    {"domain is NULL", ARGS(.null = true), WRONG("domain is NULL")},
    {"three are cached", .before = get_three, ENDS(3, "")},
    {"one has changed", .before = change_the_second, ENDS(2, "nic0.dereg")},
    {"one has changed, and is held", .before = change_the_held, ENDS(3, ""),
     .after = one_is_retired},
};

static int flush(const struct row *row)
{
    int rc = hmreg_domain_flush(row->args ? NULL : world.domain);

    assert_int_equal(world_live(WORLD_EACH), row->value);
    return rc;
}

static int progress(const struct row *row)
{
    int rc = hmreg_domain_progress(row->args ? NULL : world.domain);

    assert_int_equal(world_live(WORLD_EACH), row->value);
    return rc;
}

TEST(flush__each_row)
{
    CHECK_EACH(flushes, flush);
}

TEST(progress__each_row)
{
    CHECK_EACH(progresses, progress);
}

/* ---- hmreg_domain_close() --------------------------------------------------------------- */

#define BUSY(text, log) FAILS(-EBUSY, text, log)

static struct hmreg_remote *remote;
static struct hmreg_job *job;

static void close_remote(void)
{
    hmreg_remote_close(remote);
}

static void open_remote(void)
{
    struct hmreg_mr *mr = world_get(world.host, LEN);

    remote = test_remote_of(world.domain, mr);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_flush(world.domain));
    test_after(close_remote);
}

static void close_job(void)
{
    assert_ok(hmreg_job_close(job));
}

static void start_job(void)
{
    struct iovec range = {world.host, 4 * LEN};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &range, .iov_count = 1, .access = HMREG_SEND};

    assert_ok(hmreg_job_start(world.domain, &attr, 0, NULL, &job));
    test_after(close_job);
}

static void nic_is_busy(void)
{
    get_three();
    world.busy = WORLD_EACH;
}

static const struct row closings[] = {
    {"NULL", ARGS(.null = true), ENDS(0, "")},
    {"nothing is cached", ENDS(0, "")},
    {"three are cached", .before = get_three, ENDS(0, "nic0.dereg nic0.dereg nic0.dereg")},
    {"one has changed", .before = change_the_second, ENDS(0, "nic0.dereg nic0.dereg nic0.dereg")},
    {"the NIC fails", .before = the_second_fails, ENDS(0, "nic0.dereg nic0.dereg nic0.dereg")},
    {"one of them is held", .before = hold_the_second, BUSY("1 cached regions", "")},
    {"one of them is held, and its memory has changed", .before = change_the_held,
     BUSY("1 cached regions", "")},
    {"a region is open", .before = register_it, BUSY("1 regions", "")},
    {"a remote is open", .before = open_remote, BUSY("1 remotes", "")},
    {"a job is open", .before = start_job, BUSY("1 jobs", "")},
    {"a group has it", .as = {.nics = 2, .group = true}, BUSY("1 groups", "")},
    {"the NIC is busy", .before = nic_is_busy,
     BUSY("3 cached regions", "nic0.dereg nic0.dereg nic0.dereg")},
};

static int close_domain(const struct row *row)
{
    int rc = hmreg_domain_close(row->args ? NULL : world.nic[0]);

    if (rc || row->args)
        return rc;
    if (world.domain == world.nic[0])
        world.domain = NULL;
    world.nic[0] = NULL;
    assert_int_equal(world_live(WORLD_EACH), 0);
    return 0;
}

TEST(close__each_row)
{
    CHECK_EACH(closings, close_domain);
}

TEST_MAIN()
