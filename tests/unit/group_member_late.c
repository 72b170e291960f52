/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A member is withdrawn, replaced or lost while a thread registers or uses a region of the group,
 * and a replacement that does not end. A NIC's calls do what is to happen in the middle, so each
 * case is the same each time.
 */
#include "tests/support/tokens.h"
#include "tests/unit/member_fixture.h"

#include <hmreg/hibernate.h>
#include <hmreg/job.h>
#include <hmreg/suspend.h>

/* ---- kinds of regions ------------------------------------------------------------------- */

static struct hmreg_mr *make_explicit(void)
{
    return reg(memory[0], LEN);
}

static struct hmreg_mr *make_cached(void)
{
    return get(memory[0], LEN);
}

static struct hmreg_mr *get_as(const struct iovec *iov, size_t count, enum hmreg_policy policy)
{
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = iov,
                                 .iov_count = count,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .policy = policy};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(group, &attr, 0, &mr));
    return mr;
}

static struct hmreg_mr *make_last_put(void)
{
    return get_as(&(struct iovec){memory[0], LEN}, 1, HMREG_POLICY_LAST_PUT);
}

static struct hmreg_mr *make_pieces(void)
{
    struct hmreg_segment segments[] = {{.u.memory = {memory[0], LEN}},
                                       {.u.memory = {memory[4], LEN}},
                                       {.u.memory = {memory[8], LEN}}};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_regsgl(group, segments, 3, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL));
    return mr;
}

static struct hmreg_mr *make_by_job(void)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 1, .piece_len = LEN};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg_large(group, memory[0], 3 * LEN, HMREG_ACCESS_ALL, &config, &mr));
    return mr;
}

static struct hmreg_mr *make_device(void)
{
    return get(gpu, LEN);
}

static void close_it(struct hmreg_mr *mr)
{
    assert_ok(hmreg_mr_close(mr));
}

static const struct kind {
    struct hmreg_mr *(*make)(void);
    void (*end)(struct hmreg_mr *mr);
    unsigned parts;
    uint64_t flags; /* of the group's domain */
} kinds[] = {
    {make_explicit, close_it, 1, 0},
    {make_cached, hmreg_mr_put, 1, 0},
    {make_cached, hmreg_mr_put, 1, HMREG_DOMAIN_NO_CACHE},
    {make_last_put, hmreg_mr_put, 1, 0},
    {make_pieces, close_it, 3, 0},
    {make_by_job, close_it, 3, 0},
    {make_device, hmreg_mr_put, 1, 0},
};

#define EACH(kind)                                                                                 \
    for (const struct kind *kind = kinds; kind < kinds + sizeof(kinds) / sizeof(*kinds); kind++)

/* ---- in the middle of a registration ---------------------------------------------------- */

static void withdraw_and_replace(void)
{
    withdraw();
    replace();
}

static void only_replace(void)
{
    replace();
}

/* The replacement stays in the registration of another region. */
static void withdraw_and_hang(void)
{
    withdraw();
    nics[NEW].hangs = true;
    assert_ok(hmreg_group_replace(group, BROKEN, spare));
    sem_wait(&nics[NEW].entered);
    nics[NEW].hangs = false;
}

static void lose(void)
{
    assert_ok(hmreg_domain_lost(nics[BROKEN].domain, "cable cut"));
}

static void assert_replaced(size_t regions)
{
    struct hmreg_group_member info = nic_replaced(group, BROKEN);

    assert_int_equal(info.state, HMREG_MEMBER_PRESENT);
    assert_int_equal(info.regions, regions);
    assert_int_equal(info.done, regions);
    assert_int_equal(info.failed, 0);
}

TEST(registered__across_a_withdrawal__lacks_the_rail_and_the_others_are_called_once)
{
    EACH(kind)
    {
        struct hmreg_mr *mr;

        open_flagged(0, kind->flags);
        nics[2].during = withdraw;
        mr = kind->make();
        assert_without_broken(mr);
        assert_survivors(kind->parts, 0);
        kind->end(mr);
        test_finish();
    }
}

TEST(registered__across_a_replacement__has_the_new_rail_and_the_others_are_called_once)
{
    EACH(kind)
    {
        struct hmreg_mr *mr;

        open_flagged(0, kind->flags);
        nics[2].during = withdraw_and_replace;
        mr = kind->make();
        assert_whole(mr);
        assert_int_equal(atomic_load(&nics[NEW].regs), kind->parts);
        assert_survivors(kind->parts, 0);
        assert_replaced(1);
        kind->end(mr);
        test_finish();
    }
}

