/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_group_withdraw() and _replace() beside suspensions, tokens and tables, and NICs that hang.
 * What becomes of each kind of region by one call is in hmreg_group_withdraw.c.
 */
#include "tests/unit/member_fixture.h"

#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/inside.h"

#include <hmreg/remote.h>
#include <hmreg/suspend.h>
#include <hmreg/table.h>

/* ---- withdrawing ------------------------------------------------------------------------ */

/* The application makes no further call. */
TEST(withdraw__cached_held__the_librarys_thread_ends_it)
{
    struct hmreg_mr *mr;

    inside_set_idle(1000000);
    open_all();
    mr = get(memory[0], LEN);
    withdraw();
    hmreg_mr_put(mr);
    while (!atomic_load(&nics[BROKEN].deregs))
        sched_yield();
    assert_survivors(1, 0);
    test_finish();
    inside_set_idle(INSIDE_IDLE_NS);
}

TEST(withdraw__suspended__resumes_without_it_or_with_the_new_one)
{
    struct hmreg_mr *mr;

    open_all();
    mr = reg(memory[0], LEN);
    assert_ok(hmreg_suspend(lib, memory[0], LEN));
    withdraw();
    assert_ok(hmreg_resume(lib, memory[0], LEN, NULL));
    assert_without_broken(mr);
    assert_ok(hmreg_suspend(lib, memory[0], LEN));
    assert_int_equal(replace().done, 0);
    assert_int_equal(atomic_load(&nics[NEW].regs), 0);
    assert_ok(hmreg_resume(lib, memory[0], LEN, NULL));
    assert_whole(mr);
    assert_ok(hmreg_mr_close(mr));
}

TEST(withdraw__suspended__holds_nothing_of_the_old_domain)
{
    struct hmreg_mr *mr, *held;

    open_all();
    mr = reg(memory[0], LEN);
    held = get(memory[1], LEN);
    assert_ok(hmreg_suspend(lib, memory[0], 2 * LEN));
    withdraw();
    replace();
    assert_ok(hmreg_domain_close(nics[BROKEN].domain));
    nics[BROKEN].domain = NULL;
    assert_ok(hmreg_resume(lib, memory[0], 2 * LEN, NULL));
    assert_whole(mr);
    assert_whole(held);
    assert_ok(hmreg_mr_close(mr));
    hmreg_mr_put(held);
}

/* What a withdrawn member has registered ends with the suspension: its memory is given back. */
TEST(withdraw__suspended_later__nothing_keeps_the_memory)
{
    struct hmreg_mr *mr;

    open_all();
    mr = reg(memory[0], LEN);
    withdraw();
    assert_ok(hmreg_suspend(lib, memory[0], LEN));
    assert_int_equal(atomic_load(&nics[BROKEN].deregs), 1);
    assert_ok(hmreg_resume(lib, memory[0], LEN, NULL));
    assert_without_broken(mr);
    assert_ok(hmreg_mr_close(mr));
}

TEST(withdraw__no_memory__is_done_by_the_next)
{
    struct hmreg_mr *mr;

    open_all();
    mr = reg(memory[0], LEN);
    allocations = 0;
    failing = 1;
    assert_fails(hmreg_group_withdraw(group, BROKEN, "cable cut"), -ENOMEM, "call again");
    failing = 0;
    assert_non_null(hmreg_mr_rail(mr, BROKEN));
    withdraw();
    assert_without_broken(mr);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- replacing -------------------------------------------------------------------------- */

TEST(replace__many_times_under_a_held_region)
{
    struct hmreg_mr *mr;

    open_all();
    mr = get(memory[0], LEN);
    for (int i = 0; i < 4; i++) {
        withdraw();
        assert_without_broken(mr);
        assert_int_equal(replace().done, 1);
        withdraw();
        assert_without_broken(mr);
        assert_ok(hmreg_group_replace(group, BROKEN, nics[BROKEN].domain));
        assert_int_equal(nic_replaced(group, BROKEN).done, 1);
    }
    assert_survivors(1, 0);
    hmreg_mr_put(mr);
}

TEST(replace__the_old_domain__closes_once_nothing_of_the_group_is_left_on_it)
{
    struct hmreg_mr *mr;

    open_all();
    mr = reg(memory[0], LEN);
    withdraw();
    assert_fails(hmreg_domain_close(nics[BROKEN].domain), -EBUSY, "1 groups");
    replace();
    assert_fails(hmreg_domain_close(nics[BROKEN].domain), -EBUSY,
                 "registrations of a group's regions");
    assert_fails(hmreg_domain_close(spare), -EBUSY, "1 groups");
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(nics[BROKEN].domain));
    nics[BROKEN].domain = NULL;
}

