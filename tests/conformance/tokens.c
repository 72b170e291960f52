/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Tokens: of a part of a region, of many regions at once, and addresses without a call; many
 * cached regions at once. */
#include "tests/conformance/suite.h"

#include <endian.h>
#include <hmreg/table.h>

#define KEY   5
#define BYTES 8000
#define BASE  ((unsigned char *)(uintptr_t)0x100000) /* of dmabufs: peers' addresses */

static struct hmreg_remote *peer_of_part(struct suite_fixture *fixture, const struct hmreg_mr *mr,
                                         const void *addr, size_t len)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote = NULL;
    uint8_t token[4096];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_pack_range(mr, addr, len, token, &size));
    assert_ok(hmreg_remote_open(fixture->peer, token, size, &remote));
    assert_ok(hmreg_remote_query(remote, &info));
    assert_int_equal(info.len, len);
    return remote;
}

static bool flat(const struct hmreg_remote *remote)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};

    assert_ok(hmreg_remote_query(remote, &info));
    return info.segments == 1;
}

/* ---- a part of a region ----------------------------------------------------------------- */

CASE(pack_range__part_of_a_region__exactly_those_bytes)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 8, BYTES, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = peer_of_part(fixture, mr, fixture->memory + 4100, 50);
    uint64_t addr = 1, key = 2;

    suite_put(fixture, remote, 0, 50, fixture->memory + 4100);
    suite_put(fixture, remote, 49, 1, fixture->memory + 4149);
    suite_get(fixture, remote, 3, 40, fixture->memory + 4103);
    assert_fails(hmreg_remote_addr(remote, 49, 2, &addr, &key), -ERANGE, "region of 50 bytes");
    assert_fails(hmreg_remote_addr(remote, 50, 1, &addr, &key), -ERANGE, "region of 50 bytes");
    assert_fails(hmreg_remote_addr(remote, UINT64_MAX, 1, &addr, &key), -ERANGE, "outside");
    assert_int_equal(addr, 1);
    assert_int_equal(key, 2);
    hmreg_remote_close(remote);
    remote = peer_of_part(fixture, mr, fixture->memory + 8, 1); /* its first byte, ... */
    suite_put(fixture, remote, 0, 1, fixture->memory + 8);
    hmreg_remote_close(remote);
    remote = peer_of_part(fixture, mr, fixture->memory + 8 + BYTES - 1, 1); /* ... and its last */
    suite_put(fixture, remote, 0, 1, fixture->memory + 8 + BYTES - 1);
    suite_end(fixture, remote, mr);
}

CASE(pack_range__cached_region_that_is_larger__the_buffer_alone)
{
    struct hmreg_mr *outer = NULL, *inner = NULL;
    struct hmreg_remote *remote;

    if (suite_has(fixture, HMREG_MR_ENDPOINT)) { /* not usable before it is bound */
        suite_not_applicable();
        return;
    }
    assert_ok(
        hmreg_mr_get(fixture->domain, fixture->memory + 8, BYTES, HMREG_ACCESS_REMOTE, &outer));
    assert_ok(
        hmreg_mr_get(fixture->domain, fixture->memory + 4100, 50, HMREG_ACCESS_REMOTE, &inner));
    remote = peer_of_part(fixture, inner, fixture->memory + 4100, 50);
    suite_put(fixture, remote, 0, 50, fixture->memory + 4100);
    assert_int_equal(suite_move(fixture, remote, true, 49, 2), -ERANGE);
    hmreg_remote_close(remote);
    hmreg_mr_put(inner);
    hmreg_mr_put(outer);
}

/* What the manual says that a token cannot do: the key is the region's. */
CASE(pack_range__address_beyond_the_part__the_fabric_permits_it)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, BYTES, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = peer_of_part(fixture, mr, fixture->memory + 100, 50);
    uint64_t addr = 0, key = 0;

    assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
    memset(fixture->local, 'b', 1);
    assert_int_equal(suite_rma(fixture, remote, true, addr - 1, key, 1), 0);
    suite_check_arrived(fixture, fixture->memory + 99, "b", 1);
    suite_end(fixture, remote, mr);
}

