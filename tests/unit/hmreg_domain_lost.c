/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_domain_lost() in rows: which domain, what is registered there, and what its
 * calls, its regions and its groups are afterwards. What threads meet is in lost.c.
 */
#include "tests/support/table.h"

#include <hmreg/job.h>
#include <hmreg/lost.h>
#include <hmreg/suspend.h>

#define LEN   4096u
#define B16   "0123456789abcdef"
#define B240  B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16
#define B255  B240 "0123456789abcde"
#define WHY   "port 1 of mlx5_7 was pulled"
#define FIRST "the first reason"

struct args {
    int usual_;
    enum { DOMAIN, NO_DOMAIN, GROUP, MEMBER } of; /* MEMBER: the group's second */
    const char *why;
    const char *reason; /* that the domain has afterwards; NULL: the same */
};

#define IT     ARGS(DOMAIN, WHY)
#define SECOND ARGS(MEMBER, WHY)
#define TWO    .as = {.nics = 2, .group = true}
#define SERVED .as = {.any_thread = true}
/* Registrations that are left. */
#define LEAVES(number) RETURNS(number, NULL)
#define WRONG(text)    FAILS(-EINVAL, text, "")

static struct hmreg_mr *held, *explicit;

/* ---- states ----------------------------------------------------------------------------- */

static void end_regions(void)
{
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
    held = explicit = NULL;
}

static void hold_it(void)
{
    held = world_get(world.host, LEN);
    test_after(end_regions);
}

static void reg_it(void)
{
    assert_ok(hmreg_mr_reg(world.domain, world.host, LEN, HMREG_ACCESS_ALL, 0, HMREG_KEY_ANY, 0,
                           &explicit, NULL));
    test_after(end_regions);
}

static void reg_two(void)
{
    struct hmreg_segment two[2] = {{.u.memory = {world.gpu[1], LEN}},
                                   {.u.memory = {world.gpu[1] + 2 * LEN, LEN}}};

    assert_ok(hmreg_mr_regsgl(world.domain, two, 2, HMREG_ACCESS_ALL, 0, HMREG_KEY_ANY, 0,
                              &explicit, NULL));
    test_after(end_regions);
}

static void cache_it(void)
{
    hmreg_mr_put(world_get(world.host, LEN));
}

static void have_each(void)
{
    reg_it();
    hold_it();
    hmreg_mr_put(world_get(world.host + 2 * LEN, LEN));
}

static void lose_first(void)
{
    assert_ok(hmreg_domain_lost(world.domain, FIRST));
}

static void resume(void)
{
    assert_ok(hmreg_resume(world.lib, world.host, LEN, NULL));
}

static void suspend(void)
{
    reg_it();
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
}

/* ---- afterwards ------------------------------------------------------------------------- */

static void close_it(void)
{
    test_wait_until(hmreg_domain_close(world.domain) == 0);
    world.domain = world.nic[0] = NULL;
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static void idle_has_ended(void)
{
    assert_int_equal(world_stats().regions, 0);
    close_it();
}

static void ends_when_put(void)
{
    assert_fails(hmreg_mr_pack(held, NULL, &(size_t){0}), -ENODEV, WHY);
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "held");
    end_regions();
    close_it();
}

static void ends_when_closed(void)
{
    uint8_t raw[8];
    size_t size = sizeof(raw);

    assert_fails(hmreg_mr_bind(explicit, &world, 0), -ENODEV, WHY);
    assert_fails(hmreg_mr_enable(explicit), -ENODEV, WHY);
    assert_fails(hmreg_mr_refresh(explicit, NULL, 0, 0), -ENODEV, WHY);
    assert_fails(hmreg_mr_raw_attr(explicit, NULL, raw, &size, 0), -ENODEV, WHY);
    assert_fails(hmreg_mr_pack(explicit, NULL, &size), -ENODEV, WHY);
    assert_fails(hmreg_mr_pack_range(explicit, world.host, 1, NULL, &size), -ENODEV, WHY);
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "open");
    end_regions();
    close_it();
}

