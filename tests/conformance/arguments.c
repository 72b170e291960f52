/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Arguments: each one of each call is wrong once. The call refuses it before it calls the fabric,
 * with the same error and text on all fabrics, and does not change outputs. */
#include "tests/conformance/suite.h"

#include <fcntl.h>

#define ALL       HMREG_ACCESS_ALL
#define UNTOUCHED ((struct hmreg_mr *)1)

typedef void refused_calls(struct suite_fixture *fixture, struct hmreg_domain *domain,
                           struct hmreg_mr **mr);

static void check_refused(struct suite_fixture *fixture, refused_calls *calls)
{
    unsigned (*registrations)(void) = fixture->fabric->registrations;
    unsigned before = registrations ? registrations() : 0;
    struct hmreg_mr *mr = UNTOUCHED;

    calls(fixture, fixture->domain, &mr);
    assert_ptr_equal(mr, UNTOUCHED);
    assert_int_equal(registrations ? registrations() : 0, before);
}

/* Whatever a case's calls refuse, *mr must stay as it is. */
#define REFUSED_CASE(name)                                                                         \
    static refused_calls name##_calls;                                                             \
    CASE(name)                                                                                     \
    {                                                                                              \
        check_refused(fixture, name##_calls);                                                      \
    }                                                                                              \
    static void name##_calls(struct suite_fixture *fixture, struct hmreg_domain *domain,           \
                             struct hmreg_mr **mr)

/* ---- what every registering call refuses ------------------------------------------------ */

/* One range, registered by any call. */
struct reg {
    struct hmreg_domain *domain;
    void *addr;
    size_t len;
    uint64_t access, offset, flags;
};

static int by_reg(struct reg reg, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(reg.domain, reg.addr, reg.len, reg.access, reg.offset, 0, reg.flags, mr,
                        NULL);
}

static int by_regv(struct reg reg, struct hmreg_mr **mr)
{
    struct iovec iov = {reg.addr, reg.len};

    return hmreg_mr_regv(reg.domain, &iov, 1, reg.access, reg.offset, 0, reg.flags, mr, NULL);
}

static int by_regattr(struct reg reg, struct hmreg_mr **mr)
{
    struct iovec iov = {reg.addr, reg.len};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = reg.access,
                                 .offset = reg.offset};

    return hmreg_mr_regattr(reg.domain, &attr, reg.flags, mr);
}

static int by_regsgl(struct reg reg, struct hmreg_mr **mr)
{
    struct hmreg_segment one = {.u.memory = {reg.addr, reg.len}};

    return hmreg_mr_regsgl(reg.domain, &one, 1, reg.access, reg.offset, 0, reg.flags, mr, NULL);
}

static int by_segments(struct reg reg, struct hmreg_mr **mr)
{
    struct hmreg_segment one = {.u.memory = {reg.addr, reg.len}};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .segments = &one,
                                 .segment_count = 1,
                                 .access = reg.access,
                                 .offset = reg.offset};

    return hmreg_mr_regattr(reg.domain, &attr, reg.flags, mr);
}

static int by_get(struct reg reg, struct hmreg_mr **mr)
{
    return hmreg_mr_get(reg.domain, reg.addr, reg.len, reg.access, mr);
}

static int (*const calls[])(struct reg reg, struct hmreg_mr **mr) = {
    by_reg, by_regv, by_regattr, by_regsgl, by_segments, by_get, /* gets have no offset and flags */
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))
#define GETS  2

static void each_call_fails(struct reg reg, struct hmreg_mr **mr, int code, const char *words)
{
    for (size_t i = 0; i < CALLS - (reg.offset || reg.flags ? GETS : 0); i++)
        assert_fails(calls[i](reg, mr), code, words);
}