CASE(pack_range__all_of_a_region__its_token)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 3, BYTES, HMREG_ACCESS_REMOTE, KEY);
    uint8_t all[4096], part[4096];
    size_t size = sizeof(all), same = sizeof(part);

    assert_ok(hmreg_mr_pack(mr, all, &size));
    assert_ok(hmreg_mr_pack_range(mr, fixture->memory + 3, BYTES, part, &same));
    assert_int_equal(same, size);
    assert_memory_equal(part, all, size);
    suite_close(fixture, mr);
}

static struct hmreg_mr *reg_two(struct suite_fixture *fixture, unsigned char *first,
                                unsigned char *second)
{
    struct hmreg_segment segments[2] = {{.u.memory = {first, 100}}, {.u.memory = {second, 50}}};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_regsgl(fixture->domain, segments, 2, HMREG_ACCESS_REMOTE, 0,
                              suite_key(fixture, KEY), 0, &mr, NULL));
    suite_ready(fixture, fixture->domain, mr);
    return mr;
}

CASE(pack_range__ranges_that_follow_each_other__over_the_border)
{
    unsigned char *memory = fixture->memory + 5000;
    struct hmreg_mr *mr = reg_two(fixture, memory, memory + 100);
    struct hmreg_remote *remote = peer_of_part(fixture, mr, memory + 90, 30);

    suite_put(fixture, remote, 0, 10, memory + 90);
    suite_put(fixture, remote, 10, 20, memory + 100);
    if (!flat(remote))
        assert_int_equal(suite_move(fixture, remote, true, 9, 2), -EXDEV);
    assert_int_equal(suite_move(fixture, remote, true, 29, 2), -ERANGE);
    suite_end(fixture, remote, mr);
}

CASE(pack_range__ranges_apart__each_alone)
{
    unsigned char *first = fixture->memory + 5000, *second = fixture->memory + 100;
    struct hmreg_mr *mr = reg_two(fixture, first, second);
    struct hmreg_remote *remote = peer_of_part(fixture, mr, second + 10, 40);
    size_t size = 0;

    assert_true(flat(remote));
    suite_put(fixture, remote, 0, 40, second + 10);
    hmreg_remote_close(remote);
    remote = peer_of_part(fixture, mr, first + 99, 1);
    suite_put(fixture, remote, 0, 1, first + 99);
    hmreg_remote_close(remote);
    assert_fails(hmreg_mr_pack_range(mr, first + 99, 2, NULL, &size), -ERANGE, "addr");
    assert_fails(hmreg_mr_pack_range(mr, second + 49, 2, NULL, &size), -ERANGE, "addr");
    suite_close(fixture, mr);
}

/* By a mapping, by a dmabuf, or by none: a composite with a key for each segment. */
CASE(pack_range__dmabuf_segments__by_their_addresses)
{
    struct hmreg_segment segments[2];
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    unsigned char *view;
    int fd = suite_dmabuf(fixture, 20480, &view);

    for (int i = 0; i < 2; i++)
        segments[i] = (struct hmreg_segment){
            .kind = HMREG_SEGMENT_DMABUF,
            .u.dmabuf = {.fd = fd, .offset = 4096, .len = 4096, .base_addr = BASE + i * 4096}};
    mr = suite_reg_dmabufs(fixture, segments, KEY, fd, view, 20480);
    if (!mr)
        return;
    suite_ready(fixture, fixture->domain, mr);
    remote = peer_of_part(fixture, mr, BASE + 4096 + 4090, 20);
    suite_put(fixture, remote, 0, 6, view + 4096 + 4090);
    suite_put(fixture, remote, 6, 14, view + 4096);
    assert_int_equal(suite_move(fixture, remote, true, 0, 7), -EXDEV);
    hmreg_remote_close(remote);
    remote = peer_of_part(fixture, mr, BASE + 8192 + 5, 20); /* of the second piece alone */
    suite_put(fixture, remote, 0, 20, view + 4096 + 5);
    suite_end(fixture, remote, mr);
    munmap(view, 20480);
}

