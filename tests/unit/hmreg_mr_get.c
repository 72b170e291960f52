/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_mr_get() in rows: arguments and state, result, error, and every call that
 * it makes of vendors and NICs (table.h).
 */
#include "tests/support/table.h"

#include <hmreg/suspend.h>

#define LEN  4096u
#define BOTH HMREG_ACCESS_REMOTE /* the rights of most rows */

/* No runtime is spared: memory is the system's after each has said so. */
#define ASKED     "cuda.resolve rocr.resolve ze.resolve "
#define ASKED_GPU ASKED "cuda.watch "
/* The identity is compared with that of before. */
#define REGISTERED ASKED_GPU "cuda.export nic0.reg cuda.identity"

struct args {
    int usual_;
    enum { HOST, GPU, ADDRESS } of; /* at is an offset in world.host, world.gpu[1], or an address */
    uint64_t at, len, access;
    bool no_domain, no_mr;
};

#define MORE_LOCAL .as = {.domain.rights = HMREG_RIGHTS_LOCAL}
#define PAIR       .as = {.nics = 2, .group = true}
#define GET(...)   ARGS(__VA_ARGS__) /* returns the number of the (first) registration */

/* ---- arguments: refused before a runtime or a NIC is asked ------------------------------ */

static const struct row arguments[] = {
    {"domain is NULL", GET(HOST, 0, LEN, BOTH, .no_domain = true),
     FAILS(-EINVAL, "domain is NULL", "")},
    {"mr is NULL", GET(HOST, 0, LEN, BOTH, .no_mr = true), FAILS(-EINVAL, "mr is NULL", "")},
    {"addr is NULL", GET(ADDRESS, 0, LEN, BOTH), FAILS(-EINVAL, "addr is NULL", "")},
    {"len is 0", GET(HOST, 0, 0, BOTH), FAILS(-EINVAL, "len is 0", "")},
    {"len is 0, of the device", GET(GPU, 0, 0, BOTH), FAILS(-EINVAL, "len is 0", "")},
    {"the range wraps", GET(HOST, 0, SIZE_MAX, BOTH), FAILS(-EINVAL, "wraps", "")},
    {"the range ends with the last byte", GET(ADDRESS, UINTPTR_MAX - 10, 11, BOTH),
     FAILS(-EINVAL, "wraps", "")},
    {"access is 0", GET(HOST, 0, LEN, 0), FAILS(-EINVAL, "access has no right", "")},
    {"access is HMREG_GET_HOST only", GET(HOST, 0, LEN, HMREG_GET_HOST),
     FAILS(-EINVAL, "access has no right", "")},
    {"access has an unknown bit", GET(HOST, 0, LEN, BOTH | 1), FAILS(-EINVAL, "unknown bits", "")},
    {"longer than 1024 pieces", .as = {.max_len = 1u << 20}, GET(HOST, 0, (1u << 30) + 1, BOTH),
     FAILS(-EMSGSIZE, "1024 pieces of 1048576 bytes", "")},
    {"longer than max_len, of a domain of single regions",
     .as = {.max_len = LEN, .domain.flags = HMREG_DOMAIN_SINGLE}, GET(HOST, 0, LEN + 1, BOTH),
     FAILS(-EMSGSIZE, "HMREG_REG_PARTS", "")},
};

/* ---- host memory ------------------------------------------------------------------------ */

static void get_it(void)
{
    world_key(world.host, 2 * LEN);
}

static void get_behind(void)
{
    world_key(world.host + 1, LEN);
}

static void get_it_and_a_part(void)
{
    get_it();
    world_key(world.host, LEN);
}

static void get_for(uint64_t access)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(world.domain, world.host, 2 * LEN, access, &mr));
    hmreg_mr_put(mr);
}

static void get_by_claim(void)
{
    get_for(BOTH | HMREG_GET_HOST);
}

static void get_all_rights(void)
{
    get_for(HMREG_ACCESS_ALL);
}

static void get_to_send(void)
{
    get_for(HMREG_SEND);
}

static void get_near(void)
{
    world_key(world.host + 1024, 64);
}

static void get_and_change(void)
{
    get_it();
    world_change(world.host + 2 * LEN - 1, 1);
}

static void get_and_fill(void)
{
    get_it();
    world_fail("reg", 1, 0, -ENOMEM);
}

static void suspend(void)
{
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
}

static void nic_fails(void)
{
    world_fail("nic0.reg", 1, 0, -EIO);
}

static void second_reg_fails(void)
{
    world_fail("reg", 2, 0, -EIO);
}

static void runtime_fails(void)
{
    world_fail("rocr.resolve", 1, 0, -EIO);
}

static struct hmreg_mr *got;

