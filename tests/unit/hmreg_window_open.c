/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_window_open() in rows, on a simulated libibverbs that enforces windows as
 * hardware does: what a window's key reaches, or why there is none. Then what a window holds.
 */
#include "tests/support/failing_allocation.h"
#include "tests/support/table.h"
#include "tests/support/world_verbs.h"

#include <hmreg/loopback.h>
#include <hmreg/suspend.h>
#include <hmreg/verbs.h>

#define BYTES   8192
#define BEGIN   100 /* of the window */
#define LEN     1000
#define WR_ID   0x123456789abcu
#define IOVA    0x700000
#define NOWHERE UINT64_MAX - 1 /* addr is NULL */
#define READ    HMREG_REMOTE_READ
#define WRITE   HMREG_REMOTE_WRITE
#define WINDOWS HMREG_VERBS_MEMORY_WINDOWS

static struct ibv_qp qp;
static struct hmreg_mr *region, *local; /* the region has no remote rights */
static struct hmreg_domain *loopback;

struct args {
    int usual_;
    enum { REGION, NO_REGION, DEVICE, MOVED, OF_LOOPBACK, OF_GROUP, OF_RAIL, PARTS } of;
    uint64_t at, len;
    uint64_t access;
    enum { SECOND, FIRST, THIRD } type;
    enum { OWN, NO_QP, OTHER_PD, SAME_PD } with;
    bool no_out;
    bool without; /* HMREG_VERBS_MEMORY_WINDOWS */
};

/* The rights that the device gives the window. */
#define BINDS(rights)         RETURNS(rights, NULL)
#define REFUSED(code, text)   FAILS(code, text, NULL)
#define WRONG(text)           REFUSED(-EINVAL, text)
#define ON(domain_flags, ...) .as = {.domain = {.flags = (domain_flags), __VA_ARGS__}}

static void be_one_of_a_group(void)
{
    assert_ok(hmreg_group_open(world.lib, world.nic, 1, NULL, &world.domain));
}

static void device_has_none(void)
{
    fake_verbs.window_error = EOPNOTSUPP;
}

static void post_fails(void)
{
    fake_verbs.post_error = ENOMEM;
}

static void no_memory(void)
{
    failing = allocations + 1;
}

/* Nothing is bound. */
static void can_be_suspended(void)
{
    failing = 0;
    assert_ok(hmreg_suspend(world.lib, world.host, 1));
    assert_ok(hmreg_resume(world.lib, world.host, 1, NULL));
}

