/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Memory windows of the library, on a simulated libibverbs that enforces them as hardware does:
 * what their keys reach, what they hold, and what each failure leaves. */
#include "tests/support/failing_allocation.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <hmreg/suspend.h>
#include <hmreg/verbs.h>

#define BYTES 8192
#define BEGIN 100 /* of the window */
#define LEN   1000
#define WR_ID 0x123456789abcu

static _Alignas(4096) char memory[BYTES], local[BYTES];

static struct fixture {
    struct hmreg *lib;
    struct ibv_pd *pd;
    struct ibv_qp qp;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr, *local_mr;
} fixture;

static void close_fixture(void)
{
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_mr_close(fixture.local_mr));
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    assert_int_equal(fake_verbs.live, 0);
    assert_int_equal(fake_verbs.windows, 0);
}

/* The region has no remote rights. */
static void open_with(uint32_t flags)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = flags};

    test_after(close_fixture);
    vendors_reset();
    memset(memory, 0, sizeof(memory));
    memset(local, 7, sizeof(local));
    fixture = (struct fixture){.pd = fake_verbs_reset()};
    fixture.qp = (struct ibv_qp){.context = fixture.pd->context, .pd = fixture.pd};
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &config, &fixture.domain));
    assert_ok(hmreg_mr_reg(fixture.domain, memory, BYTES, HMREG_SEND, 0, 0, 0, &fixture.mr, NULL));
    assert_ok(
        hmreg_mr_reg(fixture.domain, local, BYTES, HMREG_RECV, 0, 0, 0, &fixture.local_mr, NULL));
}

static void open_fixture(void)
{
    open_with(HMREG_VERBS_MEMORY_WINDOWS);
}

static int open_window(struct hmreg_mr *mr, enum ibv_mw_type type, struct hmreg_window **window)
{
    return hmreg_window_open(mr, memory + BEGIN, LEN, HMREG_REMOTE_WRITE, &fixture.qp, type, WR_ID,
                             window);
}

static struct hmreg_window *window_of(struct hmreg_mr *mr)
{
    struct hmreg_window *window;

    assert_ok(open_window(mr, IBV_MW_TYPE_2, &window));
    assert_int_equal(fake_verbs.bound, IBV_WC_SUCCESS);
    return window;
}

static bool rma(bool write, uint64_t addr, size_t len, uint64_t key)
{
    return fake_verbs_rma(write, local, len, hmreg_mr_head_of(fixture.local_mr)->keys->native, addr,
                          key);
}

/* ---- what a key reaches ------------------------------------------------------------------ */

static void reaches_the_part(enum ibv_mw_type type)
{
    uint64_t begin = (uintptr_t)memory + BEGIN, key;
    struct hmreg_window *window = NULL;

    open_fixture();
    assert_ok(open_window(fixture.mr, type, &window));
    assert_int_equal(fake_verbs.wr_id, WR_ID);
    assert_int_equal(fake_verbs.bound, IBV_WC_SUCCESS);
    key = hmreg_window_rkey(window);
    assert_int_equal(hmreg_mr_remote_addr(fixture.mr, 0, memory + BEGIN), begin);
    assert_true(rma(true, begin, LEN, key));
    assert_memory_equal(memory + BEGIN, local, LEN);
    assert_false(rma(true, begin, LEN + 1, key));
    assert_false(rma(true, begin - 1, 1, key));
    assert_false(rma(false, begin, 1, key));
    assert_ok(hmreg_window_close(window));
    assert_false(rma(true, begin, 1, key));
}

TEST(window__type_1__its_key_reaches_the_part_until_it_is_closed)
{
    reaches_the_part(IBV_MW_TYPE_1);
}

TEST(window__type_2__its_key_reaches_the_part_until_it_is_closed)
{
    reaches_the_part(IBV_MW_TYPE_2);
}

TEST(window__rights__are_the_ones_asked_for)
{
    uint64_t begin = (uintptr_t)memory + BEGIN;
    struct hmreg_window *window;

    open_fixture();
    assert_ok(hmreg_window_open(fixture.mr, memory + BEGIN, LEN, HMREG_REMOTE_READ, &fixture.qp,
                                IBV_MW_TYPE_2, 0, &window));
    assert_true(rma(false, begin, LEN, hmreg_window_rkey(window)));
    assert_false(rma(true, begin, LEN, hmreg_window_rkey(window)));
    assert_ok(hmreg_window_close(window));
}

