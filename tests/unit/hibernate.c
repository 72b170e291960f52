/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_hibernate() and hmreg_thaw() of one process, beside monitors, suspensions, groups and
 * objects of loopback, and what is refused in between. What one call does is in hmreg_suspend.c;
 * docs/hibernate.md names a test of each row of its table. Other fabrics: hibernate_verbs.c,
 * hibernate_ofi.c.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/queries.h"

#include <hmreg/group.h>
#include <hmreg/hibernate.h>
#include <hmreg/job.h>
#include <hmreg/loopback.h>
#include <hmreg/lost.h>
#include <hmreg/suspend.h>

#include <dirent.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE   4096u
#define PAGES  16
#define RIGHTS HMREG_ACCESS_ALL

static char *host;

static void free_host(void)
{
    munmap(host, PAGES * PAGE);
}

/* The reaper's thread serves the domain. */
static void begin_with(enum hmreg_monitor monitor)
{
    fixture_open(monitor, NULL);
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = counter_open_served(fixture.lib, NULL);
    host = fixture_map(PAGES);
    test_after(free_host);
}

static void begin(void)
{
    begin_with(fixture_monitor());
}

static int get(unsigned page, struct hmreg_mr **mr)
{
    return hmreg_mr_get(fixture.domain, host + page * PAGE, PAGE, RIGHTS, mr);
}

static struct hmreg_mr *got(unsigned page)
{
    return fixture_get(host + page * PAGE, PAGE);
}

static struct hmreg_mr *registered_on(struct hmreg_domain *domain, unsigned page)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_reg(domain, host + page * PAGE, PAGE, RIGHTS, 0, HMREG_KEY_ANY, 0, &mr, NULL));
    return mr;
}

static struct hmreg_mr *registered(unsigned page)
{
    return registered_on(fixture.domain, page);
}

static bool is_awake(const struct hmreg_mr *mr)
{
    return hmreg_mr_key(mr) != HMREG_KEY_NOTAVAIL;
}

static void hibernate(void)
{
    assert_ok(hmreg_hibernate(fixture.lib));
}

static void thaw(void)
{
    assert_ok(hmreg_thaw(fixture.lib, NULL));
}

/* ---- what ends, and what stays ---------------------------------------------------------- */

/* Descriptors of this process whose link has such a text. */
static unsigned descriptors(const char *text)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        char link[256] = "";

        if (readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1) > 0)
            count += strstr(link, text) != NULL;
    }
    closedir(folder);
    return count;
}

static void expect_nothing_open(void)
{
    assert_int_equal(counter.regions, 0);
    assert_int_equal(descriptors("userfaultfd"), 0);
    assert_int_equal(descriptors("/dev/hmreg"), 0);
    assert_int_equal(descriptors("memfd:hmreg"), 0);
    assert_int_equal(fixture_threads_named("hmreg-monitor", NULL, 0), 0);
    assert_int_equal(fixture_threads_named("hmreg-reaper", NULL, 0), 0);
}

static void ends_and_comes_back(enum hmreg_monitor monitor)
{
    struct hmreg_mr *explicit, *held, *idle;
    enum hmreg_monitor active;
    uint32_t before[2];
    uint64_t misses;

    begin_with(monitor);
    explicit = registered(0);
    held = got(1);
    idle = got(2);
    hmreg_mr_put(idle);
    active = test_monitor_info(fixture.lib).active;
    before[0] = hmreg_mr_head_of(explicit)->generation;
    before[1] = hmreg_mr_head_of(held)->generation;
    misses = fixture_stats().misses;
    assert_int_equal(misses, 2);
    assert_int_equal(descriptors("memfd:hmreg-stats"), 1);
    assert_int_equal(counter.regions, 3);
    hibernate();
    expect_nothing_open();
    assert_false(is_awake(explicit));
    assert_int_equal(hmreg_last_error()->code, -EAGAIN);
    assert_false(is_awake(held));
    assert_int_equal(fixture_stats().misses, misses);
    thaw();
    assert_int_equal(descriptors("memfd:hmreg-stats"), 1);
    assert_int_equal(fixture_stats().misses, misses);
    assert_int_equal(counter.regions, 2);
    assert_true(is_awake(explicit) && is_awake(held));
    assert_int_not_equal(hmreg_mr_head_of(explicit)->generation, before[0]);
    assert_int_not_equal(hmreg_mr_head_of(held)->generation, before[1]);
    assert_int_equal(fixture_key(host + 2 * PAGE, PAGE), fixture_key(host + 2 * PAGE, PAGE));
    assert_int_equal(test_monitor_info(fixture.lib).active, active);
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
    assert_int_not_equal(fixture_key(host + PAGE, PAGE), 0);
}