static void thread_ends_each_in_its_time(void)
{
    test_wait_until(world_live(WORLD_EACH) == 2); /* the idle one */
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "open");
    hmreg_mr_put(held);
    held = NULL;
    test_wait_until(world_live(WORLD_EACH) == 1);
    end_regions();
    test_wait_until(world_live(WORLD_EACH) == 0);
    close_it();
}

static void stays_suspended(void)
{
    world_clear();
    resume();
    assert_int_equal(world_calls("reg"), 0);
    assert_true(hmreg_mr_key(explicit) == HMREG_KEY_NOTAVAIL);
}

/* The other member's calls go on. */
static void group_goes_on(void)
{
    struct hmreg_mr *mr;

    world_clear();
    mr = world_get(world.host + 4 * LEN, LEN);
    assert_int_equal(world_calls("nic0.reg"), 1);
    assert_int_equal(world_calls("reg"), 1);
    assert_null(hmreg_mr_rail(mr, 1));
    assert_int_equal(hmreg_last_error()->code, -ENODEV);
    assert_non_null(strstr(hmreg_last_error()->text, WHY));
    assert_non_null(hmreg_mr_rail(mr, 0));
    hmreg_mr_put(mr);
}

static void region_goes_on(void)
{
    const struct hmreg_mr_head *head = hmreg_mr_head_of(held ? held : explicit);

    assert_int_equal(head->count, 2);
    assert_true(head->keys[0].key != HMREG_KEY_NOTAVAIL);
    assert_true(head->keys[1].key == HMREG_KEY_NOTAVAIL);
    assert_null(hmreg_mr_rail(held ? held : explicit, 1));
    group_goes_on();
}

static void is_hit_again(void)
{
    world_clear();
    hold_it();
    assert_string_equal(world_log(), "");
    region_goes_on();
}

static const struct row rows[] = {
    {"domain is NULL", ARGS(NO_DOMAIN, WHY), WRONG("domain is NULL")},
    {"a group", TWO, ARGS(GROUP, WHY), WRONG("pass its lost member")},

    /* the reason */
    {"nothing is registered", IT, LEAVES(0), .after = close_it},
    {"why is NULL", ARGS(DOMAIN, NULL, "the application gave no reason"), LEAVES(0)},
    {"why is empty", ARGS(DOMAIN, "", "the application gave no reason"), LEAVES(0)},
    {"why has 255 bytes", ARGS(DOMAIN, B255), LEAVES(0)},
    {"why has 256 bytes", ARGS(DOMAIN, B240 B16, B255), LEAVES(0)},
    {"it is lost already", .before = lose_first, ARGS(DOMAIN, WHY, FIRST), LEAVES(0)},

    /* its regions, on a fabric of one thread */
    {"an idle region", .before = cache_it, IT, LEAVES(1), .after = idle_has_ended},
    {"a held region", .before = hold_it, IT, LEAVES(1), .after = ends_when_put},
    {"an explicit region", .before = reg_it, IT, LEAVES(1), .after = ends_when_closed},
    {"a region of two pieces", .as = {.iov_limit = 1}, .before = reg_two, IT, LEAVES(2),
     .after = ends_when_closed},
    {"a suspended region", .before = suspend, IT, LEAVES(0), .after = stays_suspended},

    /* the domain's thread deregisters */
    {"one of each kind, any thread may", SERVED, .before = have_each, IT, LEAVES(2),
     .after = thread_ends_each_in_its_time},
    {"two pieces, any thread may", .as = {.any_thread = true, .iov_limit = 1}, .before = reg_two,
     IT, LEAVES(2), .after = ends_when_closed},

    /* a member of a group */
    {"its group has no region", TWO, SECOND, LEAVES(0), .after = group_goes_on},
    {"its group's idle region", TWO, .before = cache_it, SECOND, LEAVES(2), .after = is_hit_again},
    {"its group's held region", TWO, .before = hold_it, SECOND, LEAVES(2), .after = region_goes_on},
    {"its group's explicit region", TWO, .before = reg_it, SECOND, LEAVES(2),
     .after = region_goes_on},
};