TEST(registered__begun_without_the_member__has_the_new_rail)
{
    EACH(kind)
    {
        struct hmreg_mr *mr;

        open_flagged(0, kind->flags);
        withdraw();
        nics[2].during = only_replace;
        mr = kind->make();
        assert_whole(mr);
        assert_int_equal(atomic_load(&nics[BROKEN].regs), 0);
        assert_survivors(kind->parts, 0);
        kind->end(mr);
        test_finish();
    }
}

/* No thread waits for the new NIC, and the replacement goes through the regions again. */
TEST(registered__while_a_replacement_runs__is_left_to_it)
{
    EACH(kind)
    {
        struct hmreg_mr *mr, *other;

        open_flagged(0, kind->flags);
        other = reg(memory[12], LEN);
        nics[2].during = withdraw_and_hang;
        mr = kind->make();
        assert_without_broken(mr);
        assert_int_equal(atomic_load(&nics[NEW].regs), 1);
        sem_post(&nics[NEW].leave);
        assert_replaced(2);
        assert_whole(mr);
        assert_whole(other);
        assert_survivors(kind->parts + 1, 0);
        kind->end(mr);
        close_it(other);
        test_finish();
    }
}

TEST(registered__new_nic_fails__does_without_until_the_next_replacement)
{
    EACH(kind)
    {
        struct hmreg_group_member info;
        struct hmreg_mr *mr;

        open_flagged(0, kind->flags);
        nics[NEW].fail = -EIO;
        nics[2].during = withdraw_and_replace;
        mr = kind->make();
        info = nic_replaced(group, BROKEN);
        assert_int_equal(info.failed, 1);
        assert_null(hmreg_mr_rail(mr, BROKEN));
        assert_int_equal(hmreg_last_error()->code, -EIO);
        withdraw();
        assert_ok(hmreg_group_replace(group, BROKEN, nics[BROKEN].domain));
        assert_replaced(1);
        assert_ptr_equal(hmreg_mr_head_of(hmreg_mr_rail(mr, BROKEN))->keys->native, &nics[BROKEN]);
        assert_survivors(kind->parts, 0);
        kind->end(mr);
        test_finish();
    }
}

TEST(resumed__across_a_replacement__has_the_new_rail)
{
    EACH(kind)
    {
        struct hmreg_mr *mr;
        void *start;

        open_flagged(0, kind->flags);
        start = kind->make == make_device ? gpu : memory[0];
        mr = kind->make();
        assert_ok(hmreg_suspend(lib, start, LEN));
        nics[2].during = withdraw_and_replace;
        assert_ok(hmreg_resume(lib, start, LEN, NULL));
        assert_whole(mr);
        assert_survivors(2 * kind->parts, kind->parts);
        kind->end(mr);
        test_finish();
    }
}

TEST(registered__nic_is_lost_before_its_turn__goes_on_without)
{
    EACH(kind)
    {
        struct hmreg_mr *mr;

        open_flagged(0, kind->flags);
        nics[0].during = lose;
        mr = kind->make();
        assert_without_broken(mr);
        assert_int_equal(atomic_load(&nics[BROKEN].regs), 0);
        assert_survivors(kind->parts, 0);
        replace();
        assert_whole(mr);
        assert_survivors(kind->parts, 0);
        kind->end(mr);
        test_finish();
    }
}

/* HMREG_GROUP_PARTIAL: what failed on the NIC before is tried on the new one. */
TEST(replace__rail_that_never_was__is_registered)
{
    struct hmreg_mr *mr;

    open_flagged(HMREG_GROUP_PARTIAL, 0);
    nics[BROKEN].fail = -EIO;
    mr = reg(memory[0], LEN);
    assert_null(hmreg_mr_rail(mr, BROKEN));
    withdraw();
    assert_int_equal(replace().done, 1);
    assert_whole(mr);
    close_it(mr);
}

/* ---- a replacement that does not end ---------------------------------------------------- */

static struct hmreg_domain *open_other_group(void)
{
    struct hmreg_domain *members[] = {nic_open(lib, 3), nic_open(lib, 4)}, *other;

    assert_ok(hmreg_group_open(lib, members, 2, NULL, &other));
    return other;
}