static void next_get_registers(void)
{
    assert_int_equal(world_key(world.host, LEN), 2);
    assert_int_equal(world_key(world.host, LEN), 2);
}

static void evict_a_failing_one(void)
{
    get_it();
    world_fail("dereg", 1, 0, -EIO);
}

static void is_a_hit(void)
{
    assert_int_equal(test_info_of(got).addr, (uintptr_t)world.host);
    assert_int_equal(test_info_of(got).len, 2 * LEN);
    assert_true(test_info_of(got).cached);
    assert_int_equal(world_stats().hits, 1);
    assert_int_equal(world_stats().misses, 1);
}

static void is_uncached(void)
{
    assert_false(test_info_of(got).cached);
    assert_int_equal(world_stats().uncached, 2);
    assert_int_equal(world_stats().misses, 0);
}

/* Until a flush, the gets that follow do without it too. */
static void lacks_the_first_rail(void)
{
    assert_null(hmreg_mr_rail(got, 0));
    assert_int_equal(hmreg_last_error()->code, -EIO);
    assert_int_equal(hmreg_last_error()->vendor_code, 4712);
    assert_non_null(hmreg_mr_rail(got, 1));
    world_clear();
    world_key(world.host, LEN);
    assert_int_equal(world_calls("reg"), 0);
}

static const struct hmreg_domain_config one_region = {.size = sizeof(one_region), .max_regions = 1};