/* The new NIC does not answer either: it is withdrawn too, and no thread waits for it. */
TEST(replace__registration_hangs__gets_puts_and_a_withdrawal_go_on)
{
    struct hmreg_mr *held, *mr;

    open_all();
    held = get(memory[0], LEN);
    withdraw();
    nics[NEW].hangs = true;
    assert_ok(hmreg_group_replace(group, BROKEN, spare));
    sem_wait(&nics[NEW].entered);
    nics[NEW].hangs = false;
    assert_int_equal(nic_member(group, BROKEN).state, HMREG_MEMBER_REPLACING);
    assert_int_equal(nic_member(group, BROKEN).regions, 1);
    assert_ptr_equal(get(memory[0], LEN), held);
    hmreg_mr_put(held);
    mr = reg(memory[1], LEN);
    assert_ok(hmreg_group_withdraw(group, BROKEN, "cable cut"));
    assert_without_broken(mr);
    assert_without_broken(held);
    assert_fails(hmreg_group_replace(group, BROKEN, nics[BROKEN].domain), -EBUSY, "replaced");
    assert_ok(hmreg_mr_close(mr));
    hmreg_mr_put(held);
    assert_fails(hmreg_domain_close(group), -EBUSY, "replacements of a member");
    sem_post(&nics[NEW].leave);
    assert_int_equal(nic_replaced(group, BROKEN).state, HMREG_MEMBER_WITHDRAWN);
    assert_int_equal(atomic_load(&nics[NEW].regs) - atomic_load(&nics[NEW].deregs), 0);
}

TEST(replace__owned_members__the_old_one_is_the_callers_again)
{
    struct hmreg_domain *old;

    open_flagged(HMREG_GROUP_OWNS_MEMBERS, 0);
    old = nics[BROKEN].domain;
    withdraw();
    replace();
    assert_ok(hmreg_domain_close(old));
    for (unsigned i = 0; i < NICS_MOST; i++)
        nics[i].domain = NULL; /* the group closes them */
}

/* ---- peers ------------------------------------------------------------------------------ */

struct peer {
    char token[1024];
    size_t size;
    const void *rail;
    size_t rail_size;
};

static void pack(struct hmreg_mr *mr, size_t rail, struct peer *out)
{
    out->size = sizeof(out->token);
    assert_ok(hmreg_mr_pack(mr, out->token, &out->size));
    assert_ok(hmreg_token_rail(out->token, out->size, rail, &out->rail, &out->rail_size));
}

static enum hmreg_remote_state state_of(struct hmreg_remote *remote, const struct peer *peer)
{
    enum hmreg_remote_state state;

    assert_ok(hmreg_remote_check(remote, peer->rail, peer->rail_size, &state));
    return state;
}

