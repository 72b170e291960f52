/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Regions of several ranges, of odd lengths at odd addresses: every place in them, from both sides
 * of every border, by offset and by address; and keys until there are none left. */
#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <stdlib.h>
#include <string.h>

static const size_t lengths[] = {1, 7, 64, 3, 129, 1, 50};
#define RANGES (sizeof(lengths) / sizeof(lengths[0]))
#define TOTAL  (1 + 7 + 64 + 3 + 129 + 1 + 50)

struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char arena[4096]; /* the ranges lie in it, apart and not in their order */
    struct iovec iov[RANGES];
    char expected[4096]; /* the arena, as it must be */
    struct hmreg_mr *mr;
    struct hmreg_remote *remote;
};

/* The arena's byte at an offset of the region. */
static size_t place(const struct fixture *fixture, size_t offset)
{
    size_t i = 0;

    while (offset >= fixture->iov[i].iov_len)
        offset -= fixture->iov[i++].iov_len;
    return (size_t)((char *)fixture->iov[i].iov_base - fixture->arena) + offset;
}

static void open_fixture(struct fixture *fixture, uint32_t mr_mode)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = mr_mode};
    char token[4096];
    size_t size = sizeof(token);

    memset(fixture, 0, sizeof(*fixture));
    for (size_t i = 0; i < RANGES; i++)
        fixture->iov[i] = (struct iovec){fixture->arena + (RANGES - i) * 500 + 3 * i, lengths[i]};
    assert_ok(hmreg_open(NULL, &fixture->lib));
    assert_ok(hmreg_domain_open_loopback(fixture->lib, &config, NULL, &fixture->domain));
    assert_ok(hmreg_mr_regv(fixture->domain, fixture->iov, RANGES, HMREG_ACCESS_REMOTE, 0, 0, 0,
                            &fixture->mr, NULL));
    assert_ok(hmreg_mr_pack(fixture->mr, token, &size));
    assert_ok(hmreg_remote_open(fixture->domain, token, size, &fixture->remote));
}

static void close_fixture(struct fixture *fixture)
{
    hmreg_remote_close(fixture->remote);
    assert_ok(hmreg_mr_close(fixture->mr));
    assert_ok(hmreg_domain_close(fixture->domain));
    assert_ok(hmreg_close(fixture->lib));
}

/* Writes len bytes at offset, reads them back, and compares all of the arena. */
static void check_place(struct fixture *fixture, uint64_t addr, uint64_t key, size_t offset,
                        size_t len)
{
    static unsigned seed;
    char out[TOTAL], in[TOTAL];

    for (size_t i = 0; i < len; i++) {
        seed++;
        out[i] = (char)(seed * 31 + seed / 251);
        fixture->expected[place(fixture, offset + i)] = out[i];
    }
    assert_ok(hmreg_loopback_write(fixture->remote, out, len, NULL, addr, key));
    assert_memory_equal(fixture->arena, fixture->expected, sizeof(fixture->arena));
    memset(in, 0, sizeof(in));
    assert_ok(hmreg_loopback_read(fixture->remote, in, len, NULL, addr, key));
    assert_memory_equal(in, out, len);
}

/* The region is one space from 0: an access may run over any number of borders. */
static void by_offset__every_place_and_length(void **state)
{
    struct fixture fixture;
    uint64_t addr, key;

    open_fixture(&fixture, 0);
    for (size_t offset = 0; offset < TOTAL; offset++)
        for (size_t len = 1; len <= TOTAL - offset; len += 1 + len / 8) {
            assert_ok(hmreg_remote_addr(fixture.remote, offset, len, &addr, &key));
            assert_int_equal(addr, offset);
            check_place(&fixture, addr, key, offset, len);
        }
    assert_fails(hmreg_loopback_write(fixture.remote, fixture.expected, TOTAL + 1, NULL, 0, key),
                 -ERANGE, "outside");
    assert_fails(hmreg_loopback_write(fixture.remote, "x", 1, NULL, TOTAL, key), -ERANGE,
                 "outside");
    assert_fails(hmreg_loopback_write(fixture.remote, "xx", 2, NULL, TOTAL - 1, key), -ERANGE,
                 "outside");
    assert_memory_equal(fixture.arena, fixture.expected, sizeof(fixture.arena));
    close_fixture(&fixture);
}

/* Where the range of an offset ends, as an offset. */
static size_t border_after(size_t offset)
{
    size_t border = 0;

    for (size_t i = 0; border <= offset; i++)
        border += lengths[i];
    return border;
}

/* Each range has addresses of its own: an access over a border is two, and the sentence says
 * where to split it. */
static void by_address__every_place__and_where_to_split(void **state)
{
    struct hmreg_remote_info info = {.size = sizeof(info)};
    struct fixture fixture;
    uint64_t addr, key;
    char words[64];

    open_fixture(&fixture, HMREG_MR_VIRT_ADDR);
    assert_ok(hmreg_remote_query(fixture.remote, &info));
    assert_int_equal(info.segments, RANGES);
    for (size_t offset = 0; offset < TOTAL; offset++) {
        size_t room = border_after(offset) - offset;

        for (size_t len = 1; len <= room; len++) {
            assert_ok(hmreg_remote_addr(fixture.remote, offset, len, &addr, &key));
            assert_int_equal(addr, (uintptr_t)fixture.arena + place(&fixture, offset));
            check_place(&fixture, addr, key, offset, len);
        }
        if (offset + room == TOTAL)
            continue;
        snprintf(words, sizeof(words), "split it at offset %zu", offset + room);
        assert_fails(hmreg_remote_addr(fixture.remote, offset, room + 1, &addr, &key), -EXDEV,
                     words);
        assert_fails(
            hmreg_loopback_write(fixture.remote, fixture.expected, room + 1, NULL, addr, key),
            -ERANGE, "outside");
    }
    assert_memory_equal(fixture.arena, fixture.expected, sizeof(fixture.arena));
    close_fixture(&fixture);
}

