/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of a peer's calls in rows: hmreg_remote_open(), _open_many(), _open_rails() and
 * hmreg_token_rail() with each token; hmreg_remote_addr(), _flatten(), _query(), _check() and
 * _renew() with each remote. tests/unit/token.c has the tokens' bytes.
 */
#include "tests/support/table.h"

#define LEN  4096u
#define ROOM 4096u
/* Bytes of a token. */
#define MAGIC    3
#define FORMAT   4
#define KIND     11
#define PROVIDER 33
#define NAME     32 /* no letter any more */

enum token { ONE, OLDER, LATER, TWO, SHARED, THREE, TOKENS };

struct args {
    int usual_;
    enum {
        OPEN,
        MANY,
        RAILS,
        RAIL,
        ADDR,
        FLATTEN,
        QUERY,
        CHECK,
        RENEW,
    } call;
    enum token of;
    size_t len;    /* the bytes, or the room for remotes */
    uint64_t at;   /* the offset, or the rail */
    size_t cut;    /* from its end */
    unsigned flip; /* a byte that is another... */
    bool last;     /* ...of the last token in it */
    enum { ALL, NO_OBJECT, NO_TOKEN, NO_OUT, NO_OTHER, ON_GROUP, ON_MEMBER } with;
};

static struct token_bytes {
    unsigned char bytes[ROOM];
    size_t size, last; /* where its last token begins */
} tokens[TOKENS];
static struct hmreg_mr *mrs[3];
static struct hmreg_remote *remote, *opened[3]; /* of token ONE or TWO; by the row's call */

#define WRONG(text)  FAILS(-EINVAL, text, "")
#define BAD(text)    FAILS(-EBADMSG, text, "")
#define GIVES(bytes) RETURNS(bytes, "")

/* ---- tokens ----------------------------------------------------------------------------- */

#define TWO_RAILS .as = {.nics = 2, .group = true}
#define PARTIAL   .as = {.nics = 2, .group = true, .groups.flags = HMREG_GROUP_PARTIAL}

static void share_second(void)
{
    struct iovec range = {world.host, LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &range,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .rails = 1u << 1};
    struct token_bytes *token = &tokens[SHARED];

    assert_ok(hmreg_mr_close(mrs[0]));
    assert_ok(hmreg_mr_regattr(world.domain, &attr, 0, &mrs[0]));
    token->size = ROOM;
    assert_ok(hmreg_mr_pack(mrs[0], token->bytes, &token->size));
    world_clear();
}

