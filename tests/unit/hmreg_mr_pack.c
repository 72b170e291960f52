/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_mr_pack(), hmreg_mr_pack_range() and hmreg_mr_pack_many() in rows: the
 * region, the room for the token, and what a peer finds in it.
 */
#include "tests/support/table.h"

#include <hmreg/suspend.h>

#define LEN  4096u
#define ROOM 4096u

enum region { NONE, REGION, OTHER, LOCAL, DEVICE, TWO, APART, COUNT };

struct args {
    int usual_;
    enum { WHOLE, RANGE, MANY } call;
    enum region of[3]; /* ends with NONE */
    uint64_t at, len;  /* of a range: from the region's first byte on */
    size_t fewer;      /* bytes of room than the token takes; 0: ROOM */
    bool no_size, no_buf, no_addr, no_mrs, measures; /* without a buffer */
};

/* Bytes of the peer's remotes together. */
#define PEER_HAS(bytes) RETURNS(bytes, "")
#define WRONG(text)     FAILS(-EINVAL, text, "")
#define OUTSIDE         FAILS(-ERANGE, "addr", "")
#define TOO_SMALL(text) FAILS(-HMREG_ETOOSMALL, text, "")

static void suspend(void)
{
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
}

static const struct row wholes[] = {
    {"mr is NULL", ARGS(WHOLE), WRONG("mr is NULL")},
    {"size is NULL", ARGS(WHOLE, {REGION}, .no_size = true), WRONG("size is NULL")},
    {"buf is NULL", ARGS(WHOLE, {REGION}, .no_buf = true), WRONG("buf is NULL")},
    {"how much it takes", ARGS(WHOLE, {REGION}, .measures = true), TOO_SMALL("the token takes")},
    {"a byte too few", ARGS(WHOLE, {REGION}, .fewer = 1), TOO_SMALL("the token takes")},
    {"local rights", ARGS(WHOLE, {LOCAL}), FAILS(-EACCES, "no remote access", "")},
    {"it is suspended", .before = suspend, ARGS(WHOLE, {REGION}), FAILS(-EAGAIN, "suspended", "")},
    {"host memory", ARGS(WHOLE, {REGION}), PEER_HAS(LEN)},
    {"device memory", ARGS(WHOLE, {DEVICE}), PEER_HAS(LEN)},
    {"two segments", ARGS(WHOLE, {TWO}), PEER_HAS(150)},
    {"a group, how much it takes", .as = {.nics = 2, .group = true},
     ARGS(WHOLE, {REGION}, .measures = true), TOO_SMALL("the token takes")},
    {"a group, a byte too few", .as = {.nics = 2, .group = true}, ARGS(WHOLE, {REGION}, .fewer = 1),
     TOO_SMALL("the token takes")},
    {"a group, local rights", .as = {.nics = 2, .group = true}, ARGS(WHOLE, {LOCAL}),
     FAILS(-EACCES, "no remote access", "")},
    {"a group", .as = {.nics = 2, .group = true}, ARGS(WHOLE, {REGION}), PEER_HAS(2 * LEN)},
};