static const struct row rows[] = {
    {"mr is NULL", ARGS(NO_REGION, 0, LEN, WRITE), WRONG("mr is NULL")},
    {"addr is NULL", ARGS(REGION, NOWHERE, LEN, WRITE), WRONG("addr is NULL")},
    {"len is 0", ARGS(REGION, 0, 0, WRITE), WRONG("len is 0")},
    {"the range wraps", ARGS(REGION, 0, SIZE_MAX, WRITE), WRONG("wraps")},
    {"a byte more than the region", ARGS(REGION, 0, BYTES + 1, WRITE), REFUSED(-ERANGE, "addr")},
    {"the byte before it", ARGS(REGION, -1, LEN, WRITE), REFUSED(-ERANGE, "addr")},
    {"access is 0", ARGS(REGION, 0, LEN), WRONG("access is 0")},
    {"local access", ARGS(REGION, 0, LEN, WRITE | HMREG_SEND), WRONG("access")},
    {"type is 3", ARGS(REGION, 0, LEN, WRITE, THIRD), WRONG("type is 3")},
    {"out is NULL", ARGS(REGION, 0, LEN, WRITE, .no_out = true), WRONG("out is NULL")},
    {"qp is NULL", ARGS(REGION, 0, LEN, WRITE, .with = NO_QP), WRONG("qp is NULL")},
    {"qp is of another domain", ARGS(REGION, 0, LEN, WRITE, .with = OTHER_PD),
     WRONG("another protection domain")},
    {"the domain has no windows", ARGS(REGION, 0, LEN, WRITE, .without = true),
     REFUSED(-EACCES, "HMREG_VERBS_MEMORY_WINDOWS")},
    {"a region of loopback", ARGS(OF_LOOPBACK, 0, LEN, WRITE),
     REFUSED(-EOPNOTSUPP, "is of loopback")},
    {"a group's region", .before = be_one_of_a_group, ARGS(OF_GROUP, 0, LEN, WRITE),
     REFUSED(-EOPNOTSUPP, "hmreg_mr_rail")},
    {"several parts", ARGS(PARTS, 0, LEN, WRITE), REFUSED(-EOPNOTSUPP, "composite of 2")},
    {"a dmabuf", ARGS(DEVICE, 0, LEN, WRITE), REFUSED(-EOPNOTSUPP, "dmabuf")},
    {"the device allocates none", .before = device_has_none, ARGS(REGION, 0, LEN, WRITE),
     REFUSED(-EOPNOTSUPP, "fake0 allocates"), .after = can_be_suspended},
    {"the device takes no work request", .before = post_fails, ARGS(REGION, 0, LEN, WRITE),
     REFUSED(-ENOMEM, "work request"), .after = can_be_suspended},
    {"the device takes no work request of type 1", .before = post_fails,
     ARGS(REGION, 0, LEN, WRITE, FIRST), REFUSED(-ENOMEM, "work request"),
     .after = can_be_suspended},
    {"no memory", .before = no_memory, ARGS(REGION, 0, LEN, WRITE), REFUSED(-ENOMEM, "no memory"),
     .after = can_be_suspended},

    {"peers write", ARGS(REGION, BEGIN, LEN, WRITE), BINDS(IBV_ACCESS_REMOTE_WRITE)},
    {"peers write, type 1", ARGS(REGION, BEGIN, LEN, WRITE, FIRST), BINDS(IBV_ACCESS_REMOTE_WRITE)},
    {"peers read", ARGS(REGION, BEGIN, LEN, READ), BINDS(IBV_ACCESS_REMOTE_READ)},
    {"all of the region", ARGS(REGION, 0, BYTES, READ | WRITE),
     BINDS(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)},
    {"peers write, with atomics", ON(HMREG_VERBS_ATOMICS), ARGS(REGION, BEGIN, LEN, WRITE),
     BINDS(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)},
    {"peers read, with atomics", ON(HMREG_VERBS_ATOMICS), ARGS(REGION, BEGIN, LEN, READ),
     BINDS(IBV_ACCESS_REMOTE_READ)},
    {"qp is of a parent domain", ARGS(REGION, BEGIN, LEN, WRITE, .with = SAME_PD),
     BINDS(IBV_ACCESS_REMOTE_WRITE)},
    {"a region at the caller's addresses", ARGS(MOVED, BEGIN, LEN, WRITE),
     BINDS(IBV_ACCESS_REMOTE_WRITE)},
    {"a rail of a group's region", .before = be_one_of_a_group, ARGS(OF_RAIL, BEGIN, LEN, WRITE),
     BINDS(IBV_ACCESS_REMOTE_WRITE)},
    {"peer memory", ON(0, .order = {HMREG_PATH_PEERMEM}), ARGS(DEVICE, 0, LEN, WRITE),
     BINDS(IBV_ACCESS_REMOTE_WRITE)},
};

/* ---- each row --------------------------------------------------------------------------- */

static void close_regions(void)
{
    assert_int_equal(fake_verbs.windows, 0);
    assert_ok(hmreg_mr_close(region));
    assert_ok(hmreg_mr_close(local));
    assert_ok(hmreg_domain_close(loopback));
}

static char *memory_of(const struct args *args)
{
    return args->of == DEVICE ? world.gpu[1] : world.host;
}

static struct hmreg_mr *reg(struct hmreg_domain *domain, char *addr, uint64_t access, uint64_t iova)
{
    struct iovec iov = {addr, BYTES};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = access,
                                 .set_iova = iova != 0,
                                 .iova = iova};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_regattr(domain, &attr, 0, &mr));
    return mr;
}

static struct hmreg_mr *reg_two(void)
{
    struct hmreg_segment segments[2] = {{.u.memory = {world.host, BYTES}},
                                        {.u.memory = {world.host + 2 * BYTES, BYTES}}};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_regsgl(world.domain, segments, 2, HMREG_SEND, 0, 0, 0, &mr, NULL));
    return mr;
}