/* How many bytes of the peer's are open. */
static const struct row opens[] = {
    {"domain is NULL", ARGS(OPEN, .with = NO_OBJECT), WRONG("domain is NULL")},
    {"token is NULL", ARGS(OPEN, .with = NO_TOKEN), WRONG("token is NULL")},
    {"remote is NULL", ARGS(OPEN, .with = NO_OUT), WRONG("remote is NULL")},
    {"domain is a group", TWO_RAILS, ARGS(OPEN, .with = ON_GROUP),
     WRONG("hmreg_remote_open_rails()")},
    {"a byte too few", ARGS(OPEN, .cut = 1), BAD("token: ")},
    {"none", ARGS(OPEN, .cut = ROOM), BAD("token: ")},
    {"damaged", ARGS(OPEN, .flip = KIND), BAD("token: ")},
    {"no token", ARGS(OPEN, .flip = MAGIC), BAD("token: ")},
    {"of what is no provider's name", ARGS(OPEN, .flip = NAME), BAD("unprintable")},
    {"of a newer format", ARGS(OPEN, .flip = FORMAT), FAILS(-EPROTONOSUPPORT, "format", "")},
    {"of another provider", ARGS(OPEN, .flip = PROVIDER), FAILS(-EXDEV, "made by a", "")},
    {"of a group's region", TWO_RAILS, ARGS(OPEN, SHARED, .with = ON_MEMBER),
     FAILS(-EXDEV, "it is of a group's region", "")},
    {"of a region", ARGS(OPEN), GIVES(LEN)},
    {"of two segments", ARGS(OPEN, TWO), GIVES(150)},

    {"many: domain is NULL", ARGS(MANY, THREE, .len = 3, .with = NO_OBJECT),
     WRONG("domain is NULL")},
    {"many: tokens is NULL", ARGS(MANY, THREE, .len = 3, .with = NO_TOKEN),
     WRONG("tokens is NULL")},
    {"many: remotes is NULL", ARGS(MANY, THREE, .len = 3, .with = NO_OUT),
     WRONG("remotes is NULL")},
    {"many: count is NULL", ARGS(MANY, THREE, .with = NO_OTHER), WRONG("count is NULL")},
    {"many: domain is a group", TWO_RAILS, ARGS(MANY, THREE, .len = 3, .with = ON_GROUP),
     WRONG("hmreg_remote_open_rails()")},
    {"many: room for two", ARGS(MANY, THREE, .len = 2),
     FAILS(-HMREG_ETOOSMALL, "there are 3 tokens, count is 2", "")},
    {"many: how many there are", ARGS(MANY, THREE, .with = NO_OUT),
     FAILS(-HMREG_ETOOSMALL, "there are 3 tokens, count is 0", "")},
    {"many: none", ARGS(MANY, THREE, .len = 3, .cut = ROOM), BAD("tokens[0], at byte 0")},
    {"many: a byte too few", ARGS(MANY, THREE, .len = 3, .cut = 1), BAD("tokens[2], at byte")},
    {"many: the last is damaged", ARGS(MANY, THREE, .len = 3, .flip = KIND, .last = true),
     BAD("tokens[2], at byte")},
    {"many: the last is of a newer format",
     ARGS(MANY, THREE, .len = 3, .flip = FORMAT, .last = true),
     FAILS(-EPROTONOSUPPORT, "tokens[2]", "")},
    {"many: the last is of another provider",
     ARGS(MANY, THREE, .len = 3, .flip = PROVIDER, .last = true), FAILS(-EXDEV, "tokens[2]", "")},
    {"many: of a group's region", TWO_RAILS, ARGS(MANY, SHARED, .len = 3, .with = ON_MEMBER),
     FAILS(-EXDEV, "tokens[0], at byte 0: token: it is of a group's region", "")},
    {"many: one", ARGS(MANY, ONE, .len = 3), GIVES(LEN)},
    {"many: three", ARGS(MANY, THREE, .len = 3), GIVES(2 * LEN + 150)},

    {"rails: domain is NULL", ARGS(RAILS, .len = 1, .with = NO_OBJECT), WRONG("domain is NULL")},
    {"rails: token is NULL", ARGS(RAILS, .len = 1, .with = NO_TOKEN), WRONG("token is NULL")},
    {"rails: remotes is NULL", ARGS(RAILS, .len = 1, .with = NO_OUT), WRONG("remotes is NULL")},
    {"rails: one too few", TWO_RAILS, ARGS(RAILS, SHARED, .len = 1),
     WRONG("the domain has 2 rails")},
    {"rails: no token", TWO_RAILS, ARGS(RAILS, SHARED, .len = 2, .cut = ROOM),
     BAD("rail 0: token")},
    {"rails: a byte too few", TWO_RAILS, ARGS(RAILS, SHARED, .len = 2, .cut = 1), BAD("token: ")},
    {"rails: of a newer format", TWO_RAILS, ARGS(RAILS, SHARED, .len = 2, .flip = FORMAT),
     FAILS(-EPROTONOSUPPORT, "format", "")},
    {"rails: the last is of another provider", TWO_RAILS,
     ARGS(RAILS, SHARED, .len = 2, .flip = PROVIDER, .last = true), FAILS(-EXDEV, "rail 1: ", "")},
    {"rails: the last is of another provider, of a partial group", PARTIAL,
     ARGS(RAILS, SHARED, .len = 2, .flip = PROVIDER, .last = true), GIVES(LEN)},
    {"rails: of a region", ARGS(RAILS, .len = 1), GIVES(LEN)},
    {"rails: of a region, on a group", TWO_RAILS, ARGS(RAILS, ONE, .len = 2), GIVES(LEN)},
    {"rails: of a group", TWO_RAILS, ARGS(RAILS, SHARED, .len = 2), GIVES(2 * LEN)},
    {"rails: of a group's second rail", TWO_RAILS, .before = share_second,
     ARGS(RAILS, SHARED, .len = 2), GIVES(LEN)},
    {"rails: of a group's second rail, on one domain", TWO_RAILS, .before = share_second,
     ARGS(RAILS, SHARED, .len = 1, .with = ON_MEMBER), FAILS(-ENOENT, "none of the 1 rails", "")},
};