TEST(hibernate__with_the_tests_monitor__ends_all_and_thaw_makes_it_anew)
{
    ends_and_comes_back(fixture_monitor());
}

TEST(hibernate__with_the_default_monitor__ends_all_and_thaw_makes_it_anew)
{
    ends_and_comes_back(HMREG_MONITOR_DEFAULT);
}

TEST(hibernate__with_import__ends_all_and_thaw_makes_it_anew)
{
    ends_and_comes_back(HMREG_MONITOR_IMPORT);
}

TEST(hibernate__without_a_monitor__ends_all_and_thaw_makes_it_anew)
{
    struct hmreg_mr *held;

    begin_with(HMREG_MONITOR_DISABLED);
    held = got(1);
    hibernate();
    expect_nothing_open();
    thaw();
    assert_true(is_awake(held));
    hmreg_mr_put(held);
}

/* Regions of before and after: none serves once its memory has changed. */
static void notices_after(enum hmreg_monitor monitor)
{
    struct hmreg_mr *held;
    uint64_t key;

    begin_with(monitor);
    held = got(1);
    hibernate();
    thaw();
    key = fixture_key(host + PAGE, PAGE);
    assert_int_equal(fixture_key(host + PAGE, PAGE), key);
    assert_int_equal(madvise(host + PAGE, PAGE, MADV_DONTNEED), 0);
    assert_int_not_equal(fixture_key(host + PAGE, PAGE), key);
    hmreg_mr_put(held);
    key = fixture_key(host + PAGE, PAGE);
    assert_int_equal(munmap(host + PAGE, PAGE), 0);
    fixture_map_again(host + PAGE, PAGE);
    assert_int_not_equal(fixture_key(host + PAGE, PAGE), key);
}

TEST(thaw__with_the_tests_monitor__changes_are_noticed)
{
    notices_after(fixture_monitor());
}

TEST(thaw__with_the_default_monitor__changes_are_noticed)
{
    notices_after(HMREG_MONITOR_DEFAULT);
}

/* Another thread's table is the one that a hit reads. */
TEST(hibernate__remembered_region__no_hit)
{
    struct hmreg_mr *mr = (void *)1;

    begin();
    (void)fixture_key(host, PAGE);
    (void)fixture_key(host, PAGE);
    hibernate();
    assert_fails(get(0, &mr), -EAGAIN, "hmreg_thaw()");
    assert_ptr_equal(mr, (void *)1);
    thaw();
}

/* ---- in between ------------------------------------------------------------------------- */

TEST(asleep__calls_that_register__again)
{
    struct hmreg_mr *explicit, *mr = (void *)1;
    struct hmreg_segment one = {.u.memory = {0}};
    struct hmreg_job *job = (void *)1;
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .access = RIGHTS, .iov_count = 1};
    struct iovec range;
    char token[512];
    size_t size = sizeof(token);
    unsigned regs;

    begin();
    explicit = registered(0);
    range = (struct iovec){host, PAGE};
    one.u.memory = range;
    attr.iov = &range;
    hibernate();
    regs = counter.regs;
    assert_fails(get(0, &mr), -EAGAIN, "hmreg_thaw()");
    assert_fails(hmreg_mr_reg(fixture.domain, host, PAGE, RIGHTS, 0, 0, 0, &mr, NULL), -EAGAIN,
                 "hmreg_hibernate()");
    assert_fails(hmreg_mr_regsgl(fixture.domain, &one, 1, RIGHTS, 0, 0, 0, &mr, NULL), -EAGAIN,
                 "hmreg_thaw()");
    assert_fails(hmreg_mr_get_attr(fixture.domain, &attr, 0, &mr), -EAGAIN, "hmreg_thaw()");
    assert_fails(hmreg_job_start(fixture.domain, &attr, 0, NULL, &job), -EAGAIN, "hmreg_thaw()");
    assert_fails(hmreg_mr_pack(explicit, token, &size), -EAGAIN, "hmreg_thaw()");
    assert_fails(hmreg_mr_enable(explicit), -EAGAIN, "hmreg_thaw()");
    assert_ptr_equal(mr, (void *)1);
    assert_ptr_equal(job, (void *)1);
    assert_int_equal(counter.regs, regs);
    thaw();
    assert_ok(hmreg_mr_close(explicit));
}