static const struct row ranges[] = {
    {"mr is NULL", ARGS(RANGE, .len = 1), WRONG("mr is NULL")},
    {"addr is NULL", ARGS(RANGE, {REGION}, .len = 1, .no_addr = true), WRONG("addr is NULL")},
    {"len is 0", ARGS(RANGE, {REGION}), WRONG("len is 0")},
    {"the range wraps", ARGS(RANGE, {REGION}, .len = SIZE_MAX), WRONG("wraps")},
    {"size is NULL", ARGS(RANGE, {REGION}, .len = 1, .no_size = true), WRONG("size is NULL")},
    {"buf is NULL", ARGS(RANGE, {REGION}, .len = 1, .no_buf = true), WRONG("buf is NULL")},
    {"the byte before it", ARGS(RANGE, {REGION}, -1, 1), OUTSIDE},
    {"its first byte and one before", ARGS(RANGE, {REGION}, -1, 2), OUTSIDE},
    {"its last byte and one behind", ARGS(RANGE, {REGION}, LEN - 1, 2), OUTSIDE},
    {"the byte behind it", ARGS(RANGE, {REGION}, LEN, 1), OUTSIDE},
    {"local rights", ARGS(RANGE, {LOCAL}, 0, 1), FAILS(-EACCES, "no remote access", "")},
    {"it is suspended", .before = suspend, ARGS(RANGE, {REGION}, 0, 1),
     FAILS(-EAGAIN, "suspended", "")},
    {"a byte too few", ARGS(RANGE, {REGION}, 0, 1, .fewer = 1), TOO_SMALL("the token takes")},
    {"its first byte", ARGS(RANGE, {REGION}, 0, 1), PEER_HAS(1)},
    {"its last byte", ARGS(RANGE, {REGION}, LEN - 1, 1), PEER_HAS(1)},
    {"all of it", ARGS(RANGE, {REGION}, 0, LEN), PEER_HAS(LEN)},
    {"device memory", ARGS(RANGE, {DEVICE}, 7, 50), PEER_HAS(50)},
    {"over the border of two segments", ARGS(RANGE, {TWO}, 90, 20), PEER_HAS(20)},
    {"over the border of two that are apart", ARGS(RANGE, {APART}, 90, 20), OUTSIDE},
    {"one of two that are apart", ARGS(RANGE, {APART}, 90, 10), PEER_HAS(10)},
    {"a group", .as = {.nics = 2, .group = true}, ARGS(RANGE, {REGION}, 7, 50), PEER_HAS(100)},
};

static const struct row many[] = {
    {"mrs is NULL", ARGS(MANY, {REGION}, .no_mrs = true), WRONG("mrs is NULL")},
    {"count is 0", ARGS(MANY), WRONG("count is 0")},
    {"size is NULL", ARGS(MANY, {REGION, OTHER}, .no_size = true), WRONG("size is NULL")},
    {"buf is NULL", ARGS(MANY, {REGION, OTHER}, .no_buf = true), WRONG("buf is NULL")},
    {"the second is NULL", ARGS(MANY, {REGION, COUNT}), WRONG("mrs[1]: mr is NULL")},
    {"the second has local rights", ARGS(MANY, {REGION, LOCAL}),
     FAILS(-EACCES, "mrs[1]: the region has", "")},
    {"the second is suspended", .before = suspend, ARGS(MANY, {DEVICE, REGION}),
     FAILS(-EAGAIN, "mrs[1]", "")},
    {"a group", .as = {.nics = 2, .group = true}, ARGS(MANY, {REGION}), WRONG("mrs[0]")},
    {"how much they take", ARGS(MANY, {REGION, OTHER}, .measures = true), TOO_SMALL("tokens take")},
    {"a byte too few", ARGS(MANY, {REGION, OTHER}, .fewer = 1), TOO_SMALL("tokens take")},
    {"one", ARGS(MANY, {REGION}), PEER_HAS(LEN)},
    {"three, one of two segments", ARGS(MANY, {REGION, TWO, DEVICE}), PEER_HAS(2 * LEN + 150)},
};

/* ---- each row --------------------------------------------------------------------------- */

static struct hmreg_mr *mrs[COUNT + 1]; /* [COUNT] is NULL */

