/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The door of registration, the same on every provider: each argument of each call that registers
 * is wrong once, is refused with a sentence that names it, before the fabric is asked, and nothing
 * is written. */
#include "tests/conformance/under.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTHING ((struct hmreg_mr *)1)

static char memory[4096];

struct fixture {
    struct under under;
    struct hmreg_domain_info info;
    struct hmreg_mr *mr; /* stays NOTHING */
    unsigned regs;
};

static void open_fixture(struct fixture *fixture, unsigned variant)
{
    under_open(&fixture->under, variant);
    fixture->info.size = sizeof(fixture->info);
    assert_ok(hmreg_domain_query(fixture->under.domain, &fixture->info));
    fixture->mr = NOTHING;
    fixture->regs = under_regs();
}

/* Nothing was written, nothing was asked of the fabric, nothing is left. */
static void close_fixture(struct fixture *fixture)
{
    assert_ptr_equal(fixture->mr, NOTHING);
    assert_int_equal(under_regs(), fixture->regs);
    under_close(&fixture->under);
}

/* Runs the checks in every variant. */
static void in_all(void (*checks)(struct fixture *fixture, struct hmreg_domain *domain))
{
    for (unsigned variant = 0; variant < under_variants; variant++) {
        struct fixture fixture;

        open_fixture(&fixture, variant);
        checks(&fixture, fixture.under.domain);
        close_fixture(&fixture);
    }
}

#define ALL HMREG_ACCESS_ALL

/* ---- hmreg_mr_reg ----------------------------------------------------------------------- */

static void check_reg(struct fixture *fixture, struct hmreg_domain *domain)
{
    struct hmreg_mr **mr = &fixture->mr;
    void *last = (void *)(UINTPTR_MAX - 15);

    assert_fails(hmreg_mr_reg(NULL, memory, 16, ALL, 0, 0, 0, mr, NULL), -EINVAL, "domain is NULL");
    assert_fails(hmreg_mr_reg(domain, NULL, 16, ALL, 0, 0, 0, mr, NULL), -EINVAL, "addr is NULL");
    assert_fails(hmreg_mr_reg(domain, memory, 0, ALL, 0, 0, 0, mr, NULL), -EINVAL, "len is 0");
    assert_fails(hmreg_mr_reg(domain, memory, SIZE_MAX, ALL, 0, 0, 0, mr, NULL), -EINVAL, "wraps");
    assert_fails(hmreg_mr_reg(domain, last, 17, ALL, 0, 0, 0, mr, NULL), -EINVAL, "wraps");
    assert_fails(hmreg_mr_reg(domain, memory, 16, 0, 0, 0, 0, mr, NULL), -EINVAL, "access is 0");
    assert_fails(hmreg_mr_reg(domain, memory, 16, ALL, 1, 0, 0, mr, NULL), -EINVAL, "offset is 1");
    assert_fails(hmreg_mr_reg(domain, memory, 16, ALL, UINT64_MAX, 0, 0, mr, NULL), -EINVAL,
                 "offset");
    assert_fails(hmreg_mr_reg(domain, memory, 16, ALL, 0, 0, 0, NULL, NULL), -EINVAL, "mr is NULL");
}

static void reg__wrong_argument(void **state)
{
    in_all(check_reg);
}

static void check_reg_bits(struct fixture *fixture, struct hmreg_domain *domain)
{
    const uint64_t flags = HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY | HMREG_RMA_EVENT |
                           HMREG_RMA_PMEM; /* some domains know them all */

    for (int bit = 0; bit < 64; bit++) {
        uint64_t one = UINT64_C(1) << bit;

        if (!(one & ALL)) {
            assert_fails(hmreg_mr_reg(domain, memory, 16, one, 0, 0, 0, &fixture->mr, NULL),
                         -EINVAL, "access has unknown bits");
            assert_fails(hmreg_mr_reg(domain, memory, 16, one | ALL, 0, 0, 0, &fixture->mr, NULL),
                         -EINVAL, "access has unknown bits");
        }
        if (!(one & flags))
            assert_fails(hmreg_mr_reg(domain, memory, 16, ALL, 0, 0, one, &fixture->mr, NULL),
                         -HMREG_EBADFLAGS, "flags has unknown bits");
    }
}

