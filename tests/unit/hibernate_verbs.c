/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Domains of libibverbs across hmreg_hibernate() and hmreg_thaw(), on a simulated libibverbs: the
 * protection domain of before is unmapped in between, so that who touches it crashes; the new one
 * is another NIC's.
 */
#include "tests/support/failing_allocation.h"
#include "tests/support/queries.h"
#include "tests/unit/verbs_fixture.h"

#include <hmreg/group.h>
#include <hmreg/hibernate.h>
#include <hmreg/lost.h>
#include <hmreg/plan.h>

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static _Alignas(4096) char memory[8192];
static struct ibv_pd *gone; /* in a page of its own */
static struct ibv_pd *here; /* the fixture's */

static void begin_with(uint32_t flags)
{
    verbs_begin();
    here = fixture.pd;
    gone = test_map(4096);
    *gone = *here;
    fixture.pd = gone;
    verbs_open_with(flags);
}

static void begin(void)
{
    begin_with(0);
}

static void close_pd(void)
{
    assert_int_equal(munmap(gone, 4096), 0);
}

static struct hmreg_mr *registered(void)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(fixture.domain, memory, 4096, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL));
    return mr;
}

static void hibernate(void)
{
    assert_ok(hmreg_hibernate(fixture.lib));
    assert_int_equal(fake_verbs.live, 0);
    close_pd();
}

TEST(thaw__other_pd__regions_are_registered_there)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *explicit, *held = NULL, *again = NULL;

    begin();
    explicit = registered();
    assert_ok(hmreg_mr_get(fixture.domain, memory + 4096, 4096, HMREG_ACCESS_ALL, &held));
    hibernate();
    strcpy(fake_verbs_device()->name, "other7");
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_int_equal(fake_verbs.live, 2);
    assert_string_equal(test_domain_info(fixture.domain).nic, "other7");
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why));
    assert_ok(hmreg_mr_get(fixture.domain, memory, 4096, HMREG_ACCESS_ALL, &again));
    hmreg_mr_put(again);
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
}

/* In the process that hibernated, without a checkpoint. */
TEST(thaw__same_pd__regions_are_registered_there)
{
    struct hmreg_mr *mr;

    begin();
    mr = registered();
    assert_ok(hmreg_hibernate(fixture.lib));
    assert_int_equal(fake_verbs.live, 0);
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, gone));
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, gone)); /* changes its mind */
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_int_equal(fake_verbs.live, 1);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = NULL;
    close_pd();
}

TEST(thaw__domain_without_a_pd__named_and_nothing_changed)
{
    struct hmreg_mr *mr;

    begin();
    mr = registered();
    hibernate();
    assert_fails(hmreg_thaw(fixture.lib, NULL), -EINVAL, "fake0");
    assert_non_null(strstr(hmreg_last_error()->text, "hmreg_domain_renew_verbs()"));
    assert_int_equal(fake_verbs.live, 0);
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_ok(hmreg_mr_close(mr));
}

/* None reads the protection domain, which is gone. */
TEST(asleep__calls_of_the_fabric__again)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_plan plan = {.size = sizeof(plan)};
    struct hmreg_mr *mr, *other = NULL;

    begin();
    mr = registered();
    hibernate();
    assert_fails(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why), -EAGAIN,
                 "hmreg_thaw()");
    assert_fails(hmreg_domain_plan(fixture.domain, HMREG_IFACE_CUDA, 0, 4096, &plan), -EAGAIN,
                 "hmreg_thaw()");
    assert_fails(hmreg_domain_bind(fixture.domain, memory, HMREG_BIND_REG_MR), -EAGAIN,
                 "hmreg_thaw()");
    assert_fails(hmreg_mr_reg(fixture.domain, fixture.there, 64, HMREG_SEND, 0, 0, 0, &other, NULL),
                 -EAGAIN, "hmreg_thaw()");
    (void)test_domain_info(fixture.domain);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_ok(hmreg_domain_progress(fixture.domain));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = NULL;
    assert_ok(hmreg_thaw(fixture.lib, NULL));
}

TEST(asleep__nic_is_not_there__domain_is_lost)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr, *other = NULL;

    begin();
    mr = registered();
    hibernate();
    assert_ok(hmreg_domain_lost(fixture.domain, "no NIC on this host"));
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, here), -ENODEV, "no NIC on this host");
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_fails(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why), -ENODEV,
                 "no NIC on this host");
    assert_fails(hmreg_mr_get(fixture.domain, memory, 64, HMREG_SEND, &other), -ENODEV, "no NIC");
    assert_int_equal(fake_verbs.live, 0);
    assert_ok(hmreg_mr_close(mr));
}

