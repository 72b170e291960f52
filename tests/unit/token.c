/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tokens as bytes: a token from a network is accepted only if all of it is valid. A group's token
 * is as well opened rail by rail, on loopback domains.
 */

/* Each byte of a token, as no peer would write it. */
#include "core/remote/rails_token.h"
#include "core/remote/token.h"

#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>

#define SEGMENT(base, len, key) LE(base), LE(len), LE(key)
#define LE(value)                                                                                  \
    (uint8_t)(value), (uint8_t)((uint64_t)(value) >> 8), (uint8_t)((uint64_t)(value) >> 16),       \
        (uint8_t)((uint64_t)(value) >> 24), (uint8_t)((uint64_t)(value) >> 32),                    \
        (uint8_t)((uint64_t)(value) >> 40), (uint8_t)((uint64_t)(value) >> 48),                    \
        (uint8_t)((uint64_t)(value) >> 56)

static const uint8_t sample_segments[] = {SEGMENT(0x7f0000001000, 4096, 0x1122334455667788),
                                          SEGMENT(UINT64_MAX - 16, 17, 9)};

static const struct token sample = {
    .provider = "loopback",
    .iface = HMREG_IFACE_ROCR,
    .len = 4096 + 17,
    .access = HMREG_REMOTE_WRITE,
    .segments = 2,
    .address_size = 5,
    .raw_size = 3,
    .raw_base = 0x7f0000001000,
    .segment = sample_segments,
    .address = (const uint8_t[]){1, 2, 3, 4, 5},
    .raw = (const uint8_t[]){6, 7, 8},
};

#define SAMPLE_BYTES (40 + 2 * 24 + 5 + 3 + 8)
#define MOST_BYTES                                                                                 \
    (40 + TOKEN_MAX_SEGMENTS * 24 + TOKEN_MAX_BLOB + TOKEN_MAX_RAW + 8 + TOKEN_MAX_EXTENSION)

static void assert_same(const struct token *left, const struct token *right)
{
    assert_string_equal(left->provider, right->provider);
    assert_int_equal(left->iface, right->iface);
    assert_int_equal(left->len, right->len);
    assert_int_equal(left->access, right->access);
    assert_int_equal(left->segments, right->segments);
    assert_memory_equal(left->segment, right->segment, left->segments * TOKEN_SEGMENT_BYTES);
    assert_int_equal(left->address_size, right->address_size);
    assert_memory_equal(left->address, right->address, left->address_size);
    assert_int_equal(left->raw_size, right->raw_size);
    assert_memory_equal(left->raw, right->raw, left->raw_size);
    assert_int_equal(left->raw_base, right->raw_base);
    assert_int_equal(left->extension_size, right->extension_size);
    assert_int_equal(left->instance, right->instance);
    assert_int_equal(left->generation, right->generation);
}

TEST(token__comes_back_as_it_was)
{
    uint8_t bytes[SAMPLE_BYTES];
    struct token back;

    assert_int_equal(token_size(&sample), SAMPLE_BYTES);
    token_write(&sample, bytes);
    assert_ok(token_read(bytes, sizeof(bytes), &back));
    assert_same(&back, &sample);
}

static void check_round(unsigned segments, size_t raw_size, uint32_t extension_size)
{
    static uint8_t list[TOKEN_MAX_SEGMENTS * TOKEN_SEGMENT_BYTES], blob[TOKEN_MAX_RAW];
    struct token token = sample, back;
    static uint8_t bytes[MOST_BYTES];
    size_t size = 0;

    token.segments = (uint16_t)segments;
    token.address_size = TOKEN_MAX_BLOB;
    token.raw_size = (uint16_t)raw_size;
    token.raw_base = raw_size ? 0x1234567890 : 0; /* of part of a region: not a segment's */
    token.extension_size = extension_size;
    token.instance = extension_size < 16 ? 0 : 0x0123456789abcdef;
    token.generation = extension_size < 16 ? 0 : UINT64_MAX;
    token.segment = list;
    token.address = token.raw = blob;
    token.len = 0;
    for (unsigned i = 0; i < segments; i++) {
        struct token_segment segment = {(uint64_t)i << 20, i + 1, i};

        token_put_segment(list + (size_t)i * TOKEN_SEGMENT_BYTES, &segment);
        token.len += i + 1;
    }
    memset(blob, 'b', sizeof(blob));
    assert_true(token_size(&token) <= sizeof(bytes));
    token_write(&token, bytes);
    assert_ok(token_length(bytes, sizeof(bytes), &size));
    assert_int_equal(size, token_size(&token));
    assert_ok(token_read(bytes, size, &back));
    assert_same(&back, &token);
    assert_int_equal(token_segment(&back, segments - 1).base, (uint64_t)(segments - 1) << 20);
    assert_int_equal(token_segment(&back, segments - 1).key, segments - 1);
}