static void reg__each_unknown_bit(void **state)
{
    in_all(check_reg_bits);
}

static void check_keys(struct fixture *fixture, struct hmreg_domain *domain)
{
    uint64_t largest = fixture->info.key_size >= 8
                           ? HMREG_KEY_NOTAVAIL - 1
                           : (UINT64_C(1) << 8 * fixture->info.key_size) - 1;

    if (fixture->info.mr_mode & HMREG_MR_PROV_KEY)
        assert_fails(hmreg_mr_reg(domain, memory, 16, ALL, 0, 1, 0, &fixture->mr, NULL),
                     -EKEYREJECTED, "chooses keys itself");
    else
        assert_fails(hmreg_mr_reg(domain, memory, 16, ALL, 0, largest + 1, 0, &fixture->mr, NULL),
                     -EKEYREJECTED, "requested_key");
    assert_fails(
        hmreg_mr_reg(domain, memory, 16, ALL, 0, HMREG_KEY_NOTAVAIL, 0, &fixture->mr, NULL),
        -EKEYREJECTED, "requested_key");
}

static void reg__key_that_cannot_be(void **state)
{
    in_all(check_keys);
}

static void check_length(struct fixture *fixture, struct hmreg_domain *domain)
{
    struct iovec iov[2] = {{memory, fixture->info.max_len}, {memory, 1}};

    if (fixture->info.max_len > UINTPTR_MAX / 4)
        return;
    assert_fails(
        hmreg_mr_reg(domain, memory, fixture->info.max_len + 1, ALL, 0, 0, 0, &fixture->mr, NULL),
        -EMSGSIZE, "longer");
    assert_fails(hmreg_mr_get(domain, memory, fixture->info.max_len + 1, ALL, &fixture->mr),
                 -EMSGSIZE, "longer");
    if (fixture->info.iov_limit > 1)
        assert_fails(hmreg_mr_regv(domain, iov, 2, ALL, 0, 0, 0, &fixture->mr, NULL), -EMSGSIZE,
                     "longer");
}

static void reg__longer_than_max_len(void **state)
{
    in_all(check_length);
}

/* ---- hmreg_mr_regv ---------------------------------------------------------------------- */

static void check_regv(struct fixture *fixture, struct hmreg_domain *domain)
{
    struct iovec iov[65];
    struct hmreg_mr **mr = &fixture->mr;
    size_t limit = fixture->info.iov_limit;

    assert_true(limit >= 1 && limit <= 64);
    for (size_t i = 0; i < 65; i++)
        iov[i] = (struct iovec){memory + 16 * i, 16};
    assert_fails(hmreg_mr_regv(NULL, iov, 1, ALL, 0, 0, 0, mr, NULL), -EINVAL, "domain");
    assert_fails(hmreg_mr_regv(domain, NULL, 1, ALL, 0, 0, 0, mr, NULL), -EINVAL, "iov is NULL");
    assert_fails(hmreg_mr_regv(domain, iov, 0, ALL, 0, 0, 0, mr, NULL), -EINVAL, "count is 0");
    assert_fails(hmreg_mr_regv(domain, iov, limit + 1, ALL, 0, 0, 0, mr, NULL), -EINVAL, "count");
    assert_fails(hmreg_mr_regv(domain, iov, SIZE_MAX, ALL, 0, 0, 0, mr, NULL), -EINVAL, "count");
    assert_fails(hmreg_mr_regv(domain, iov, 1, 0, 0, 0, 0, mr, NULL), -EINVAL, "access");
    assert_fails(hmreg_mr_regv(domain, iov, 1, ALL, 2, 0, 0, mr, NULL), -EINVAL, "offset");
    assert_fails(hmreg_mr_regv(domain, iov, 1, ALL, 0, 0, 1, mr, NULL), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_regv(domain, iov, 1, ALL, 0, 0, 0, NULL, NULL), -EINVAL, "mr is NULL");
    /* The last of as many as there may be. */
    iov[limit - 1].iov_len = 0;
    assert_fails(hmreg_mr_regv(domain, iov, limit, ALL, 0, 0, 0, mr, NULL), -EINVAL, "len is 0");
    iov[limit - 1] = (struct iovec){NULL, 16};
    assert_fails(hmreg_mr_regv(domain, iov, limit, ALL, 0, 0, 0, mr, NULL), -EINVAL,
                 limit > 1 ? "]: addr is NULL" : "addr is NULL");
    iov[limit - 1] = (struct iovec){memory, SIZE_MAX - 8};
    assert_fails(hmreg_mr_regv(domain, iov, limit, ALL, 0, 0, 0, mr, NULL), -EINVAL, "wraps");
}