/* ---- one rail's token ------------------------------------------------------------------- */

static const struct row token_rails[] = {
    {"token is NULL", ARGS(RAIL, .with = NO_TOKEN), WRONG("token is NULL")},
    {"rail_token is NULL", ARGS(RAIL, .with = NO_OUT), WRONG("rail_token is NULL")},
    {"rail_size is NULL", ARGS(RAIL, .with = NO_OTHER), WRONG("rail_size is NULL")},
    {"a byte too few", ARGS(RAIL, .cut = 1), BAD("token: ")},
    {"damaged", ARGS(RAIL, .flip = KIND), BAD("token: ")},
    {"of a newer format", ARGS(RAIL, .flip = FORMAT), FAILS(-EPROTONOSUPPORT, "format", "")},
    {"a region's second rail", ARGS(RAIL, .at = 1), FAILS(-ENOENT, "the token has 1", "")},
    {"a group, a byte too few", TWO_RAILS, ARGS(RAIL, SHARED, .cut = 1), BAD("token: ")},
    {"a group of a newer format", TWO_RAILS, ARGS(RAIL, SHARED, .flip = FORMAT),
     FAILS(-EPROTONOSUPPORT, "format", "")},
    {"a group's third rail", TWO_RAILS, ARGS(RAIL, SHARED, .at = 2),
     FAILS(-ENOENT, "the token has 2", "")},
    {"a rail that it does without", TWO_RAILS, .before = share_second, ARGS(RAIL, SHARED),
     FAILS(-ENOENT, "no rail 0", "")},
    {"a region", ARGS(RAIL), GIVES(LEN)},
    {"a group's first rail", TWO_RAILS, ARGS(RAIL, SHARED), GIVES(LEN)},
    {"a group's second rail", TWO_RAILS, ARGS(RAIL, SHARED, .at = 1), GIVES(LEN)},
};

/* ---- remotes ---------------------------------------------------------------------------- */

#define OUTSIDE FAILS(-ERANGE, "outside", "")

static const struct row addresses[] = {
    {"remote is NULL", ARGS(ADDR, .len = 1, .with = NO_OBJECT), WRONG("remote is NULL")},
    {"addr is NULL", ARGS(ADDR, .len = 1, .with = NO_OUT), WRONG("addr is NULL")},
    {"key is NULL", ARGS(ADDR, .len = 1, .with = NO_OTHER), WRONG("key is NULL")},
    {"len is 0", ARGS(ADDR), WRONG("len is 0")},
    {"its last byte and one behind", ARGS(ADDR, ONE, 2, LEN - 1), OUTSIDE},
    {"the byte behind it", ARGS(ADDR, ONE, 1, LEN), OUTSIDE},
    {"a byte more than it has", ARGS(ADDR, ONE, LEN + 1), OUTSIDE},
    {"an offset that wraps", ARGS(ADDR, ONE, 2, UINT64_MAX), OUTSIDE},
    {"a length that wraps", ARGS(ADDR, ONE, SIZE_MAX, 2), OUTSIDE},
    {"its first byte", ARGS(ADDR, ONE, 1), GIVES(0)},
    {"its last byte", ARGS(ADDR, ONE, 1, LEN - 1), GIVES(LEN - 1)},
    {"all of it", ARGS(ADDR, ONE, LEN), GIVES(0)},
    {"the first of two segments", ARGS(ADDR, TWO, 100), GIVES(5 * LEN)},
    {"the second of two segments", ARGS(ADDR, TWO, 50, 100), GIVES(7 * LEN)},
    {"over the border of two segments", ARGS(ADDR, TWO, 2, 99), FAILS(-EXDEV, "offset 100", "")},

    {"flatten: remote is NULL", ARGS(FLATTEN, .with = NO_OBJECT), WRONG("remote is NULL")},
    {"flatten: out is NULL", ARGS(FLATTEN, .with = NO_OUT), WRONG("out is NULL")},
    {"flatten: two segments", ARGS(FLATTEN, TWO), FAILS(-EXDEV, "2 segments", "")},
    {"flatten: one", ARGS(FLATTEN), GIVES(LEN)},

    {"query: remote is NULL", ARGS(QUERY, .with = NO_OBJECT), WRONG("remote is NULL")},
    {"query: out is NULL", ARGS(QUERY, .with = NO_OUT), WRONG("out is NULL")},
    {"query: out->size is 4", ARGS(QUERY, .with = NO_OTHER), WRONG("hmreg_remote_info is 4")},
    {"query: one", ARGS(QUERY), GIVES(LEN)},
    {"query: two segments", ARGS(QUERY, TWO), GIVES(150)},
};