CASE(pack_range__wrong_arguments__refused_by_name)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 8, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_mr *local = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_LOCAL, 0);
    unsigned char *memory = fixture->memory + 8;
    uint8_t token[4096];
    size_t size = 0, needed;

    memset(token, 0xa5, sizeof(token));
    assert_fails(hmreg_mr_pack_range(NULL, memory, 1, token, &size), -EINVAL, "mr is NULL");
    assert_fails(hmreg_mr_pack_range(mr, NULL, 1, token, &size), -EINVAL, "addr is NULL");
    assert_fails(hmreg_mr_pack_range(mr, memory, 0, token, &size), -EINVAL, "len is 0");
    assert_fails(hmreg_mr_pack_range(mr, memory, SIZE_MAX, token, &size), -EINVAL, "wraps");
    assert_fails(hmreg_mr_pack_range(mr, memory, 1, token, NULL), -EINVAL, "size is NULL");
    size = 9;
    assert_fails(hmreg_mr_pack_range(mr, memory, 1, NULL, &size), -EINVAL, "buf is NULL");
    assert_fails(hmreg_mr_pack_range(mr, memory - 1, 1, token, &size), -ERANGE, "64 bytes at");
    assert_fails(hmreg_mr_pack_range(mr, memory - 1, 2, token, &size), -ERANGE, "64 bytes at");
    assert_fails(hmreg_mr_pack_range(mr, memory + 63, 2, token, &size), -ERANGE, "64 bytes at");
    assert_fails(hmreg_mr_pack_range(mr, memory + 64, 1, token, &size), -ERANGE, "64 bytes at");
    assert_fails(hmreg_mr_pack_range(local, memory, 1, token, &size), -EACCES, "remote access");
    assert_int_equal(size, 9);
    assert_fails(hmreg_mr_pack_range(mr, memory + 1, 1, token, &size), -HMREG_ETOOSMALL, "takes");
    assert_int_equal(token[0], 0xa5);
    needed = size;
    assert_ok(hmreg_mr_pack_range(mr, memory + 1, 1, token, &size));
    assert_int_equal(size, needed);
    suite_close(fixture, local);
    suite_close(fixture, mr);
}

/* ---- many ------------------------------------------------------------------------------- */

#define MANY 3

static void reg_many(struct suite_fixture *fixture, struct hmreg_mr **mrs)
{
    for (unsigned i = 0; i < MANY; i++)
        mrs[i] =
            suite_reg(fixture, fixture->memory + i * 4096 + 8, 64, HMREG_ACCESS_REMOTE, KEY + i);
}

static void close_many(struct suite_fixture *fixture, struct hmreg_mr **mrs)
{
    for (unsigned i = 0; i < MANY; i++)
        suite_close(fixture, mrs[i]);
}

CASE(pack_many__regions__opened_in_one_call)
{
    struct hmreg_remote *remotes[MANY + 1];
    size_t size = sizeof((uint8_t[4096]){0}), part = size, count = MANY + 1;
    struct hmreg_mr *mrs[MANY];
    uint8_t tokens[2 * 4096];

    reg_many(fixture, mrs);
    assert_ok(hmreg_mr_pack_many(mrs, MANY, tokens, &size));
    /* Other tokens may follow. */
    assert_ok(hmreg_mr_pack_range(mrs[1], fixture->memory + 4096 + 10, 5, tokens + size, &part));
    assert_ok(hmreg_remote_open_many(fixture->peer, tokens, size + part, remotes, &count));
    assert_int_equal(count, MANY + 1);
    for (unsigned i = 0; i < MANY; i++)
        suite_put(fixture, remotes[i], 7, 10 + i, fixture->memory + i * 4096 + 8 + 7);
    suite_put(fixture, remotes[MANY], 0, 5, fixture->memory + 4096 + 10);
    for (unsigned i = 0; i <= MANY; i++)
        hmreg_remote_close(remotes[i]);
    close_many(fixture, mrs);
}

