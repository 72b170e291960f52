/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_suspend(), hmreg_resume(), hmreg_hibernate() and hmreg_thaw() in rows:
 * what is registered, and what ends, or is registered anew. suspend.c and hibernate.c have what
 * takes several calls.
 */
#include "tests/support/table.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <hmreg/hibernate.h>
#include <hmreg/job.h>
#include <hmreg/suspend.h>

#define LEN 4096u

struct args {
    int usual_;
    enum { HOST, GPU } of;
    uint64_t at, len;
    enum { ALL, NO_LIB, NO_CONFIG, WRONG_SIZE, WITH_DMABUF, DMABUF_FAILS } with;
    unsigned failed; /* regions that a thaw cannot register */
};

#define IT                       ARGS(HOST, 0, LEN)
#define LEFT(n, log)             RETURNS(n, log) /* registrations */
#define MADE(n, log)             RETURNS(n, log) /* regions that were resumed */
#define WRONG(text)              FAILS(-EINVAL, text, "")
#define IN_PART(code, text, log) FAILS(code, text, log), .in_part = true
#define ONCE                     "nic0.dereg"
#define TWICE                    "nic0.dereg nic0.dereg"
#define ASKED                    "cuda.resolve rocr.resolve ze.resolve "

static struct hmreg_mr *held[2], *explicit[2];
static struct hmreg_job *job;
static int next_fd;

/* ---- what is registered ----------------------------------------------------------------- */

static void end_all(void)
{
    for (int i = 0; i < 2; i++) {
        hmreg_mr_put(held[i]);
        assert_ok(hmreg_mr_close(explicit[i]));
        held[i] = explicit[i] = NULL;
    }
    assert_ok(hmreg_job_close(job));
    job = NULL;
}

static void reg_at(int i, char *addr, size_t len)
{
    assert_ok(hmreg_mr_reg(world.domain, addr, len, HMREG_ACCESS_ALL, 0, HMREG_KEY_ANY, 0,
                           &explicit[i], NULL));
    test_after(end_all);
}

static void reg_it(void)
{
    reg_at(0, world.host, LEN);
}

static void reg_two(void)
{
    reg_it();
    reg_at(1, world.host + LEN, LEN);
}

static void reg_device(void)
{
    reg_at(0, world.gpu[1], LEN);
}

static void reg_segments(void)
{
    struct hmreg_segment segments[2] = {{.u.memory = {world.gpu[1], LEN}},
                                        {.u.memory = {world.gpu[1] + 2 * LEN, LEN}}};

    assert_ok(hmreg_mr_regsgl(world.domain, segments, 2, HMREG_ACCESS_ALL, 0, HMREG_KEY_ANY, 0,
                              &explicit[0], NULL));
    test_after(end_all);
}

static void reg_dmabuf(void)
{
    struct hmreg_mr_dmabuf dmabuf = {
        .fd = vendors[HMREG_IFACE_CUDA].claims[1].fd, .len = LEN, .base_addr = world.gpu[1]};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .dmabuf = &dmabuf};

    assert_ok(hmreg_mr_regattr(world.domain, &attr, HMREG_REG_DMABUF, &explicit[0]));
    test_after(end_all);
}

static void hold_it(void)
{
    held[0] = world_get(world.host, LEN);
    test_after(end_all);
}

static void get_it(void)
{
    world_key(world.host, LEN);
}

static void start_job(void)
{
    struct hmreg_job_config config = {.size = sizeof(config), .piece_len = LEN};
    struct iovec range = {world.host, 4 * LEN};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &range, .iov_count = 1, .access = HMREG_SEND};

    assert_ok(hmreg_job_start(world.domain, &attr, 0, &config, &job));
    test_after(end_all);
}

/* ---- hmreg_suspend() -------------------------------------------------------------------- */

static void second_is_busy(void)
{
    reg_two();
    world.busy = 2;
}

static void idle_is_busy(void)
{
    get_it();
    world.busy = 1;
}

static void second_fails(void)
{
    reg_two();
    world_fail("dereg", 2, 0, -EIO);
}

static struct hmreg_mr *rails[2];

static void rail_is_busy(void)
{
    reg_it();
    for (size_t i = 0; i < 2; i++)
        rails[i] = hmreg_mr_rail(explicit[0], i);
    world.busy = 2;
}

static void suspend_it(void)
{
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
}

static void suspended_before(void)
{
    reg_it();
    suspend_it();
}