TEST(asleep__put_close_query_and_flush__work)
{
    struct hmreg_mr *explicit, *held;

    begin();
    explicit = registered(0);
    held = got(1);
    hibernate();
    assert_int_equal(test_info_of(explicit).addr, (uintptr_t)host);
    assert_int_equal(test_info_of(held).len, PAGE);
    (void)test_domain_info(fixture.domain);
    (void)test_monitor_info(fixture.lib);
    (void)fixture_stats();
    assert_ok(hmreg_domain_flush(fixture.domain));
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
    expect_nothing_open();
    thaw();
    assert_int_equal(counter.regions, 0);
    hmreg_mr_put(got(1));
}

TEST(asleep__domain_is_closed__its_fabric_is_not_called)
{
    begin();
    hmreg_mr_put(got(1));
    hibernate();
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = NULL;
    thaw();
    assert_int_equal(counter.regs, counter.deregs);
}

TEST(asleep__domain_is_opened__registers_from_the_thaw_on)
{
    struct hmreg_domain *other;
    struct hmreg_mr *mr = NULL;

    begin();
    hibernate();
    other = counter_open_more(fixture.lib, NULL);
    assert_fails(hmreg_mr_get(other, host, PAGE, RIGHTS, &mr), -EAGAIN, "hmreg_thaw()");
    thaw();
    assert_ok(hmreg_mr_get(other, host, PAGE, RIGHTS, &mr));
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(other));
}

/* ---- hmreg_suspend() beside it ---------------------------------------------------------- */

static int suspend(void)
{
    return hmreg_suspend(fixture.lib, host, 2 * PAGE);
}

static int resume(void)
{
    return hmreg_resume(fixture.lib, host, 2 * PAGE, NULL);
}

static int sleep_now(void)
{
    return hmreg_hibernate(fixture.lib);
}

static int wake_now(void)
{
    return hmreg_thaw(fixture.lib, NULL);
}

/* Region 0 is of the suspended range, region 4 is not. */
static void in_order(int (*const calls[4])(void), const bool awake[4][2])
{
    struct hmreg_mr *mrs[2];

    begin();
    mrs[0] = registered(0);
    mrs[1] = registered(4);
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(calls[i]());
        assert_int_equal(is_awake(mrs[0]), awake[i][0]);
        assert_int_equal(is_awake(mrs[1]), awake[i][1]);
        assert_int_equal(counter.regions, awake[i][0] + awake[i][1]);
    }
    assert_ok(hmreg_mr_close(mrs[0]));
    assert_ok(hmreg_mr_close(mrs[1]));
}

TEST(suspend__around_hibernate__ends_last)
{
    in_order((int (*const[])(void)){suspend, sleep_now, wake_now, resume},
             (const bool[][2]){{false, true}, {false, false}, {false, true}, {true, true}});
}

TEST(suspend__begins_first_and_ends_first__thaw_registers)
{
    in_order((int (*const[])(void)){suspend, sleep_now, resume, wake_now},
             (const bool[][2]){{false, true}, {false, false}, {false, false}, {true, true}});
}

TEST(suspend__within_hibernate__thaw_registers)
{
    in_order((int (*const[])(void)){sleep_now, suspend, resume, wake_now},
             (const bool[][2]){{false, false}, {false, false}, {false, false}, {true, true}});
}

TEST(suspend__begins_last_and_ends_last__resume_registers)
{
    in_order((int (*const[])(void)){sleep_now, suspend, wake_now, resume},
             (const bool[][2]){{false, false}, {false, false}, {false, true}, {true, true}});
}