CASE(pack_many__first_of_them__opened_alone)
{
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *mrs[MANY];
    uint8_t tokens[4096], one[4096];
    size_t size = sizeof(tokens), first = sizeof(one);

    reg_many(fixture, mrs);
    assert_ok(hmreg_mr_pack_many(mrs, MANY, tokens, &size));
    assert_ok(hmreg_mr_pack(mrs[0], one, &first));
    assert_memory_equal(tokens, one, first);
    assert_ok(hmreg_remote_open(fixture->peer, tokens, first, &remote));
    hmreg_remote_close(remote);
    close_many(fixture, mrs);
}

CASE(pack_many__wrong_arguments__refused_and_nothing_written)
{
    struct hmreg_mr *local = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_LOCAL, 0);
    struct hmreg_mr *mrs[MANY], *wrong[MANY];
    uint8_t tokens[4096];
    size_t size = sizeof(tokens), needed = 0;

    reg_many(fixture, mrs);
    memset(tokens, 0xa5, sizeof(tokens));
    assert_fails(hmreg_mr_pack_many(NULL, 1, tokens, &size), -EINVAL, "mrs is NULL");
    assert_fails(hmreg_mr_pack_many(mrs, 0, tokens, &size), -EINVAL, "count is 0");
    assert_fails(hmreg_mr_pack_many(mrs, MANY, tokens, NULL), -EINVAL, "size is NULL");
    assert_fails(hmreg_mr_pack_many(mrs, MANY, NULL, &size), -EINVAL, "buf is NULL");
    memcpy(wrong, mrs, sizeof(mrs));
    wrong[2] = NULL;
    assert_fails(hmreg_mr_pack_many(wrong, MANY, tokens, &size), -EINVAL, "mrs[2]: mr is NULL");
    wrong[1] = local;
    assert_fails(hmreg_mr_pack_many(wrong, MANY, tokens, &size), -EACCES, "mrs[1]: the region has");
    assert_int_equal(size, sizeof(tokens));
    assert_fails(hmreg_mr_pack_many(mrs, MANY, NULL, &needed), -HMREG_ETOOSMALL, "tokens take");
    size = needed - 1;
    assert_fails(hmreg_mr_pack_many(mrs, MANY, tokens, &size), -HMREG_ETOOSMALL, "tokens take");
    assert_int_equal(size, needed);
    for (size_t i = 0; i < sizeof(tokens); i++)
        assert_int_equal(tokens[i], 0xa5);
    assert_ok(hmreg_mr_pack_many(mrs, MANY, tokens, &size));
    assert_int_equal(size, needed);
    close_many(fixture, mrs);
    suite_close(fixture, local);
}