static void regv__wrong_argument(void **state)
{
    in_all(check_regv);
}

/* ---- hmreg_mr_regattr ------------------------------------------------------------------- */

static const struct iovec one_range = {memory, 16};

/* One attribute wrong. */
/* The good attributes with one member wrong. */
#define WRONG(member, value, code, words)                                                          \
    do {                                                                                           \
        bad = good;                                                                                \
        bad.member = (value);                                                                      \
        assert_fails(hmreg_mr_regattr(domain, &bad, 0, &fixture->mr), code, words);                \
    } while (0)

static void check_attr_segments(struct fixture *fixture, struct hmreg_domain *domain,
                                const struct hmreg_segment *segment)
{
    const struct hmreg_mr_dmabuf dmabuf = {.len = 16};
    const struct hmreg_segment unknown = {.kind = 2};
    const struct hmreg_mr_attr good = {
        .size = sizeof(good), .segments = segment, .segment_count = 1, .access = ALL};
    struct hmreg_mr_attr bad;

    WRONG(segments, NULL, -EINVAL, "segments is NULL");
    WRONG(segments, &unknown, -EINVAL, "segments[0].kind is 2");
    WRONG(segment_count, 0, -EINVAL, "count is 0");
    WRONG(segment_count, HMREG_SEGMENTS_MAX + 1, -EINVAL, "count is 65");
    WRONG(dmabuf, &dmabuf, -EINVAL, "segments is set, and dmabuf");
    WRONG(access, 0, -EINVAL, "access is 0");
    WRONG(offset, 16, -EINVAL, "offset is 16");
    assert_fails(hmreg_mr_regattr(domain, &good, HMREG_MR_DMABUF, &fixture->mr), -EINVAL,
                 "HMREG_MR_DMABUF as well");
    assert_fails(hmreg_mr_regattr(domain, &good, 1, &fixture->mr), -HMREG_EBADFLAGS, "flags");
}