static void open_region(const struct args *args)
{
    if (args->of == NO_REGION)
        region = NULL;
    else if (args->of == PARTS)
        region = reg_two();
    else
        region = reg(args->of == OF_LOOPBACK ? loopback : world.domain, memory_of(args), HMREG_SEND,
                     args->of == MOVED ? IOVA : 0);
}

static void open_windows(const struct world_as *as, bool without)
{
    struct world_as all = *as;

    world_open(.fabric = &world_verbs, .later = true);
    all.fabric = &world_verbs;
    all.domain.flags |= without ? 0 : WINDOWS;
    fake_peers = UINT32_MAX;
    world_add_as(&all);
    qp = (struct ibv_qp){.context = world_verbs_pd()->context, .pd = world_verbs_pd()};
    assert_ok(hmreg_domain_open_loopback(world.lib, NULL, NULL, &loopback));
    memset(world.host, 0, BYTES);
    local = reg(world.domain, world.host + 4 * BYTES, HMREG_RECV, 0);
    region = NULL;
    test_after(close_regions);
}

static void open_row(const struct row *row)
{
    const struct args *args = row->args;

    open_windows(&row->as, args->without);
    if (row->before && args->of >= OF_GROUP)
        row->before();
    open_region(args);
    if (row->before && args->of < OF_GROUP)
        row->before();
}

static bool rma(bool write, uint64_t addr, size_t len, uint64_t key)
{
    return fake_verbs_rma(write, world.host + 4 * BYTES, len, hmreg_mr_head_of(local)->keys->native,
                          addr, key);
}

/* Exactly the part, by exactly these rights, until it is closed. */
static void check_reach(const struct args *args, struct hmreg_mr *mr, struct hmreg_window *window)
{
    uint64_t begin = hmreg_mr_remote_addr(mr, 0, world.host + args->at);
    uint64_t key = hmreg_window_rkey(window);

    assert_int_equal(begin, args->at + (args->of == MOVED ? IOVA : (uintptr_t)world.host));
    for (int write = 0; write < 2; write++) {
        bool granted = args->access & (write ? WRITE : READ);

        assert_int_equal(rma(write, begin, args->len, key), granted);
        assert_false(rma(write, begin, args->len + 1, key));
        assert_false(rma(write, begin - 1, 1, key));
    }
    if (args->access & WRITE)
        assert_memory_equal(world.host + args->at, world.host + 4 * BYTES, args->len);
    assert_ok(hmreg_window_close(window));
    assert_false(rma(args->access & WRITE, begin, 1, key));
}

static int open_window(const struct row *row)
{
    static const enum ibv_mw_type types[] = {IBV_MW_TYPE_2, IBV_MW_TYPE_1, 3};
    const struct args *args = row->args;
    struct hmreg_mr *mr = args->of == OF_RAIL ? hmreg_mr_rail(region, 0) : region;
    struct ibv_pd other = {.context = qp.context, .handle = 1}, same = *qp.pd;
    struct hmreg_window *window = UNTOUCHED;
    int rc;

    if (args->with >= OTHER_PD)
        qp.pd = args->with == OTHER_PD ? &other : &same;
    rc = hmreg_window_open(mr, args->at == NOWHERE ? NULL : table_at(memory_of(args), args->at),
                           args->len, args->access, args->with == NO_QP ? NULL : &qp,
                           types[args->type], WR_ID, args->no_out ? NULL : &window);
    if (rc) {
        assert_ptr_equal(window, UNTOUCHED);
        assert_int_equal(fake_verbs.windows, 0);
        return rc;
    }
    assert_int_equal(fake_verbs.wr_id, WR_ID);
    assert_int_equal(fake_verbs.bound, IBV_WC_SUCCESS);
    assert_int_equal(fake_verbs.window_access, row->value);
    if (args->of == DEVICE)
        return hmreg_window_close(window);
    check_reach(args, mr, window);
    return 0;
}

TEST(window_open__each_row)
{
    CHECK_EACH_IN(rows, open_row, open_window);
}

/* What was not opened. */
TEST(window__null__no_key_and_no_effect)
{
    assert_int_equal(hmreg_window_rkey(NULL), HMREG_VERBS_KEY_NOTAVAIL);
    assert_ok(hmreg_window_close(NULL));
}

/* ---- what it holds ----------------------------------------------------------------------- */