TEST(replace__tokens__the_new_rail_is_renewed_and_the_others_are_current)
{
    struct hmreg_remote *remotes[RAILS];
    struct peer peer;
    struct hmreg_mr *mr;
    uint64_t key;

    open_all();
    mr = reg(memory[0], LEN);
    for (size_t i = 0; i < RAILS; i++) {
        pack(mr, i, &peer);
        assert_ok(hmreg_remote_open(nics[i].domain, peer.rail, peer.rail_size, &remotes[i]));
    }
    withdraw();
    peer.size = sizeof(peer.token);
    assert_ok(hmreg_mr_pack(mr, peer.token, &peer.size));
    assert_fails(hmreg_token_rail(peer.token, peer.size, BROKEN, &peer.rail, &peer.rail_size),
                 -ENOENT, "");
    replace();
    pack(mr, 0, &peer);
    assert_int_equal(state_of(remotes[0], &peer), HMREG_REMOTE_CURRENT);
    pack(mr, BROKEN, &peer);
    assert_int_equal(state_of(remotes[BROKEN], &peer), HMREG_REMOTE_RENEWED);
    assert_ok(hmreg_remote_renew(remotes[BROKEN], peer.rail, peer.rail_size));
    assert_int_equal(state_of(remotes[BROKEN], &peer), HMREG_REMOTE_CURRENT);
    assert_ok(hmreg_remote_addr(remotes[BROKEN], 0, LEN, &(uint64_t){0}, &key));
    assert_true(key == hmreg_mr_key(hmreg_mr_rail(mr, BROKEN)));
    for (size_t i = 0; i < RAILS; i++)
        hmreg_remote_close(remotes[i]);
    assert_ok(hmreg_mr_close(mr));
}

/* A peer's table, written with the owner's new token: the entry of one rail changes. */
TEST(replace__tables__one_entry_is_empty_and_then_new)
{
    struct hmreg_table_entry entries[RAILS], before[RAILS];
    struct hmreg_table *table = NULL;
    struct hmreg_domain *members[RAILS], *peers;
    struct peer peer;
    struct hmreg_mr *mr;

    open_all();
    mr = reg(memory[0], LEN);
    for (unsigned i = 0; i < RAILS; i++)
        members[i] = nics[i].domain;
    assert_ok(hmreg_group_open(lib, members, RAILS, NULL, &peers));
    assert_ok(hmreg_table_open(peers, entries, 1, 0, &table));
    pack(mr, 0, &peer);
    assert_ok(hmreg_table_write(table, 0, 1, peer.token, peer.size, 0));
    memcpy(before, entries, sizeof(entries));
    withdraw();
    pack(mr, 0, &peer);
    assert_ok(hmreg_table_write(table, 0, 1, peer.token, peer.size, 0));
    assert_int_equal(entries[BROKEN].flags, 0);
    replace();
    pack(mr, 0, &peer);
    assert_ok(hmreg_table_write(table, 0, 1, peer.token, peer.size, 0));
    for (unsigned i = 0; i < RAILS; i++) {
        assert_int_equal(entries[i].flags, before[i].flags);
        assert_int_equal(entries[i].key == before[i].key, i != BROKEN);
        assert_true(entries[i].key == hmreg_mr_key(hmreg_mr_rail(mr, i)));
    }
    hmreg_table_close(table);
    assert_ok(hmreg_domain_close(peers));
    assert_ok(hmreg_mr_close(mr));
}

TEST(withdraw__remotes__are_opened_on_the_others)
{
    struct hmreg_remote *remotes[RAILS] = {NULL};
    struct peer peer;
    struct hmreg_mr *mr;

    open_all();
    mr = reg(memory[0], LEN);
    pack(mr, BROKEN, &peer);
    withdraw();
    assert_ok(hmreg_remote_open_rails(group, peer.token, peer.size, remotes, RAILS));
    for (unsigned i = 0; i < RAILS; i++) {
        assert_int_equal(remotes[i] == NULL, i == BROKEN);
        hmreg_remote_close(remotes[i]);
    }
    assert_ok(hmreg_mr_close(mr));
}

/* ---- a lost member ------------------------------------------------------------------------ */

static bool loses_it; /* its NIC is lost when the new member is about to enter the group */

struct group;