TEST(token__smallest_and_largest__come_back_as_they_were)
{
    check_round(1, 0, 0);
    check_round(1, TOKEN_MAX_RAW, 0);
    check_round(1, TOKEN_MAX_RAW, 15);
    check_round(1, 0, 16);
    check_round(1, 8, 17);
    check_round(TOKEN_MAX_SEGMENTS, 0, TOKEN_MAX_EXTENSION);
    check_round(TOKEN_MAX_SEGMENTS, TOKEN_MAX_RAW, TOKEN_MAX_EXTENSION);
}

/* What a later version adds and this one can do without, it skips: whatever the bytes are. */
TEST(token__with_an_extension__read_without_it)
{
    struct token later = sample, back;
    uint8_t bytes[SAMPLE_BYTES + 33];

    later.extension_size = 33; /* 16 that this version knows */
    later.instance = 7;
    later.generation = 0x0102030405060708;
    assert_int_equal(token_size(&later), sizeof(bytes));
    token_write(&later, bytes);
    assert_int_equal(bytes[SAMPLE_BYTES], 7);
    assert_int_equal(bytes[SAMPLE_BYTES + 8], 8);
    memset(bytes + SAMPLE_BYTES + 16, 0xee, 17);
    assert_ok(token_read(bytes, sizeof(bytes), &back));
    assert_same(&back, &later);
}

/* What it cannot do without is a flag. */
TEST(token__with_a_flag__protonosupport)
{
    uint8_t bytes[SAMPLE_BYTES];
    size_t length = 0;
    struct token out;

    for (unsigned bit = 0; bit < 32; bit++) {
        token_write(&sample, bytes);
        bytes[16 + bit / 8] = (uint8_t)(1 << bit % 8);
        assert_fails(token_read(bytes, sizeof(bytes), &out), -EPROTONOSUPPORT, "flags 0x");
        assert_fails(token_length(bytes, sizeof(bytes), &length), -EPROTONOSUPPORT, "flags 0x");
    }
}

/* The documented layout, byte by byte: tokens travel between builds. */
TEST(token__layout_is_as_documented)
{
    static const uint8_t head[40] = {
        'H', 'M', 'R', 'G', 5, 0,    2, 0, 2, 0, 0, 0, 5,   0,   3,   0,   0,   0,   0,   0,
        0,   0,   0,   0,   0, 0x20, 0, 0, 0, 0, 0, 0, 'l', 'o', 'o', 'p', 'b', 'a', 'c', 'k'};
    uint8_t bytes[SAMPLE_BYTES];

    token_write(&sample, bytes);
    assert_memory_equal(bytes, head, sizeof(head));
    assert_int_equal(bytes[40 + 16], 0x88); /* a key's lowest byte first */
    assert_memory_equal(bytes + 40, sample_segments, sizeof(sample_segments));
    assert_memory_equal(bytes + 40 + 2 * 24, ((const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8}), 8);
    assert_int_equal(token_word(bytes + 40 + 2 * 24 + 8), sample.raw_base);
}

