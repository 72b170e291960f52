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