static const struct row host[] = {
    {"nothing is cached", GET(HOST, 0, LEN, BOTH), RETURNS(1, ASKED "nic0.reg")},
    {"the same was got", .before = get_it, GET(HOST, 0, 2 * LEN, BOTH), RETURNS(1, ""),
     .after = is_a_hit},
    {"a larger range was got", .before = get_it, GET(HOST, 1, LEN, BOTH), RETURNS(1, ""),
     .after = is_a_hit},
    {"a larger range was got, of an exact domain", .as = {.domain.flags = HMREG_DOMAIN_EXACT},
     .before = get_it, GET(HOST, 1, LEN, BOTH), RETURNS(2, ASKED "nic0.reg")},
    {"all but its last byte was got", .before = get_it, GET(HOST, LEN, LEN + 1, BOTH),
     RETURNS(2, ASKED "nic0.reg")},
    {"a byte less was got, from a byte before on", .before = get_it, GET(HOST, 1, 2 * LEN, BOTH),
     RETURNS(2, ASKED "nic0.reg")},
    {"all but its first byte was got", .before = get_behind, GET(HOST, 0, LEN + 1, BOTH),
     RETURNS(2, ASKED "nic0.reg")},
    {"it and a larger range were got, of an exact domain",
     .as = {.domain.flags = HMREG_DOMAIN_EXACT}, .before = get_it_and_a_part,
     GET(HOST, 0, LEN, BOTH), RETURNS(2, "")},
    {"a part and it were got, of an exact domain", .as = {.domain.flags = HMREG_DOMAIN_EXACT},
     .before = get_it_and_a_part, GET(HOST, 0, 2 * LEN, BOTH), RETURNS(1, "")},
    {"it was got with more rights", .before = get_it, GET(HOST, 0, LEN, HMREG_REMOTE_READ),
     RETURNS(2, ASKED "nic0.reg")},
    {"it was got with more rights, which the domain permits",
     .as = {.domain.rights = HMREG_RIGHTS_ANY}, .before = get_it,
     GET(HOST, 0, LEN, HMREG_REMOTE_READ), RETURNS(1, "")},
    {"it was got with other rights", .as = {.domain.rights = HMREG_RIGHTS_ANY}, .before = get_it,
     GET(HOST, 0, LEN, BOTH | HMREG_SEND), RETURNS(2, ASKED "nic0.reg")},
    {"it was got with more local rights", MORE_LOCAL, .before = get_all_rights,
     GET(HOST, 0, LEN, BOTH | HMREG_SEND), RETURNS(1, "")},
    {"it was got with more local rights, for none of peers", MORE_LOCAL, .before = get_all_rights,
     GET(HOST, 0, LEN, HMREG_SEND), RETURNS(2, ASKED "nic0.reg")},
    {"it was got with more rights of peers", MORE_LOCAL, .before = get_all_rights,
     GET(HOST, 0, LEN, HMREG_REMOTE_READ), RETURNS(2, ASKED "nic0.reg")},
    {"it was got to be sent", .before = get_to_send, GET(HOST, 0, LEN, HMREG_RECV),
     RETURNS(2, ASKED "nic0.reg")},
    {"another buffer in its page was got", .before = get_near, GET(HOST, 64, 64, BOTH),
     RETURNS(2, ASKED "nic0.reg")},
    {"the caller says that it is the system's", GET(HOST, 0, LEN, BOTH | HMREG_GET_HOST),
     RETURNS(1, "nic0.reg")},
    {"the caller says so again", .before = get_by_claim, GET(HOST, 0, LEN, BOTH | HMREG_GET_HOST),
     RETURNS(1, "")},
    {"it was got by such a claim", .before = get_by_claim, GET(HOST, 0, LEN, BOTH),
     RETURNS(2, ASKED "nic0.reg")},
    {"its last byte has changed since", .before = get_and_change, GET(HOST, 0, LEN, BOTH),
     RETURNS(2, "nic0.dereg " ASKED "nic0.reg")},
    {"it was got, of a domain without a cache", .as = {.domain.flags = HMREG_DOMAIN_NO_CACHE},
     .before = get_it, GET(HOST, 0, LEN, BOTH), RETURNS(2, ASKED "nic0.reg"), .after = is_uncached},
    {"it was got, with no monitor", .as = {.monitor = HMREG_MONITOR_DISABLED}, .before = get_it,
     GET(HOST, 0, LEN, BOTH), RETURNS(2, ASKED "nic0.reg"), .after = is_uncached},
    {"another was got, and the cache has room for one", .as = {.domain.max_regions = 1},
     .before = get_it, GET(HOST, 2 * LEN, LEN, BOTH), RETURNS(2, ASKED "nic0.reg nic0.dereg")},
    {"another was got, the cache has room for one, and its deregistration fails",
     .as = {.domain.max_regions = 1}, .before = evict_a_failing_one, GET(HOST, 2 * LEN, LEN, BOTH),
     RETURNS(2, ASKED "nic0.reg nic0.dereg")},
    {"another was got, and the NIC has room for one", .before = get_and_fill,
     GET(HOST, 2 * LEN, LEN, BOTH), RETURNS(3, ASKED "nic0.reg nic0.dereg nic0.reg")},
    {"longer than max_len", .as = {.max_len = LEN}, GET(HOST, 0, 2 * LEN, BOTH),
     RETURNS(1, ASKED "nic0.reg nic0.reg")},
    {"a group", PAIR, GET(HOST, 0, LEN, BOTH), RETURNS(1, ASKED "nic0.reg nic1.reg")},
    {"a group, of which the same was got", PAIR, .before = get_it, GET(HOST, 0, 2 * LEN, BOTH),
     RETURNS(1, ""), .after = is_a_hit},
    {"a group whose cache has room for one, and another was got",
     .as = {.nics = 2, .group = true, .groups.domain = &one_region}, .before = get_it,
     GET(HOST, 2 * LEN, LEN, BOTH), RETURNS(3, ASKED "nic0.reg nic1.reg nic0.dereg nic1.dereg")},
    {"a partial group, of which a NIC fails",
     .as = {.nics = 2, .group = true, .groups.flags = HMREG_GROUP_PARTIAL}, .before = nic_fails,
     GET(HOST, 0, LEN, BOTH), RETURNS(HMREG_KEY_NOTAVAIL, ASKED "nic0.reg nic1.reg"),
     .after = lacks_the_first_rail},
    {"it is suspended", .before = suspend, GET(HOST, LEN - 1, LEN, BOTH),
     FAILS(-EAGAIN, "suspended", "")},
    {"longer than max_len, and its second part fails", .as = {.max_len = LEN},
     .before = second_reg_fails, GET(HOST, 0, 3 * LEN, BOTH),
     FAILS(-EIO, "asked to fail", ASKED "nic0.reg nic0.reg nic0.dereg")},
    {"the NIC fails", .before = nic_fails, GET(HOST, 0, LEN, BOTH),
     FAILS(-EIO, "nic0.reg was asked to fail", ASKED "nic0.reg"), .after = next_get_registers},
    {"a runtime fails", .before = runtime_fails, GET(HOST, 0, LEN, BOTH),
     FAILS(-EIO, "resolve of rocr failed", "cuda.resolve rocr.resolve ze.resolve")},
};

/* ---- device memory ---------------------------------------------------------------------- */

static void get_device(void)
{
    world_key(world.gpu[1], 2 * LEN);
}

static void get_and_renew(void)
{
    get_device();
    world_renew(world.gpu[1]);
}

static void export_fails(void)
{
    world_fail("cuda.export", 1, -1, -ENODEV);
}

static void refuse_all(void)
{
    for (int i = 0; i < HMREG_PATH_COUNT; i++)
        world.refuses[i] = -EOPNOTSUPP;
}

static int renew_at_reg(const struct world_call *call)
{
    if (world_is(call, "reg") && call->number == 1)
        world_renew(world.gpu[1]);
    return 0;
}

static void renew_meanwhile(void)
{
    world.on_call = renew_at_reg;
}

static int renew_at_each_reg(const struct world_call *call)
{
    if (world_is(call, "reg"))
        world_renew(world.gpu[1]);
    return 0;
}

