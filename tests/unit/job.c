/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Jobs on a fabric that allows one thread at a time, so that hmreg_job_wait() registers and each
 * case is deterministic: how a range is divided, that all of it is registered or nothing, progress,
 * cancellation. job_memory.c has device memory and groups, job_threads.c the cases of several
 * threads.
 */
#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/queries.h"
#include "tests/unit/job_fixture.h"

#include <hmreg/plan.h>

/* ---- pieces ----------------------------------------------------------------------------- */

TEST(range__of_pieces_and_a_rest__one_region_in_order)
{
    struct hmreg_piece_info none = {.size = sizeof(none)};
    struct hmreg_mr *mr;

    open_fixture();
    fixture.range = (struct iovec){fixture.host + 100, 3 * PIECE + 7};
    fixture.attr.context = (void *)0x99;
    mr = registered();
    assert_int_equal(script.count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct script_call *call = &script.calls[i];

        assert_ptr_equal(call->iov[0].iov_base, fixture.host + 100 + i * PIECE);
        assert_int_equal(call->iov[0].iov_len, i < 3 ? PIECE : 7);
        assert_int_equal(call->access, HMREG_ACCESS_ALL);
        assert_ptr_equal(call->context, (void *)0x99);
        assert_int_equal(call->requested_key == 5, i == 0);
        check_piece(mr, i, fixture.host + 100 + i * PIECE, i < 3 ? PIECE : 7);
    }
    assert_fails(hmreg_mr_piece(mr, 4, &none), -ENOENT, "4 pieces");
    assert_int_equal(test_info_of(mr).addr, (uintptr_t)fixture.host + 100);
    assert_int_equal(test_info_of(mr).len, 3 * PIECE + 7);
    assert_ptr_equal(hmreg_mr_context(mr), (void *)0x99);
    assert_ok(hmreg_mr_close(mr));
}

/* More pieces than older versions of a token have. */
TEST(peer__of_the_most_pieces__finds_each)
{
    enum { LEN = 64 };
    static uint8_t token[32768];
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    uint64_t addr, key;
    size_t size = 0;
    long before;

    open_fixture();
    fixture.config.piece_len = LEN;
    fixture.range.iov_len = (size_t)HMREG_SEGMENTS_MAX * LEN;
    mr = registered();
    assert_fails(hmreg_mr_pack(mr, NULL, &size), -HMREG_ETOOSMALL, "the token takes");
    assert_int_equal(size, 40 + HMREG_SEGMENTS_MAX * 24 + 16);
    allocations = 0;
    failing = 1;
    assert_fails(hmreg_mr_pack(mr, token, &size), -ENOMEM, "a token");
    failing = 0;
    before = blocks;
    assert_ok(hmreg_mr_pack_many(&mr, 1, token, &size));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_int_equal(blocks, before);
    assert_ok(hmreg_remote_open(fixture.script.domain, token, size, &remote));
    for (size_t i = 0; i < HMREG_SEGMENTS_MAX; i++) {
        assert_ok(hmreg_remote_addr(remote, i * LEN + 5, LEN - 5, &addr, &key));
        assert_int_equal(addr, (uintptr_t)fixture.host + i * LEN + 5);
        assert_int_equal(key, script.calls[i].requested_key);
        assert_fails(hmreg_remote_addr(remote, i * LEN + 5, LEN, &addr, &key),
                     i + 1 < HMREG_SEGMENTS_MAX ? -EXDEV : -ERANGE, "");
    }
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
}

TEST(peer__across_borders__finds_each_piece)
{
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    uint8_t token[4096];
    size_t size = sizeof(token);
    uint64_t addr, key;

    open_fixture();
    mr = registered();
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(fixture.script.domain, token, size, &remote));
    for (size_t i = 0; i < 8; i++) {
        assert_ok(hmreg_remote_addr(remote, i * PIECE + 5, PIECE - 5, &addr, &key));
        assert_int_equal(addr, (uintptr_t)fixture.host + i * PIECE + 5);
        assert_int_equal(key, script.calls[i].requested_key);
    }
    assert_fails(hmreg_remote_addr(remote, PIECE - 1, 2, &addr, &key), -EXDEV, "at offset 4096");
    hmreg_remote_close(remote);
    size = sizeof(token);
    assert_ok(hmreg_mr_pack_range(mr, fixture.host + PIECE - 1, 2, token, &size));
    assert_ok(hmreg_remote_open(fixture.script.domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 1, 1, &addr, &key));
    assert_int_equal(addr, (uintptr_t)fixture.host + PIECE);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
}

