/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_suspend() and hmreg_resume() beside other threads' calls and jobs, and where each
 * allocation fails. What one call does is in hmreg_suspend.c; tests/gpu/suspend.c has what they are
 * for.
 */
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"
#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"

#include <fcntl.h>
#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/suspend.h>
#include <pthread.h>
#include <stdatomic.h>

#define REGIONS 4
#define LEN     4096

static struct script_fixture fixture;

static struct hmreg_mr *reg(unsigned index, uint64_t key)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(fixture.domain, fixture.memory[0] + index * LEN, LEN, HMREG_ACCESS_ALL,
                           0, key, 0, &mr, NULL));
    return mr;
}

static int sleep_all(void)
{
    return hmreg_suspend(fixture.lib, fixture.memory[0], FIXTURE_BYTES);
}

static void count(struct hmreg_mr *mr, void *number)
{
    ++*(unsigned *)number;
}

static int wake(unsigned *resumed)
{
    struct hmreg_resume_config config = {
        .size = sizeof(config), .resumed = count, .context = resumed};

    return hmreg_resume(fixture.lib, fixture.memory[0], FIXTURE_BYTES, &config);
}

static bool is_awake(const struct hmreg_mr *mr)
{
    return hmreg_mr_key(mr) != HMREG_KEY_NOTAVAIL;
}

static void open_regions(struct hmreg_mr *mrs[REGIONS])
{
    script_open(&fixture, NULL, NULL);
    for (unsigned i = 0; i < REGIONS; i++)
        mrs[i] = reg(i, i + 1);
}