static void check_attr(struct fixture *fixture, struct hmreg_domain *domain)
{
    const struct hmreg_segment segment = {.kind = HMREG_SEGMENT_MEMORY, .u.memory = one_range};
    const struct hmreg_mr_dmabuf dmabuf = {.len = 16};
    const struct hmreg_mr_attr good = {
        .size = sizeof(good), .iov = &one_range, .iov_count = 1, .access = ALL};
    struct hmreg_mr_attr bad;

    WRONG(size, 0, -EINVAL, "size of struct hmreg_mr_attr is 0");
    WRONG(size, offsetof(struct hmreg_mr_attr, dmabuf) - 1, -EINVAL, "size of struct");
    WRONG(size, SIZE_MAX, -EINVAL, "size of struct");
    WRONG(iov, NULL, -EINVAL, "iov is NULL");
    WRONG(iov_count, 0, -EINVAL, "count is 0");
    WRONG(iov_count, 65, -EINVAL, "count is 65");
    WRONG(access, 0, -EINVAL, "access is 0");
    WRONG(access, 1, -EINVAL, "access has unknown bits 0x1");
    WRONG(offset, 16, -EINVAL, "offset is 16");
    WRONG(auth_key_size, 1, -EINVAL, "auth_key is NULL");
    WRONG(claim_iface, 2, -EINVAL, "claim_iface is 2");
    WRONG(claim_iface, -1, -EINVAL, "claim_iface is -1");
    WRONG(page_size, 3, -EINVAL, "page_size is 3");
    WRONG(page_size, SIZE_MAX, -EINVAL, "page_size");
    WRONG(dmabuf, &dmabuf, -EINVAL, "dmabuf is set");
    WRONG(segments, &segment, -EINVAL, "segments is set, and iov as well");
    WRONG(segment_count, 1, -EINVAL, "segments is set, and iov as well");
    check_attr_segments(fixture, domain, &segment);
    bad = good;
    bad.claim_iface = 1;
    bad.iface = HMREG_IFACE_COUNT;
    assert_fails(hmreg_mr_regattr(domain, &bad, 0, &fixture->mr), -EINVAL, "iface is 4");
    bad.iface = HMREG_IFACE_SYSTEM;
    bad.device = 1;
    assert_fails(hmreg_mr_regattr(domain, &bad, 0, &fixture->mr), -EINVAL, "device is 1");
    assert_fails(hmreg_mr_regattr(NULL, &good, 0, &fixture->mr), -EINVAL, "domain");
    assert_fails(hmreg_mr_regattr(domain, NULL, 0, &fixture->mr), -EINVAL, "attr is NULL");
    assert_fails(hmreg_mr_regattr(domain, &good, 0, NULL), -EINVAL, "mr is NULL");
    assert_fails(hmreg_mr_regattr(domain, &good, 1, &fixture->mr), -HMREG_EBADFLAGS, "flags");
#undef WRONG
}

static void regattr__wrong_attribute(void **state)
{
    in_all(check_attr);
}

/* A caller of the future. */
static void check_attr_tail(struct fixture *fixture, struct hmreg_domain *domain)
{
    struct {
        struct hmreg_mr_attr attr;
        char more[24];
    } later = {{.size = sizeof(later), .iov = &one_range, .iov_count = 1, .access = HMREG_SEND},
               ""};
    struct hmreg_mr *mr = NULL;

    for (size_t i = 0; i < sizeof(later.more); i += sizeof(later.more) - 1) {
        later.more[i] = 1;
        assert_fails(hmreg_mr_regattr(domain, &later.attr, 0, &fixture->mr), -EINVAL,
                     "has a field set");
        later.more[i] = 0;
    }
    assert_int_equal(under_regs(), fixture->regs);
    assert_ok(hmreg_mr_regattr(domain, &later.attr, 0, &mr));
    assert_ok(hmreg_mr_close(mr));
    fixture->regs = under_regs();
}

static void regattr__fields_of_the_future__only_if_zero(void **state)
{
    in_all(check_attr_tail);
}

static void check_attr_dmabuf(struct fixture *fixture, struct hmreg_domain *domain)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    int closed = dup(fd);
    struct hmreg_mr_dmabuf dmabuf = {.fd = fd, .len = 16};
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .access = ALL};

    close(closed);
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EINVAL,
                 "dmabuf is NULL");
    attr.dmabuf = &dmabuf;
    attr.iov = &one_range;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EINVAL,
                 "iov is set");
    attr.iov = NULL;
    attr.iov_count = 1;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EINVAL,
                 "iov is set");
    attr.iov_count = 0;
    dmabuf.len = 0;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EINVAL,
                 "len is 0");
    dmabuf.len = SIZE_MAX;
    dmabuf.offset = 2;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EINVAL, "wraps");
    dmabuf.len = 16;
    dmabuf.offset = UINT64_MAX - 8;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EINVAL, "wraps");
    dmabuf.offset = 0;
    dmabuf.fd = -1;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EBADF, "fd -1");
    dmabuf.fd = closed;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_MR_DMABUF, &fixture->mr), -EBADF, "fd");
    close(fd);
}

static void regattr__wrong_dmabuf(void **state)
{
    in_all(check_attr_dmabuf);
}

/* ---- hmreg_mr_regsgl -------------------------------------------------------------------- */