/* These ranges are not mapped: nothing is touched. */
static void check_pieces(uint64_t len, uint64_t piece_len, unsigned pieces)
{
    struct hmreg_job *job = NULL;
    unsigned waits = 1;

    script.count = 0;
    script.unmapped = true;
    assert_ok(start(&job));
    assert_int_equal(script.count, 0);
    while (hmreg_job_wait(job, 0, NULL) == -EINPROGRESS)
        waits++;
    assert_ok(hmreg_job_wait(job, 0, NULL));
    assert_int_equal(waits, pieces);
    assert_int_equal(script.count, pieces);
    assert_int_equal(script.calls[0].iov[0].iov_len, pieces > 1 ? piece_len : len);
    assert_ok(hmreg_job_close(job));
    assert_int_equal(script.live, 0);
}

static void check_chosen(uint64_t len, uint64_t piece_len, unsigned pieces)
{
    fixture.range = (struct iovec){(void *)(uintptr_t)(UINT64_C(1) << 40), len};
    check_pieces(len, piece_len, pieces);
}

TEST(range__of_nearly_all_addresses__divided)
{
    struct script_caps caps = script_caps;

    caps.max_len = UINT64_MAX;
    open_on(&caps);
    fixture.config.piece_len = UINT64_C(1) << 63;
    fixture.range = (struct iovec){(void *)(uintptr_t)PIECE, SIZE_MAX - 2 * PIECE};
    check_pieces(fixture.range.iov_len, fixture.config.piece_len, 2);
}

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

TEST(piece_len__0__as_documented)
{
    struct script_caps caps = script_caps;
    struct hmreg_plan plan = {.size = sizeof(plan)};

    caps.max_len = UINT64_MAX;
    open_on(&caps);
    fixture.config.piece_len = 0;
    check_chosen(1, 1, 1);
    check_chosen(64 * MIB, 64 * MIB, 1);
    check_chosen(64 * MIB + 1, 64 * MIB, 2);
    check_chosen(4 * GIB, 64 * MIB, 64);
    check_chosen(4 * GIB + 1, 66 * MIB, 63);
    check_chosen(100 * GIB, 1600 * MIB, 64);
    test_finish();
    caps.max_len = 3 * MIB;
    open_on(&caps);
    fixture.config.piece_len = 0;
    check_chosen(3 * MIB, 3 * MIB, 1);
    check_chosen(3 * MIB + 1, 2 * MIB, 2);
    assert_ok(hmreg_domain_plan(fixture.script.domain, HMREG_IFACE_SYSTEM, -1, 3 * MIB + 1, &plan));
    assert_int_equal(plan.region_len, 2 * MIB);
    check_chosen(128 * MIB, 2 * MIB, 64);
    check_chosen(2 * GIB, 2 * MIB, 1024); /* as many as max_len demands */
}

/* ---- forks ------------------------------------------------------------------------------ */

TEST(fork__the_childs_calls__eperm)
{
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    test_forks_wipe();
    open_fixture();
    assert_ok(start(&job));
    assert_fails(hmreg_job_wait(job, 0, NULL), -EINPROGRESS, "");
    test_in_child(!(hmreg_mr_reg_large(fixture.script.domain, fixture.host, PIECE, HMREG_READ, NULL,
                                       &mr) == -EPERM &&
                    hmreg_job_wait(job, -1, NULL) == -EPERM && hmreg_job_cancel(job) == -EPERM &&
                    hmreg_job_close(job) == -EPERM && start(&job) == -EPERM));
    assert_ok(hmreg_mr_close(finish(job)));
}

/* ---- failures --------------------------------------------------------------------------- */

