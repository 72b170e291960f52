/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_mr_bind(), hmreg_mr_enable() and hmreg_mr_refresh() in rows, on a
 * simulated fid_domain, which can have each mode: what libfabric is asked for, or why it is not.
 */
#include "tests/support/table.h"
#include "tests/support/world_ofi.h"
#include "tests/unit/region_states.h"

#include <rdma/fi_errno.h>

#define LEN     4096u
#define BEGIN   LEN /* of the region in world.host, which has 2 * LEN bytes */
#define END     (3 * LEN)
#define NOWHERE UINT64_MAX - 1 /* the address is NULL */
#define MOST    2

struct part {
    uint64_t at, len; /* in world.host */
};

/* Which region: PARTS has one of LEN bytes behind the other, EVENT has HMREG_RMA_EVENT. */
enum of { REGION, NO_REGION, PARTS, EVENT, OF_GROUP, OF_RAIL, SIMULATED };

struct args {
    int usual_;
    enum of of;
    int mode; /* FI_MR_* */
    struct fid *object;
    uint64_t flags;
    /* A refresh's: */
    struct part parts[MOST];
    size_t count;
    bool no_iov;
    struct part last; /* of several that libfabric is asked for */
};

static struct fid ep = {.fclass = FI_CLASS_EP}, scalable = {.fclass = FI_CLASS_SEP};
static struct fid counter = {.fclass = FI_CLASS_CNTR}, queue = {.fclass = FI_CLASS_CQ};
static struct hmreg_mr *mr; /* the region, or its rail */

/* How often libfabric is asked. */
#define ASKS(times)              RETURNS(times, NULL)
#define REFUSED(code, text)      FAILS(code, text, NULL)
#define WRONG(text)              REFUSED(-EINVAL, text)
#define FABRICS(own, code, text) REFUSED(code, text), .value = 1, .before = own

/* ---- states ----------------------------------------------------------------------------- */

static void bind_ep(void)
{
    assert_ok(hmreg_mr_bind(mr, &ep, 0));
}

static void bind_counter(void)
{
    assert_ok(hmreg_mr_bind(mr, &counter, HMREG_REMOTE_WRITE));
}

static void enable(void)
{
    assert_ok(hmreg_mr_enable(mr));
}

static void bind_and_enable(void)
{
    bind_ep();
    enable();
}

static void binding_fails(void)
{
    fake_fabric.bind_code = -FI_ENOSYS;
}

static void enabling_fails(void)
{
    bind_ep();
    fake_fabric.enable_code = -FI_EIO;
}

static void refreshing_fails(void)
{
    fake_fabric.refresh_code = -FI_EFAULT;
}

static void is_still_unbound(void)
{
    assert_string_equal(hmreg_last_error()->source, "ofi");
    assert_fails(hmreg_mr_enable(mr), -HMREG_EOPBADSTATE, "no endpoint");
    fake_fabric.bind_code = 0;
    bind_and_enable();
}

static void is_still_disabled(void)
{
    assert_string_equal(hmreg_last_error()->source, "ofi");
    fake_fabric.enable_code = 0;
    enable();
    assert_int_equal(fake_fabric.enables, 2);
}

/* ---- rows ------------------------------------------------------------------------------- */

#define WRITES HMREG_REMOTE_WRITE
#define EP     FI_MR_ENDPOINT
#define EVENTS FI_MR_RMA_EVENT