#define IS(state) RETURNS(HMREG_REMOTE_##state, "")

/* The remote is of token ONE. */
static const struct row later_tokens[] = {
    {"remote is NULL", ARGS(CHECK, .with = NO_OBJECT), WRONG("remote is NULL")},
    {"token is NULL", ARGS(CHECK, .with = NO_TOKEN), WRONG("token is NULL")},
    {"state is NULL", ARGS(CHECK, .with = NO_OUT), WRONG("state is NULL")},
    {"a byte too few", ARGS(CHECK, .cut = 1), BAD("token: ")},
    {"of a newer format", ARGS(CHECK, .flip = FORMAT), FAILS(-EPROTONOSUPPORT, "format", "")},
    {"of another provider", ARGS(CHECK, .flip = PROVIDER), FAILS(-EXDEV, "made by a", "")},
    {"of a group's region", TWO_RAILS, ARGS(CHECK, SHARED), FAILS(-EXDEV, "group's region", "")},
    {"an older one", ARGS(CHECK, OLDER), FAILS(-ESTALE, "older", "")},
    {"its own", ARGS(CHECK), IS(CURRENT)},
    {"a later one", ARGS(CHECK, LATER), IS(RENEWED)},

    {"renew: remote is NULL", ARGS(RENEW, LATER, .with = NO_OBJECT), WRONG("remote is NULL")},
    {"renew: token is NULL", ARGS(RENEW, LATER, .with = NO_TOKEN), WRONG("token is NULL")},
    {"renew: a byte too few", ARGS(RENEW, LATER, .cut = 1), BAD("token: ")},
    {"renew: none", ARGS(RENEW, LATER, .cut = ROOM), BAD("token: ")},
    {"renew: of a newer format", ARGS(RENEW, LATER, .flip = FORMAT),
     FAILS(-EPROTONOSUPPORT, "format", "")},
    {"renew: of another provider", ARGS(RENEW, LATER, .flip = PROVIDER),
     FAILS(-EXDEV, "made by a", "")},
    {"renew: an older one", ARGS(RENEW, OLDER), FAILS(-ESTALE, "older", "")},
    {"renew: two segments", ARGS(RENEW, TWO), FAILS(-EMSGSIZE, "2 segments", "")},
    {"renew: its own", ARGS(RENEW), GIVES(LEN)},
    {"renew: a later one", ARGS(RENEW, LATER), GIVES(2 * LEN)},
};

/* ---- each row --------------------------------------------------------------------------- */

static void close_all(void)
{
    hmreg_remote_close(remote);
    for (int i = 0; i < 3; i++) {
        hmreg_remote_close(opened[i]);
        assert_ok(hmreg_mr_close(mrs[i]));
    }
}

static void reg(struct hmreg_domain *domain, size_t len, struct hmreg_mr **mr)
{
    assert_ok(hmreg_mr_reg(domain, world.host, len, HMREG_ACCESS_REMOTE, 0, 0, 0, mr, NULL));
}

static void pack(const struct hmreg_mr *mr, enum token which)
{
    tokens[which].last = 0;
    tokens[which].size = ROOM;
    assert_ok(hmreg_mr_pack(mr, tokens[which].bytes, &tokens[which].size));
}