/* Whatever is wrong with the last one, no remote stays open: the fixture's domains close. */
CASE(open_many__wrong_arguments_or_tokens__none_is_open)
{
    struct hmreg_remote *remotes[MANY] = {0};
    struct hmreg_mr *mrs[MANY];
    uint8_t tokens[4096], *exact;
    size_t size = sizeof(tokens), count = MANY - 1;

    reg_many(fixture, mrs);
    assert_ok(hmreg_mr_pack_many(mrs, MANY, tokens, &size));
    assert_fails(hmreg_remote_open_many(fixture->peer, NULL, size, remotes, &count), -EINVAL,
                 "tokens is NULL");
    assert_fails(hmreg_remote_open_many(fixture->peer, tokens, size, remotes, NULL), -EINVAL,
                 "count is NULL");
    assert_fails(hmreg_remote_open_many(fixture->peer, tokens, size, NULL, &count), -EINVAL,
                 "remotes is NULL");
    assert_fails(hmreg_remote_open_many(fixture->peer, tokens, size, remotes, &count),
                 -HMREG_ETOOSMALL, "there are 3 tokens, count is 2");
    assert_int_equal(count, MANY);
    assert_fails(hmreg_remote_open_many(fixture->peer, tokens, 0, remotes, &count), -EBADMSG,
                 "tokens[0], at byte 0");
    for (size_t cut = 1; cut < size; cut++) {
        if (cut % (size / MANY) == 0)
            continue; /* whole tokens, which are of one length here */
        exact = malloc(cut);
        memcpy(exact, tokens, cut);
        assert_fails(hmreg_remote_open_many(fixture->peer, exact, cut, remotes, &count), -EBADMSG,
                     "tokens[");
        free(exact);
    }
    tokens[size - size / MANY + 11] ^= 1; /* the last one's iface */
    assert_fails(hmreg_remote_open_many(fixture->peer, tokens, size, remotes, &count), -EBADMSG,
                 "tokens[2], at byte");
    tokens[size - size / MANY + 11] ^= 1;
    assert_int_equal(count, MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_null(remotes[i]);
    close_many(fixture, mrs);
}

/* ---- addresses without a call ----------------------------------------------------------- */

CASE(flatten__one_segment__the_addresses_of_remote_addr)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 8, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    uint64_t addr, key, flat_addr = 0, flat_key = 0;
    struct hmreg_remote_flat out = {1, 2, 3};

    assert_fails(hmreg_remote_flatten(NULL, &out), -EINVAL, "remote is NULL");
    assert_fails(hmreg_remote_flatten(remote, NULL), -EINVAL, "out is NULL");
    assert_int_equal(out.len, 2);
    assert_ok(hmreg_remote_flatten(remote, &out));
    assert_int_equal(out.len, 64);
    for (uint64_t offset = 0; offset < 64; offset++) {
        assert_ok(hmreg_remote_addr(remote, offset, 64 - offset, &addr, &key));
        assert_int_equal(hmreg_remote_flat_addr(&out, offset, 64 - offset, &flat_addr, &flat_key),
                         0);
        assert_true(addr == flat_addr && key == flat_key);
    }
    flat_addr = flat_key = 7;
    assert_int_equal(hmreg_remote_flat_addr(&out, 0, 65, &flat_addr, &flat_key), -ERANGE);
    assert_int_equal(hmreg_remote_flat_addr(&out, 64, 1, &flat_addr, &flat_key), -ERANGE);
    assert_int_equal(hmreg_remote_flat_addr(&out, 0, 0, &flat_addr, &flat_key), -ERANGE);
    assert_int_equal(hmreg_remote_flat_addr(&out, UINT64_MAX, 2, &flat_addr, &flat_key), -ERANGE);
    assert_int_equal(hmreg_remote_flat_addr(&out, 2, SIZE_MAX, &flat_addr, &flat_key), -ERANGE);
    assert_true(flat_addr == 7 && flat_key == 7);
    suite_end(fixture, remote, mr);
}

CASE(flatten__several_segments__exdev)
{
    struct hmreg_mr *mr = reg_two(fixture, fixture->memory + 5000, fixture->memory + 100);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    struct hmreg_remote_flat out = {1, 2, 3};

    if (flat(remote)) {
        suite_not_applicable();
    } else {
        assert_fails(hmreg_remote_flatten(remote, &out), -EXDEV, "2 segments");
        assert_true(out.base == 1 && out.len == 2 && out.key == 3);
    }
    suite_end(fixture, remote, mr);
}

/* ---- renewal ---------------------------------------------------------------------------- */

struct packed {
    uint8_t bytes[2048];
    size_t size;
};

static struct packed pack(const struct hmreg_mr *mr)
{
    struct packed token = {.size = sizeof(token.bytes)};

    assert_ok(hmreg_mr_pack(mr, token.bytes, &token.size));
    return token;
}