static void renew_always(void)
{
    world.on_call = renew_at_each_reg;
}

static void is_not_cached(void)
{
    assert_false(test_info_of(got).cached);
}

static void identity_fails(void)
{
    world_fail("cuda.identity", 1, -1, -EIO);
}

static void get_and_identity_fails(void)
{
    get_device();
    world_fail("cuda.identity", 1, 0, -EIO);
}

static void rail_fails(void)
{
    world_fail("nic1.reg", 1, 0, -EIO);
}

static const struct row device[] = {
    {"nothing is cached", GET(GPU, 0, LEN, BOTH), RETURNS(1, REGISTERED)},
    {"the same was got", .before = get_device, GET(GPU, 0, 2 * LEN, BOTH),
     RETURNS(1, "cuda.identity")},
    {"a larger range was got", .before = get_device, GET(GPU, 1, LEN, BOTH),
     RETURNS(1, "cuda.identity")},
    {"it was got, freed and allocated again", .before = get_and_renew, GET(GPU, 0, LEN, BOTH),
     RETURNS(2, "cuda.identity nic0.dereg " REGISTERED)},
    {"it is freed and allocated again while it is registered", .before = renew_meanwhile,
     GET(GPU, 0, LEN, BOTH), RETURNS(2, REGISTERED " " REGISTERED " nic0.dereg")},
    {"it is freed and allocated again whenever it is registered", .before = renew_always,
     GET(GPU, 0, LEN, BOTH),
     RETURNS(3, REGISTERED " " REGISTERED " nic0.dereg " ASKED "cuda.export nic0.reg nic0.dereg"),
     .after = is_not_cached},
    {"its runtime does not say whether it is still what was got", .before = get_and_identity_fails,
     GET(GPU, 0, LEN, BOTH), RETURNS(2, "cuda.identity nic0.dereg " REGISTERED)},
    {"its runtime does not say what was registered", .before = identity_fails,
     GET(GPU, 0, LEN, BOTH), RETURNS(3, NULL), .after = is_not_cached},
    {"it ends before the range does", GET(GPU, 1, WORLD_BYTES, BOTH),
     FAILS(-ERANGE, "the allocation ends", "cuda.resolve cuda.resolve rocr.resolve ze.resolve")},
    {"its runtime exports no dmabuf", .before = export_fails, GET(GPU, 0, LEN, BOTH),
     RETURNS(1, REGISTERED)},
    {"the NIC refuses each path", .before = refuse_all, GET(GPU, 0, LEN, BOTH),
     FAILS(-EOPNOTSUPP, "refuse", ASKED_GPU "cuda.export nic0.reg nic0.reg cuda.export nic0.reg")},
    {"a group, of which the same was got", PAIR, .before = get_device, GET(GPU, 0, 2 * LEN, BOTH),
     RETURNS(1, "cuda.identity")},
    {"a group, of which it was got, freed and allocated again", PAIR, .before = get_and_renew,
     GET(GPU, 0, LEN, BOTH),
     RETURNS(3, "cuda.identity nic0.dereg nic1.dereg " ASKED_GPU
                "cuda.export nic0.reg nic1.reg cuda.identity")},
    {"a group", PAIR, GET(GPU, 0, LEN, BOTH),
     RETURNS(1, ASKED_GPU "cuda.export nic0.reg nic1.reg cuda.identity")},
    {"a group, of which a NIC fails", PAIR, .before = rail_fails, GET(GPU, 0, LEN, BOTH),
     FAILS(-EIO, "rail 1", ASKED_GPU "cuda.export nic0.reg nic1.reg nic0.dereg")},
};

/* ---- each row --------------------------------------------------------------------------- */

static void put_got(void)
{
    hmreg_mr_put(got);
}

static const void *address_of(const struct args *args)
{
    switch (args->of) {
    case HOST:
        return table_at(world.host, args->at);
    case GPU:
        return table_at(world.gpu[1], args->at);
    default:
        return (const void *)(uintptr_t)args->at;
    }
}

static int get(const struct row *row)
{
    const struct args *args = row->args;
    int rc;

    got = UNTOUCHED;
    rc = hmreg_mr_get(args->no_domain ? NULL : world.domain, address_of(args), args->len,
                      args->access, args->no_mr ? NULL : &got);
    if (!rc)
        test_after(put_got);
    table_result(row, rc);
    if (rc)
        assert_ptr_equal(got, UNTOUCHED);
    else
        table_value(row, table_key(got));
    return rc;
}

TEST(get__arguments)
{
    CHECK_EACH(arguments, get);
}

TEST(get__host_memory)
{
    CHECK_EACH(host, get);
}

TEST(get__device_memory)
{
    CHECK_EACH(device, get);
}

TEST_MAIN()