/* ---- what only the caller can close ----------------------------------------------------- */

static struct hmreg_domain *open_loopback(uint32_t mode)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = mode};
    struct hmreg_domain *domain = NULL;

    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &domain));
    return domain;
}

/* Nothing has changed: a region is there, and gets are served. */
static void expect_refused(const char *words, struct hmreg_mr *mr)
{
    char token[512];
    size_t size = sizeof(token);

    assert_fails(hmreg_hibernate(fixture.lib), -EBUSY, words);
    assert_non_null(strstr(hmreg_last_error()->text, "loopback"));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    hmreg_mr_put(got(7));
    assert_fails(hmreg_thaw(fixture.lib, NULL), -ENOENT, "");
}

TEST(hibernate__objects_of_loopback__refused_until_closed)
{
    struct hmreg_loopback_counter *count;
    struct hmreg_loopback_ep *ep;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    begin();
    domain = open_loopback(0);
    mr = registered_on(domain, 0);
    assert_ok(hmreg_loopback_ep_open(domain, &ep));
    expect_refused("endpoints, counters, queues or memory windows", mr);
    assert_ok(hmreg_loopback_ep_close(ep));
    assert_ok(hmreg_loopback_counter_open(domain, &count));
    expect_refused("1 endpoints, counters", mr);
    assert_ok(hmreg_loopback_counter_close(count));
    hibernate();
    thaw();
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
}

TEST(hibernate__mapped_key__refused_until_unmapped)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    uint8_t raw[16];
    uint64_t base, key;
    size_t size = sizeof(raw);

    begin();
    domain = open_loopback(HMREG_MR_RAW);
    mr = registered_on(domain, 0);
    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_ok(hmreg_domain_map_raw(domain, base, raw, size, &key, 0));
    expect_refused("mapped keys", mr);
    assert_ok(hmreg_domain_unmap_raw(domain, key));
    hibernate();
    thaw();
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
}

TEST(hibernate__remote_with_raw_keys__refused_until_closed)
{
    struct hmreg_remote *remote;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    begin();
    domain = open_loopback(HMREG_MR_RAW);
    mr = registered_on(domain, 0);
    remote = test_remote_of(domain, mr);
    expect_refused("remotes", mr);
    hmreg_remote_close(remote);
    hibernate();
    thaw();
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
}

/* The remote is what the peer told: it stays, and a token of after the thaw renews it. */
TEST(hibernate__remote__stays_and_is_of_an_earlier_life)
{
    struct hmreg_remote *remote;
    struct hmreg_domain *domain;
    enum hmreg_remote_state state;
    struct hmreg_mr *mr;
    char token[2][512], bytes[8] = "written";
    size_t size[2] = {sizeof(token[0]), sizeof(token[1])};
    uint64_t addr, key;

    begin();
    domain = open_loopback(HMREG_MR_PROV_KEY);
    mr = registered_on(domain, 0);
    remote = test_remote_of(domain, mr);
    assert_ok(hmreg_mr_pack(mr, token[0], &size[0]));
    assert_ok(hmreg_remote_addr(remote, 0, 8, &addr, &key));
    hibernate();
    assert_int_equal(hmreg_loopback_write(remote, bytes, 8, NULL, addr, key), -EKEYREJECTED);
    thaw();
    assert_int_equal(hmreg_loopback_write(remote, bytes, 8, NULL, addr, key), -EKEYREJECTED);
    assert_ok(hmreg_mr_pack(mr, token[1], &size[1]));
    assert_ok(hmreg_remote_check(remote, token[1], size[1], &state));
    assert_int_equal(state, HMREG_REMOTE_OTHER_LIFE);
    assert_int_equal(size[0], size[1]);
    assert_memory_not_equal(token[0], token[1], size[0]);
    hmreg_remote_close(remote);
    remote = NULL;
    assert_int_equal(hmreg_remote_open(domain, token[0], size[0], &remote), -EHOSTUNREACH);
    assert_ok(hmreg_remote_open(domain, token[1], size[1], &remote));
    assert_ok(hmreg_remote_addr(remote, 0, 8, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, bytes, 8, NULL, addr, key));
    assert_string_equal(host, "written");
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
}