CASE(renew__region_registered_anew__remote_reaches_it)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    enum hmreg_remote_state state = HMREG_REMOTE_DEAD;
    struct packed first = pack(mr), second;

    assert_ok(hmreg_remote_check(remote, first.bytes, first.size, &state));
    assert_int_equal(state, HMREG_REMOTE_CURRENT);
    assert_ok(hmreg_remote_renew(remote, first.bytes, first.size));
    suite_put(fixture, remote, 8, 8, fixture->memory + 8);
    suite_close(fixture, mr);
    mr = suite_reg(fixture, fixture->memory + 256, 128, HMREG_ACCESS_REMOTE, KEY);
    second = pack(mr);
    assert_ok(hmreg_remote_check(remote, second.bytes, second.size, &state));
    assert_int_equal(state, HMREG_REMOTE_RENEWED);
    assert_ok(hmreg_remote_renew(remote, second.bytes, second.size));
    suite_put(fixture, remote, 100, 8, fixture->memory + 356);
    state = HMREG_REMOTE_DEAD;
    assert_fails(hmreg_remote_check(remote, first.bytes, first.size, &state), -ESTALE, "older");
    assert_fails(hmreg_remote_renew(remote, first.bytes, first.size), -ESTALE, "older");
    assert_int_equal(state, HMREG_REMOTE_DEAD);
    suite_put(fixture, remote, 64, 8, fixture->memory + 320);
    suite_end(fixture, remote, mr);
}

CASE(renew__wrong_arguments__refused_and_the_remote_unchanged)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    enum hmreg_remote_state state = HMREG_REMOTE_DEAD;
    struct packed token = pack(mr);
    uint8_t *bytes = token.bytes;

    assert_fails(hmreg_remote_check(NULL, bytes, token.size, &state), -EINVAL, "remote is NULL");
    assert_fails(hmreg_remote_check(remote, NULL, 8, &state), -EINVAL, "token is NULL");
    assert_fails(hmreg_remote_check(remote, bytes, token.size, NULL), -EINVAL, "state is NULL");
    assert_fails(hmreg_remote_renew(NULL, bytes, token.size), -EINVAL, "remote is NULL");
    assert_fails(hmreg_remote_renew(remote, NULL, 8), -EINVAL, "token is NULL");
    for (size_t cut = 0; cut < token.size; cut++)
        assert_fails(hmreg_remote_renew(remote, bytes, cut), -EBADMSG, "token: ");
    assert_int_equal(state, HMREG_REMOTE_DEAD);
    suite_put(fixture, remote, 8, 8, fixture->memory + 8);
    suite_end(fixture, remote, mr);
}

CASE(renew__other_number_of_segments__msgsize)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr), *other;
    struct packed token;

    suite_close(fixture, mr);
    mr = reg_two(fixture, fixture->memory + 5000, fixture->memory + 100);
    token = pack(mr);
    other = suite_peer(fixture, mr);
    if (flat(other))
        suite_not_applicable();
    else
        assert_fails(hmreg_remote_renew(remote, token.bytes, token.size), -EMSGSIZE, "2 segments");
    hmreg_remote_close(other);
    suite_end(fixture, remote, mr);
}

/* ---- tables ----------------------------------------------------------------------------- */

CASE(table__entry__reaches_the_region)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory + 8, 64, HMREG_ACCESS_REMOTE, KEY);
    struct hmreg_remote *remote = suite_peer(fixture, mr);
    struct hmreg_table_entry entry, out = {0};
    struct hmreg_table *table = NULL;
    uint8_t token[1024];
    size_t size = sizeof(token);

    memcpy(fixture->local, "by table", 8);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_table_open(fixture->peer, &entry, 1, 0, &table));
    assert_ok(hmreg_table_write(table, 0, 1, token, size, 0));
    assert_int_equal(hmreg_table_load(&entry, &out), 0);
    assert_int_equal(out.flags,
                     HMREG_TABLE_ENTRY_FILLED | HMREG_TABLE_ENTRY_READ | HMREG_TABLE_ENTRY_WRITE);
    assert_ok(suite_rma(fixture, remote, true, le64toh(out.base) + 8, le64toh(out.key), 8));
    suite_check_arrived(fixture, fixture->memory + 16, "by table", 8);
    hmreg_table_close(table);
    suite_end(fixture, remote, mr);
}