static void pack_again(enum token which, size_t len)
{
    assert_ok(hmreg_mr_close(mrs[1]));
    reg(world.nic[0], len, &mrs[1]);
    pack(mrs[1], which);
}

static void pack_three(void)
{
    struct hmreg_mr *three[3] = {mrs[1], mrs[2], mrs[1]};

    tokens[THREE].size = ROOM;
    assert_ok(hmreg_mr_pack_many(three, 3, tokens[THREE].bytes, &tokens[THREE].size));
    tokens[THREE].last = tokens[THREE].size - tokens[ONE].size;
}

static void pack_shared(void)
{
    const void *rail;
    size_t size;

    pack(mrs[0], SHARED);
    if (world.nics == 1)
        return;
    assert_ok(hmreg_token_rail(tokens[SHARED].bytes, tokens[SHARED].size, 1, &rail, &size));
    tokens[SHARED].last = (size_t)((const unsigned char *)rail - tokens[SHARED].bytes);
}

static void open_row(const struct row *row)
{
    const struct args *args = row->args;
    const struct token_bytes *own = &tokens[args->call <= QUERY ? args->of : ONE];
    struct hmreg_segment segments[2] = {{.kind = HMREG_SEGMENT_MEMORY}};

    world_open_as(&row->as);
    segments[0].u.memory = (struct iovec){world.host + 5 * LEN, 100};
    segments[1].u.memory = (struct iovec){world.host + 7 * LEN, 50};
    remote = opened[0] = opened[1] = opened[2] = NULL;
    mrs[1] = NULL;
    reg(world.domain, LEN, &mrs[0]);
    pack_shared();
    pack_again(OLDER, LEN);
    pack_again(ONE, LEN);
    assert_ok(
        hmreg_mr_regsgl(world.nic[0], segments, 2, HMREG_ACCESS_REMOTE, 0, 0, 0, &mrs[2], NULL));
    pack(mrs[2], TWO);
    pack_three();
    pack_again(LATER, 2 * LEN);
    test_after(close_all);
    if (args->call >= ADDR && args->with != NO_OBJECT)
        assert_ok(hmreg_remote_open(world.nic[0], own->bytes, own->size, &remote));
    if (row->before)
        row->before();
}

static uint64_t bytes_of(const struct hmreg_remote *of)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};

    if (!of)
        return 0;
    assert_ok(hmreg_remote_query(of, &info));
    return info.len;
}

static int open_remotes(const struct args *args, const void *token, size_t size)
{
    struct hmreg_domain *domain = args->with == NO_OBJECT   ? NULL
                                  : args->with == ON_MEMBER ? world.nic[0]
                                                            : world.domain;
    struct hmreg_remote **out = args->with == NO_OUT ? NULL : opened;
    size_t count = args->len;
    int rc;

    if (args->call == OPEN)
        return hmreg_remote_open(args->with == NO_OBJECT || args->with == ON_GROUP ? domain
                                                                                   : world.nic[0],
                                 token, size, out);
    if (args->call == RAILS)
        return hmreg_remote_open_rails(domain, token, size, out, count);
    rc = hmreg_remote_open_many(domain, token, size, out, args->with == NO_OTHER ? NULL : &count);
    assert_int_equal(count, rc == -HMREG_ETOOSMALL || (!rc && args->of == THREE) ? 3
                            : rc                                                 ? args->len
                                                                                 : 1);
    return rc;
}

/* The rail's token is one of its own. */
static int find_rail(const struct args *args, const void *token, size_t size)
{
    const void *rail = UNTOUCHED;
    size_t bytes = 4711;
    int rc = hmreg_token_rail(token, size, args->at, args->with == NO_OUT ? NULL : &rail,
                              args->with == NO_OTHER ? NULL : &bytes);

    if (!rc)
        return hmreg_remote_open(world.nic[args->at], rail, bytes, &opened[0]);
    assert_ptr_equal(rail, UNTOUCHED);
    assert_int_equal(bytes, 4711);
    return rc;
}