static void close_regions(struct hmreg_mr *mrs[REGIONS])
{
    for (unsigned i = 0; i < REGIONS; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
    assert_int_equal(script.live, 0);
}

/* ---- the fabric -------------------------------------------------------------------------- */

/* A rail that the resumed region does without keeps its struct, which no call uses. */
TEST(resume__a_rail_is_not_there_any_more__its_calls_fail)
{
    struct hmreg_domain *members[2], *group = NULL;
    struct hmreg_group_config config = {.size = sizeof(config), .flags = HMREG_GROUP_PARTIAL};
    struct hmreg_mr *mr = NULL, *rail;
    struct hmreg_mr_info info = {.size = sizeof(info)};
    unsigned resumed = 0, refreshes;
    uint8_t token[512];
    size_t size = sizeof(token);

    script_open(&fixture, NULL, NULL);
    members[0] = fixture.domain;
    assert_ok(script_domain(fixture.lib, NULL, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, &config, &group));
    assert_ok(hmreg_mr_reg(group, fixture.memory[0], LEN, HMREG_ACCESS_ALL, 0, 9, 0, &mr, NULL));
    rail = hmreg_mr_rail(mr, 1);
    assert_ok(sleep_all());
    script.fail[HMREG_PATH_DMABUF] = -EIO;
    script.fail_index = 4;
    assert_ok(wake(&resumed));
    script.fail[HMREG_PATH_DMABUF] = 0;
    assert_null(hmreg_mr_rail(mr, 1));
    refreshes = script.refreshes;
    assert_fails(hmreg_mr_refresh(rail, NULL, 0, 0), -EINVAL, "region has lost");
    assert_fails(hmreg_mr_enable(rail), -EINVAL, "region has lost");
    assert_fails(hmreg_mr_bind(rail, &config, 0), -EINVAL, "region has lost");
    assert_fails(hmreg_mr_pack(rail, token, &size), -EINVAL, "region has lost");
    assert_fails(hmreg_mr_raw_attr(rail, NULL, token, &size, 0), -EINVAL, "region has lost");
    assert_int_equal(script.refreshes, refreshes);
    assert_ok(hmreg_mr_query(rail, &info));
    assert_int_equal(info.path, HMREG_PATH_NONE);
    assert_true(hmreg_mr_key(rail) == HMREG_KEY_NOTAVAIL);
    assert_ok(sleep_all());
    assert_ok(wake(&resumed));
    assert_ptr_equal(hmreg_mr_rail(mr, 1), rail);
    assert_ok(hmreg_mr_pack(rail, token, &size));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
    script.destroys--;
}

/* Host memory, whose key the fabric changes at the resumption, which costs an extension. */
TEST(resume__no_memory_for_a_changed_key__still_suspended)
{
    static char host[LEN];
    struct hmreg_resume_config config = {.size = sizeof(config)};
    struct hmreg_mr *mr = NULL;
    int rc = -1;

    script_open(&fixture, NULL, NULL);
    assert_ok(
        hmreg_mr_reg(fixture.domain, host, LEN, HMREG_ACCESS_ALL, 0, 5, 0, &mr, (void *)0x99));
    for (unsigned i = 1; rc; i++) {
        assert_ok(hmreg_suspend(fixture.lib, host, LEN));
        assert_int_equal(script.live, 0);
        script.given_key = 77;
        allocations = 0;
        failing = i;
        rc = hmreg_resume(fixture.lib, host, LEN, &config);
        failing = 0;
        assert_int_equal(is_awake(mr), !rc);
        assert_int_equal(script.live, !rc);
        assert_true(!rc || rc == -ENOMEM);
    }
    assert_true(hmreg_mr_key(mr) == 77);
    assert_ptr_equal(hmreg_mr_context(mr), (void *)0x99);
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(script.live, 0);
}

/* ---- a suspension between two steps of a registration ------------------------------------- */

#define RECENT 16 /* suspensions that the library remembers: SUSPENDED_RECENT */

static struct {
    unsigned memory, times; /* of which device's memory, and how often; 0: never again */
} between;

static void suspend_and_resume(unsigned memory)
{
    assert_ok(hmreg_suspend(fixture.lib, fixture.memory[memory], LEN));
    assert_ok(hmreg_resume(fixture.lib, fixture.memory[memory], LEN, NULL));
}

/* What the call has found out of its memory is from before the suspensions, which have ended. */
static void suspend_between(const char *call, uint64_t addr, size_t len)
{
    while (between.times) {
        between.times--;
        suspend_and_resume(between.memory);
    }
}

static int reg_between(unsigned memory, unsigned times, struct hmreg_mr **mr)
{
    int rc;

    between.memory = memory;
    between.times = times;
    vendors[HMREG_IFACE_CUDA].hook = suspend_between;
    rc = hmreg_mr_reg(fixture.domain, fixture.memory[0], LEN, HMREG_ACCESS_ALL, 0, 1, 0, mr, NULL);
    vendors[HMREG_IFACE_CUDA].hook = NULL;
    assert_int_equal(between.times, 0);
    return rc;
}

TEST(register__memory_was_suspended_since_it_was_resolved__eagain)
{
    struct hmreg_mr *mr = NULL;

    script_open(&fixture, NULL, NULL);
    assert_fails(reg_between(0, 1, &mr), -EAGAIN, "suspended");
    assert_null(mr);
    assert_int_equal(script.live, 0);
    assert_ok(reg_between(1, 1, &mr)); /* other memory */
    assert_ok(hmreg_mr_close(mr));
}

/* Only if there were more suspensions than are remembered since a call began, may one have touched
 * its memory unseen. */
TEST(register__many_suspensions_of_other_memory__only_later_ones_count)
{
    struct hmreg_mr *mr = NULL;

    script_open(&fixture, NULL, NULL);
    for (unsigned i = 0; i < 3 * RECENT; i++)
        suspend_and_resume(0);
    assert_ok(reg_between(1, RECENT, &mr));
    assert_ok(hmreg_mr_close(mr));
    mr = NULL;
    assert_fails(reg_between(1, RECENT + 1, &mr), -EAGAIN, "suspended");
    assert_null(mr);
}

/* ---- calls on other threads --------------------------------------------------------------- */

/* A registration, during which another thread suspends its memory. */
static struct {
    pthread_t thread;
    bool armed, in_callback;
    bool again; /* the registration is discarded, and the next one fails */
    atomic_bool deregistered, ended;
    int rc;
} beside;

static void *suspend_beside(void *arg)
{
    beside.rc = sleep_all();
    atomic_store(&beside.ended, true);
    return NULL;
}

/* The other thread has ended the region that was there, and so has come by this registration. */
static void start_beside(void)
{
    beside.armed = false;
    assert_int_equal(pthread_create(&beside.thread, NULL, suspend_beside, NULL), 0);
    test_wait_until(atomic_load(&beside.deregistered));
    test_wait_until_others_sleep();
    assert_false(atomic_load(&beside.ended));
}

static int before_reg(unsigned domain)
{
    if (!beside.armed || !beside.again || script.count < 2)
        return 0;
    start_beside();
    return -EIO;
}

static void after_reg(void)
{
    if (beside.armed && beside.again)
        assert_ok(hmreg_invalidate(fixture.lib, fixture.memory[0], LEN));
    else if (beside.armed && !beside.in_callback)
        start_beside();
}

static void after_dereg(void)
{
    atomic_store(&beside.deregistered, true);
}

static void made_beside(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *context)
{
    if (beside.armed && beside.in_callback)
        start_beside();
}

static void suspend_during(uint32_t flags, bool explicit, bool in_callback, int expected)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .made = made_beside};
    struct hmreg_mr *before = NULL, *mr = NULL;
    struct hmreg_domain *usual;
    unsigned resumed = 0;
    int rc;

    script_open(&fixture, NULL, NULL);
    usual = fixture.domain;
    script.before_reg = before_reg;
    script.after_reg = after_reg;
    script.after_dereg = after_dereg;
    assert_ok(script_domain(fixture.lib, NULL, &config, &fixture.domain));
    before = reg(0, 1);
    beside.in_callback = in_callback;
    beside.armed = true;
    atomic_store(&beside.deregistered, false);
    atomic_store(&beside.ended, false);
    if (explicit)
        rc = hmreg_mr_reg(fixture.domain, fixture.memory[0], LEN, HMREG_ACCESS_ALL, 0, 2, 0, &mr,
                          NULL);
    else
        rc = hmreg_mr_get(fixture.domain, fixture.memory[0], LEN, HMREG_ACCESS_ALL, &mr);
    assert_int_equal(rc, expected);
    pthread_join(beside.thread, NULL);
    assert_int_equal(beside.rc, 0);
    assert_int_equal(script.count, 2); /* with the one before */
    assert_int_equal(script.live, 0);
    assert_true(!mr || !is_awake(mr));
    assert_ok(wake(&resumed));
    assert_int_equal(resumed, mr ? 2 : 1);
    if (explicit)
        assert_ok(hmreg_mr_close(mr));
    else
        hmreg_mr_put(mr);
    assert_ok(hmreg_mr_close(before));
    assert_ok(hmreg_domain_close(fixture.domain));
    script.destroys--;
    fixture.domain = usual;
    test_finish();
}