TEST(window__domain_with_atomics__has_them_where_peers_write)
{
    struct hmreg_window *window;

    open_with(HMREG_VERBS_MEMORY_WINDOWS | HMREG_VERBS_ATOMICS);
    window = window_of(fixture.mr);
    assert_int_equal(fake_verbs.window_access, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    assert_ok(hmreg_window_close(window));
    assert_ok(hmreg_window_open(fixture.mr, memory, LEN, HMREG_REMOTE_READ, &fixture.qp,
                                IBV_MW_TYPE_1, 0, &window));
    assert_int_equal(fake_verbs.window_access, IBV_ACCESS_REMOTE_READ);
    assert_ok(hmreg_window_close(window));
}

/* Of a region that peers reach at addresses of the caller's. */
TEST(window__region_with_an_iova__is_at_its_addresses)
{
    struct iovec iov = {memory, BYTES};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_SEND,
                                 .set_iova = 1,
                                 .iova = 0x700000};
    struct hmreg_window *window;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    window = window_of(mr);
    assert_int_equal(hmreg_mr_remote_addr(mr, 0, memory + BEGIN), 0x700000 + BEGIN);
    assert_true(rma(true, 0x700000 + BEGIN, LEN, hmreg_window_rkey(window)));
    assert_int_equal(memory[BEGIN], 7);
    assert_ok(hmreg_window_close(window));
    assert_ok(hmreg_mr_close(mr));
}

/* A device's memory by its address has windows, by a dmabuf none. */
TEST(window__device_memory__by_peer_memory_only)
{
    char *there;

    for (int peermem = 0; peermem < 2; peermem++) {
        struct hmreg_domain_config config = {.size = sizeof(config),
                                             .flags = HMREG_VERBS_MEMORY_WINDOWS};
        struct hmreg_window *window = (void *)1;
        struct hmreg_domain *domain;
        struct hmreg_mr *mr;
        int rc;

        open_fixture();
        fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
        there = vendor_memory(HMREG_IFACE_CUDA, 1, HMREG_MEM_DEVICE, BYTES);
        config.order[0] = peermem ? HMREG_PATH_PEERMEM : HMREG_PATH_DMABUF;
        assert_ok(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &config, &domain));
        assert_ok(hmreg_mr_reg(domain, there, BYTES, HMREG_SEND, 0, 0, 0, &mr, NULL));
        rc = hmreg_window_open(mr, there, LEN, HMREG_REMOTE_WRITE, &fixture.qp, IBV_MW_TYPE_2, 0,
                               &window);
        if (peermem) {
            assert_ok(rc);
            assert_int_equal(fake_verbs.bound, IBV_WC_SUCCESS);
            assert_ok(hmreg_window_close(window));
        } else {
            assert_fails(rc, -EOPNOTSUPP, "dmabuf");
            assert_ptr_equal(window, (void *)1);
        }
        assert_ok(hmreg_mr_close(mr));
        assert_ok(hmreg_domain_close(domain));
        vendor_memory_free(there);
        test_finish();
    }
}

/* ---- what it holds ----------------------------------------------------------------------- */

TEST(region__with_a_window__is_busy_and_stays)
{
    struct hmreg_window *first, *second;
    struct hmreg_mr *other;
    unsigned before;

    open_fixture();
    first = window_of(fixture.mr);
    second = window_of(fixture.mr);
    assert_fails(hmreg_suspend(fixture.lib, memory + 1, 1), -EBUSY, "window is bound");
    assert_ok(hmreg_mr_reg(fixture.domain, memory, BYTES, HMREG_SEND, 0, 0, 0, &other, NULL));
    assert_ok(hmreg_mr_close(other));
    before = fake_verbs.deregs;
    assert_fails(hmreg_mr_close(fixture.mr), -EBUSY, "memory window");
    assert_ok(hmreg_window_close(first));
    assert_fails(hmreg_mr_close(fixture.mr), -EBUSY, "memory window");
    assert_int_equal(fake_verbs.deregs, before); /* the device was not asked */
    assert_true(rma(true, (uintptr_t)memory + BEGIN, LEN, hmreg_window_rkey(second)));
    assert_ok(hmreg_window_close(second));
    assert_ok(hmreg_suspend(fixture.lib, memory + 1, 1));
    assert_fails(open_window(fixture.mr, IBV_MW_TYPE_2, &first), -EAGAIN, "suspend");
    assert_ok(hmreg_resume(fixture.lib, memory + 1, 1, NULL));
    assert_ok(hmreg_window_close(window_of(fixture.mr)));
}