/* ---- each row --------------------------------------------------------------------------- */

static void open_row(const struct row *row)
{
    held = explicit = NULL;
    table_open_usual(row);
}

static struct hmreg_domain *domain_of(const struct args *args)
{
    if (args->of == NO_DOMAIN)
        return NULL;
    return args->of == MEMBER ? world.nic[1] : world.domain;
}

/* Each call that registers or gets: the reason, and no NIC is called. */
static void check_refused(struct hmreg_domain *domain, const char *reason)
{
    char *at = world.host + 2 * LEN;
    struct iovec iov = {at, LEN};
    struct hmreg_segment segment = {.u.memory = iov};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &iov, .iov_count = 1, .access = HMREG_ACCESS_REMOTE};
    struct hmreg_mr *mr = UNTOUCHED;
    uint64_t key = 7;

    assert_fails(hmreg_mr_get(domain, at, LEN, HMREG_ACCESS_REMOTE, &mr), -ENODEV, reason);
    assert_fails(hmreg_mr_get(domain, world.host, LEN, HMREG_ACCESS_REMOTE, &mr), -ENODEV, reason);
    assert_fails(hmreg_mr_get_attr(domain, &attr, 0, &mr), -ENODEV, reason);
    assert_fails(hmreg_mr_reg(domain, at, LEN, HMREG_SEND, 0, HMREG_KEY_ANY, 0, &mr, NULL), -ENODEV,
                 reason);
    assert_fails(hmreg_mr_regattr(domain, &attr, 0, &mr), -ENODEV, reason);
    assert_fails(hmreg_mr_regsgl(domain, &segment, 1, HMREG_SEND, 0, HMREG_KEY_ANY, 0, &mr, NULL),
                 -ENODEV, reason);
    assert_fails(hmreg_mr_reg_large(domain, at, LEN, HMREG_SEND, NULL, &mr), -ENODEV, reason);
    assert_fails(hmreg_domain_bind(domain, &world, HMREG_BIND_REG_MR), -ENODEV, reason);
    assert_fails(hmreg_domain_map_raw(domain, 0, (const uint8_t *)at, 8, &key, 0), -ENODEV, reason);
    assert_int_equal(hmreg_mr_try_get(domain, world.host, LEN, HMREG_ACCESS_REMOTE, &mr), -EAGAIN);
    assert_ptr_equal(mr, UNTOUCHED);
    assert_int_equal(key, 7);
    assert_int_equal(world_calls("reg"), 0);
}

static int lose(const struct row *row)
{
    const struct args *args = row->args;
    const char *reason = args->reason ? args->reason : args->why;
    struct hmreg_domain *domain = domain_of(args);
    int rc = hmreg_domain_lost(domain, args->why);

    if (rc)
        return rc;
    assert_true(world_error_is_old());
    if (!row->as.any_thread) /* no NIC is called before the domain is closed */
        assert_string_equal(world_log(), "");
    test_wait_until(world_live(WORLD_EACH) == row->value);
    assert_string_equal(test_domain_info(domain).lost, reason);
    if (args->of == DOMAIN)
        check_refused(domain, reason);
    world_old_error();
    return 0;
}

TEST(lost__each_row)
{
    CHECK_EACH_IN(rows, open_row, lose);
}

/* Exits with 0 if each call is refused. */
static int use_in_child(void)
{
    return hmreg_domain_lost(world.nic[0], WHY) != -EPERM ||
           hmreg_domain_lost(world.nic[1], WHY) != -EPERM ||
           hmreg_domain_close(world.nic[1]) != -EPERM;
}

TEST(lost__in_a_forked_child__eperm)
{
    world_open(.nics = 2);
    assert_ok(hmreg_domain_lost(world.nic[1], WHY));
    test_in_child(use_in_child());
    world_key(world.host, LEN);
}

TEST_MAIN()