static bool is_awake(const struct hmreg_mr *mr)
{
    return hmreg_mr_head_of(mr)->keys->key != HMREG_KEY_NOTAVAIL;
}

/* Every call that uses a region, and those that register its memory. */
static void is_asleep(void)
{
    struct hmreg_mr *mr = explicit[0] ? explicit[0] : held[0], *other = NULL;

    assert_false(is_awake(mr));
    assert_null(hmreg_mr_head_of(mr)->keys->native);
    assert_fails(hmreg_mr_enable(mr), -EAGAIN, "hmreg_resume()");
    assert_fails(hmreg_mr_get(world.domain, world.host, 8, HMREG_SEND, &other), -EAGAIN,
                 "suspended");
    test_info_of(mr);
}

static void again_ends_it(void)
{
    assert_true(is_awake(explicit[1]));
    assert_false(is_awake(explicit[0]));
    world_heal();
    assert_ok(hmreg_suspend(world.lib, world.host, 2 * LEN));
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static void both_sleep(void)
{
    assert_false(is_awake(explicit[0]));
    assert_false(is_awake(explicit[1]));
}

static void none_is_suspended(void)
{
    assert_fails(hmreg_resume(world.lib, world.host, LEN, NULL), -ENOENT, "");
}

static void no_rail_is_used(void)
{
    assert_null(hmreg_mr_rail(explicit[0], 1));
    assert_int_equal(hmreg_last_error()->code, -EAGAIN);
    assert_fails(hmreg_resume(world.lib, world.host, LEN, NULL), -EBUSY, "asked to fail");
    world_heal();
    assert_ok(hmreg_resume(world.lib, world.host, LEN, NULL));
    assert_int_equal(world_live(WORLD_EACH), 2);
    for (size_t i = 0; i < 2; i++)
        assert_ptr_equal(hmreg_mr_rail(explicit[0], i), rails[i]);
}

static void one_resume_ends_it(void)
{
    is_asleep();
    assert_ok(hmreg_resume(world.lib, world.host, LEN, NULL));
    assert_int_equal(world_live(WORLD_EACH), 1);
    none_is_suspended();
}

static const struct row suspensions[] = {
    {"lib is NULL", ARGS(HOST, 0, LEN, NO_LIB), WRONG("lib is NULL")},
    {"len is 0", ARGS(HOST), WRONG("len is 0")},
    {"the range wraps", ARGS(HOST, 0, SIZE_MAX), WRONG("wraps")},
    {"registrations complete in the caller's queue", .as = {.async = true}, .before = reg_it, IT,
     FAILS(-EOPNOTSUPP, "event queue", ""), .after = none_is_suspended},
    {"a job registers it", .before = start_job, IT, FAILS(-EBUSY, "a job", ""),
     .after = none_is_suspended},

    {"nothing is registered", IT, LEFT(0, "")},
    {"a region", .before = reg_it, IT, LEFT(0, ONCE), .after = is_asleep},
    {"its last byte", .before = reg_it, ARGS(HOST, LEN - 1, 1), LEFT(0, ONCE)},
    {"the byte behind it", .before = reg_it, ARGS(HOST, LEN, 1), LEFT(1, "")},
    {"two regions", .before = reg_two, ARGS(HOST, 0, 2 * LEN), LEFT(0, TWICE)},
    {"one of two regions", .before = reg_two, IT, LEFT(1, ONCE)},
    {"device memory", .before = reg_device, ARGS(GPU, 0, 1), LEFT(0, ONCE)},
    {"a caller's dmabuf", .before = reg_dmabuf, ARGS(GPU, 0, 1), LEFT(0, ONCE)},
    {"one of a region's segments", .before = reg_segments, ARGS(GPU, 3 * LEN - 1, 1),
     LEFT(0, TWICE)},
    {"between a region's segments", .before = reg_segments, ARGS(GPU, LEN, LEN), LEFT(2, "")},
    {"a group's region", .as = {.nics = 2, .group = true}, .before = reg_it, IT,
     LEFT(0, "nic0.dereg nic1.dereg")},
    {"a held region", .before = hold_it, IT, LEFT(0, ONCE), .after = is_asleep},
    {"a held region that is not cached", .as = {.domain.flags = HMREG_DOMAIN_NO_CACHE},
     .before = hold_it, IT, LEFT(0, ONCE), .after = is_asleep},
    {"a held region that ends with its last put", .as = {.domain.policy = HMREG_POLICY_LAST_PUT},
     .before = hold_it, IT, LEFT(0, ONCE), .after = is_asleep},
    {"an idle region", .before = get_it, IT, LEFT(0, ONCE)},
    {"it is suspended already", .before = suspended_before, IT, LEFT(0, ""),
     .after = one_resume_ends_it},

    {"the NIC is busy with one of two", .before = second_is_busy, ARGS(HOST, 0, 2 * LEN),
     IN_PART(-EBUSY, "asked to fail", TWICE), .after = again_ends_it},
    {"the NIC is busy with an idle one", .before = idle_is_busy, IT,
     IN_PART(-EBUSY, "the fabric is busy", ONCE)},
    {"the NIC is busy with a rail", .as = {.nics = 2, .group = true}, .before = rail_is_busy, IT,
     IN_PART(-EBUSY, "asked to fail", "nic0.dereg nic1.dereg"), .after = no_rail_is_used},
    {"the NIC fails", .before = second_fails, ARGS(HOST, 0, 2 * LEN),
     IN_PART(-EIO, "asked to fail", TWICE), .after = both_sleep},
};

/* ---- hmreg_resume() --------------------------------------------------------------------- */

static void sleep_two(void)
{
    reg_two();
    assert_ok(hmreg_suspend(world.lib, world.host, 2 * LEN));
}

static void sleep_held(void)
{
    hold_it();
    suspend_it();
}

static void sleep_idle(void)
{
    get_it();
    suspend_it();
}

static void sleep_and_close(void)
{
    suspended_before();
    end_all();
}

static void sleep_twice(void)
{
    suspended_before();
    assert_ok(hmreg_suspend(world.lib, world.host, 1));
}

static void sleep_device(void)
{
    reg_device();
    assert_ok(hmreg_suspend(world.lib, world.gpu[1], LEN));
}

static void sleep_dmabuf(void)
{
    reg_dmabuf();
    assert_ok(hmreg_suspend(world.lib, world.gpu[1], LEN));
}

static void one_was_busy(void)
{
    second_is_busy();
    assert_int_equal(hmreg_suspend(world.lib, world.host, 2 * LEN), -EBUSY);
}

static void one_has_failed(void)
{
    second_fails();
    assert_int_equal(hmreg_suspend(world.lib, world.host, 2 * LEN), -EIO);
}

static void refuse_dmabufs(void)
{
    sleep_device();
    world.refuses[HMREG_PATH_DMABUF] = -EOPNOTSUPP;
}

static void first_reg_fails(void)
{
    sleep_two();
    world_fail("reg", 1, 0, -EIO);
}

static void second_reg_fails(void)
{
    sleep_two();
    world_fail("reg", 2, 0, -EIO);
}

static void is_renewed(void)
{
    assert_int_equal(table_key(explicit[0]), 2);
    assert_ok(hmreg_mr_enable(explicit[0]));
}

static void serves_no_get(void)
{
    assert_int_equal(table_key(held[0]), 2);
    assert_int_equal(world_key(world.host, LEN), 3);
}

static void ends_with_its_put(void)
{
    end_all();
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static void is_by_peermem(void)
{
    assert_int_equal(test_info_of(explicit[0]).path, HMREG_PATH_PEERMEM);
}

static void again_makes_both(void)
{
    assert_ok(hmreg_resume(world.lib, world.host, 2 * LEN, NULL));
    assert_int_equal(world_live(WORLD_EACH), 2);
}

static const struct row resumptions[] = {
    {"lib is NULL", .before = suspended_before, ARGS(HOST, 0, LEN, NO_LIB), WRONG("lib is NULL")},
    {"len is 0", .before = suspended_before, ARGS(HOST), WRONG("len is 0")},
    {"the range wraps", ARGS(HOST, 0, SIZE_MAX), WRONG("wraps")},
    {"config->size is 4", .before = suspended_before, ARGS(HOST, 0, LEN, WRONG_SIZE),
     WRONG("hmreg_resume_config is 4")},
    {"nothing is suspended", .before = reg_it, IT, FAILS(-ENOENT, "", "")},
    {"another range is suspended", .before = suspended_before, ARGS(HOST, 0, LEN - 1),
     FAILS(-ENOENT, "", "")},
    {"a caller's dmabuf, and no callback", .before = sleep_dmabuf, ARGS(GPU, 0, LEN),
     WRONG("config->dmabuf")},
    {"a caller's dmabuf, and the callback fails", .before = sleep_dmabuf,
     ARGS(GPU, 0, LEN, DMABUF_FAILS), FAILS(-EXDEV, "", "")},

    {"a region", .before = suspended_before, IT, MADE(1, ASKED "nic0.reg"), .after = is_renewed},
    {"a region, no configuration", .before = suspended_before, ARGS(HOST, 0, LEN, NO_CONFIG),
     MADE(0, ASKED "nic0.reg"), .after = is_renewed},
    {"two regions", .before = sleep_two, ARGS(HOST, 0, 2 * LEN),
     MADE(2, ASKED "nic0.reg " ASKED "nic0.reg")},
    {"a held region", .before = sleep_held, IT, MADE(1, ASKED "nic0.reg"), .after = serves_no_get},
    {"a held region that is not cached", .as = {.domain.flags = HMREG_DOMAIN_NO_CACHE},
     .before = sleep_held, IT, MADE(1, ASKED "nic0.reg"), .after = ends_with_its_put},
    {"a held region that ends with its last put", .as = {.domain.policy = HMREG_POLICY_LAST_PUT},
     .before = sleep_held, IT, MADE(1, ASKED "nic0.reg"), .after = ends_with_its_put},
    {"an idle region", .before = sleep_idle, IT, MADE(0, "")},
    {"a region that was closed", .before = sleep_and_close, IT, MADE(0, "")},
    {"another range of it is suspended", .before = sleep_twice, IT, MADE(0, ""),
     .after = is_asleep},
    {"device memory", .before = sleep_device, ARGS(GPU, 0, LEN),
     MADE(1, ASKED "cuda.export nic0.reg")},
    {"device memory, whose path is refused", .before = refuse_dmabufs, ARGS(GPU, 0, LEN),
     MADE(1, ASKED "cuda.export nic0.reg nic0.reg"), .after = is_by_peermem},
    {"a caller's dmabuf", .before = sleep_dmabuf, ARGS(GPU, 0, LEN, WITH_DMABUF), MADE(1, NULL)},
    {"a group's region", .as = {.nics = 2, .group = true}, .before = suspended_before, IT,
     MADE(1, ASKED "nic0.reg nic1.reg")},

    {"two regions, of which one was busy", .before = one_was_busy, ARGS(HOST, 0, 2 * LEN),
     MADE(1, ASKED "nic0.reg"), .after = world_heal},
    {"two regions, of which one has failed", .before = one_has_failed, ARGS(HOST, 0, 2 * LEN),
     MADE(2, ASKED "nic0.reg " ASKED "nic0.reg")},
    {"the first registration fails", .before = first_reg_fails, ARGS(HOST, 0, 2 * LEN),
     FAILS(-EIO, "asked to fail", ASKED "nic0.reg"), .after = again_makes_both},
    {"the second registration fails", .before = second_reg_fails, ARGS(HOST, 0, 2 * LEN),
     IN_PART(-EIO, "asked to fail", ASKED "nic0.reg " ASKED "nic0.reg"), .after = again_makes_both},
};

/* The library's own descriptors end and begin. */
#define SLEEPS(n, log)          LEFT(n, log), .fds = true
#define WAKES(n, log)           MADE(n, log), .fds = true
#define PARTLY(code, text, log) IN_PART(code, text, log), .fds = true

/* ---- hmreg_hibernate() ------------------------------------------------------------------ */

/* After an error that changed nothing. */
static void is_not_hibernating(void)
{
    assert_fails(hmreg_thaw(world.lib, NULL), -ENOENT, "hmreg_hibernate()");
}

static void hibernate_it(void)
{
    assert_ok(hmreg_hibernate(world.lib));
}

static void thaw_at_the_end(void)
{
    world_heal();
    assert_ok(hmreg_thaw(world.lib, NULL));
    is_not_hibernating();
}

static void hibernated_before(void)
{
    reg_it();
    hibernate_it();
}

/* Every call that registers, and those with a region. */
static void is_hibernating(void)
{
    struct hmreg_mr *other = NULL;

    assert_fails(hmreg_mr_get(world.domain, world.host, 8, HMREG_SEND, &other), -EAGAIN,
                 "hmreg_thaw()");
    if (explicit[0] || held[0])
        assert_fails(hmreg_mr_enable(explicit[0] ? explicit[0] : held[0]), -EAGAIN, "hmreg_thaw()");
    thaw_at_the_end();
}

static void again_hibernates(void)
{
    assert_int_equal(is_awake(explicit[0]) + is_awake(explicit[1]), 1);
    world_heal();
    hibernate_it();
    assert_int_equal(world_live(WORLD_EACH), 0);
    thaw_at_the_end();
    assert_int_equal(world_live(WORLD_EACH), 2);
}

static void both_thaw(void)
{
    both_sleep();
    thaw_at_the_end();
    assert_int_equal(world_live(WORLD_EACH), 2);
}

static const struct row hibernations[] = {
    {"lib is NULL", ARGS(.with = NO_LIB), WRONG("lib is NULL")},
    {"registrations complete in the caller's queue", .as = {.async = true}, .before = reg_it,
     ARGS(), FAILS(-EOPNOTSUPP, "event queue", ""), .after = is_not_hibernating},
    {"a job", .before = start_job, ARGS(), FAILS(-EBUSY, "jobs", ""), .after = is_not_hibernating},
    {"nothing is registered", ARGS(), SLEEPS(0, ""), .after = is_hibernating},
    {"a region", .before = reg_it, ARGS(), SLEEPS(0, ONCE), .after = is_hibernating},
    {"a held region", .before = hold_it, ARGS(), SLEEPS(0, ONCE), .after = is_hibernating},
    {"an idle region", .before = get_it, ARGS(), SLEEPS(0, ONCE), .after = is_hibernating},
    {"a group's region", .as = {.nics = 2, .group = true}, .before = reg_it, ARGS(),
     SLEEPS(0, "nic0.dereg nic1.dereg"), .after = is_hibernating},
    {"a region that is suspended", .before = suspended_before, ARGS(), SLEEPS(0, ""),
     .after = thaw_at_the_end},
    {"it hibernates already", .before = hibernated_before, ARGS(), SLEEPS(0, ""),
     .after = is_hibernating},
    {"the NIC is busy with one of two", .before = second_is_busy, ARGS(), PARTLY(-EBUSY, "", TWICE),
     .after = again_hibernates},
    {"the NIC is busy with one of two, and it thaws", .before = second_is_busy, ARGS(),
     PARTLY(-EBUSY, "", TWICE), .after = thaw_at_the_end},
    {"the NIC fails", .before = second_fails, ARGS(), PARTLY(-EIO, "", TWICE), .after = both_thaw},
};

/* ---- hmreg_thaw() ----------------------------------------------------------------------- */

static void hibernate_two(void)
{
    reg_two();
    hibernate_it();
}

static void hibernate_held(void)
{
    hold_it();
    hibernate_it();
}

static void hibernate_idle(void)
{
    get_it();
    hibernate_it();
}

static void hibernate_and_close(void)
{
    hibernated_before();
    end_all();
}

static void hibernate_and_fail(void)
{
    hibernate_two();
    world_fail("reg", 2, 0, -EIO);
}

static void again_thaws(void)
{
    struct hmreg_mr *mr = NULL;

    assert_int_equal(is_awake(explicit[0]) + is_awake(explicit[1]), 1);
    assert_fails(hmreg_mr_get(world.domain, world.host, 8, HMREG_SEND, &mr), -EAGAIN,
                 "hmreg_thaw()");
    thaw_at_the_end();
    assert_int_equal(world_live(WORLD_EACH), 2);
    get_it();
}

static void thaws_without_them(void)
{
    end_all();
    thaw_at_the_end();
}

static void all_end_again(void)
{
    hibernate_it();
    assert_int_equal(world_live(WORLD_EACH), 0);
    thaw_at_the_end();
    assert_int_equal(world_live(WORLD_EACH), 2);
}

static const struct row thaws[] = {
    {"lib is NULL", .before = hibernated_before, ARGS(.with = NO_LIB), WRONG("lib is NULL"),
     .after = thaw_at_the_end},
    {"config->size is 4", .before = hibernated_before, ARGS(.with = WRONG_SIZE),
     WRONG("hmreg_thaw_config is 4"), .after = thaw_at_the_end},
    {"it does not hibernate", .before = reg_it, ARGS(), FAILS(-ENOENT, "hmreg_hibernate()", "")},
    {"nothing was registered", .before = hibernate_it, ARGS(), WAKES(0, ""),
     .after = is_not_hibernating},
    {"a region", .before = hibernated_before, ARGS(), WAKES(1, ASKED "nic0.reg"),
     .after = is_renewed},
    {"a region, no configuration", .before = hibernated_before, ARGS(.with = NO_CONFIG),
     WAKES(0, ASKED "nic0.reg"), .after = is_renewed},
    {"a held region", .before = hibernate_held, ARGS(), WAKES(1, ASKED "nic0.reg"),
     .after = serves_no_get},
    {"an idle region", .before = hibernate_idle, ARGS(), WAKES(0, "")},
    {"a region that was closed", .before = hibernate_and_close, ARGS(), WAKES(0, "")},
    {"a group's region", .as = {.nics = 2, .group = true}, .before = hibernated_before, ARGS(),
     WAKES(1, ASKED "nic0.reg nic1.reg")},
    {"one of two fails", .before = hibernate_and_fail, ARGS(.failed = 1),
     PARTLY(-EIO, "1 regions", NULL), .after = again_thaws},
    {"one of two fails, and they are closed", .before = hibernate_and_fail, ARGS(.failed = 1),
     PARTLY(-EIO, "1 regions", NULL), .after = thaws_without_them},
    {"one of two fails, and it hibernates again", .before = hibernate_and_fail, ARGS(.failed = 1),
     PARTLY(-EIO, "1 regions", NULL), .after = all_end_again},
};

/* ---- each row --------------------------------------------------------------------------- */

static int suspend(const struct row *row)
{
    const struct args *args = row->args;
    char *base = args->of == GPU ? world.gpu[1] : world.host;
    int rc =
        hmreg_suspend(args->with == NO_LIB ? NULL : world.lib, table_at(base, args->at), args->len);

    if (!rc)
        assert_int_equal(world_live(WORLD_EACH), row->value);
    return rc;
}

static void count(struct hmreg_mr *mr, void *number)
{
    ++*(unsigned *)number;
}

static int next_dmabuf(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf,
                       void *context)
{
    assert_int_equal(index, 0);
    assert_ptr_equal(dmabuf->base_addr, world.gpu[1]);
    assert_int_equal(dmabuf->len, LEN);
    dmabuf->fd = next_fd = fcntl(vendors[HMREG_IFACE_CUDA].claims[1].fd, F_DUPFD_CLOEXEC, 100);
    return 0;
}

static int no_dmabuf(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf,
                     void *context)
{
    return -EXDEV;
}

static int resume(const struct row *row)
{
    const struct args *args = row->args;
    char *base = args->of == GPU ? world.gpu[1] : world.host;
    unsigned resumed = 0;
    struct hmreg_resume_config config = {.size = args->with == WRONG_SIZE ? 4 : sizeof(config),
                                         .resumed = count,
                                         .context = &resumed,
                                         .dmabuf = args->with == WITH_DMABUF    ? next_dmabuf
                                                   : args->with == DMABUF_FAILS ? no_dmabuf
                                                                                : NULL};
    int rc = hmreg_resume(args->with == NO_LIB ? NULL : world.lib, table_at(base, args->at),
                          args->len, args->with == NO_CONFIG ? NULL : &config);

    if (!rc)
        assert_int_equal(resumed, row->value);
    if (args->with == WITH_DMABUF) {
        assert_int_equal(world_last("reg")->dmabuf.fd, next_fd);
        close(next_fd);
    }
    return rc;
}

static int hibernate(const struct row *row)
{
    const struct args *args = row->args;
    int rc = hmreg_hibernate(args->with == NO_LIB ? NULL : world.lib);

    if (!rc)
        assert_int_equal(world_live(WORLD_EACH), row->value);
    return rc;
}

static unsigned failures;

static void count_failure(struct hmreg_mr *mr, const struct hmreg_error *why, void *number)
{
    failures++;
    assert_int_equal(why->code, -EIO);
    assert_non_null(strstr(why->text, "4096 bytes"));
}

static int thaw(const struct row *row)
{
    const struct args *args = row->args;
    unsigned resumed = 0;
    struct hmreg_thaw_config config = {.size = args->with == WRONG_SIZE ? 4 : sizeof(config),
                                       .resumed = count,
                                       .failed = count_failure,
                                       .context = &resumed};
    int rc;

    failures = 0;
    rc = hmreg_thaw(args->with == NO_LIB ? NULL : world.lib,
                    args->with == NO_CONFIG ? NULL : &config);
    assert_int_equal(failures, args->failed);
    if (!rc)
        assert_int_equal(resumed, row->value);
    return rc;
}

TEST(hibernate__each_row)
{
    CHECK_EACH(hibernations, hibernate);
}

TEST(thaw__each_row)
{
    CHECK_EACH(thaws, thaw);
}

TEST(suspend__each_row)
{
    CHECK_EACH(suspensions, suspend);
}

TEST(resume__each_row)
{
    CHECK_EACH(resumptions, resume);
}

TEST_MAIN()
