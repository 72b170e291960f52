/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of a job's calls in rows: hmreg_job_start(), _wait(), _cancel(), _close(), and
 * hmreg_mr_reg_large(). The NICs allow one thread at a time, so that a wait registers, at least one
 * piece in each call. job_threads.c has the jobs of several threads, job_memory.c dmabufs.
 */
#include "tests/support/table.h"

#include <hmreg/job.h>
#include <hmreg/suspend.h>

#define PIECE 4096u
#define KEY   5 /* of the first piece, where the caller chooses */

struct args {
    int usual_;
    enum { START, MAKE, LARGE, WAIT, CANCEL, CLOSE } call; /* MAKE: a start and a wait */
    size_t len;
    struct hmreg_job_config config; /* size 0: all of it */
    uint64_t flags;
    bool on_gpu;
    int timeout_ms;
    enum {
        ALL,
        NO_OBJECT,
        NO_ATTR,
        NO_OUT,
        NO_CONFIG,
        LONG_CONFIG,
        SHORT_ATTR,
        NO_RANGE,
        TWO_RANGES,
        SEGMENTS,
        ENDPOINT,
        ENDPOINTS,
        NO_ACCESS,
        WITH_KEY,
    } with;
};

static struct hmreg_job *job;
static struct hmreg_mr *mr;

#define WRONG(text) FAILS(-EINVAL, text, "")
#define OF(pieces)  .len = (pieces)*PIECE, .config.piece_len = PIECE
#define TWO_RAILS   .nics = 2, .group = true
#define CHOSEN      .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_HMEM
#define ASKED       "cuda.resolve rocr.resolve ze.resolve"
/* How many bytes the region has that the call returns. */
#define GIVES(bytes, log) RETURNS(bytes, log)

/* ---- a job ------------------------------------------------------------------------------ */

static int start_as(const struct args *args, struct hmreg_job **out)
{
    struct iovec ranges[2] = {{args->on_gpu ? world.gpu[0] : world.host, args->len},
                              {world.host, PIECE}};
    struct hmreg_segment segment = {.kind = HMREG_SEGMENT_MEMORY, .u.memory = ranges[0]};
    void *const endpoints[] = {&segment};
    struct hmreg_mr_attr attr = {.size = args->with == SHORT_ATTR ? 8 : sizeof(attr),
                                 .iov = ranges,
                                 .iov_count = args->with == TWO_RANGES ? 2 : 1,
                                 .access = args->with == NO_ACCESS ? 0 : HMREG_ACCESS_ALL,
                                 .requested_key = args->with == WITH_KEY ? KEY : HMREG_KEY_ANY};
    struct {
        struct hmreg_job_config config;
        uint64_t beyond;
    } longer = {args->config, 1};

    if (args->with == NO_RANGE || args->with == SEGMENTS) {
        attr.iov = NULL;
        attr.iov_count = 0;
    }
    if (args->with == SEGMENTS) {
        attr.segments = &segment;
        attr.segment_count = 1;
    }
    attr.endpoint = args->with == ENDPOINT ? &segment : NULL;
    attr.endpoints = args->with == ENDPOINTS ? endpoints : NULL;
    attr.endpoint_count = args->with == ENDPOINTS;
    longer.config.size = args->with == LONG_CONFIG ? sizeof(longer)
                         : longer.config.size      ? longer.config.size
                                                   : sizeof(longer.config);
    if (args->call == LARGE)
        return hmreg_mr_reg_large(args->with == NO_OBJECT ? NULL : world.domain,
                                  args->with == NO_RANGE ? NULL : world.host, args->len,
                                  attr.access, args->with == NO_CONFIG ? NULL : &longer.config,
                                  args->with == NO_OUT ? NULL : &mr);
    return hmreg_job_start(args->with == NO_OBJECT ? NULL : world.domain,
                           args->with == NO_ATTR ? NULL : &attr, args->flags,
                           args->with == NO_CONFIG ? NULL : &longer.config, out);
}

/* Of three pieces. */
static void begin(void)
{
    assert_ok(start_as(&(const struct args){.call = START, OF(3)}, &job));
}

static void begin_on_gpu(void)
{
    assert_ok(start_as(&(const struct args){.call = START, OF(3), .on_gpu = true}, &job));
}