static void open_it(void)
{
    open_windows(&(struct world_as){.nics = 1}, false);
    region = reg(world.domain, world.host, HMREG_SEND, 0);
}

static int bind(struct hmreg_mr *mr, struct hmreg_window **window)
{
    return hmreg_window_open(mr, world.host + BEGIN, LEN, WRITE, &qp, IBV_MW_TYPE_2, WR_ID, window);
}

static struct hmreg_window *window_of(struct hmreg_mr *mr)
{
    struct hmreg_window *window = NULL;

    assert_ok(bind(mr, &window));
    assert_int_equal(fake_verbs.bound, IBV_WC_SUCCESS);
    return window;
}

TEST(region__with_a_window__is_busy_and_stays)
{
    struct hmreg_window *first, *second;
    struct hmreg_mr *other;
    unsigned before;

    open_it();
    first = window_of(region);
    second = window_of(region);
    assert_fails(hmreg_suspend(world.lib, world.host + 1, 1), -EBUSY, "window is bound");
    assert_ok(hmreg_mr_reg(world.domain, world.host, BYTES, HMREG_SEND, 0, 0, 0, &other, NULL));
    assert_ok(hmreg_mr_close(other));
    before = fake_verbs.deregs;
    assert_fails(hmreg_mr_close(region), -EBUSY, "memory window");
    assert_ok(hmreg_window_close(first));
    assert_fails(hmreg_mr_close(region), -EBUSY, "memory window");
    assert_int_equal(fake_verbs.deregs, before); /* the device was not asked */
    assert_true(rma(true, (uintptr_t)world.host + BEGIN, LEN, hmreg_window_rkey(second)));
    assert_ok(hmreg_window_close(second));
    assert_ok(hmreg_suspend(world.lib, world.host + 1, 1));
    assert_fails(bind(region, &first), -EAGAIN, "suspend");
    assert_ok(hmreg_resume(world.lib, world.host + 1, 1, NULL));
    assert_ok(hmreg_window_close(window_of(region)));
}

TEST(cached_region__put_with_a_window__stays_registered_until_it_is_closed)
{
    struct hmreg_window *window;
    struct hmreg_mr *mr;
    unsigned live;

    open_it();
    live = fake_verbs.live;
    assert_ok(hmreg_mr_get(world.domain, world.host, BYTES, HMREG_SEND, &mr));
    window = window_of(mr);
    hmreg_mr_put(mr);
    hmreg_domain_flush(world.domain);
    assert_int_equal(fake_verbs.live, live + 1);
    assert_true(rma(true, (uintptr_t)world.host + BEGIN, LEN, hmreg_window_rkey(window)));
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "open");
    assert_ok(hmreg_window_close(window));
    assert_ok(hmreg_domain_flush(world.domain));
    assert_int_equal(fake_verbs.live, live);
}

TEST(domain__with_a_window_of_a_cached_region__is_busy)
{
    struct hmreg_domain *domain;
    struct hmreg_window *window;
    struct hmreg_mr *mr;

    open_it();
    domain = world_add(.fabric = &world_verbs, .domain.flags = WINDOWS);
    assert_ok(hmreg_mr_get(domain, world.host, BYTES, HMREG_SEND, &mr));
    window = window_of(mr);
    hmreg_mr_put(mr);
    assert_fails(hmreg_domain_close(domain), -EBUSY, "memory windows");
    assert_ok(hmreg_window_close(window));
}

/* Exits with 0 if no call touches the device. */
static int use_in_child(struct hmreg_window *window)
{
    struct hmreg_window *other;

    return bind(region, &other) != -EPERM || hmreg_window_close(window) != -EPERM ||
           fake_verbs.windows != 1;
}

TEST(window__in_a_forked_child__eperm)
{
    struct hmreg_window *window;

    open_it();
    window = window_of(region);
    test_in_child(use_in_child(window));
    assert_ok(hmreg_window_close(window));
}

TEST(close__device_fails__the_window_stays)
{
    struct hmreg_window *window;

    open_it();
    window = window_of(region);
    fake_verbs.end_error = EIO;
    assert_fails(hmreg_window_close(window), -EIO, "did not end");
    assert_fails(hmreg_mr_close(region), -EBUSY, "memory window");
    fake_verbs.end_error = 0;
    assert_ok(hmreg_window_close(window));
}

TEST_MAIN()