TEST(cached_region__put_with_a_window__stays_registered_until_it_is_closed)
{
    struct hmreg_window *window;
    struct hmreg_mr *mr;
    unsigned live;

    open_fixture();
    live = fake_verbs.live;
    assert_ok(hmreg_mr_get(fixture.domain, memory, BYTES, HMREG_SEND, &mr));
    window = window_of(mr);
    hmreg_mr_put(mr);
    hmreg_domain_flush(fixture.domain);
    assert_int_equal(fake_verbs.live, live + 1);
    assert_true(rma(true, (uintptr_t)memory + BEGIN, LEN, hmreg_window_rkey(window)));
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "open");
    assert_ok(hmreg_window_close(window));
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(fake_verbs.live, live);
}

TEST(domain__with_a_window_of_a_cached_region__is_busy)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .flags = HMREG_VERBS_MEMORY_WINDOWS};
    struct hmreg_window *window;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &config, &domain));
    assert_ok(hmreg_mr_get(domain, memory, BYTES, HMREG_SEND, &mr));
    window = window_of(mr);
    hmreg_mr_put(mr);
    assert_fails(hmreg_domain_close(domain), -EBUSY, "memory windows");
    assert_ok(hmreg_window_close(window));
    assert_ok(hmreg_domain_close(domain));
}

/* ---- arguments --------------------------------------------------------------------------- */

static void bad_window(struct hmreg_mr *mr, const void *addr, size_t len, uint64_t access, int code,
                       const char *words)
{
    struct hmreg_window *window = (void *)1;

    assert_fails(hmreg_window_open(mr, addr, len, access, &fixture.qp, IBV_MW_TYPE_2, 0, &window),
                 code, words);
    assert_ptr_equal(window, (void *)1);
    assert_int_equal(fake_verbs.windows, 0);
}

TEST(open__wrong_arguments__say_which)
{
    struct ibv_pd other, parent;
    struct hmreg_window *window;

    open_fixture();
    bad_window(NULL, memory, LEN, HMREG_REMOTE_WRITE, -EINVAL, "mr is NULL");
    bad_window(fixture.mr, NULL, LEN, HMREG_REMOTE_WRITE, -EINVAL, "addr is NULL");
    bad_window(fixture.mr, memory, 0, HMREG_REMOTE_WRITE, -EINVAL, "len is 0");
    bad_window(fixture.mr, memory, SIZE_MAX, HMREG_REMOTE_WRITE, -EINVAL, "wraps");
    bad_window(fixture.mr, memory, BYTES + 1, HMREG_REMOTE_WRITE, -ERANGE, "addr");
    bad_window(fixture.mr, (char *)((uintptr_t)memory - 1), LEN, HMREG_REMOTE_WRITE, -ERANGE,
               "addr");
    bad_window(fixture.mr, memory, LEN, 0, -EINVAL, "access is 0");
    bad_window(fixture.mr, memory, LEN, HMREG_REMOTE_WRITE | HMREG_SEND, -EINVAL, "access");
    assert_fails(open_window(fixture.mr, 3, &window), -EINVAL, "type is 3");
    assert_fails(open_window(fixture.mr, IBV_MW_TYPE_2, NULL), -EINVAL, "out is NULL");
    assert_fails(hmreg_window_open(fixture.mr, memory, 1, HMREG_REMOTE_READ, NULL, IBV_MW_TYPE_2, 0,
                                   &window),
                 -EINVAL, "qp is NULL");
    other = (struct ibv_pd){.context = fixture.pd->context, .handle = 1};
    fixture.qp.pd = &other;
    bad_window(fixture.mr, memory, LEN, HMREG_REMOTE_WRITE, -EINVAL, "qp is of another");
    parent = *fixture.pd; /* as that of a parent domain */
    fixture.qp.pd = &parent;
    window = window_of(fixture.mr);
    assert_int_equal(hmreg_window_rkey(NULL), HMREG_VERBS_KEY_NOTAVAIL);
    assert_ok(hmreg_window_close(window));
    assert_ok(hmreg_window_close(NULL));
}