static int open_token(const struct row *row)
{
    const struct args *args = row->args;
    struct token_bytes token = tokens[args->of];
    size_t size = token.size - (args->cut < token.size ? args->cut : token.size);
    const void *given = args->with == NO_TOKEN ? NULL : token.bytes;
    int rc;

    if (args->flip)
        token.bytes[(args->last ? token.last : 0) + args->flip] ^= 8;
    rc = args->call == RAIL ? find_rail(args, given, size) : open_remotes(args, given, size);
    assert_int_equal(bytes_of(opened[0]) + bytes_of(opened[1]) + bytes_of(opened[2]),
                     rc ? 0 : row->value);
    return rc;
}

static int find_addr(const struct row *row)
{
    const struct args *args = row->args;
    uint64_t addr = 1, key = 2;
    int rc = hmreg_remote_addr(remote, args->at, args->len, args->with == NO_OUT ? NULL : &addr,
                               args->with == NO_OTHER ? NULL : &key);

    assert_true(rc ? addr == 1 && key == 2 : addr == (uintptr_t)world.host + row->value);
    return rc;
}

static int flatten(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_remote_flat flat = {1, 2, 3};
    uint64_t addr, key;
    int rc = hmreg_remote_flatten(remote, args->with == NO_OUT ? NULL : &flat);

    assert_int_equal(flat.len, rc ? 2 : row->value);
    if (rc)
        return rc;
    assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
    assert_true(flat.base == addr && flat.key == key);
    return 0;
}

static int query(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_remote_info info = {.size = args->with == NO_OTHER ? 4 : sizeof(info),
                                     .len = 4711};
    int rc = hmreg_remote_query(remote, args->with == NO_OUT ? NULL : &info);

    assert_int_equal(info.len, rc ? 4711 : row->value);
    assert_int_equal(info.segments, rc ? 0 : args->of == TWO ? 2 : 1);
    assert_int_equal(info.access, rc ? 0 : HMREG_ACCESS_REMOTE);
    return rc;
}

static int use_remote(const struct row *row)
{
    const struct args *args = row->args;

    return args->call == ADDR ? find_addr(row) : args->call == FLATTEN ? flatten(row) : query(row);
}

static int take_token(const struct row *row)
{
    const struct args *args = row->args;
    struct token_bytes token = tokens[args->of];
    size_t size = token.size - (args->cut < token.size ? args->cut : token.size);
    const void *given = args->with == NO_TOKEN ? NULL : token.bytes;
    enum hmreg_remote_state state = (enum hmreg_remote_state)9;
    int rc;

    if (args->flip)
        token.bytes[args->flip] ^= 8;
    if (args->call == RENEW) {
        rc = hmreg_remote_renew(remote, given, size);
        assert_int_equal(bytes_of(remote), !rc ? row->value : remote ? LEN : 0);
        return rc;
    }
    rc = hmreg_remote_check(remote, given, size, args->with == NO_OUT ? NULL : &state);
    assert_int_equal(state, rc ? 9 : row->value);
    return rc;
}

TEST(remote_open__each_token)
{
    CHECK_EACH_IN(opens, open_row, open_token);
}

/* Of one of several tokens the length is known only from itself. */
TEST(open_many__cut_short_anywhere__badmsg_and_none_is_open)
{
    struct row row = {.as = {.nics = 1}, ARGS(MANY)};
    const struct token_bytes *three = &tokens[THREE];
    size_t count = 3;

    open_row(&row);
    for (size_t size = 1; size < three->size; size++) {
        unsigned char *exact = malloc(size);
        int rc;

        memcpy(exact, three->bytes, size);
        rc = hmreg_remote_open_many(world.domain, exact, size, opened, &count);
        if (rc)
            assert_fails(rc, -EBADMSG, "tokens[");
        else
            assert_true(size == tokens[ONE].size || size == three->last); /* the first, or two */
        for (size_t i = 0; i < 3 && !rc; i++) {
            hmreg_remote_close(opened[i]);
            opened[i] = NULL;
        }
        free(exact);
        count = 3;
    }
}

TEST(token_rail__each_row)
{
    CHECK_EACH_IN(token_rails, open_row, open_token);
}

TEST(remote_addr__each_row)
{
    CHECK_EACH_IN(addresses, open_row, use_remote);
}

TEST(remote_check__each_row)
{
    CHECK_EACH_IN(later_tokens, open_row, take_token);
}

TEST_MAIN()
