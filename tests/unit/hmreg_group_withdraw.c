/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_group_withdraw(), hmreg_group_replace() and hmreg_group_query() in rows:
 * the group's regions, and what is called on its members. NIC 1 of three is withdrawn; NIC 3 comes
 * in its place. group_member.c has what takes several calls.
 */
#include "tests/support/table.h"

#include <hmreg/suspend.h>
#include <sched.h>

#define LEN    4096u
#define BROKEN 1u
#define CUT    "cable cut"

struct args {
    int usual_;
    enum { GROUP, NO_GROUP, DOMAIN } of;
    size_t member;
    enum { SPARE, NO_DOMAIN, MEMBER, ITSELF, SMALL, ASYNC } by;
    bool no_why, no_out, small_out;
};

#define THREE       .as = {.nics = 3, .group = true}
#define IT          ARGS(GROUP, BROKEN)
#define ANEW        "cuda.resolve rocr.resolve ze.resolve nic3.reg"
#define WRONG(text) FAILS(-EINVAL, text, "")
/* Registrations that are left, of the three NICs. */
#define LEFT(n, log) RETURNS(n, log)

static struct hmreg_mr *explicit, *held, *rail;
static struct hmreg_domain *spare;
static uint32_t generation;

/* ---- the group's regions ---------------------------------------------------------------- */

static void end_all(void)
{
    assert_ok(hmreg_mr_close(explicit));
    hmreg_mr_put(held);
    explicit = held = NULL;
}

static void reg_segments(size_t count, char *addr)
{
    struct hmreg_segment segments[2] = {{.u.memory = {addr, LEN}},
                                        {.u.memory = {addr + 2 * LEN, LEN}}};

    assert_ok(hmreg_mr_regsgl(world.domain, segments, count, HMREG_ACCESS_ALL, 0, HMREG_KEY_ANY, 0,
                              &explicit, NULL));
    generation = hmreg_mr_head_of(explicit)->generation;
    rail = hmreg_mr_rail(explicit, BROKEN);
    test_after(end_all);
}

static void reg_it(void)
{
    reg_segments(1, world.host);
}

static void reg_device(void)
{
    reg_segments(1, world.gpu[0]);
}

static void reg_pieces(void)
{
    reg_segments(2, world.gpu[0]);
}

static void hold_it(void)
{
    held = world_get(world.host, LEN);
    generation = hmreg_mr_head_of(held)->generation;
    test_after(end_all);
}

static void get_it(void)
{
    hold_it();
    hmreg_mr_put(held);
    held = NULL;
}

static void reg_hold_and_get(void)
{
    reg_it();
    held = world_get(world.host + LEN, LEN);
    world_key(world.host + 2 * LEN, LEN);
}

static struct hmreg_group_member member_of(size_t member)
{
    struct hmreg_group_member info = {.size = sizeof(info)};

    assert_ok(hmreg_group_query(world.domain, member, &info));
    return info;
}

static void lacks_it(const struct hmreg_mr *mr)
{
    const struct hmreg_mr_head *head = hmreg_mr_head_of(mr);
    size_t parts = head->count / 3;

    assert_null(hmreg_mr_rail(mr, BROKEN));
    assert_int_equal(hmreg_last_error()->code, -ENODEV);
    assert_non_null(strstr(hmreg_last_error()->text, CUT));
    for (size_t i = 0; i < head->count; i++)
        assert_int_equal(head->keys[i].key == HMREG_KEY_NOTAVAIL, i / parts == BROKEN);
    assert_non_null(hmreg_mr_rail(mr, 0));
    assert_non_null(hmreg_mr_rail(mr, 2));
    assert_true(head->generation != generation);
}

static void has_all(const struct hmreg_mr *mr)
{
    const struct hmreg_mr_head *head = hmreg_mr_head_of(mr);

    for (size_t i = 0; i < head->count; i++)
        assert_true(head->keys[i].key != HMREG_KEY_NOTAVAIL);
    assert_non_null(hmreg_mr_rail(mr, BROKEN));
}

/* ---- hmreg_group_withdraw() ------------------------------------------------------------- */

static void withdraw_it(void)
{
    assert_ok(hmreg_group_withdraw(world.domain, BROKEN, CUT));
}