static void begin_and_wait(void)
{
    begin();
    assert_fails(hmreg_job_wait(job, 0, NULL), -EINPROGRESS, "4096 of 12288 bytes");
}

static void begin_and_wait_twice(void)
{
    begin_and_wait();
    assert_fails(hmreg_job_wait(job, 0, NULL), -EINPROGRESS, "8192 of 12288 bytes");
}

static void complete(void)
{
    begin();
    assert_ok(hmreg_job_wait(job, -1, NULL));
}

static void take(void)
{
    begin();
    assert_ok(hmreg_job_wait(job, -1, &mr));
}

static void begin_and_cancel(void)
{
    begin();
    assert_ok(hmreg_job_cancel(job));
}

static void wait_and_cancel(void)
{
    begin_and_wait();
    assert_ok(hmreg_job_cancel(job));
}

static void complete_and_cancel(void)
{
    complete();
    assert_ok(hmreg_job_cancel(job));
}

static void fail_first(void)
{
    world_fail("reg", 1, 0, -EIO);
}

static void no_piece_is_named(void)
{
    assert_null(strstr(hmreg_last_error()->text, "piece"));
}

static void fail_second(void)
{
    world_fail("reg", 2, 0, -EIO);
}

static void begin_and_fail(void)
{
    fail_second();
    begin();
    assert_fails(hmreg_job_wait(job, -1, NULL), -EIO, "piece 1 of 3");
}

static void complete_and_be_busy(void)
{
    complete();
    world.busy = 2;
}

static void complete_and_break(void)
{
    complete();
    world_fail("dereg", 1, 0, -EIO);
}

static void begin_without_path(void)
{
    begin_on_gpu();
    for (int path = 0; path < HMREG_PATH_COUNT; path++)
        world.refuses[path] = -EOPNOTSUPP;
}

/* ---- the caller's function -------------------------------------------------------------- */

static struct {
    unsigned calls;
    uint64_t last;
    bool cancels;
} seen;

static void progress(struct hmreg_job *own, uint64_t done, uint64_t total, void *context)
{
    struct hmreg_mr *none = UNTOUCHED;

    assert_ptr_equal(context, &seen);
    assert_int_equal(done, seen.last + PIECE);
    assert_int_equal(total, 3 * PIECE);
    seen.last = done;
    seen.calls++;
    assert_fails(hmreg_job_wait(own, -1, &none), -EDEADLK, "own progress callback");
    assert_fails(hmreg_job_close(own), -EDEADLK, "own progress callback");
    assert_ptr_equal(none, UNTOUCHED);
    if (seen.cancels)
        assert_ok(hmreg_job_cancel(own));
}

static void begin_watched(void)
{
    const struct args args = {
        .call = START, OF(3), .config.progress = progress, .config.progress_context = &seen};

    memset(&seen, 0, sizeof(seen));
    assert_ok(start_as(&args, &job));
}

static void begin_watched_by_one_that_cancels(void)
{
    begin_watched();
    seen.cancels = true;
}

static void told_of_each(void)
{
    assert_int_equal(seen.calls, 3);
}

static void told_of_one(void)
{
    assert_int_equal(seen.calls, 1);
}

/* ---- what rows begin with and check ----------------------------------------------------- */

static void end_suspension(void)
{
    assert_ok(hmreg_resume(world.lib, world.host, PIECE, NULL));
}

static void suspend(void)
{
    assert_ok(hmreg_suspend(world.lib, world.host, PIECE));
    test_after(end_suspension);
}

static void domain_is_busy(void)
{
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "1 jobs");
}

static void region_is_there(void)
{
    assert_int_equal(world_live(WORLD_EACH), 3);
    assert_ok(hmreg_job_wait(job, 0, &mr));
}

static void nothing_is_left(void)
{
    assert_int_equal(world_live(WORLD_EACH), 0);
    if (job)
        assert_fails(hmreg_job_wait(job, -1, NULL), -ECANCELED, "of 12288 bytes");
}