REFUSED_CASE(reg__wrong_argument__inval)
{
    const struct reg good = {domain, fixture->memory, 16, ALL, 0, 0};
    struct reg bad;

#define WRONG(member, value, words)                                                                \
    do {                                                                                           \
        bad = good;                                                                                \
        bad.member = (value);                                                                      \
        each_call_fails(bad, mr, -EINVAL, words);                                                  \
    } while (0)

    WRONG(domain, NULL, "domain is NULL");
    WRONG(addr, NULL, "addr is NULL");
    WRONG(len, 0, "len is 0");
    WRONG(len, SIZE_MAX, "wraps");
    WRONG(access, 0, "access has no right");
    WRONG(offset, 1, "offset is 1");
    WRONG(offset, UINT64_MAX, "offset");
#undef WRONG
    bad = good;
    bad.addr = (void *)(UINTPTR_MAX - 15);
    bad.len = 17;
    each_call_fails(bad, mr, -EINVAL, "wraps");
    each_call_fails(good, NULL, -EINVAL, " is NULL"); /* mr or mrs */
    suite_refused(fixture, "length 0", good.addr, 0, ALL, 0, 1, 0);
    suite_refused(fixture, "a range that wraps", good.addr, SIZE_MAX, ALL, 0, 1, 0);
    suite_refused(fixture, "no rights", good.addr, 8, 0, 0, 1, 0);
    suite_refused(fixture, "an offset", good.addr, 8, ALL, 1, 1, 0);
}

REFUSED_CASE(reg__each_unknown_bit__refused)
{
    const uint64_t flags = HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY | HMREG_RMA_EVENT |
                           HMREG_RMA_PMEM | HMREG_REG_DMABUF | HMREG_REG_SINGLE |
                           HMREG_REG_PARTS; /* only some calls and domains accept these */
    struct reg reg = {domain, fixture->memory, 16, ALL, 0, 0};

    for (int bit = 0; bit < 64; bit++) {
        uint64_t one = UINT64_C(1) << bit;

        if (!(one & (ALL | HMREG_GET_HOST))) { /* unit_cache_claims has that flag */
            reg.access = one;
            each_call_fails(reg, mr, -EINVAL, "access has unknown bits");
            reg.access = one | ALL;
            each_call_fails(reg, mr, -EINVAL, "access has unknown bits");
        }
        reg.access = ALL;
        reg.flags = one;
        if (!(one & flags))
            each_call_fails(reg, mr, -HMREG_EBADFLAGS, "flags has unknown bits");
        reg.flags = 0;
    }
    reg.flags = HMREG_REG_DMABUF;
    assert_fails(by_reg(reg, mr), -HMREG_EBADFLAGS, "flags has unknown bits");
    assert_fails(by_segments(reg, mr), -EINVAL, "HMREG_REG_DMABUF in flags");
    suite_refused(fixture, "an unknown right", reg.addr, 8, UINT64_C(1) << 50, 0, 1, 0);
    suite_refused(fixture, "an unknown flag", reg.addr, 8, ALL, 0, 1, 1u << 3);
}

REFUSED_CASE(reg__claims_that_host_memory_does_not_keep__inval)
{
    struct reg reg = {domain, fixture->memory, 8, ALL, 0, HMREG_HMEM_DEVICE_ONLY};

    each_call_fails(reg, mr, -EINVAL, "HMREG_HMEM_DEVICE_ONLY: the memory's kind is");
    reg.flags = HMREG_HMEM_HOST_ALLOC;
    each_call_fails(reg, mr, -EINVAL, "HMREG_HMEM_HOST_ALLOC: the memory's kind is");
    suite_refused(fixture, "the claim", reg.addr, 8, ALL, 0, 1, HMREG_HMEM_DEVICE_ONLY);
}