static void ends_at_close(void)
{
    lacks_it(explicit);
    assert_fails(hmreg_mr_enable(rail), -EINVAL, "region has lost");
    assert_int_equal(world_live(BROKEN), hmreg_mr_head_of(explicit)->count / 3);
    end_all();
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static void ends_after_put(void)
{
    lacks_it(held);
    end_all();
    assert_ok(hmreg_domain_progress(world.domain));
    assert_int_equal(world_live(BROKEN), 0);
    assert_int_equal(world_live(0), 1);
}

static void ends_with_put(void)
{
    lacks_it(held);
    end_all();
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static void is_hit_again(void)
{
    world_clear();
    held = world_get(world.host, LEN);
    lacks_it(held);
    assert_string_equal(world_log(), "");
}

/* Later registrations do without it, and say why. */
static void is_left_out(void)
{
    struct iovec range = {world.host, LEN};
    struct hmreg_mr_attr alone = {.size = sizeof(alone),
                                  .iov = &range,
                                  .iov_count = 1,
                                  .access = HMREG_ACCESS_REMOTE,
                                  .rails = 1 << BROKEN};
    struct hmreg_mr *mr = NULL;

    reg_it();
    generation = 0xffffffff;
    lacks_it(explicit);
    assert_fails(hmreg_mr_regattr(world.domain, &alone, 0, &mr), -ENODEV, CUT);
    assert_int_equal(world_calls("nic1.reg"), 0);
    assert_int_equal(member_of(BROKEN).state, HMREG_MEMBER_WITHDRAWN);
    assert_ptr_equal(member_of(BROKEN).domain, world.nic[BROKEN]);
    assert_string_equal(member_of(BROKEN).why, CUT);
    assert_int_equal(member_of(0).state, HMREG_MEMBER_PRESENT);
    assert_string_equal(member_of(0).why, "");
}

static const struct hmreg_domain_config last_put = {.size = sizeof(last_put),
                                                    .policy = HMREG_POLICY_LAST_PUT};

static const struct row withdrawals[] = {
    {"group is NULL", THREE, ARGS(NO_GROUP, BROKEN), WRONG("domain is NULL")},
    {"group is no group", THREE, ARGS(DOMAIN, BROKEN), WRONG("no group")},
    {"no such member", THREE, ARGS(GROUP, 3), WRONG("members 0 to 2")},
    {"why is NULL", THREE, ARGS(GROUP, BROKEN, .no_why = true), WRONG("why is NULL")},

    {"nothing is registered", THREE, IT, LEFT(0, ""), .after = is_left_out},
    {"a region", THREE, .before = reg_it, IT, LEFT(3, ""), .after = ends_at_close},
    {"device memory", THREE, .before = reg_device, IT, LEFT(3, ""), .after = ends_at_close},
    {"a region of two pieces", .as = {.nics = 3, .group = true, .iov_limit = 1},
     .before = reg_pieces, IT, LEFT(6, ""), .after = ends_at_close},
    {"a held region", THREE, .before = hold_it, IT, LEFT(3, ""), .after = ends_after_put},
    {"a held region that ends with its last put",
     .as = {.nics = 3, .group = true, .groups.domain = &last_put}, .before = hold_it, IT,
     LEFT(3, ""), .after = ends_with_put},
    {"an idle region", THREE, .before = get_it, IT, LEFT(2, "nic1.dereg"), .after = is_hit_again},
    {"it is withdrawn already", THREE, .before = withdraw_it, IT, LEFT(0, ""),
     .after = is_left_out},
};

static struct hmreg_domain *group_of(const struct args *args)
{
    return args->of == NO_GROUP ? NULL : args->of == DOMAIN ? world.nic[0] : world.domain;
}

static int withdraw(const struct row *row)
{
    const struct args *args = row->args;
    int rc = hmreg_group_withdraw(group_of(args), args->member,
                                  args->no_why                       ? NULL
                                  : member_of(BROKEN).why[0] != '\0' ? "another"
                                                                     : CUT);

    if (!rc)
        assert_int_equal(world_live(WORLD_EACH), row->value);
    return rc;
}

/* ---- hmreg_group_replace() -------------------------------------------------------------- */

static void withdraw_all(void)
{
    reg_hold_and_get();
    withdraw_it();
}

static void withdraw_and_fail(void)
{
    reg_it();
    withdraw_it();
    world_fail("nic3.reg", 1, 0, -EIO);
}

static void withdraw_and_suspend(void)
{
    reg_it();
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
    withdraw_it();
}

static void withdraw_pieces(void)
{
    reg_pieces();
    withdraw_it();
}

static void withdraw_device(void)
{
    reg_device();
    withdraw_it();
}

/* The region and its rail are the same structs; gets find the others whole. */
static void all_have_it(void)
{
    has_all(explicit);
    assert_ptr_equal(hmreg_mr_rail(explicit, BROKEN), rail);
    assert_true(hmreg_mr_head_of(explicit)->generation != generation);
    has_all(held);
    world_clear();
    world_key(world.host + 2 * LEN, LEN);
    assert_string_equal(world_log(), "");
    assert_ptr_equal(member_of(BROKEN).domain, spare);
}

static void has_it(void)
{
    has_all(explicit);
}

static void does_without(void)
{
    assert_null(hmreg_mr_rail(explicit, BROKEN));
    assert_int_equal(hmreg_last_error()->code, -EIO);
    assert_int_equal(member_of(BROKEN).failed, 1);
}

static void has_it_when_resumed(void)
{
    assert_int_equal(world_live(WORLD_EACH), 0);
    assert_ok(hmreg_resume(world.lib, world.host, LEN, NULL));
    has_all(explicit);
}

static void is_as_it_was(void)
{
    assert_int_equal(member_of(BROKEN).state, HMREG_MEMBER_WITHDRAWN);
}

/* Regions that have the new member. */
#define DONE(n, log) RETURNS(n, log)

static const struct row replacements[] = {
    {"group is NULL", THREE, ARGS(NO_GROUP, BROKEN), WRONG("domain is NULL")},
    {"group is no group", THREE, ARGS(DOMAIN, BROKEN), WRONG("no group")},
    {"no such member", THREE, ARGS(GROUP, 3), WRONG("members 0 to 2")},
    {"domain is NULL", THREE, .before = withdraw_it, ARGS(GROUP, BROKEN, NO_DOMAIN),
     WRONG("domain is NULL")},
    {"it was not withdrawn", THREE, .before = reg_it, IT, WRONG("was not withdrawn")},
    {"by a member", THREE, .before = withdraw_it, ARGS(GROUP, BROKEN, MEMBER), WRONG("a member"),
     .after = is_as_it_was},
    {"by a group", THREE, .before = withdraw_it, ARGS(GROUP, BROKEN, ITSELF), WRONG("is a group")},
    {"by one that permits less", THREE, .before = withdraw_it, ARGS(GROUP, BROKEN, SMALL),
     WRONG("permits less"), .after = is_as_it_was},
    {"by one whose registrations complete in a queue", THREE, .before = withdraw_it,
     ARGS(GROUP, BROKEN, ASYNC), FAILS(-EOPNOTSUPP, "event queue", "")},

    {"nothing is registered", THREE, .before = withdraw_it, IT, DONE(0, "")},
    {"an explicit, a held and an idle region", THREE, .before = withdraw_all, IT,
     DONE(3, ANEW " " ANEW " " ANEW), .after = all_have_it},
    {"a region of two pieces", .as = {.nics = 3, .group = true, .iov_limit = 1},
     .before = withdraw_pieces, IT, DONE(1, NULL), .after = has_it},
    {"device memory", THREE, .before = withdraw_device, IT, DONE(1, NULL), .after = has_it},
    {"a suspended region", THREE, .before = withdraw_and_suspend, IT, DONE(0, ""),
     .after = has_it_when_resumed},
    {"the new NIC fails", THREE, .before = withdraw_and_fail, IT, DONE(0, ANEW),
     .after = does_without},
};

static void open_row(const struct row *row)
{
    const struct args *args = row->args;

    world_open_as(&row->as);
    spare = args->by == SMALL   ? world_add(.key_size = 4, .iov_limit = 1, .max_len = LEN)
            : args->by == ASYNC ? world_add(.async = true)
                                : world_add(.iov_limit = row->as.iov_limit);
    if (row->before)
        row->before();
}

/* The library's thread registers; it has ended when another replacement is not refused as busy. */
static void wait_until_replaced(void)
{
    while (hmreg_group_replace(world.domain, BROKEN, world.nic[0]) == -EBUSY)
        sched_yield();
    world_old_error();
}

static int replace(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_domain *const by[] = {
        [SPARE] = spare,         [NO_DOMAIN] = NULL, [MEMBER] = world.nic[0],
        [ITSELF] = world.domain, [SMALL] = spare,    [ASYNC] = spare};
    int rc = hmreg_group_replace(group_of(args), args->member, by[args->by]);

    if (rc)
        return rc;
    assert_true(world_error_is_old());
    wait_until_replaced();
    assert_int_equal(member_of(BROKEN).state, HMREG_MEMBER_PRESENT);
    assert_int_equal(member_of(BROKEN).done, row->value);
    return 0;
}

/* ---- hmreg_group_query() ---------------------------------------------------------------- */

static const struct row queries[] = {
    {"group is NULL", THREE, ARGS(NO_GROUP), WRONG("domain is NULL")},
    {"group is no group", THREE, ARGS(DOMAIN), WRONG("no group")},
    {"no such member", THREE, ARGS(GROUP, 3), WRONG("members 0 to 2")},
    {"out is NULL", THREE, ARGS(GROUP, .no_out = true), WRONG("out is NULL")},
    {"out->size is 4", THREE, ARGS(GROUP, .small_out = true), WRONG("size")},
    {"a member", THREE, ARGS(GROUP, 2), RETURNS(HMREG_MEMBER_PRESENT, "")},
    {"a withdrawn member", THREE, .before = withdraw_it, IT, RETURNS(HMREG_MEMBER_WITHDRAWN, "")},
};

static int query(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_group_member info = {.size = args->small_out ? 4 : sizeof(info), .regions = 4711};
    int rc = hmreg_group_query(group_of(args), args->member, args->no_out ? NULL : &info);

    assert_int_equal(info.regions, rc ? 4711 : 0);
    if (!rc)
        assert_int_equal(info.state, row->value);
    return rc;
}

TEST(withdraw__each_row)
{
    CHECK_EACH_IN(withdrawals, open_row, withdraw);
}

TEST(replace__each_row)
{
    CHECK_EACH_IN(replacements, open_row, replace);
}

TEST(group_query__each_row)
{
    CHECK_EACH_IN(queries, open_row, query);
}

TEST_MAIN()