static void close_works_later(void)
{
    assert_int_equal(world_live(WORLD_EACH), 2);
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "1 regions");
    world_heal();
    assert_ok(hmreg_job_close(job));
    job = NULL;
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static void check_pieces(unsigned count, size_t len, size_t last)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};

    for (unsigned i = 0; i < count; i++) {
        assert_ok(hmreg_mr_piece(mr, i, &piece));
        assert_int_equal(piece.local_addr, (uintptr_t)table_at(world.host, i * len));
        assert_int_equal(piece.len, i + 1 < count ? len : last);
        assert_int_equal(piece.key, i + 1);
    }
    assert_fails(hmreg_mr_piece(mr, count, &piece), -ENOENT, "");
}

static void three_and_a_rest(void)
{
    check_pieces(4, PIECE, 7);
}

static void three(void)
{
    check_pieces(3, PIECE, PIECE);
}

static void key_is_of_the_first(void)
{
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(world_call("reg", i)->requested_key == KEY, i == 0);
}

/* Its rail 1 failed. */
static void has_rail_0(void)
{
    assert_non_null(hmreg_mr_rail(mr, 0));
    assert_null(hmreg_mr_rail(mr, 1));
}

static void second_nic_fails(void)
{
    world_fail("nic1.reg", 2, -1, -EIO);
}

/* ---- rows ------------------------------------------------------------------------------- */

static const struct row starts[] = {
    {"domain is NULL", ARGS(START, PIECE, .with = NO_OBJECT), WRONG("domain is NULL")},
    {"attr is NULL", ARGS(START, PIECE, .with = NO_ATTR), WRONG("attr is NULL")},
    {"out is NULL", ARGS(START, PIECE, .with = NO_OUT), WRONG("out is NULL")},
    {"attr->size is 8", ARGS(START, PIECE, .with = SHORT_ATTR), WRONG("struct hmreg_mr_attr")},
    {"config->size is 8", ARGS(START, PIECE, .config.size = 8), WRONG("struct hmreg_job_config")},
    {"a longer config, whose end is not 0", ARGS(START, PIECE, .with = LONG_CONFIG),
     WRONG("struct hmreg_job_config")},
    {"65 workers", ARGS(START, PIECE, .config.workers = HMREG_JOB_WORKERS_MAX + 1),
     WRONG("config->workers is 65; accepted are 0 to 64")},
    {"pieces longer than regions are", .as = {.max_len = PIECE},
     ARGS(START, PIECE, .config.piece_len = PIECE + 1),
     WRONG("config->piece_len is 4097; a region of this domain has at most 4096")},
    {"1025 pieces", ARGS(START, 8 * HMREG_SEGMENTS_MAX + 1, .config.piece_len = 8),
     FAILS(-EINVAL, "config->piece_len is 8, which makes 1025 pieces", ASKED)},
    {"no range", ARGS(START, PIECE, .with = NO_RANGE), WRONG("iov")},
    {"two ranges", ARGS(START, PIECE, .with = TWO_RANGES),
     WRONG("attr->iov_count is 2; a job registers one range")},
    {"segments", ARGS(START, PIECE, .with = SEGMENTS), WRONG("attr->segments is set")},
    {"an endpoint", ARGS(START, PIECE, .with = ENDPOINT), WRONG("attr->endpoint is set")},
    {"endpoints", ARGS(START, PIECE, .with = ENDPOINTS), WRONG("attr->endpoints is set")},
    {"no access", ARGS(START, PIECE, .with = NO_ACCESS), WRONG("access")},
    {"no byte", ARGS(START, 0), WRONG("len is 0")},
    {"an unknown flag", ARGS(START, PIECE, .flags = UINT64_C(1) << 63),
     FAILS(-HMREG_EBADFLAGS, "flags", "")},
    {"HMREG_REG_SINGLE", ARGS(START, PIECE, .flags = HMREG_REG_SINGLE),
     FAILS(-HMREG_EBADFLAGS, "flags has HMREG_REG_SINGLE", "")},
    {"registrations complete in a queue", .as = {.async = true}, ARGS(START, PIECE),
     FAILS(-EOPNOTSUPP, "in an event queue that the application reads", "")},
    {"1025 of the longest regions", .as = {.max_len = 64}, ARGS(START, 64 * HMREG_SEGMENTS_MAX + 1),
     FAILS(-EMSGSIZE, "1025 pieces of this domain's 64 bytes; a region has at most 1024", ASKED)},
    {"suspended memory", .before = suspend, ARGS(START, PIECE), FAILS(-EAGAIN, "suspended", "")},
    {"three pieces", ARGS(START, OF(3)), GIVES(0, ASKED), .after = domain_is_busy},
    {"no config", ARGS(START, PIECE, .with = NO_CONFIG), GIVES(0, ASKED)},
    {"64 workers", ARGS(START, OF(3), .config.workers = HMREG_JOB_WORKERS_MAX), GIVES(0, ASKED)},
    {"1024 pieces", ARGS(START, 8 * HMREG_SEGMENTS_MAX, .config.piece_len = 8), GIVES(0, ASKED)},
    {"a device's memory", ARGS(START, OF(3), .on_gpu = true), GIVES(0, ASKED)},
};