static const struct row binds[] = {
    {"mr is NULL", ARGS(NO_REGION, EP, &ep), WRONG("mr is NULL")},
    {"object is NULL", ARGS(REGION, EP, NULL), WRONG("object is NULL")},
    {"object is of another class", ARGS(REGION, EP, &queue), WRONG("no endpoint or counter")},
    {"an unknown flag", ARGS(REGION, EP, &ep, HMREG_SEND), REFUSED(-HMREG_EBADFLAGS, "flags")},
    {"a counter's flag for an endpoint", ARGS(REGION, EP, &ep, WRITES),
     REFUSED(-HMREG_EBADFLAGS, "for an endpoint")},
    {"no flag for a counter", ARGS(REGION, 0, &counter), REFUSED(-HMREG_EBADFLAGS, "counter")},
    {"a group's region", ARGS(OF_GROUP, 0, &counter, WRITES), WRONG("hmreg_mr_rail()")},
    {"an endpoint, without the mode", ARGS(REGION, EVENTS, &ep), WRONG("FI_MR_ENDPOINT")},
    {"a counter, the region is not for it", ARGS(REGION, EVENTS, &counter, WRITES),
     WRONG("HMREG_RMA_EVENT")},
    {"the fabric binds nothing", ARGS(SIMULATED, 0, &ep), REFUSED(-EOPNOTSUPP, "objects to which")},
    {"the fabric binds no counter", ARGS(SIMULATED, 0, &counter, WRITES),
     REFUSED(-EOPNOTSUPP, "objects to which")},
    {"it is suspended", .before = suspend, ARGS(REGION, EP, &ep), REFUSED(-EAGAIN, "hmreg_resume")},
    {"its domain is lost", .before = lose, ARGS(REGION, EP, &ep),
     REFUSED(-ENODEV, "the port is down")},
    {"an endpoint is bound already", .before = bind_ep, ARGS(REGION, EP, &ep),
     REFUSED(-EBUSY, "already")},
    {"an endpoint, it is enabled", .before = bind_and_enable, ARGS(REGION, EP, &ep),
     REFUSED(-HMREG_EOPBADSTATE, "enabled already")},
    {"a counter, it is enabled", .before = bind_and_enable, ARGS(REGION, EP, &counter, WRITES),
     REFUSED(-HMREG_EOPBADSTATE, "enabled already")},
    {"a counter, it is enabled for it", .before = enable, ARGS(EVENT, EVENTS, &counter, WRITES),
     REFUSED(-HMREG_EOPBADSTATE, "enabled already")},
    {"the provider fails", FABRICS(binding_fails, -ENOSYS, "fi_mr_bind()"), ARGS(REGION, EP, &ep),
     .after = is_still_unbound},

    {"an endpoint", ARGS(REGION, EP, &ep), ASKS(1), .after = enable},
    {"a scalable endpoint", ARGS(REGION, EP, &scalable), ASKS(1), .after = enable},
    {"an endpoint after a counter", .before = bind_counter, ARGS(REGION, EP, &ep), ASKS(1)},
    {"a counter after an endpoint", .before = bind_ep, ARGS(REGION, EP, &counter, WRITES), ASKS(1)},
    {"a counter of a region for it", ARGS(EVENT, EVENTS, &counter, WRITES), ASKS(1)},
    {"a counter, without the mode", ARGS(REGION, 0, &counter, WRITES), ASKS(1)},
    {"a counter, without the mode, after enabling", .before = enable,
     ARGS(REGION, 0, &counter, WRITES), ASKS(1)},
    {"each piece", ARGS(PARTS, EP, &ep), ASKS(2), .after = enable},
    {"a rail", ARGS(OF_RAIL, 0, &counter, WRITES), ASKS(1)},
};

static const struct row enablings[] = {
    {"mr is NULL", ARGS(NO_REGION), WRONG("mr is NULL")},
    {"no endpoint is bound", ARGS(REGION, EP), REFUSED(-HMREG_EOPBADSTATE, "no endpoint")},
    {"only a counter is bound", .before = bind_counter, ARGS(REGION, EP),
     REFUSED(-HMREG_EOPBADSTATE, "no endpoint")},
    {"for a counter, but no endpoint is bound", ARGS(EVENT, EP | EVENTS),
     REFUSED(-HMREG_EOPBADSTATE, "no endpoint")},
    {"it is enabled", .before = bind_and_enable, ARGS(REGION, EP),
     REFUSED(-HMREG_EOPBADSTATE, "enabled already")},
    {"it is enabled for a counter", .before = enable, ARGS(EVENT, EVENTS),
     REFUSED(-HMREG_EOPBADSTATE, "enabled already")},
    {"it is suspended", .before = suspend, ARGS(REGION, EP), REFUSED(-EAGAIN, "hmreg_resume")},
    {"its domain is lost", .before = lose, ARGS(REGION), REFUSED(-ENODEV, "the port is down")},
    {"the provider fails", FABRICS(enabling_fails, -EIO, "fi_mr_enable()"), ARGS(REGION, EP),
     .after = is_still_disabled},

    {"an endpoint is bound", .before = bind_ep, ARGS(REGION, EP), ASKS(1)},
    {"for a counter, which is bound", .before = bind_counter, ARGS(EVENT, EVENTS), ASKS(1)},
    {"for a counter, none is bound", ARGS(EVENT, EVENTS), ASKS(1)},
    {"for a counter, and an endpoint is bound", .before = bind_ep, ARGS(EVENT, EP | EVENTS),
     ASKS(1)},
    {"each piece", .before = bind_ep, ARGS(PARTS, EP), ASKS(2)},
    {"not for a counter", ARGS(REGION, EVENTS), ASKS(0)},
    {"for a counter, without the mode", ARGS(EVENT), ASKS(0)},
    {"without the mode", ARGS(REGION), ASKS(0)},
    {"without the mode, again", .before = enable, ARGS(REGION), ASKS(0)},
    {"a fabric without modes", ARGS(SIMULATED), ASKS(0)},
    {"a group's region", ARGS(OF_GROUP), ASKS(0)},
    {"a rail", ARGS(OF_RAIL), ASKS(0)},
};