TEST(replace__registration_hangs__suspension_and_other_groups_go_on)
{
    struct hmreg_domain *other;
    struct hmreg_mr *mr, *in_work, *others = NULL;

    open_all();
    other = open_other_group();
    assert_ok(hmreg_mr_get(other, memory[1], LEN, HMREG_ACCESS_REMOTE, &others));
    mr = reg(memory[1], LEN);
    in_work = reg(memory[0], LEN); /* which is visited first */
    withdraw_and_hang();
    assert_ok(hmreg_suspend(lib, memory[1], LEN));
    assert_ok(hmreg_resume(lib, memory[1], LEN, NULL));
    assert_ok(hmreg_group_withdraw(other, 0, "its own"));
    assert_null(hmreg_mr_rail(others, 0));
    assert_ok(hmreg_group_replace(other, 0, nic_open(lib, 6)));
    assert_int_equal(nic_replaced(other, 0).done, 1);
    assert_int_equal(nic_member(group, BROKEN).state, HMREG_MEMBER_REPLACING);
    assert_fails(hmreg_hibernate(lib), -EBUSY, "being replaced");
    sem_post(&nics[NEW].leave);
    assert_int_equal(nic_replaced(group, BROKEN).done, 1);
    assert_whole(mr);
    assert_whole(in_work);
    hmreg_mr_put(others);
    assert_ok(hmreg_domain_close(other));
    close_it(mr);
    close_it(in_work);
}

/* Its memory is in work, and the NIC is given up: no call waits for it. */
TEST(replace__withdrawn_again_while_it_hangs__its_region_is_busy)
{
    struct hmreg_mr *mr;

    open_all();
    mr = reg(memory[0], LEN);
    withdraw_and_hang();
    withdraw();
    assert_without_broken(mr);
    assert_fails(hmreg_suspend(lib, memory[0], LEN), -EBUSY, "does not answer");
    assert_fails(hmreg_mr_close(mr), -EBUSY, "does not answer");
    sem_post(&nics[NEW].leave);
    assert_int_equal(nic_replaced(group, BROKEN).state, HMREG_MEMBER_WITHDRAWN);
    assert_int_equal(atomic_load(&nics[NEW].deregs), 1);
    assert_ok(hmreg_suspend(lib, memory[0], LEN));
    assert_ok(hmreg_resume(lib, memory[0], LEN, NULL));
    assert_without_broken(mr);
    close_it(mr);
}

static void *close_in_thread(void *mr)
{
    return (void *)(intptr_t)hmreg_mr_close(mr);
}

/* A close that waits for the NIC returns when the NIC is given up. */
TEST(replace__lost_while_a_close_waits__the_close_is_busy)
{
    struct hmreg_mr *mr;
    pthread_t thread;
    void *result;

    open_all();
    mr = reg(memory[0], LEN);
    withdraw_and_hang();
    assert_int_equal(pthread_create(&thread, NULL, close_in_thread, mr), 0);
    assert_ok(hmreg_domain_lost(spare, "it is gone, too"));
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, -EBUSY);
    sem_post(&nics[NEW].leave);
    nic_replaced(group, BROKEN);
    close_it(mr);
}

/* ---- a deregistration hangs --------------------------------------------------------------- */

static void *withdraw_in_thread(void *unused)
{
    withdraw();
    return NULL;
}

/* Only the thread that withdraws it is in there. A replacement has one region less till then. */
TEST(withdraw__deregistration_hangs__all_others_go_on)
{
    struct nic *broken = &nics[BROKEN];
    struct hmreg_mr *held, *mr;
    pthread_t thread;

    open_all();
    held = get(memory[1], LEN);
    hmreg_mr_put(get(memory[0], LEN));
    atomic_store(&broken->dereg_hangs, true);
    assert_int_equal(pthread_create(&thread, NULL, withdraw_in_thread, NULL), 0);
    sem_wait(&broken->entered);
    assert_without_broken(held);
    mr = get(memory[0], LEN); /* the one that hangs there */
    assert_without_broken(mr);
    hmreg_mr_put(mr);
    close_it(reg(memory[2], LEN));
    withdraw();
    hmreg_mr_put(held);
    assert_ok(hmreg_domain_progress(group));
    assert_ok(hmreg_domain_lost(broken->domain, "it does not answer"));
    assert_ok(hmreg_group_replace(group, BROKEN, spare));
    mr = get(memory[3], LEN);
    assert_whole(mr);
    hmreg_mr_put(mr);
    assert_ok(hmreg_suspend(lib, memory[1], LEN));
    assert_ok(hmreg_resume(lib, memory[1], LEN, NULL));
    assert_int_equal(nic_member(group, BROKEN).state, HMREG_MEMBER_REPLACING);
    assert_fails(hmreg_domain_close(broken->domain), -EBUSY, "registrations of a group's regions");
    sem_post(&broken->leave);
    pthread_join(thread, NULL);
    assert_int_equal(nic_replaced(group, BROKEN).state, HMREG_MEMBER_PRESENT);
    mr = get(memory[0], LEN);
    assert_whole(mr);
    hmreg_mr_put(mr);
}