/* Of a start and a wait. */
static const struct row regions[] = {
    {"no config", ARGS(MAKE, PIECE, .with = NO_CONFIG), GIVES(PIECE, ASKED " nic0.reg")},
    {"a piece", ARGS(MAKE, OF(1)), GIVES(PIECE, ASKED " nic0.reg")},
    {"less than a piece", ARGS(MAKE, PIECE - 1, .config.piece_len = PIECE),
     GIVES(PIECE - 1, ASKED " nic0.reg")},
    {"three pieces", ARGS(MAKE, OF(3)), GIVES(3 * PIECE, ASKED " nic0.reg nic0.reg nic0.reg"),
     .after = three},
    {"three pieces and a rest", ARGS(MAKE, 3 * PIECE + 7, .config.piece_len = PIECE),
     GIVES(3 * PIECE + 7, ASKED " nic0.reg nic0.reg nic0.reg nic0.reg"), .after = three_and_a_rest},
    {"three pieces, whose length is the longest region's", .as = {.max_len = PIECE},
     ARGS(MAKE, 3 * PIECE), GIVES(3 * PIECE, ASKED " nic0.reg nic0.reg nic0.reg"), .after = three},
    {"a key that the caller chooses", .as = {CHOSEN}, ARGS(MAKE, OF(3), .with = WITH_KEY),
     GIVES(3 * PIECE, ASKED " nic0.reg nic0.reg nic0.reg"), .after = key_is_of_the_first},
    {"on a group", .as = {TWO_RAILS}, ARGS(MAKE, OF(2)),
     GIVES(2 * PIECE, ASKED " nic0.reg nic1.reg nic0.reg nic1.reg")},
    {"a device's memory, exported once", ARGS(MAKE, OF(2), .on_gpu = true),
     GIVES(2 * PIECE, ASKED " cuda.export nic0.reg nic0.reg")},
    {"the only piece fails", .before = fail_first, ARGS(MAKE, OF(1)),
     FAILS(-EIO, "", ASKED " nic0.reg"), .after = no_piece_is_named},
    {"the second piece fails", .before = fail_second, ARGS(MAKE, OF(3)),
     FAILS(-EIO, "piece 1 of 3, 4096 bytes at 0x", ASKED " nic0.reg nic0.reg nic0.dereg")},
    {"a rail fails", .as = {TWO_RAILS}, .before = second_nic_fails, ARGS(MAKE, OF(2)),
     FAILS(-EIO, "piece 1 of 2",
           ASKED " nic0.reg nic1.reg nic0.reg nic1.reg nic0.dereg nic0.dereg nic1.dereg")},
    {"a rail fails, of a partial group", .as = {TWO_RAILS, .groups.flags = HMREG_GROUP_PARTIAL},
     .before = second_nic_fails, ARGS(MAKE, OF(2)),
     GIVES(2 * PIECE, ASKED " nic0.reg nic1.reg nic0.reg nic1.reg nic1.dereg"),
     .after = has_rail_0},

    {"large: domain is NULL", ARGS(LARGE, PIECE, .with = NO_OBJECT), WRONG("domain is NULL")},
    {"large: mr is NULL", ARGS(LARGE, PIECE, .with = NO_OUT), WRONG("mr is NULL")},
    {"large: addr is NULL", ARGS(LARGE, PIECE, .with = NO_RANGE), WRONG("NULL")},
    {"large: no access", ARGS(LARGE, PIECE, .with = NO_ACCESS), WRONG("access")},
    {"large: a longer config, whose end is not 0", ARGS(LARGE, PIECE, .with = LONG_CONFIG),
     WRONG("struct hmreg_job_config")},
    {"large: registrations complete in a queue", .as = {.async = true}, ARGS(LARGE, PIECE),
     FAILS(-EOPNOTSUPP, "in an event queue that the application reads", "")},
    {"large: 1025 of the longest regions", .as = {.max_len = 64},
     ARGS(LARGE, 64 * HMREG_SEGMENTS_MAX + 1), FAILS(-EMSGSIZE, "1025 pieces", ASKED)},
    {"large: three pieces", ARGS(LARGE, OF(3)),
     GIVES(3 * PIECE, ASKED " nic0.reg nic0.reg nic0.reg"), .after = three},
    {"large: the second piece fails", .before = fail_second, ARGS(LARGE, OF(3)),
     FAILS(-EIO, "piece 1 of 3", ASKED " nic0.reg nic0.reg nic0.dereg")},
};