#define NOTIFIES          FI_MR_MMU_NOTIFY
#define PART(of, at, len) ARGS(of, NOTIFIES, .parts = {{at, len}}, .count = 1, .last = {at, len})
#define LAST                                                                                       \
    {                                                                                              \
        2 * LEN, 9                                                                                 \
    }
#define TWO(of, ...) ARGS(of, NOTIFIES, .parts = {__VA_ARGS__}, .count = 2, .last = LAST)
#define ALL(of)      ARGS(of, NOTIFIES, .no_iov = true)
#define OUTSIDE      WRONG("is not inside the region")

static const struct row refreshes[] = {
    {"mr is NULL", ALL(NO_REGION), WRONG("mr is NULL")},
    {"iov is NULL", ARGS(REGION, NOTIFIES, .no_iov = true, .count = 1), WRONG("iov is NULL")},
    {"count is 0", ARGS(REGION, NOTIFIES), WRONG("count is 0")},
    {"a flag", ARGS(REGION, NOTIFIES, .no_iov = true, .flags = 1),
     REFUSED(-HMREG_EBADFLAGS, "flags")},
    {"the address is NULL", PART(REGION, NOWHERE, 1), WRONG("NULL")},
    {"len is 0", PART(REGION, BEGIN, 0), WRONG("len is 0")},
    {"it wraps", PART(REGION, BEGIN, SIZE_MAX), WRONG("wraps")},
    {"from the byte before it", PART(REGION, BEGIN - 1, 2), OUTSIDE},
    {"to the byte after it", PART(REGION, END - 1, 2), OUTSIDE},
    {"the byte after it", PART(REGION, END, 1), OUTSIDE},
    {"to the byte after the last piece", PART(PARTS, BEGIN, 2 * LEN + 1), OUTSIDE},
    {"the second part is outside", TWO(REGION, {BEGIN, 1}, {END, 1}), WRONG("iov[1] is not")},
    {"outside, without the mode", ARGS(REGION, 0, .parts = {{END, 1}}, .count = 1), OUTSIDE},
    {"it is suspended", .before = suspend, ALL(REGION), REFUSED(-EAGAIN, "hmreg_resume")},
    {"its domain is lost", .before = lose, ALL(REGION), REFUSED(-ENODEV, "the port is down")},
    {"all, a page is not mapped", FABRICS(refreshing_fails, -EFAULT, "fi_mr_refresh()"),
     ALL(REGION)},
    {"a part, a page is not mapped", FABRICS(refreshing_fails, -EFAULT, "fi_mr_refresh()"),
     PART(REGION, BEGIN, 1)},

    {"all", ALL(REGION), ASKS(1)},
    {"all, of each piece", ALL(PARTS), ASKS(2)},
    {"all, by a part", PART(REGION, BEGIN, 2 * LEN), ASKS(1)},
    {"the first byte", PART(REGION, BEGIN, 1), ASKS(1)},
    {"the last byte", PART(REGION, END - 1, 1), ASKS(1)},
    {"two parts", TWO(REGION, {BEGIN, 7}, LAST), ASKS(2)},
    {"a part of each piece", TWO(PARTS, {BEGIN, 7}, LAST), ASKS(2)},
    {"through both pieces",
     ARGS(PARTS, NOTIFIES, .parts = {{2 * LEN - 5, 14}}, .count = 1, .last = LAST), ASKS(2)},
    {"a rail", PART(OF_RAIL, BEGIN, 1), ASKS(1)},
    {"a group's region", PART(OF_GROUP, BEGIN, 1), ASKS(1)},
    {"all of a group's region", ALL(OF_GROUP), ASKS(1)},
    {"a part, without the mode", ARGS(REGION, 0, .parts = {{BEGIN, 1}}, .count = 1), ASKS(0)},
    {"all, without the mode", ARGS(REGION, 0, .no_iov = true), ASKS(0)},
    {"a fabric without modes", ALL(SIMULATED), ASKS(0)},
};