static void check_regsgl(struct fixture *fixture, struct hmreg_domain *domain)
{
    struct hmreg_segment segments[2];
    struct hmreg_mr **mr = &fixture->mr;

#define GOOD()                                                                                     \
    for (int i = 0; i < 2; i++)                                                                    \
        segments[i] = (struct hmreg_segment)                                                       \
        {                                                                                          \
            .kind = HMREG_SEGMENT_MEMORY, .u.memory = { memory, 16 }                               \
        }
#define WRONG(member, value, code, words)                                                          \
    do {                                                                                           \
        GOOD();                                                                                    \
        segments[1].member = (value);                                                              \
        assert_fails(hmreg_mr_regsgl(domain, segments, 2, ALL, 0, 0, 0, mr, NULL), code, words);   \
    } while (0)

    GOOD();
    assert_fails(hmreg_mr_regsgl(NULL, segments, 2, ALL, 0, 0, 0, mr, NULL), -EINVAL, "domain");
    assert_fails(hmreg_mr_regsgl(domain, NULL, 2, ALL, 0, 0, 0, mr, NULL), -EINVAL, "segments");
    assert_fails(hmreg_mr_regsgl(domain, segments, 0, ALL, 0, 0, 0, mr, NULL), -EINVAL, "count");
    assert_fails(hmreg_mr_regsgl(domain, segments, 65, ALL, 0, 0, 0, mr, NULL), -EINVAL, "count");
    assert_fails(hmreg_mr_regsgl(domain, segments, 2, 0, 0, 0, 0, mr, NULL), -EINVAL, "access");
    assert_fails(hmreg_mr_regsgl(domain, segments, 2, 4, 0, 0, 0, mr, NULL), -EINVAL, "access");
    assert_fails(hmreg_mr_regsgl(domain, segments, 2, ALL, 1, 0, 0, mr, NULL), -EINVAL, "offset");
    assert_fails(hmreg_mr_regsgl(domain, segments, 2, ALL, 0, 0, 1, mr, NULL), -HMREG_EBADFLAGS,
                 "flags");
    assert_fails(hmreg_mr_regsgl(domain, segments, 2, ALL, 0, 0, 0, NULL, NULL), -EINVAL, "mr");
    WRONG(kind, 2, -EINVAL, "segments[1].kind is 2");
    WRONG(kind, UINT32_MAX, -EINVAL, "segments[1].kind");
    WRONG(u.memory.iov_base, NULL, -EINVAL, "segments[1]: addr is NULL");
    WRONG(u.memory.iov_len, 0, -EINVAL, "segments[1]: len is 0");
    WRONG(u.memory.iov_len, SIZE_MAX, -EINVAL, "segments[1]: addr");
    GOOD();
    segments[1] =
        (struct hmreg_segment){.kind = HMREG_SEGMENT_DMABUF, .u.dmabuf = {.fd = -1, .len = 16}};
    assert_fails(hmreg_mr_regsgl(domain, segments, 2, ALL, 0, 0, 0, mr, NULL), -EBADF, "fd -1");
#undef WRONG
#undef GOOD
}

static void regsgl__wrong_argument(void **state)
{
    in_all(check_regsgl);
}

/* ---- hmreg_mr_get ----------------------------------------------------------------------- */

static void check_get(struct fixture *fixture, struct hmreg_domain *domain)
{
    assert_fails(hmreg_mr_get(NULL, memory, 16, ALL, &fixture->mr), -EINVAL, "domain");
    assert_fails(hmreg_mr_get(domain, NULL, 16, ALL, &fixture->mr), -EINVAL, "addr is NULL");
    assert_fails(hmreg_mr_get(domain, memory, 0, ALL, &fixture->mr), -EINVAL, "len is 0");
    assert_fails(hmreg_mr_get(domain, memory, SIZE_MAX, ALL, &fixture->mr), -EINVAL, "wraps");
    assert_fails(hmreg_mr_get(domain, memory, 16, 0, &fixture->mr), -EINVAL, "access is 0");
    assert_fails(hmreg_mr_get(domain, memory, 16, ALL, NULL), -EINVAL, "mr is NULL");
    for (int bit = 0; bit < 64; bit++)
        if (!(UINT64_C(1) << bit & ALL))
            assert_fails(hmreg_mr_get(domain, memory, 16, ALL | UINT64_C(1) << bit, &fixture->mr),
                         -EINVAL, "access has unknown bits");
}