/* A damaged token is refused, or all of it lies in its bytes. */
TEST(read__any_bit_flipped__refused_or_within_the_bytes)
{
    uint8_t *bytes = malloc(SAMPLE_BYTES); /* a sanitizer sees reads behind its end */
    unsigned refused = 0;

    token_write(&sample, bytes);
    for (size_t bit = 0; bit < 8 * SAMPLE_BYTES; bit++) {
        struct token out = {.size = 7};

        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (token_read(bytes, SAMPLE_BYTES, &out)) {
            assert_int_equal(out.size, 7);
            refused++;
        } else {
            assert_int_equal(token_size(&out), SAMPLE_BYTES);
            assert_ptr_equal(out.segment, bytes + 40);
            assert_true(out.raw + out.raw_size + 8 <= bytes + SAMPLE_BYTES);
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(refused >= 8 * 24); /* magic, format, counts, lengths, flags */
    free(bytes);
}

TEST(read__cut_short_anywhere__badmsg)
{
    uint8_t bytes[SAMPLE_BYTES];
    struct token out;

    token_write(&sample, bytes);
    for (size_t size = 0; size < sizeof(bytes); size++) {
        uint8_t *exact = malloc(
            size + !size); /* exactly sized, so that a sanitizer detects reads beyond the end */

        memcpy(exact, bytes, size);
        assert_fails(token_read(exact, size, &out), -EBADMSG, "token");
        free(exact);
    }
}

TEST(read__more_bytes_than_the_token__badmsg)
{
    uint8_t bytes[SAMPLE_BYTES + 8] = {0};
    struct token out;

    token_write(&sample, bytes);
    for (size_t extra = 1; extra <= 8; extra++)
        assert_fails(token_read(bytes, SAMPLE_BYTES + extra, &out), -EBADMSG, "token");
}

/* A wrong size must not cause reads beyond the bytes, which are at the end of a mapping. */
TEST(read__size_of_no_token__badmsg_without_reading_on)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *edge =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct token out;

    munmap(edge + page, page);
    token_write(&sample, edge + page - SAMPLE_BYTES);
    assert_fails(token_read(edge + page - SAMPLE_BYTES, SIZE_MAX, &out), -EBADMSG, "token");
    assert_fails(token_read(edge + page - SAMPLE_BYTES, MOST_BYTES + 1, &out), -EBADMSG, "token");
    munmap(edge, page);
}

TEST(read__another_format__protonosupport)
{
    uint8_t bytes[SAMPLE_BYTES];
    struct token out;
    size_t length;

    token_write(&sample, bytes);
    bytes[4] = 6;
    assert_fails(token_read(bytes, sizeof(bytes), &out), -EPROTONOSUPPORT, "format 6");
    assert_fails(token_length(bytes, sizeof(bytes), &length), -EPROTONOSUPPORT, "format 6");
    bytes[4] = 4;
    assert_fails(token_read(bytes, sizeof(bytes), &out), -EPROTONOSUPPORT, "format 4");
}

/* Tokens follow each other: a header says where the next one begins. */
TEST(length__of_the_first_of_several__is_its_size)
{
    uint8_t bytes[SAMPLE_BYTES + 100] = {0};
    size_t length = 7;

    token_write(&sample, bytes);
    for (size_t size = SAMPLE_BYTES; size < sizeof(bytes); size++) {
        assert_ok(token_length(bytes, size, &length));
        assert_int_equal(length, SAMPLE_BYTES);
    }
    length = 7;
    for (size_t size = 0; size < SAMPLE_BYTES; size++) {
        uint8_t *exact = malloc(size + !size);

        memcpy(exact, bytes, size);
        assert_fails(token_length(exact, size, &length), -EBADMSG, "token");
        free(exact);
    }
    bytes[6] = bytes[7] = 0;
    assert_fails(token_length(bytes, sizeof(bytes), &length), -EBADMSG, "segments");
    assert_int_equal(length, 7);
}

TEST(read__nonsense__badmsg)
{
    static const struct {
        size_t at;
        unsigned bytes;
        uint64_t value;
        const char *words;
    } cases[] = {
        {6, 2, 0, "number of segments"},
        {6, 2, TOKEN_MAX_SEGMENTS + 1, "number of segments"},
        {6, 2, 0xffff, "number of segments"},
        {6, 2, 1, "length"},
        {6, 2, 3, "length"},
        {8, 4, HMREG_IFACE_MAX + 1, "iface"},
        {8, 4, 0xffffffff, "iface"},
        {12, 2, TOKEN_MAX_BLOB + 1, "too long"},
        {12, 2, 0xffff, "too long"},
        {12, 2, 4, "length"},
        {14, 2, 0xffff, "length"},
        {14, 2, 0, "length"}, /* the base of a raw key belongs to raw keys */
        {14, 2, 4, "length"},
        {20, 4, 1, "length"},
        {20, 4, TOKEN_MAX_EXTENSION + 1, "too long"},
        {20, 4, UINT32_MAX, "too long"},
        {24, 8, 0, "access"},
        {24, 8, HMREG_SEND, "access"},
        {24, 8, UINT64_MAX, "access"},
        {48, 8, 0, "empty, or wraps"},               /* a segment's length */
        {48, 8, UINT64_MAX, "empty, or wraps"},      /* beyond its base */
        {72, 8, UINT64_MAX - 15, "empty, or wraps"}, /* a segment's base */
        {40, 8, UINT64_MAX - 4094, "empty, or wraps"},
    };
    uint8_t bytes[SAMPLE_BYTES];
    struct token out;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        token_write(&sample, bytes);
        for (unsigned j = 0; j < cases[i].bytes; j++)
            bytes[cases[i].at + j] = (uint8_t)(cases[i].value >> (8 * j));
        assert_fails(token_read(bytes, sizeof(bytes), &out), -EBADMSG, cases[i].words);
    }
}