/* Between the ranges there is memory that belongs to nobody. */
static void by_address__between_the_ranges__range(void **state)
{
    struct fixture fixture;
    uint64_t key;

    open_fixture(&fixture, HMREG_MR_VIRT_ADDR);
    key = hmreg_mr_key(fixture.mr);
    for (size_t i = 0; i < RANGES; i++) {
        uint64_t base = (uintptr_t)fixture.iov[i].iov_base;

        assert_fails(hmreg_loopback_write(fixture.remote, "x", 1, NULL, base - 1, key), -ERANGE,
                     "outside");
        assert_fails(hmreg_loopback_write(fixture.remote, "x", 1, NULL, base + lengths[i], key),
                     -ERANGE, "outside");
        assert_fails(
            hmreg_loopback_write(fixture.remote, "xx", 2, NULL, base + lengths[i] - 1, key),
            -ERANGE, "outside");
    }
    assert_memory_equal(fixture.arena, fixture.expected, sizeof(fixture.arena));
    close_fixture(&fixture);
}

/* The second covers what the first, at the same address, does not. */
static void by_address__ranges_that_overlap__each_is_reached_whole(void **state)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = HMREG_MR_VIRT_ADDR};
    char memory[100] = {0}, out[100], token[512];
    struct iovec iov[2] = {{memory, 10}, {memory, 100}};
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    size_t size = sizeof(token);
    uint64_t addr, key;
    struct hmreg_mr *mr;
    struct hmreg *lib;

    memset(out, 'o', sizeof(out));
    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, &config, NULL, &domain));
    assert_ok(hmreg_mr_regv(domain, iov, 2, HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 10, 100, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, out, 100, NULL, addr, key));
    assert_memory_equal(memory, out, 100);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

/* ---- keys ------------------------------------------------------------------------------- */

static int reg_byte(struct hmreg_domain *domain, uint64_t key, struct hmreg_mr **mr)
{
    static char byte;

    return hmreg_mr_reg(domain, &byte, 1, HMREG_REMOTE_READ, 0, key, 0, mr, NULL);
}

/* One-byte keys of the provider's choice: all but 0, and again when one is free. */
static void provider_keys__until_none_is_left(void **state)
{
    struct hmreg_loopback_config config = {
        .size = sizeof(config), .mr_mode = HMREG_MR_PROV_KEY, .key_size = 1};
    struct hmreg_mr *mr[256], *none = (void *)1;
    unsigned char seen[256] = {0};
    struct hmreg_domain *domain;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, &config, NULL, &domain));
    for (int i = 1; i < 256; i++) {
        assert_ok(reg_byte(domain, 0, &mr[i]));
        assert_true(hmreg_mr_key(mr[i]) < 256);
        assert_int_equal(seen[hmreg_mr_key(mr[i])]++, 0);
    }
    assert_fails(reg_byte(domain, 0, &none), -HMREG_ENOKEY, "all keys of this domain");
    assert_ptr_equal(none, (void *)1);
    for (int i = 1; i < 256; i += 51) {
        uint64_t freed = hmreg_mr_key(mr[i]);

        assert_ok(hmreg_mr_close(mr[i]));
        assert_ok(reg_byte(domain, 0, &mr[i]));
        assert_int_equal(hmreg_mr_key(mr[i]), freed);
        assert_fails(reg_byte(domain, 0, &none), -HMREG_ENOKEY, "all keys");
    }
    for (int i = 1; i < 256; i++)
        assert_ok(hmreg_mr_close(mr[i]));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

static void callers_keys__all_256_of_one_byte(void **state)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .key_size = 1};
    struct hmreg_mr *mr[256], *none = (void *)1;
    struct hmreg_domain *domain;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, &config, NULL, &domain));
    for (uint64_t key = 0; key < 256; key++) {
        assert_ok(reg_byte(domain, key, &mr[key]));
        assert_int_equal(hmreg_mr_key(mr[key]), key);
    }
    assert_fails(reg_byte(domain, 256, &none), -EKEYREJECTED, "too large");
    for (uint64_t key = 0; key < 256; key++)
        assert_fails(reg_byte(domain, key, &none), -HMREG_ENOKEY, "in use");
    assert_ptr_equal(none, (void *)1);
    for (int i = 0; i < 256; i++)
        assert_ok(hmreg_mr_close(mr[i]));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN(TEST(by_offset__every_place_and_length),
          TEST(by_address__every_place__and_where_to_split),
          TEST(by_address__between_the_ranges__range),
          TEST(by_address__ranges_that_overlap__each_is_reached_whole),
          TEST(provider_keys__until_none_is_left), TEST(callers_keys__all_256_of_one_byte))