static void get__wrong_argument(void **state)
{
    in_all(check_get);
}

/* ---- domains ---------------------------------------------------------------------------- */

static void check_config(struct fixture *fixture, struct hmreg_domain *unused)
{
    const struct hmreg_domain_config good = {.size = sizeof(good)};
    struct {
        struct hmreg_domain_config config;
        char more[8];
    } later = {{.size = sizeof(later)}, {0, 1}};
    struct hmreg_domain *domain = (void *)1;
    struct hmreg_domain_config bad;

#define WRONG(member, value, code, words)                                                          \
    do {                                                                                           \
        bad = good;                                                                                \
        bad.member = (value);                                                                      \
        assert_fails(under_open_more(&fixture->under, &bad, &domain), code, words);                \
    } while (0)

    WRONG(size, 0, -EINVAL, "size of struct hmreg_domain_config is 0");
    WRONG(size, offsetof(struct hmreg_domain_config, check) - 1, -EINVAL, "size of struct");
    WRONG(check[0], (enum hmreg_check)3, -EINVAL, "config->check[0] is 3");
    WRONG(size, SIZE_MAX, -EINVAL, "size of struct");
    for (int bit = 2; bit < 32; bit++)
        if (!(under_flags & 1u << bit))
            WRONG(flags, 1u << bit, -HMREG_EBADFLAGS, "config->flags");
    WRONG(order[0], HMREG_PATH_SYSTEM, -EINVAL, "config->order[0] is 1");
    WRONG(order[0], HMREG_PATH_COUNT, -EINVAL, "config->order[0] is 5");
    WRONG(order[0], (enum hmreg_path) - 1, -EINVAL, "config->order[0] is -1");
    WRONG(order[1], HMREG_PATH_DMABUF, -EINVAL, "config->order[1] comes after its end");
    bad = good;
    bad.order[0] = bad.order[2] = HMREG_PATH_MAPPED;
    bad.order[1] = HMREG_PATH_DMABUF;
    assert_fails(under_open_more(&fixture->under, &bad, &domain), -EINVAL, "mapped twice");
    assert_fails(under_open_more(&fixture->under, &later.config, &domain), -EINVAL,
                 "has a field set");
    assert_ptr_equal(domain, (void *)1);
    later.more[1] = 0;
    assert_ok(under_open_more(&fixture->under, &later.config, &domain));
    assert_ok(hmreg_domain_close(domain));
#undef WRONG
}

static void domain_open__wrong_config(void **state)
{
    in_all(check_config);
}

static void check_domain_bind(struct fixture *fixture, struct hmreg_domain *domain)
{
    assert_fails(hmreg_domain_bind(NULL, fixture, HMREG_REG_MR), -EINVAL, "domain");
    assert_fails(hmreg_domain_bind(domain, NULL, HMREG_REG_MR), -EINVAL, "object");
    assert_fails(hmreg_domain_bind(domain, fixture, 0), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_domain_bind(domain, fixture, HMREG_REG_MR | 1), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_domain_flush(NULL), -EINVAL, "domain");
    assert_fails(hmreg_domain_progress(NULL), -EINVAL, "domain");
    assert_ok(hmreg_domain_progress(domain));
    assert_ok(hmreg_domain_flush(domain));
    assert_ok(hmreg_domain_close(NULL));
}

static void domain_calls__wrong_argument(void **state)
{
    in_all(check_domain_bind);
}

TEST_MAIN(TEST(reg__wrong_argument), TEST(reg__each_unknown_bit), TEST(reg__key_that_cannot_be),
          TEST(reg__longer_than_max_len), TEST(regv__wrong_argument),
          TEST(regattr__wrong_attribute), TEST(regattr__fields_of_the_future__only_if_zero),
          TEST(regattr__wrong_dmabuf), TEST(regsgl__wrong_argument), TEST(get__wrong_argument),
          TEST(domain_open__wrong_config), TEST(domain_calls__wrong_argument))