TEST(thaw__group_whose_nearest_member_is_lost__explains_the_other)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_domain *members[2], *group = NULL;
    struct hmreg_mr *mr = NULL;

    begin();
    members[0] = fixture.domain;
    assert_ok(hmreg_domain_open_verbs(fixture.lib, here, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, NULL, &group));
    assert_ok(hmreg_mr_reg(group, memory, 64, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL));
    hibernate();
    assert_fails(hmreg_domain_explain(group, HMREG_IFACE_CUDA, 0, &why), -EAGAIN, "hmreg_thaw()");
    assert_ok(hmreg_domain_lost(members[0], "one rail here"));
    assert_ok(hmreg_domain_renew_verbs(members[1], here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_int_equal(fake_verbs.live, 1);
    assert_ok(hmreg_domain_explain(group, HMREG_IFACE_CUDA, 0, &why));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
}

TEST(hibernate__memory_window__refused_until_closed)
{
    struct hmreg_window *window = NULL;
    struct ibv_qp qp;
    struct hmreg_mr *mr;

    begin_with(HMREG_VERBS_MEMORY_WINDOWS);
    qp = (struct ibv_qp){.context = gone->context, .pd = gone};
    mr = registered();
    assert_ok(
        hmreg_window_open(mr, memory, 64, HMREG_REMOTE_WRITE, &qp, IBV_MW_TYPE_2, 0, &window));
    assert_fails(hmreg_hibernate(fixture.lib), -EBUSY, "fake0: 1 endpoints, counters, queues or");
    assert_int_equal(fake_verbs.live, 1);
    assert_ok(hmreg_window_close(window));
    hibernate();
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    qp.pd = here;
    assert_ok(
        hmreg_window_open(mr, memory, 64, HMREG_REMOTE_WRITE, &qp, IBV_MW_TYPE_2, 0, &window));
    assert_ok(hmreg_window_close(window));
    assert_ok(hmreg_mr_close(mr));
}

/* ---- what renewing refuses -------------------------------------------------------------- */

TEST(renew__wrong_arguments__inval)
{
    begin();
    assert_fails(hmreg_domain_renew_verbs(NULL, here), -EINVAL, "domain");
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, NULL), -EINVAL, "pd");
    close_pd();
}

TEST(renew__library_does_not_hibernate__busy)
{
    begin();
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, here), -EBUSY, "hmreg_hibernate()");
    hibernate();
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, here), -EBUSY, "hmreg_hibernate()");
}

/* After a failure the domain is as it was, and can be renewed. */
TEST(renew__the_device_fails_or_has_less__refused)
{
    begin_with(HMREG_VERBS_ATOMICS);
    hibernate();
    fake_verbs.query_error = EIO;
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, here), -EIO, "limits");
    fake_verbs.query_error = 0;
    fake_verbs.limits.atomic_cap = IBV_ATOMIC_NONE;
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, here), -EOPNOTSUPP, "atomic");
    fake_verbs.limits.atomic_cap = IBV_ATOMIC_HCA;
    fake_verbs.limits.max_mr_size /= 2;
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, here), -EINVAL, "permits less");
    fake_verbs.limits.max_mr_size *= 2;
    assert_fails(hmreg_thaw(fixture.lib, NULL), -EINVAL, "hmreg_domain_renew_verbs()");
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
}

TEST(renew__no_memory__enomem_then_works)
{
    begin();
    hibernate();
    allocations = 0;
    failing = 1;
    assert_fails(hmreg_domain_renew_verbs(fixture.domain, here), -ENOMEM, "memory");
    failing = 0;
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
}

TEST(renew__forked_child__eperm)
{
    pid_t child;
    int status;

    begin();
    hibernate();
    child = fork();
    if (!child)
        _exit(hmreg_domain_renew_verbs(fixture.domain, here) == -EPERM &&
                      hmreg_thaw(fixture.lib, NULL) == -EPERM &&
                      hmreg_hibernate(fixture.lib) == -EPERM
                  ? 0
                  : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(hmreg_domain_renew_verbs(fixture.domain, here));
    assert_ok(hmreg_thaw(fixture.lib, NULL));
}

TEST_MAIN()