TEST(piece__each_fails__nothing_is_left)
{
    struct hmreg_mr *mr = (void *)1;
    struct hmreg_job *job = NULL;
    char words[64];

    open_fixture();
    for (unsigned i = 1; i <= 8; i++) {
        script.count = 0;
        script.fail[HMREG_PATH_SYSTEM] = -ENOSPC;
        script.fail_index = i;
        script.times = -1;
        snprintf(words, sizeof(words), "piece %u of 8, 4096 bytes at %p: script: system failed",
                 i - 1, (void *)(fixture.host + (size_t)(i - 1) * PIECE));
        assert_ok(start(&job));
        assert_fails(hmreg_job_wait(job, -1, &mr), -ENOSPC, words);
        assert_int_equal(hmreg_last_error()->vendor_code, 4712);
        assert_ptr_equal(mr, (void *)1);
        assert_int_equal(script.count, i);
        assert_int_equal(script.live, 0);
        assert_fails(hmreg_job_wait(job, -1, &mr), -ENOSPC, words);
        assert_ok(hmreg_job_cancel(job));
        assert_ok(hmreg_job_close(job));
    }
    script.fail_index = 0;
    script.count = 0;
    assert_reg_fails(
        hmreg_mr_reg_large(fixture.script.domain, fixture.host, PIECE, HMREG_ACCESS_ALL, NULL, &mr),
        mr, -ENOSPC, "script: system failed");
}

TEST(memory__each_allocation_fails__nothing_is_left)
{
    struct hmreg_mr *mr = NULL;
    unsigned failures = 0;
    long before;
    int rc;

    open_group(2, 0);
    for (failing = 1;; failing++) {
        int fds = test_count_fds();

        before = blocks;

        allocations = 0;
        rc = hmreg_mr_reg_large(fixture.group, fixture.script.memory[0], 4 * PIECE,
                                HMREG_ACCESS_ALL, &fixture.config, &mr);
        if (allocations < failing)
            break;
        if (!rc) { /* a reason could not be kept, or the like */
            assert_ok(hmreg_mr_close(mr));
            continue;
        }
        failures++;
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(script.live, 0);
        assert_int_equal(test_count_fds(), fds);
        assert_int_equal(blocks, before);
    }
    failing = 0;
    assert_ok(rc);
    assert_true(failures > 10);
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(blocks, before);
}

/* ---- progress and cancellation ---------------------------------------------------------- */

static struct {
    unsigned calls, cancel_at; /* at this call, from 1; 0: none */
    uint64_t last, total;
} seen;

static void progress(struct hmreg_job *job, uint64_t done, uint64_t total, void *context)
{
    struct hmreg_mr *mr = (void *)1;

    assert_ptr_equal(context, (void *)0x77);
    assert_true(done > seen.last);
    assert_true(done <= total);
    seen.last = done;
    seen.total = total;
    assert_fails(hmreg_job_wait(job, -1, &mr), -EDEADLK, "own progress callback");
    assert_fails(hmreg_job_close(job), -EDEADLK, "own progress callback");
    assert_ptr_equal(mr, (void *)1);
    if (++seen.calls == seen.cancel_at)
        assert_ok(hmreg_job_cancel(job));
}

static void watch(unsigned cancel_at)
{
    seen = (typeof(seen)){.cancel_at = cancel_at};
    fixture.config.progress = progress;
    fixture.config.progress_context = (void *)0x77;
}

TEST(progress__of_each_piece__grows_to_the_total)
{
    open_fixture();
    watch(0);
    test_old_error();
    assert_ok(hmreg_mr_close(registered()));
    assert_true(test_error_is_old());
    assert_int_equal(seen.calls, 8);
    assert_int_equal(seen.last, 8 * PIECE);
    assert_int_equal(seen.total, 8 * PIECE);
}

TEST(cancel__at_each_piece__nothing_is_left)
{
    struct hmreg_mr *mr = NULL;

    open_fixture();
    for (unsigned i = 1; i < 8; i++) {
        watch(i);
        script.count = 0;
        assert_reg_fails(hmreg_mr_reg_large(fixture.script.domain, fixture.host, 8 * PIECE,
                                            HMREG_ACCESS_ALL, &fixture.config, &mr),
                         mr, -ECANCELED, "of 32768 bytes");
        assert_int_equal(script.count, i);
    }
    watch(8); /* too late */
    assert_ok(hmreg_mr_reg_large(fixture.script.domain, fixture.host, 8 * PIECE, HMREG_ACCESS_ALL,
                                 &fixture.config, &mr));
    assert_ok(hmreg_mr_close(mr));
}

TEST_MAIN()