REFUSED_CASE(reg__longer_than_max_len__msgsize)
{
    struct reg reg = {domain, fixture->memory, fixture->info.max_len + 1, ALL, 0, 0};
    struct iovec iov[2] = {{reg.addr, fixture->info.max_len}, {reg.addr, 1}};

    if (fixture->info.max_len > UINTPTR_MAX / 4) {
        suite_not_applicable();
        return;
    }
    for (size_t i = 0; i < CALLS - GETS; i++)
        assert_fails(calls[i](reg, mr), -EMSGSIZE, "longer");
    if (fixture->info.max_len < UINTPTR_MAX / 4 / HMREG_SEGMENTS_MAX) { /* gets take pieces */
        reg.len *= HMREG_SEGMENTS_MAX;
        each_call_fails(reg, mr, -EMSGSIZE, "longer");
    }
    if (fixture->info.iov_limit > 1)
        assert_fails(hmreg_mr_regv(domain, iov, 2, ALL, 0, 0, 0, mr, NULL), -EMSGSIZE, "longer");
}

/* A failed registration leaves the key free and the domain unchanged. */
CASE(error__leaves_key_and_domain_as_they_were)
{
    uint64_t key = suite_key(fixture, 7);
    struct hmreg_mr *mr = UNTOUCHED;

    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ALL, 0, key, 1, &mr, NULL),
                 -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_reg(fixture->domain, fixture->memory, 8, ALL, 0, key,
                              HMREG_HMEM_DEVICE_ONLY, &mr, NULL),
                 -EINVAL, "kind");
    mr = suite_reg(fixture, fixture->memory, 8, ALL, 7);
    suite_close(fixture, mr);
}

/* ---- hmreg_mr_regv ---------------------------------------------------------------------- */

REFUSED_CASE(regv__wrong_argument__refused)
{
    size_t limit = fixture->info.iov_limit;
    struct iovec iov[65];

    assert_true(limit >= 1 && limit <= 64);
    for (size_t i = 0; i < 65; i++)
        iov[i] = (struct iovec){fixture->memory + 16 * i, 16};
    assert_fails(hmreg_mr_regv(domain, NULL, 1, ALL, 0, 0, 0, mr, NULL), -EINVAL, "iov is NULL");
    assert_fails(hmreg_mr_regv(domain, iov, 0, ALL, 0, 0, 0, mr, NULL), -EINVAL, "count is 0");
    assert_fails(hmreg_mr_regv(domain, iov, limit + 1, ALL, 0, 0, 0, mr, NULL), -EINVAL,
                 "takes 1 to");
    assert_fails(hmreg_mr_regv(domain, iov, SIZE_MAX, ALL, 0, 0, 0, mr, NULL), -EINVAL, "count");
    /* The last segment of the maximal number. */
    iov[limit - 1].iov_len = 0;
    assert_fails(hmreg_mr_regv(domain, iov, limit, ALL, 0, 0, 0, mr, NULL), -EINVAL,
                 limit > 1 ? "]: len is 0" : "len is 0");
    iov[limit - 1] = (struct iovec){NULL, 16};
    assert_fails(hmreg_mr_regv(domain, iov, limit, ALL, 0, 0, 0, mr, NULL), -EINVAL,
                 limit > 1 ? "]: addr is NULL" : "addr is NULL");
    iov[limit - 1] = (struct iovec){fixture->memory, SIZE_MAX - 8};
    assert_fails(hmreg_mr_regv(domain, iov, limit, ALL, 0, 0, 0, mr, NULL), -EINVAL, "wraps");
}

/* ---- hmreg_mr_regattr ------------------------------------------------------------------- */

/* hmreg_mr_regattr() of good attributes with one member changed. */
#define WRONG(member, value, code, words)                                                          \
    do {                                                                                           \
        bad = good;                                                                                \
        bad.member = (value);                                                                      \
        assert_fails(hmreg_mr_regattr(domain, &bad, 0, mr), code, words);                          \
    } while (0)