/* ---- changes of memory ------------------------------------------------------------------ */

TEST(invalidate__held_region_of_a_withdrawn_member__is_revoked_there_too)
{
    struct hmreg_mr *mr;

    open_all();
    mr = get(memory[0], LEN);
    withdraw();
    assert_ok(hmreg_invalidate(lib, memory[0], LEN));
    hmreg_mr_put(get(memory[1], LEN)); /* reads the change */
    for (unsigned i = 0; i < RAILS; i++)
        assert_int_equal(atomic_load(&nics[i].revokes), 1);
    hmreg_mr_put(mr);
}

/* ---- used while it is withdrawn ----------------------------------------------------------- */

static int bind_rail(struct hmreg_mr *mr)
{
    return hmreg_mr_bind(hmreg_mr_rail(mr, BROKEN), &lib, 0);
}

static int enable_rail(struct hmreg_mr *mr)
{
    return hmreg_mr_enable(hmreg_mr_rail(mr, BROKEN));
}

static int refresh_rail(struct hmreg_mr *mr)
{
    return hmreg_mr_refresh(hmreg_mr_rail(mr, BROKEN), NULL, 0, 0);
}

static int refresh_part(struct hmreg_mr *mr)
{
    return hmreg_mr_refresh(hmreg_mr_rail(mr, BROKEN), &(struct iovec){memory[0], 1}, 1, 0);
}

static int refresh_all(struct hmreg_mr *mr)
{
    return hmreg_mr_refresh(mr, NULL, 0, 0);
}

static int refresh_all_parts(struct hmreg_mr *mr)
{
    return hmreg_mr_refresh(mr, &(struct iovec){memory[0], 1}, 1, 0);
}

/* Its keys are gone when the NIC looks at the registration, which stays until the close. */
TEST(bind_enable_refresh__withdrawn_in_the_call__the_nic_has_its_registration)
{
    int (*uses[])(struct hmreg_mr *) = {bind_rail,        enable_rail,     refresh_rail,
                                        refresh_part,     hmreg_mr_enable, refresh_all,
                                        refresh_all_parts};

    open_all();
    for (unsigned i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        struct nic *now = &nics[i % 2 ? NEW : BROKEN], *next = &nics[i % 2 ? BROKEN : NEW];
        struct hmreg_mr *mr = reg(memory[0], LEN);

        atomic_store(&now->using, withdraw);
        assert_ok(uses[i](mr));
        assert_null(atomic_load(&now->using));
        assert_without_broken(mr);
        assert_ok(hmreg_mr_close(mr));
        assert_ok(hmreg_group_replace(group, BROKEN, next->domain));
        nic_replaced(group, BROKEN);
    }
}

TEST(enable_refresh__withdrawn_before_its_turn__is_left_out)
{
    int (*uses[])(struct hmreg_mr *) = {hmreg_mr_enable, refresh_all, refresh_all_parts};
    struct nic *now = &nics[BROKEN], *next = &nics[NEW];

    open_all();
    for (unsigned i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        struct hmreg_mr *mr = reg(memory[0], LEN);
        struct nic *before = now;

        atomic_store(&nics[0].using, withdraw);
        assert_ok(uses[i](mr));
        assert_int_equal(atomic_load(&now->uses), 0);
        assert_int_equal(atomic_load(&nics[2].uses), i + 1);
        assert_ok(hmreg_mr_close(mr));
        assert_ok(hmreg_group_replace(group, BROKEN, next->domain));
        nic_replaced(group, BROKEN);
        now = next;
        next = before;
    }
}

static void exchange(void)
{
    withdraw();
    replace();
}

/* All keys of one token are of the same NIC. */
TEST(pack__rail_is_replaced_in_the_call__a_token_of_the_new_one)
{
    uint8_t bytes[1024];
    size_t size = sizeof(bytes);
    const uint8_t *raw;
    size_t raw_size;
    struct hmreg_mr *mr;

    nics_mode |= HMREG_MR_RAW;
    open_all();
    nics_mode &= ~HMREG_MR_RAW;
    mr = make_pieces();
    atomic_store(&nics[BROKEN].using, exchange);
    assert_ok(hmreg_mr_pack(hmreg_mr_rail(mr, BROKEN), bytes, &size));
    assert_null(atomic_load(&nics[BROKEN].using));
    raw = token_raw(bytes, size, &raw_size);
    assert_int_equal(raw_size, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(raw[i], NEW);
    close_it(mr);
}

TEST_MAIN()