/* ---- each row --------------------------------------------------------------------------- */

static void close_region(void)
{
    assert_ok(hmreg_mr_close(region));
    region = NULL;
}

static void reg(enum of of)
{
    struct hmreg_segment two[2] = {{.u.memory = {world.host + BEGIN, LEN}},
                                   {.u.memory = {world.host + BEGIN + LEN, LEN}}};

    if (of == PARTS)
        assert_ok(hmreg_mr_regsgl(world.domain, two, 2, HMREG_ACCESS_ALL, 0, 0, 0, &region, NULL));
    else
        assert_ok(hmreg_mr_reg(world.domain, world.host + BEGIN, 2 * LEN, HMREG_ACCESS_ALL, 0, 0,
                               of == EVENT ? HMREG_RMA_EVENT : 0, &region, NULL));
    if (of == EVENT)
        assert_int_equal(fake_fabric.flags, FI_RMA_EVENT);
    test_after(close_region);
}

static void open_region(enum of of, int mode)
{
    const struct world_fabric *fabric = of == SIMULATED ? NULL : &world_ofi;

    world_open(.fabric = fabric, .later = true);
    if (fabric) {
        fake_fabric.info->domain_attr->mr_mode = mode;
        fake_fabric.info->caps = FI_RMA | FI_RMA_EVENT;
    }
    world_add(.fabric = fabric);
    if (of == OF_GROUP || of == OF_RAIL)
        assert_ok(hmreg_group_open(world.lib, world.nic, 1, NULL, &world.domain));
    reg(of);
    mr = of == OF_RAIL ? hmreg_mr_rail(region, 0) : of == NO_REGION ? NULL : region;
}

static void open_row(const struct row *row)
{
    const struct args *args = row->args;

    open_region(args->of, args->mode);
    if (row->before)
        row->before();
}

static unsigned asked(void)
{
    return fake_fabric.binds + fake_fabric.enables + fake_fabric.refreshes;
}

static int bind_it(const struct row *row)
{
    const struct args *args = row->args;
    unsigned before = asked();
    int rc = hmreg_mr_bind(mr, args->object, args->flags);

    table_value(row, asked() - before);
    if (row->value) {
        assert_ptr_equal(fake_fabric.bound, args->object);
        assert_int_equal(fake_fabric.bind_flags, args->flags);
    }
    return rc;
}

static int enable_it(const struct row *row)
{
    unsigned before = asked();
    int rc = hmreg_mr_enable(mr);

    table_value(row, asked() - before);
    return rc;
}

static void check_refreshed(const struct args *args)
{
    const struct iovec *last = &fake_fabric.refreshed_part;

    assert_int_equal(fake_fabric.refreshed.attr.iov_count, !args->no_iov);
    if (args->no_iov)
        return;
    assert_ptr_equal(last->iov_base, table_at(world.host, args->last.at));
    assert_int_equal(last->iov_len, args->last.len);
}

static int refresh_it(const struct row *row)
{
    const struct args *args = row->args;
    struct iovec iov[MOST];
    unsigned before = asked();
    int rc;

    for (size_t i = 0; i < MOST; i++) {
        bool nowhere = args->parts[i].at == NOWHERE;

        iov[i].iov_base = nowhere ? NULL : table_at(world.host, args->parts[i].at);
        iov[i].iov_len = args->parts[i].len;
    }
    rc = hmreg_mr_refresh(mr, args->no_iov ? NULL : iov, args->count, args->flags);
    table_value(row, asked() - before);
    if (row->value)
        check_refreshed(args);
    return rc;
}

TEST(bind__each_row)
{
    CHECK_EACH_IN(binds, open_row, bind_it);
}

TEST(enable__each_row)
{
    CHECK_EACH_IN(enablings, open_row, enable_it);
}

TEST(refresh__each_row)
{
    CHECK_EACH_IN(refreshes, open_row, refresh_it);
}

/* Exits with 0 if each call is refused, and libfabric not asked. */
static int use_in_child(void)
{
    return hmreg_mr_bind(mr, &ep, 0) != -EPERM || hmreg_mr_enable(mr) != -EPERM ||
           hmreg_mr_refresh(mr, NULL, 0, 0) != -EPERM || asked();
}

TEST(each_call__in_a_forked_child__eperm)
{
    open_region(REGION, EP | NOTIFIES);
    test_in_child(use_in_child());
}

TEST_MAIN()