REFUSED_CASE(regattr__wrong_attribute__refused)
{
    const struct iovec range = {fixture->memory, 16};
    const struct hmreg_segment segment = {.u.memory = range};
    const struct hmreg_mr_dmabuf dmabuf = {.len = 16};
    const struct hmreg_mr_attr good = {
        .size = sizeof(good), .iov = &range, .iov_count = 1, .access = ALL};
    struct hmreg_mr_attr bad;

    WRONG(size, 0, -EINVAL, "size of struct hmreg_mr_attr is 0");
    WRONG(size, sizeof(good) - 1, -EINVAL, "size of struct");
    WRONG(size, SIZE_MAX, -EINVAL, "size of struct");
    WRONG(iov, NULL, -EINVAL, "iov is NULL");
    WRONG(iov_count, 0, -EINVAL, "count is 0");
    WRONG(iov_count, 65, -EINVAL, "count is 65");
    WRONG(auth_key_size, 1, -EINVAL, "auth_key is NULL");
    WRONG(claim_iface, 3, -EINVAL, "claim_iface is 3");
    WRONG(claim_iface, -1, -EINVAL, "claim_iface is -1");
    WRONG(page_size, 4095, -EINVAL, "page_size is 4095");
    WRONG(page_size, SIZE_MAX, -EINVAL, "page_size");
    WRONG(dmabuf, &dmabuf, -EINVAL, "lacks HMREG_REG_DMABUF");
    WRONG(segments, &segment, -EINVAL, "attr->segments is set, and so is attr->iov");
    WRONG(segment_count, 1, -EINVAL, "attr->segments is set, and so is attr->iov");
    WRONG(ordering, 3, -EINVAL, "ordering is 3; accepted are 0 (default), 1 (strict), 2 (relaxed)");
    WRONG(atomics, 4, -EINVAL, "accepted are 0 (default), 1 (off), 2 (on), 3 (if possible)");
    WRONG(on_demand, 4711, -EINVAL, "on_demand is 4711; accepted are 0 (default)");
    WRONG(set_iova, 2, -EINVAL, "set_iova is 2; accepted are 0 and 1");
    WRONG(iova, 4096, -EINVAL, "iova is 0x1000, but set_iova is 0");
    WRONG(optional_access, 1, -HMREG_EBADFLAGS, "optional_access has unknown bits 0x1;");
    WRONG(provider_flags, 1, -HMREG_EBADFLAGS, "provider_flags has unknown bits 0x1;");
    WRONG(provider_flags, UINT64_C(1) << 61, -HMREG_EBADFLAGS, "; accepted are 0");
    bad = good;
    bad.claim_iface = 1;
    bad.iface = HMREG_IFACE_MAX + 1;
    assert_fails(hmreg_mr_regattr(domain, &bad, 0, mr), -EINVAL, "iface is 16");
    bad.claim_iface = 2;
    bad.claim_kind = HMREG_MEM_MANAGED;
    for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++) {
        bad.iface = (enum hmreg_iface)iface;
        assert_fails(hmreg_mr_regattr(domain, &bad, 0, mr), -EINVAL, "it must be device, or 0");
    }
    bad.claim_kind = HMREG_MEM_HOST;
    bad.claim_iface = 1;
    bad.device = -2;
    assert_fails(hmreg_mr_regattr(domain, &bad, 0, mr), -EINVAL, "device is -2");
    bad.device = 0;
    bad.iface = HMREG_IFACE_CUDA; /* the call must not look for its runtime */
    assert_fails(hmreg_mr_regattr(domain, &bad, 0, mr), -EINVAL, "iface cuda");
    bad.iface = HMREG_IFACE_SYSTEM;
    bad.device = 1;
    assert_fails(hmreg_mr_regattr(domain, &bad, 0, mr), -EINVAL, "device is 1");
    assert_fails(hmreg_mr_regattr(domain, NULL, 0, mr), -EINVAL, "attr is NULL");
}

#undef WRONG

/* Passes a dmabuf by attributes and, unless the error is in another member of them, by segments. */
static void dmabuf_fails(struct hmreg_domain *domain, struct hmreg_mr_dmabuf dmabuf, int code,
                         const char *words, struct hmreg_mr **mr)
{
    const struct hmreg_segment segment = {.kind = HMREG_SEGMENT_DMABUF, .u.dmabuf = dmabuf};
    const struct hmreg_mr_attr attr = {.size = sizeof(attr), .access = ALL, .dmabuf = &dmabuf};

    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_REG_DMABUF, mr), code, words);
    assert_fails(hmreg_mr_regsgl(domain, &segment, 1, ALL, 0, 0, 0, mr, NULL), code, words);
}