#define INCOMPLETE(text, log) FAILS(-EINPROGRESS, text, log), .in_part = true

static const struct row uses[] = {
    {"wait: job is NULL", ARGS(WAIT, .with = NO_OBJECT), WRONG("job is NULL")},
    {"wait: for no time", .before = begin, ARGS(WAIT), INCOMPLETE("4096 of 12288", "nic0.reg")},
    {"wait: the third such wait", .before = begin_and_wait_twice, ARGS(WAIT),
     GIVES(3 * PIECE, "nic0.reg"), .after = three},
    {"wait: without limit", .before = begin, ARGS(WAIT, .timeout_ms = -1),
     GIVES(3 * PIECE, "nic0.reg nic0.reg nic0.reg"), .after = three},
    {"wait: mr is NULL", .before = begin, ARGS(WAIT, .timeout_ms = -1, .with = NO_OUT),
     GIVES(0, "nic0.reg nic0.reg nic0.reg"), .after = region_is_there},
    {"wait: it is complete", .before = complete, ARGS(WAIT), GIVES(3 * PIECE, "")},
    {"wait: an earlier call returned the region", .before = take, ARGS(WAIT, .timeout_ms = -1),
     WRONG("an earlier call returned")},
    {"wait: an earlier call returned the region, mr is NULL", .before = take,
     ARGS(WAIT, .with = NO_OUT), GIVES(3 * PIECE, "")},
    {"wait: it was cancelled at once", .before = begin_and_cancel, ARGS(WAIT, .timeout_ms = -1),
     FAILS(-ECANCELED, "after 0 of 12288 bytes", "")},
    {"wait: it was cancelled after a piece", .before = wait_and_cancel, ARGS(WAIT),
     FAILS(-ECANCELED, "after 4096 of 12288 bytes", "nic0.dereg"), .in_part = true},
    {"wait: it was cancelled too late", .before = complete_and_cancel, ARGS(WAIT),
     GIVES(3 * PIECE, "")},
    {"wait: a piece has failed", .before = begin_and_fail, ARGS(WAIT, .timeout_ms = -1),
     FAILS(-EIO, "piece 1 of 3", "")},
    {"wait: every path is refused", .before = begin_without_path, ARGS(WAIT, .timeout_ms = -1),
     FAILS(-EOPNOTSUPP, "piece 0 of 3", NULL)},
    {"wait: the caller's function sees each piece", .before = begin_watched,
     ARGS(WAIT, .timeout_ms = -1), GIVES(3 * PIECE, "nic0.reg nic0.reg nic0.reg"),
     .after = told_of_each},
    {"wait: the caller's function cancels", .before = begin_watched_by_one_that_cancels,
     ARGS(WAIT, .timeout_ms = -1),
     FAILS(-ECANCELED, "after 4096 of 12288 bytes", "nic0.reg nic0.dereg"), .after = told_of_one},

    {"cancel: job is NULL", ARGS(CANCEL, .with = NO_OBJECT), WRONG("job is NULL")},
    {"cancel: before it begins", .before = begin, ARGS(CANCEL), GIVES(0, ""),
     .after = nothing_is_left},
    {"cancel: twice", .before = begin_and_cancel, ARGS(CANCEL), GIVES(0, ""),
     .after = nothing_is_left},
    {"cancel: it is complete", .before = complete, ARGS(CANCEL), GIVES(0, ""),
     .after = region_is_there},

    {"close: job is NULL", ARGS(CLOSE, .with = NO_OBJECT), GIVES(0, "")},
    {"close: it has not begun", .before = begin, ARGS(CLOSE), GIVES(0, ""),
     .after = nothing_is_left},
    {"close: after a piece", .before = begin_and_wait, ARGS(CLOSE), GIVES(0, "nic0.dereg"),
     .after = nothing_is_left},
    {"close: it was cancelled", .before = begin_and_cancel, ARGS(CLOSE), GIVES(0, ""),
     .after = nothing_is_left},
    {"close: it has failed", .before = begin_and_fail, ARGS(CLOSE), GIVES(0, ""),
     .after = nothing_is_left},
    {"close: the region was not returned", .before = complete, ARGS(CLOSE),
     GIVES(0, "nic0.dereg nic0.dereg nic0.dereg"), .after = nothing_is_left},
    {"close: the region was returned", .before = take, ARGS(CLOSE), GIVES(3 * PIECE, ""),
     .after = three},
    {"close: a piece is busy", .before = complete_and_be_busy, ARGS(CLOSE),
     FAILS(-EBUSY, "nic0.dereg", "nic0.dereg nic0.dereg"), .in_part = true,
     .after = close_works_later},
    {"close: a piece's deregistration fails", .before = complete_and_break, ARGS(CLOSE),
     FAILS(-EIO, "", "nic0.dereg nic0.dereg nic0.dereg"), .in_part = true,
     .after = nothing_is_left},
};