int __real_group_set_member(struct group *to, size_t member, struct hmreg_domain *domain);
int __wrap_group_set_member(struct group *to, size_t member, struct hmreg_domain *domain);

int __wrap_group_set_member(struct group *to, size_t member, struct hmreg_domain *domain)
{
    if (loses_it)
        assert_ok(hmreg_domain_lost(domain, "cable cut"));
    loses_it = false;
    return __real_group_set_member(to, member, domain);
}

/* From then on no get returns the lost NIC's keys, and gets of the group go on. */
TEST(lost__member__is_withdrawn_from_its_groups)
{
    struct hmreg_mr *held, *idle;
    unsigned deregs;

    open_all();
    held = get(memory[0], LEN);
    idle = get(memory[1], LEN);
    hmreg_mr_put(idle);
    deregs = atomic_load(&nics[0].deregs);
    assert_ok(hmreg_domain_lost(nics[BROKEN].domain, "cable cut"));
    assert_without_broken(held);
    assert_ptr_equal(get(memory[1], LEN), idle); /* a hit */
    assert_without_broken(idle);
    hmreg_mr_put(idle);
    idle = get(memory[2], LEN);
    assert_without_broken(idle);
    hmreg_mr_put(idle);
    hmreg_mr_put(held);
    assert_int_equal(atomic_load(&nics[0].deregs), deregs);
    assert_int_equal(replace().state, HMREG_MEMBER_PRESENT);
    held = get(memory[0], LEN);
    assert_whole(held);
    hmreg_mr_put(held);
}

TEST(lost__no_memory_for_a_group__enomem_and_the_next_call_goes_on)
{
    struct hmreg_domain *broken;
    struct hmreg_mr *mr;

    open_all();
    broken = nics[BROKEN].domain;
    mr = reg(memory[0], LEN);
    allocations = 0;
    failing = 1;
    assert_fails(hmreg_domain_lost(broken, "cable cut"), -ENOMEM, "call again");
    failing = 0;
    assert_non_null(hmreg_mr_rail(mr, BROKEN));
    assert_fails(
        hmreg_mr_reg(broken, memory[1], LEN, HMREG_SEND, 0, 0, 0, &(struct hmreg_mr *){0}, NULL),
        -ENODEV, "cable cut");
    assert_ok(hmreg_domain_lost(broken, "again"));
    assert_without_broken(mr);
    assert_ok(hmreg_domain_lost(broken, "again"));
    assert_ok(hmreg_mr_close(mr));
}

TEST(replace__by_a_lost_domain__is_refused_with_its_reason)
{
    struct hmreg_mr *mr;

    open_all();
    mr = get(memory[0], LEN);
    withdraw();
    assert_ok(hmreg_domain_lost(spare, "on fire"));
    assert_fails(hmreg_group_replace(group, BROKEN, spare), -ENODEV, "on fire");
    assert_int_equal(nic_member(group, BROKEN).state, HMREG_MEMBER_WITHDRAWN);
    assert_ptr_equal(nic_member(group, BROKEN).domain, nics[BROKEN].domain);
    assert_without_broken(mr);
    hmreg_mr_put(mr);
}

/* The loss does not find it in the group yet. */
TEST(replace__by_a_domain_that_is_lost_meanwhile__is_withdrawn)
{
    struct hmreg_mr *mr;

    open_all();
    mr = get(memory[0], LEN);
    assert_ok(hmreg_group_withdraw(group, BROKEN, "to be exchanged"));
    loses_it = true;
    assert_int_equal(replace().state, HMREG_MEMBER_WITHDRAWN);
    assert_string_equal(nic_member(group, BROKEN).why, "cable cut");
    assert_ptr_equal(nic_member(group, BROKEN).domain, spare);
    assert_null(hmreg_mr_rail(mr, BROKEN)); /* for the first reason, if it was not registered yet */
    assert_int_equal(hmreg_last_error()->code, -ENODEV);
    hmreg_mr_put(mr);
}

TEST_MAIN()