TEST(open__domain_without_windows__eacces)
{
    open_with(0);
    bad_window(fixture.mr, memory, LEN, HMREG_REMOTE_WRITE, -EACCES, "HMREG_VERBS_MEMORY_WINDOWS");
}

TEST(open__region_of_loopback_a_group_or_several_parts__opnotsupp)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .flags = HMREG_VERBS_MEMORY_WINDOWS | HMREG_DOMAIN_PARTS};
    struct hmreg_domain *loopback, *group, *parts;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &loopback));
    assert_ok(hmreg_mr_reg(loopback, memory, BYTES, HMREG_SEND, 0, 0, 0, &mr, NULL));
    bad_window(mr, memory, LEN, HMREG_REMOTE_WRITE, -EOPNOTSUPP, "is of loopback");
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(loopback));

    assert_ok(hmreg_group_open(fixture.lib, &fixture.domain, 1, NULL, &group));
    assert_ok(hmreg_mr_reg(group, memory, BYTES, HMREG_SEND, 0, 0, 0, &mr, NULL));
    bad_window(mr, memory, LEN, HMREG_REMOTE_WRITE, -EOPNOTSUPP, "hmreg_mr_rail");
    assert_ok(hmreg_window_close(window_of(hmreg_mr_rail(mr, 0))));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(group));

    fake_verbs.limits.max_mr_size = BYTES / 2;
    assert_ok(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &config, &parts));
    assert_ok(hmreg_mr_get(parts, memory, BYTES, HMREG_SEND, &mr));
    bad_window(mr, memory, LEN, HMREG_REMOTE_WRITE, -EOPNOTSUPP, "composite of 2");
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(parts));
}

/* Exits with 0 if no call touches the device. */
static int use_in_child(struct hmreg_window *window)
{
    struct hmreg_window *other;

    return open_window(fixture.mr, IBV_MW_TYPE_2, &other) != -EPERM ||
           hmreg_window_close(window) != -EPERM || fake_verbs.windows != 1;
}

TEST(window__in_a_forked_child__eperm)
{
    struct hmreg_window *window;

    open_fixture();
    window = window_of(fixture.mr);
    test_in_child(use_in_child(window));
    assert_ok(hmreg_window_close(window));
}

/* ---- failures ---------------------------------------------------------------------------- */

TEST(open__a_call_fails__leaves_nothing)
{
    static const int types[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2};
    struct hmreg_window *window = (void *)1;

    open_fixture();
    fake_verbs.window_error = EOPNOTSUPP;
    assert_fails(open_window(fixture.mr, IBV_MW_TYPE_2, &window), -EOPNOTSUPP, "fake0 allocates");
    assert_int_equal(hmreg_last_error()->vendor_code, EOPNOTSUPP);
    fake_verbs.window_error = 0;
    for (size_t i = 0; i < 2; i++) {
        fake_verbs.post_error = ENOMEM;
        assert_fails(open_window(fixture.mr, types[i], &window), -ENOMEM, "work request");
        fake_verbs.post_error = 0;
        assert_int_equal(fake_verbs.windows, 0);
    }
    failing = allocations + 1;
    assert_fails(open_window(fixture.mr, IBV_MW_TYPE_2, &window), -ENOMEM, "no memory");
    failing = 0;
    assert_int_equal(fake_verbs.windows, 0);
    assert_ptr_equal(window, (void *)1);
    assert_ok(hmreg_suspend(fixture.lib, memory, 1)); /* nothing is bound */
    assert_ok(hmreg_resume(fixture.lib, memory, 1, NULL));
}

TEST(close__device_fails__the_window_stays)
{
    struct hmreg_window *window;

    open_fixture();
    window = window_of(fixture.mr);
    fake_verbs.end_error = EIO;
    assert_fails(hmreg_window_close(window), -EIO, "did not end");
    assert_fails(hmreg_mr_close(fixture.mr), -EBUSY, "memory window");
    fake_verbs.end_error = 0;
    assert_ok(hmreg_window_close(window));
}

TEST_MAIN()