static void close_all(void)
{
    for (int i = 0; i < COUNT; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
}

static void reg(enum region which, char *first, char *second, size_t len, uint64_t access)
{
    struct hmreg_segment segments[2] = {{.u.memory = {first, len}}, {.u.memory = {second, 50}}};

    assert_ok(hmreg_mr_regsgl(world.domain, segments, second ? 2 : 1, access, 0, 0, 0, &mrs[which],
                              NULL));
}

static void open_row(const struct row *row)
{
    world_open_as(&row->as);
    reg(REGION, world.host + 8, NULL, LEN, HMREG_ACCESS_REMOTE);
    reg(OTHER, world.host + 2 * LEN, NULL, LEN, HMREG_REMOTE_READ);
    reg(LOCAL, world.host, NULL, 64, HMREG_ACCESS_LOCAL);
    reg(DEVICE, world.gpu[0], NULL, LEN, HMREG_ACCESS_REMOTE);
    reg(TWO, world.host + 5 * LEN, world.host + 5 * LEN + 100, 100, HMREG_ACCESS_REMOTE);
    reg(APART, world.host + 7 * LEN, world.host + 6 * LEN, 100, HMREG_ACCESS_REMOTE);
    test_after(close_all);
    if (row->before)
        row->before();
}

static char *start_of(enum region which)
{
    return (char *)(uintptr_t)test_info_of(mrs[which]).addr;
}

static int pack(const struct args *args, void *buf, size_t *size)
{
    struct hmreg_mr *packed[3] = {mrs[args->of[0] ? args->of[0] : COUNT], mrs[args->of[1]],
                                  mrs[args->of[2]]};
    const char *addr = args->no_addr ? NULL : packed[0] ? start_of(args->of[0]) : world.host;
    size_t count = 0;

    while (count < 3 && args->of[count])
        count++;
    switch (args->call) {
    case WHOLE:
        return hmreg_mr_pack(packed[0], buf, size);
    case RANGE:
        return hmreg_mr_pack_range(packed[0], table_at(addr, args->at), args->len, buf, size);
    default:
        return hmreg_mr_pack_many(args->no_mrs ? NULL : packed, count, buf, size);
    }
}

/* The first byte of the first remote, and the bytes of all. */
static uint64_t open_all(const void *token, size_t size, uint64_t *addr, uint64_t *key)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_remote *remotes[3] = {NULL};
    size_t count = world.nics > 1 ? world.nics : 3;
    uint64_t sum = 0;

    if (world.nics > 1)
        assert_ok(hmreg_remote_open_rails(world.domain, token, size, remotes, count));
    else
        assert_ok(hmreg_remote_open_many(world.domain, token, size, remotes, &count));
    assert_ok(hmreg_remote_addr(remotes[0], 0, 1, addr, key));
    for (size_t i = 0; i < count; i++) {
        assert_ok(hmreg_remote_query(remotes[i], &info));
        sum += info.len;
        hmreg_remote_close(remotes[i]);
    }
    return sum;
}

static size_t size_of_token(const struct args *args)
{
    size_t size = 0;

    assert_fails(pack(args, NULL, &size), -HMREG_ETOOSMALL, "take");
    world_old_error();
    return size;
}

static int call(const struct row *row)
{
    const struct args *args = row->args;
    unsigned char token[ROOM], before[ROOM];
    bool too_small = row->result == -HMREG_ETOOSMALL;
    size_t takes = too_small || !row->result ? size_of_token(args) : 0;
    size_t room = args->measures ? 0 : args->fewer ? takes - args->fewer : ROOM, size = room;
    uint64_t addr, key;
    int rc;

    memset(before, 0xa5, ROOM);
    memcpy(token, before, ROOM);
    rc = pack(args, args->no_buf || args->measures ? NULL : token, args->no_size ? NULL : &size);
    if (rc) {
        assert_memory_equal(token, before, ROOM);
        assert_int_equal(size, too_small ? takes : room);
        return rc;
    }
    assert_int_equal(size, takes);
    assert_memory_equal(token + size, before, ROOM - size);
    assert_int_equal(open_all(token, size, &addr, &key), row->value);
    assert_int_equal(addr, (uintptr_t)start_of(args->of[0]) + args->at);
    if (world.nics == 1 && table_key(mrs[args->of[0]]) != HMREG_KEY_NOTAVAIL)
        assert_int_equal(key, table_key(mrs[args->of[0]]));
    return 0;
}

TEST(pack__each_row)
{
    CHECK_EACH_IN(wholes, open_row, call);
}

TEST(pack_range__each_row)
{
    CHECK_EACH_IN(ranges, open_row, call);
}

TEST(pack_many__each_row)
{
    CHECK_EACH_IN(many, open_row, call);
}

TEST_MAIN()