TEST(hibernate__explicit_region_with_an_endpoint__refused)
{
    struct hmreg_loopback_ep *ep;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    begin();
    domain = open_loopback(HMREG_MR_ENDPOINT);
    mr = registered_on(domain, 0);
    assert_ok(hmreg_loopback_ep_open(domain, &ep));
    assert_ok(hmreg_mr_bind(mr, ep, 0));
    assert_ok(hmreg_mr_enable(mr));
    expect_refused("endpoints", mr);
    assert_ok(hmreg_loopback_ep_close(ep));
    assert_ok(hmreg_mr_close(mr));
    hibernate();
    thaw();
    assert_ok(hmreg_domain_close(domain));
}

/* ---- groups ----------------------------------------------------------------------------- */

static struct hmreg_domain *group_of(struct hmreg_domain *members[2])
{
    struct hmreg_domain *group = NULL;

    members[0] = counter_open_more(fixture.lib, NULL);
    members[1] = counter_open_more(fixture.lib, NULL);
    assert_ok(hmreg_group_open(fixture.lib, members, 2, NULL, &group));
    return group;
}

TEST(thaw__group__each_rail_is_registered)
{
    struct hmreg_domain *members[2], *group;
    struct hmreg_mr *explicit, *rail, *held = NULL;
    unsigned before;

    begin();
    group = group_of(members);
    explicit = registered_on(group, 0);
    assert_ok(hmreg_mr_get(group, host + PAGE, PAGE, RIGHTS, &held));
    rail = hmreg_mr_rail(explicit, 1);
    before = counter.regions;
    assert_int_equal(before, 4);
    hibernate();
    expect_nothing_open();
    assert_false(is_awake(rail));
    thaw();
    assert_int_equal(counter.regions, before);
    assert_ptr_equal(hmreg_mr_rail(explicit, 1), rail);
    assert_true(is_awake(rail));
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[0]));
    assert_ok(hmreg_domain_close(members[1]));
}

TEST(thaw__member_is_lost__the_group_does_with_fewer_rails)
{
    struct hmreg_domain *members[2], *group;
    struct hmreg_mr *explicit, *of_member, *held = NULL;

    begin();
    group = group_of(members);
    explicit = registered_on(group, 0);
    of_member = registered_on(members[1], 3);
    assert_ok(hmreg_mr_get(group, host + PAGE, PAGE, RIGHTS, &held));
    hibernate();
    assert_ok(hmreg_domain_lost(members[1], "the other host has one NIC"));
    thaw();
    assert_int_equal(counter.regions, 2);
    assert_true(is_awake(hmreg_mr_rail(explicit, 0)) && is_awake(hmreg_mr_rail(held, 0)));
    assert_null(hmreg_mr_rail(explicit, 1));
    assert_non_null(strstr(hmreg_last_error()->text, "one NIC"));
    assert_false(is_awake(of_member));
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
    assert_ok(hmreg_mr_close(of_member));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[0]));
    assert_ok(hmreg_domain_close(members[1]));
}

TEST(asleep__member_is_replaced__thaw_registers_on_the_new_one)
{
    struct hmreg_domain *members[2], *other, *group;
    struct hmreg_mr *explicit;

    begin();
    group = group_of(members);
    explicit = registered_on(group, 0);
    hibernate();
    other = counter_open_more(fixture.lib, NULL);
    assert_ok(hmreg_group_withdraw(group, 1, "it is another NIC there"));
    assert_ok(hmreg_group_replace(group, 1, other));
    assert_int_equal(counter.regions, 0);
    thaw();
    assert_int_equal(counter.regions, 2);
    assert_true(is_awake(hmreg_mr_rail(explicit, 1)));
    assert_ptr_equal(hmreg_mr_head_of(hmreg_mr_rail(explicit, 1))->domain, other);
    assert_ok(hmreg_mr_close(explicit));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(other));
    assert_ok(hmreg_domain_close(members[0]));
    assert_ok(hmreg_domain_close(members[1]));
}

TEST_MAIN()