REFUSED_CASE(dmabuf__wrong_attribute__refused)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC), closed = dup(fd);
    const struct iovec range = {fixture->memory, 16};
    struct hmreg_mr_dmabuf dmabuf = {.fd = fd, .len = 16};
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .access = ALL};

    close(closed);
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_REG_DMABUF, mr), -EINVAL, "dmabuf is NULL");
    attr.dmabuf = &dmabuf;
    attr.iov = &range;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_REG_DMABUF, mr), -EINVAL, "iov is set");
    attr.iov = NULL;
    attr.iov_count = 1;
    assert_fails(hmreg_mr_regattr(domain, &attr, HMREG_REG_DMABUF, mr), -EINVAL, "iov is set");
    dmabuf_fails(domain, (struct hmreg_mr_dmabuf){.fd = fd}, -EINVAL, "len is 0", mr);
    dmabuf_fails(domain, (struct hmreg_mr_dmabuf){.fd = fd, .len = SIZE_MAX, .offset = 2}, -EINVAL,
                 "wraps", mr);
    dmabuf_fails(domain, (struct hmreg_mr_dmabuf){.fd = fd, .len = 16, .offset = UINT64_MAX - 8},
                 -EINVAL, "wraps", mr);
    dmabuf_fails(domain, (struct hmreg_mr_dmabuf){.fd = -1, .len = 16}, -EBADF, "fd -1", mr);
    dmabuf_fails(domain, (struct hmreg_mr_dmabuf){.fd = closed, .len = 16}, -EBADF,
                 "not an open descriptor", mr);
    close(fd);
}

/* ---- hmreg_mr_regsgl -------------------------------------------------------------------- */

/* Tries a list of segments by both calls that take one. */
static void segments_fail(struct hmreg_domain *domain, const struct hmreg_segment *list,
                          size_t count, const char *words, struct hmreg_mr **mr)
{
    const struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .segments = list, .segment_count = count, .access = ALL};

    assert_fails(hmreg_mr_regsgl(domain, list, count, ALL, 0, 0, 0, mr, NULL), -EINVAL, words);
    if (list || count)
        assert_fails(hmreg_mr_regattr(domain, &attr, 0, mr), -EINVAL, words);
}

REFUSED_CASE(regsgl__wrong_segments__inval)
{
    const struct hmreg_segment good = {.u.memory = {fixture->memory, 16}};
    const struct hmreg_mr_dmabuf dmabuf = {.len = 16};
    const struct hmreg_mr_attr both = {.size = sizeof(both),
                                       .segments = &good,
                                       .segment_count = 1,
                                       .access = ALL,
                                       .dmabuf = &dmabuf};
    struct hmreg_segment list[2] = {good, good};

#define WRONG(member, value, words)                                                                \
    do {                                                                                           \
        list[1] = good;                                                                            \
        list[1].member = (value);                                                                  \
        segments_fail(domain, list, 2, words, mr);                                                 \
    } while (0)

    segments_fail(domain, NULL, 2, "segments is NULL", mr);
    segments_fail(domain, list, 0, "count is 0", mr);
    segments_fail(domain, list, HMREG_SEGMENTS_MAX + 1, "count is 1025", mr);
    list[0].kind = 2;
    segments_fail(domain, list, 2, "segments[0].kind is 2", mr);
    list[0] = good;
    WRONG(kind, 2, "segments[1].kind is 2");
    WRONG(kind, UINT32_MAX, "segments[1].kind");
    WRONG(u.memory.iov_base, NULL, "segments[1]: addr is NULL");
    WRONG(u.memory.iov_len, 0, "segments[1]: len is 0");
    WRONG(u.memory.iov_len, SIZE_MAX, "segments[1]: addr");
#undef WRONG
    assert_fails(hmreg_mr_regattr(domain, &both, 0, mr), -EINVAL,
                 "attr->segments is set, and so is attr->dmabuf");
}