TEST(suspend__while_the_memory_is_registered__waits_and_ends_that)
{
    suspend_during(0, true, false, 0);
    suspend_during(0, false, false, -EAGAIN);
    suspend_during(HMREG_DOMAIN_NO_CACHE, false, false, 0);
    suspend_during(HMREG_DOMAIN_NO_CACHE, false, true, 0);
}

TEST(suspend__while_a_get_registers_again__tries_no_more)
{
    beside.again = true;
    suspend_during(0, false, false, -EAGAIN);
}

static unsigned found_job;

static void suspend_after_free(void)
{
    static _Thread_local bool inside;
    int rc;

    if (inside)
        return;
    inside = true;
    rc = sleep_all();
    found_job += rc == -EBUSY;
    if (!rc)
        assert_ok(wake(&(unsigned){0}));
    inside = false;
}

static int fail_third(unsigned domain)
{
    if (script.count < 2)
        return 0;
    after_free = suspend_after_free;
    return -EIO;
}

/* As each thing that a failed job has is freed, another call finds the job. */
TEST(suspend__while_a_job_ends__what_it_frees_is_not_read)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 1, .piece_len = LEN};
    struct hmreg_mr *mr = NULL;

    script_open(&fixture, NULL, NULL);
    script.before_reg = fail_third;
    assert_int_equal(hmreg_mr_reg_large(fixture.domain, fixture.memory[0], 3 * LEN,
                                        HMREG_ACCESS_ALL, &config, &mr),
                     -EIO);
    after_free = NULL;
    assert_true(found_job > 0);
    assert_int_equal(script.live, 0);
}