TEST(read__segments_whose_sum_wraps__badmsg)
{
    static const uint8_t segments[] = {SEGMENT(0, UINT64_MAX, 1), SEGMENT(0, 2, 1)};
    struct token huge = sample;
    uint8_t bytes[SAMPLE_BYTES];
    struct token out;

    huge.segment = segments;
    token_write(&huge, bytes);
    assert_fails(token_read(bytes, sizeof(bytes), &out), -EBADMSG, "wraps");
}

TEST(read__segment_up_to_the_last_address__ok)
{
    uint8_t bytes[SAMPLE_BYTES];
    struct token out;

    token_write(&sample, bytes); /* its second segment */
    assert_ok(token_read(bytes, sizeof(bytes), &out));
}

/* ---- tokens of groups ------------------------------------------------------------------------ */

#define RAILS 3
#define BYTES 64

static struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *members[RAILS], *group;
    char memory[BYTES];
    struct hmreg_mr *mr;
    uint8_t token[4096];
    size_t size;
} fixture;

static void close_fixture(void)
{
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.group));
    for (int i = 0; i < RAILS; i++)
        assert_ok(hmreg_domain_close(fixture.members[i]));
    assert_ok(hmreg_close(fixture.lib));
}

static void open_fixture(void)
{
    test_after(close_fixture);
    fixture = (struct fixture){.size = sizeof(fixture.token)};
    assert_ok(hmreg_open(NULL, &fixture.lib));
    for (int i = 0; i < RAILS; i++)
        assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &fixture.members[i]));
    assert_ok(hmreg_group_open(fixture.lib, fixture.members, RAILS, NULL, &fixture.group));
    assert_ok(hmreg_mr_reg(fixture.group, fixture.memory, BYTES, HMREG_ACCESS_REMOTE, 0, 7, 0,
                           &fixture.mr, NULL));
    assert_ok(hmreg_mr_pack(fixture.mr, fixture.token, &fixture.size));
}

/* ---- bytes ------------------------------------------------------------------------------ */

/* Of one of several tokens the length is known only from itself. */
TEST(token__says_a_longer_extension__badmsg)
{
    struct rails_token token;
    size_t length;

    open_fixture();
    for (size_t byte = 12; byte < 16; byte++) {
        fixture.token[byte]++;
        assert_fails(rails_token_read_next(fixture.token, fixture.size, &token, &length), -EBADMSG,
                     "differs from its rails' lengths");
        fixture.token[byte]--;
    }
}

/* ---- remotes ---------------------------------------------------------------------------- */

static void write_on(struct hmreg_remote *remote, uint64_t offset, const char *byte)
{
    uint64_t addr, key;

    assert_ok(hmreg_remote_addr(remote, offset, 1, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, byte, 1, NULL, addr, key));
}

TEST(open_rails__on_a_group__each_moves_bytes)
{
    struct hmreg_remote *remotes[RAILS];

    open_fixture();
    assert_ok(hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS));
    for (unsigned i = 0; i < RAILS; i++) {
        write_on(remotes[i], i, &"abc"[i]);
        hmreg_remote_close(remotes[i]);
    }
    assert_string_equal(fixture.memory, "abc");
}

TEST(open_rails__allocation_fails__enomem_and_none_is_open)
{
    struct hmreg_remote *remotes[RAILS];
    int rc = -ENOMEM;

    open_fixture();
    for (unsigned n = 1; rc; n++) {
        failing = n;
        allocations = 0;
        rc = hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS);
        failing = 0;
        assert_true(n >= RAILS || rc == -ENOMEM);
        if (rc)
            assert_fails(rc, -ENOMEM, "no memory");
    }
    for (int i = 0; i < RAILS; i++)
        hmreg_remote_close(remotes[i]);
}

TEST_MAIN()