/* ---- other calls ------------------------------------------------------------------------ */

CASE(domain_open__wrong_config__refused)
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
        assert_fails(fixture->fabric->open_more(fixture, &bad, &domain), code, words);             \
    } while (0)

    WRONG(size, 0, -EINVAL, "size of struct hmreg_domain_config is 0");
    WRONG(size, sizeof(good) - 1, -EINVAL, "size of struct");
    WRONG(check[0], (enum hmreg_check)3, -EINVAL, "config->check[0] is 3");
    WRONG(check[HMREG_IFACE_MAX], HMREG_CHECK_ALWAYS, -EINVAL,
          "accepted are HMREG_CHECK_DEFAULT only");
    WRONG(size, SIZE_MAX, -EINVAL, "size of struct");
    WRONG(flags, HMREG_DOMAIN_SINGLE | HMREG_DOMAIN_PARTS, -HMREG_EBADFLAGS, "one of them");
    for (int bit = 4; bit < 32; bit++)
        if (!(fixture->fabric->domain_flags & 1u << bit))
            WRONG(flags, 1u << bit, -HMREG_EBADFLAGS, "config->flags");
    WRONG(order[0], HMREG_PATH_SYSTEM, -EINVAL, "config->order[0] is 1");
    WRONG(order[0], HMREG_PATH_COUNT, -EINVAL, "config->order[0] is 5");
    WRONG(order[0], (enum hmreg_path) - 1, -EINVAL, "config->order[0] is -1");
    WRONG(order[1], HMREG_PATH_DMABUF, -EINVAL, "config->order[1] is set after the list's end");
#undef WRONG
    bad = good;
    bad.order[0] = bad.order[2] = HMREG_PATH_MAPPED;
    bad.order[1] = HMREG_PATH_DMABUF;
    assert_fails(fixture->fabric->open_more(fixture, &bad, &domain), -EINVAL, "mapped twice");
    assert_fails(fixture->fabric->open_more(fixture, &later.config, &domain), -EINVAL,
                 "has a field set");
    assert_ptr_equal(domain, (void *)1);
    later.more[1] = 0;
    assert_ok(fixture->fabric->open_more(fixture, &later.config, &domain));
    assert_ok(hmreg_domain_close(domain));
}

CASE(domain_calls__wrong_argument__refused)
{
    struct hmreg_domain *domain = fixture->domain;

    assert_fails(hmreg_domain_bind(NULL, fixture, HMREG_BIND_REG_MR), -EINVAL, "domain");
    assert_fails(hmreg_domain_bind(domain, NULL, HMREG_BIND_REG_MR), -EINVAL, "object");
    assert_fails(hmreg_domain_bind(domain, fixture, 0), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_domain_bind(domain, fixture, HMREG_BIND_REG_MR | 1), -HMREG_EBADFLAGS,
                 "flags");
}

CASE(library_calls__wrong_argument__inval)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct hmreg_device_info device = {.size = sizeof(device)};
    struct hmreg_monitor_info monitor = {.size = sizeof(monitor)};
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib = fixture->lib;

    assert_fails(hmreg_runtime_query(NULL, HMREG_IFACE_CUDA, &runtime), -EINVAL, "lib is NULL");
    assert_fails(hmreg_runtime_query(lib, HMREG_IFACE_COUNT, &runtime), -EINVAL, "iface is 4");
    assert_fails(hmreg_device_query(lib, HMREG_IFACE_COUNT, 0, &device), -EINVAL, "iface is 4");
    assert_fails(hmreg_device_query(lib, HMREG_IFACE_CUDA, 0, NULL), -EINVAL, "out is NULL");
    assert_fails(hmreg_monitor_query(NULL, &monitor), -EINVAL, "lib is NULL");
    assert_fails(hmreg_query(NULL, fixture->memory, 1, &info), -EINVAL, "lib is NULL");
    assert_fails(hmreg_query(lib, NULL, 1, &info), -EINVAL, "addr is NULL");
    assert_fails(hmreg_query(lib, fixture->memory, 0, &info), -EINVAL, "len is 0");
    assert_fails(hmreg_query(lib, fixture->memory, SIZE_MAX, &info), -EINVAL, "wraps");
}