/* A descriptor of the first device's memory, of this number or a higher one. */
static int descriptor(int least)
{
    return fcntl(vendors[HMREG_IFACE_CUDA].claims[0].fd, F_DUPFD_CLOEXEC, least);
}

static int next_descriptor(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf,
                           void *descriptors)
{
    dmabuf->fd = ((int *)descriptors)[index];
    return 0;
}

TEST(resume__list_of_callers_dmabufs__each_one_is_asked_for)
{
    struct hmreg_segment segments[2];
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .segments = segments, .segment_count = 2};
    struct hmreg_resume_config config = {.size = sizeof(config), .dmabuf = next_descriptor};
    int before, after[2];
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    before = descriptor(0);
    for (int i = 0; i < 2; i++) {
        segments[i] = (struct hmreg_segment){
            HMREG_SEGMENT_DMABUF,
            .u.dmabuf = {.fd = before, .len = LEN, .base_addr = fixture.memory[0]}};
        after[i] = descriptor(100);
    }
    config.context = after;
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_ok(sleep_all());
    assert_ok(hmreg_resume(fixture.lib, fixture.memory[0], FIXTURE_BYTES, &config));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(script.calls[script.count - 2 + i].dmabuf.fd, after[i]);
        close(after[i]);
    }
    assert_ok(hmreg_mr_close(mr));
    close(before);
}

/* ---- refusals ---------------------------------------------------------------------------- */

TEST(suspend__job_of_the_range__busy)
{
    struct script_caps caps = script_caps;
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;
    unsigned resumed = 0;

    caps.any_thread = false; /* the waiting thread registers */
    script_open(&fixture, &caps, NULL);
    assert_ok(script_job(&fixture, LEN, &job));
    assert_fails(sleep_all(), -EBUSY, "a job");
    assert_ok(hmreg_job_wait(job, -1, &mr));
    assert_ok(hmreg_job_close(job));
    assert_ok(sleep_all());
    assert_int_equal(script.live, 0);
    assert_int_equal(script_job(&fixture, LEN, &job), -EAGAIN);
    assert_ok(wake(&resumed));
    assert_int_equal(script.live, 4);
    assert_int_equal(hmreg_mr_head_of(mr)->count, 4);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- allocations ------------------------------------------------------------------------- */

TEST(both__each_allocation_fails__nothing_is_lost)
{
    struct hmreg_mr *mrs[REGIONS], *held = NULL;
    unsigned failures = 0, resumed = 0;
    long before;

    open_regions(mrs);
    assert_ok(hmreg_mr_get(fixture.domain, fixture.memory[0], LEN, HMREG_ACCESS_ALL, &held));
    for (unsigned n = 1;; n++) {
        int rc;

        allocations = 0;
        failing = n;
        rc = sleep_all();
        failing = 0;
        if (!rc)
            break;
        failures++;
        assert_int_equal(rc, -ENOMEM);
        for (unsigned i = 0; i < REGIONS; i++)
            assert_true(is_awake(mrs[i]));
        assert_int_equal(wake(&resumed), -ENOENT);
    }
    assert_int_equal(failures, 1);
    assert_ok(wake(&resumed)); /* each region keeps one extension from here on */
    assert_ok(sleep_all());
    before = blocks;
    for (unsigned n = 1;; n++) {
        int rc;

        allocations = 0;
        failing = n;
        rc = wake(&resumed);
        failing = 0;
        if (!rc)
            break;
        failures++;
        assert_int_equal(rc, -ENOMEM);
        assert_ok(sleep_all());
        assert_int_equal(blocks, before);
        assert_int_equal(script.live, 0);
    }
    assert_in_range(failures, 10, 200);
    hmreg_mr_put(held);
    close_regions(mrs);
}

TEST_MAIN()