/* ---- each row --------------------------------------------------------------------------- */

static void end_row(void)
{
    struct hmreg_mr *region = mr;

    world_heal();
    assert_ok(hmreg_job_close(job));
    job = NULL;
    mr = NULL;
    assert_ok(hmreg_mr_close(region));
}

static void open_row(const struct row *row)
{
    world_open_as(&row->as);
    job = NULL;
    mr = NULL;
    test_after(end_row);
    if (row->before)
        row->before();
}

static int wait_for(int timeout_ms, bool without_out)
{
    struct hmreg_mr *before = mr, *out = UNTOUCHED;
    int rc = hmreg_job_wait(job, timeout_ms, without_out ? NULL : &out);

    if (rc || without_out)
        assert_ptr_equal(out, UNTOUCHED);
    else
        mr = out;
    return rc ? rc : (assert_true(!before || mr == before), 0);
}

static int start(const struct args *args)
{
    struct hmreg_job *out = UNTOUCHED;
    int rc;

    if (args->with == NO_OUT)
        return start_as(args, NULL);
    rc = start_as(args, &out);
    if (rc)
        assert_ptr_equal(out, UNTOUCHED);
    else
        job = out;
    return rc;
}

static int close_it(void)
{
    int rc = hmreg_job_close(job);

    if (rc != -EBUSY)
        job = NULL;
    return rc;
}

static int make_call(const struct args *args)
{
    struct hmreg_job *given = args->with == NO_OBJECT ? NULL : job;
    int rc;

    switch (args->call) {
    case START:
        return start(args);
    case MAKE:
        rc = start(args);
        return rc ? rc : wait_for(-1, false);
    case LARGE:
        return start_as(args, NULL);
    case WAIT:
        return wait_for(args->timeout_ms, args->with == NO_OUT);
    case CANCEL:
        return hmreg_job_cancel(given);
    default:
        return close_it();
    }
}

static int call(const struct row *row)
{
    int rc = make_call(row->args);

    if (rc)
        assert_true(!mr || row->before == take);
    else
        table_value(row, mr ? test_info_of(mr).len : 0);
    return rc;
}

TEST(job_start__each_row)
{
    CHECK_EACH_IN(starts, open_row, call);
}

TEST(job_start__and_wait__each_row)
{
    CHECK_EACH_IN(regions, open_row, call);
}

TEST(job_wait_cancel_close__each_row)
{
    CHECK_EACH_IN(uses, open_row, call);
}

TEST_MAIN()