CASE(bind__wrong_argument__refused)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, 5);
    int object = 0;

    assert_fails(hmreg_mr_bind(NULL, &object, 0), -EINVAL, "mr is NULL");
    assert_fails(hmreg_mr_bind(mr, NULL, 0), -EINVAL, "object is NULL");
    for (int bit = 0; bit < 64; bit++)
        if (UINT64_C(1) << bit != HMREG_REMOTE_WRITE)
            assert_fails(hmreg_mr_bind(mr, &object, UINT64_C(1) << bit), -HMREG_EBADFLAGS, "flags");
    suite_close(fixture, mr);
}

CASE(refresh__outside_or_with_flags__refused)
{
    struct hmreg_mr *mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_REMOTE, 5);
    struct iovec beyond = {fixture->memory + 63, 2}, after = {fixture->memory + 64, 1},
                 empty = {fixture->memory, 0}, none = {NULL, 1}, last = {fixture->memory + 63, 1};

    assert_fails(hmreg_mr_refresh(NULL, NULL, 0, 0), -EINVAL, "mr is NULL");
    assert_fails(hmreg_mr_refresh(mr, NULL, 0, 1), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_refresh(mr, NULL, 1, 0), -EINVAL, "iov is NULL");
    assert_fails(hmreg_mr_refresh(mr, &last, 0, 0), -EINVAL, "count is 0");
    assert_fails(hmreg_mr_refresh(mr, &beyond, 1, 0), -EINVAL, "iov[0] is not inside the region");
    assert_fails(hmreg_mr_refresh(mr, &after, 1, 0), -EINVAL, "iov[0] is not inside the region");
    assert_fails(hmreg_mr_refresh(mr, &empty, 1, 0), -EINVAL, "len is 0");
    assert_fails(hmreg_mr_refresh(mr, &none, 1, 0), -EINVAL, "addr is NULL");
    assert_ok(hmreg_mr_refresh(mr, &last, 1, 0));
    suite_close(fixture, mr);
}

CASE(null__refused_or_without_effect)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_domain_info domain = {.size = sizeof(domain)};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    uint64_t addr, key;
    uint8_t bytes[8];
    size_t size = 8;

    assert_fails(hmreg_domain_query(NULL, &domain), -EINVAL, "domain");
    assert_fails(hmreg_domain_stats(NULL, &stats), -EINVAL, "domain");
    assert_fails(hmreg_domain_explain(NULL, 0, -1, &why), -EINVAL, "domain");
    assert_fails(hmreg_mr_query(NULL, &(struct hmreg_mr_info){0}), -EINVAL, "mr");
    assert_fails(hmreg_mr_piece(NULL, 0, &(struct hmreg_piece_info){0}), -EINVAL, "mr");
    assert_fails(hmreg_mr_raw_attr(NULL, &addr, bytes, &size, 0), -EINVAL, "mr");
    assert_fails(hmreg_domain_map_raw(NULL, 0, bytes, 8, &key, 0), -EINVAL, "domain");
    assert_fails(hmreg_domain_unmap_raw(NULL, 1), -EINVAL, "domain");
    assert_fails(hmreg_mr_enable(NULL), -EINVAL, "mr");
    assert_ok(hmreg_mr_close(NULL));
    hmreg_remote_close(NULL);
    assert_null(hmreg_mr_desc(NULL));
    assert_null(hmreg_mr_context(NULL));
    assert_true(hmreg_mr_key(NULL) == HMREG_KEY_NOTAVAIL);
}
