/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Registrations in the core: claims that disagree with the memory, keys, closing, composites, and
 * the creation of domains. */
#include "core/mr/region.h"

#include "core/base/error.h"
#include "core/remote/token.h"
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <sys/mman.h>

static struct script_fixture fixture;

static bool is_mapped(const void *addr)
{
    unsigned char resident;
    uintptr_t page = (uintptr_t)addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    return mincore((void *)page, 1, &resident) == 0;
}

/* ---- claims and mixtures ---------------------------------------------------------------- */

static int reg_claim(void *addr, enum hmreg_iface iface, int device, uint64_t flags,
                     struct hmreg_mr **mr)
{
    struct iovec iov = {addr, 16};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr),
        .iov = &iov,
        .iov_count = 1,
        .access = HMREG_SEND,
        .claim_iface = 1,
        .iface = iface,
        .device = device,
    };

    return hmreg_mr_regattr(fixture.domain, &attr, flags, mr);
}

TEST(claim__agrees_with_the_finding)
{
    static char host[64], pinned[64];

    script_open(&fixture, NULL, NULL);
    vendor_claim(HMREG_IFACE_ROCR, pinned, sizeof(pinned), HMREG_MEM_HOST_PINNED, 1);
    const struct {
        void *addr;
        enum hmreg_iface iface;
        int device;
        uint64_t flags;
    } cases[] = {
        {fixture.memory[1], HMREG_IFACE_CUDA, 1, 0},
        {fixture.memory[1], HMREG_IFACE_CUDA, HMREG_DEVICE_ANY, HMREG_HMEM_DEVICE_ONLY},
        {host, HMREG_IFACE_SYSTEM, HMREG_DEVICE_ANY, 0},
        {host, HMREG_IFACE_SYSTEM, 0, 0},
        {pinned, HMREG_IFACE_ROCR, 1, HMREG_HMEM_HOST_ALLOC},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_mr *mr;

        assert_ok(reg_claim(cases[i].addr, cases[i].iface, cases[i].device, cases[i].flags, &mr));
        assert_ok(hmreg_mr_close(mr));
    }
}

/* ---- host memory of which a runtime pinned a part ---------------------------------------- */

static void check_host(struct hmreg_mr *mr, const struct iovec *iov)
{
    const struct script_call *call = &script.calls[script.count - 1];
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(info.device, -1);
    assert_int_equal(info.path, HMREG_PATH_SYSTEM);
    assert_int_equal(call->path, HMREG_PATH_SYSTEM);
    assert_int_equal(call->count, 3);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(call->iov[i].iov_base, iov[i].iov_base);
    assert_ok(hmreg_mr_close(mr));
}

TEST(ranges__host_memory_and_some_of_it_pinned__the_systems)
{
    static char host[64], pinned[64], again[64];
    char *const orders[3][3] = {
        {host, pinned, again}, {pinned, host, again}, {pinned, again, host}};

    for (int i = 0; i < 6; i++) {
        enum hmreg_iface iface = i < 3 ? HMREG_IFACE_CUDA : HMREG_IFACE_ROCR;
        struct hmreg_segment segments[3];
        struct hmreg_mr *mr = NULL;
        struct iovec iov[3];

        script_open(&fixture, NULL, NULL);
        vendor_claim(iface, pinned, sizeof(pinned), HMREG_MEM_HOST_PINNED, 1);
        vendor_claim(iface, again, sizeof(again), HMREG_MEM_HOST_PINNED, 0);
        for (int j = 0; j < 3; j++) {
            iov[j] = (struct iovec){orders[i % 3][j], 64};
            segments[j] = (struct hmreg_segment){.kind = HMREG_SEGMENT_MEMORY};
            segments[j].u.memory = iov[j];
        }
        assert_ok(hmreg_mr_regv(fixture.domain, iov, 3, HMREG_SEND, 0, 0, 0, &mr, NULL));
        check_host(mr, iov);
        assert_ok(hmreg_mr_regsgl(fixture.domain, segments, 3, HMREG_SEND, 0, 0, 0, &mr, NULL));
        check_host(mr, iov);
        iov[1] = (struct iovec){fixture.memory[0], 64};
        assert_fails(hmreg_mr_regv(fixture.domain, iov, 3, HMREG_SEND, 0, 0, 0, &mr, NULL), -EINVAL,
                     "one region has one kind");
        test_finish();
    }
}

TEST(claim__disagrees_or_cannot_be__inval_before_the_fabric)
{
    static char host[64], pinned[64];

    script_open(&fixture, NULL, NULL);
    vendor_claim(HMREG_IFACE_ROCR, pinned, sizeof(pinned), HMREG_MEM_HOST_PINNED, 1);
    const struct {
        void *addr;
        enum hmreg_iface iface;
        int device;
        uint64_t flags;
        const char *words;
    } cases[] = {
        {fixture.memory[1], HMREG_IFACE_CUDA, 0, 0, "says 0, the memory is on 1"},
        {fixture.memory[1], HMREG_IFACE_SYSTEM, HMREG_DEVICE_ANY, 0,
         "says system, the memory is cuda"},
        {fixture.memory[1], HMREG_IFACE_ZE, 1, 0, "says ze, the memory is cuda"},
        {host, HMREG_IFACE_CUDA, 0, 0, "says cuda, the memory is system"},
        {host, HMREG_IFACE_SYSTEM, 1, 0, "device is 1"},
        {host, HMREG_IFACE_SYSTEM, -2, 0, "device is -2"},
        {pinned, HMREG_IFACE_SYSTEM, HMREG_DEVICE_ANY, 0, "the memory is rocr"},
        {fixture.memory[1], HMREG_IFACE_CUDA, 2, 0, "device is 2; cuda has 2 devices"},
        {fixture.memory[1], HMREG_IFACE_CUDA, -2, 0, "device is -2"},
        {fixture.memory[1], HMREG_IFACE_MAX + 1, 0, 0, "iface is 16"},
        {fixture.memory[1], HMREG_IFACE_COUNT, 0, 0, "says neuron, the memory is cuda"},
        {fixture.memory[1], (enum hmreg_iface) - 1, 0, 0, "iface is -1"},
        {fixture.memory[1], HMREG_IFACE_CUDA, 1, HMREG_HMEM_HOST_ALLOC, "HMREG_HMEM_HOST_ALLOC"},
        {host, HMREG_IFACE_SYSTEM, 0, HMREG_HMEM_DEVICE_ONLY, "HMREG_HMEM_DEVICE_ONLY"},
        {host, HMREG_IFACE_SYSTEM, 0, HMREG_HMEM_HOST_ALLOC, "HMREG_HMEM_HOST_ALLOC"},
        {pinned, HMREG_IFACE_ROCR, 1, HMREG_HMEM_DEVICE_ONLY, "HMREG_HMEM_DEVICE_ONLY"},
        {pinned, HMREG_IFACE_ROCR, 1, HMREG_HMEM_DEVICE_ONLY | HMREG_HMEM_HOST_ALLOC, "HMREG_HMEM"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_mr *mr;

        assert_reg_fails(
            reg_claim(cases[i].addr, cases[i].iface, cases[i].device, cases[i].flags, &mr), mr,
            -EINVAL, cases[i].words);
    }
    assert_int_equal(script.count, 0);
}

TEST(claim__absent_runtime__inval_and_why)
{
    static char host[64];
    struct hmreg_mr *mr;

    vendors_reset();
    script = (struct script){.times = -1};
    vendors[HMREG_IFACE_ZE].open_code = -ENOENT;
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(
        hmreg_domain_create(fixture.lib, &script_ops, &script_caps, NULL, NULL, &fixture.domain));
    assert_reg_fails(reg_claim(host, HMREG_IFACE_ZE, 0, 0, &mr), mr, -EINVAL, "open of ze failed");
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
}

TEST(regv__two_sorts_of_memory__inval)
{
    static char host[64], pinned[64];

    script_open(&fixture, NULL, NULL);
    vendor_claim(HMREG_IFACE_CUDA, pinned, sizeof(pinned), HMREG_MEM_HOST_PINNED, 0);
    void *const places[] = {host, pinned, fixture.memory[0], fixture.memory[1]};

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            struct iovec iov[2] = {{places[i], 8}, {(char *)places[j] + 16, 8}};
            struct hmreg_mr *mr;

            if (i == j || (i < 2 && j < 2)) /* host memory is host memory */
                continue;
            assert_reg_fails(hmreg_mr_regv(fixture.domain, iov, 2, HMREG_SEND, 0, 0, 0, &mr, NULL),
                             mr, -EINVAL, "iov[1] is");
        }
    assert_int_equal(script.count, 0);
}

/* ---- keys ------------------------------------------------------------------------------- */

TEST(key__in_use_here__enokey_before_the_fabric)
{
    static char host[64];
    struct hmreg_mr *mr, *second;

    script_open(&fixture, NULL, NULL);
    assert_ok(script_reg(&fixture, host, 64, &mr));
    assert_reg_fails(script_reg(&fixture, host, 64, &second), second, -HMREG_ENOKEY, "0x5");
    assert_int_equal(script.count, 1);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(script_reg(&fixture, host, 64, &mr));
    assert_ok(hmreg_mr_close(mr));
}

/* The library's own choice, as for cached regions. */
static int reg_any_key(void *addr, struct hmreg_mr **mr)
{
    struct iovec iov = {addr, 16};
    struct request request = {
        .iov = &iov, .count = 1, .access = HMREG_REMOTE_READ, .any_key = true};
    struct resolved found;
    struct hmreg_error_guard guard;
    struct hmreg_mr *made;
    struct layout layout;
    int rc;

    assert_ok(request_resolve(fixture.domain, &request, &found));
    layout_init(&layout, &request, &found);
    assert_ok(region_new(fixture.domain, &layout, &made));
    hmreg_error_guard(&guard);
    rc = region_fill(&layout, made);
    hmreg_error_unguard(&guard, !rc);
    if (rc)
        region_free(made);
    else
        *mr = made;
    return rc;
}

/* Each attempt with another key tries all paths; the reasons are those of the last attempt. */
TEST(any_key__collides_with_the_fabrics__another_is_tried)
{
    struct hmreg_error before;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    script.refuse[HMREG_PATH_DMABUF][0] = -EOPNOTSUPP;
    script.fail[HMREG_PATH_PEERMEM] = -HMREG_ENOKEY;
    script.times = 20;
    assert_fails(hmreg_mr_query(NULL, NULL), -EINVAL, "mr");
    before = *hmreg_last_error();
    assert_ok(reg_any_key(fixture.memory[0], &mr));
    assert_memory_equal(hmreg_last_error(), &before, sizeof(before));
    assert_int_equal(script.count, 2 * 21);
    for (unsigned i = 3; i < script.count; i += 2)
        assert_int_not_equal(script.calls[i].requested_key, script.calls[i - 2].requested_key);
    assert_int_equal(test_why_of(mr).refused, 1);
    assert_ok(region_destroy(mr));
}

TEST(any_key__collides_for_host_memory__another_is_tried_and_the_last_error_stays)
{
    static char host[64];
    struct hmreg_error before;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    script.fail[HMREG_PATH_SYSTEM] = -HMREG_ENOKEY;
    script.times = 3;
    assert_fails(hmreg_mr_query(NULL, NULL), -EINVAL, "mr");
    before = *hmreg_last_error();
    assert_ok(reg_any_key(host, &mr));
    assert_memory_equal(hmreg_last_error(), &before, sizeof(before));
    assert_int_equal(script.count, 4);
    assert_ok(region_destroy(mr));
}

/* ---- closing ---------------------------------------------------------------------------- */

TEST(close__busy__the_region_stays_as_it_was)
{
    struct hmreg_mr *mr, *other;

    script_open(&fixture, NULL, NULL);
    script.can[HMREG_PATH_DMABUF][0] = script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    assert_ok(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES, &mr));
    script.dereg = -EBUSY;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "dereg failed");
    assert_true(is_mapped((void *)(uintptr_t)test_info_of(mr).local_addr));
    assert_reg_fails(script_reg(&fixture, fixture.memory[0], FIXTURE_BYTES, &other), other,
                     -HMREG_ENOKEY, "0x5");
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "1 regions");
    script.dereg = 0;
    assert_ok(hmreg_mr_close(mr));
}

TEST(close__fabric_fails__its_error_and_the_region_is_gone)
{
    static char host[64];
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    assert_ok(script_reg(&fixture, host, 64, &mr));
    script.dereg = -EIO;
    assert_fails(hmreg_mr_close(mr), -EIO, "dereg failed");
    script.dereg = 0;
    assert_ok(script_reg(&fixture, host, 64, &mr));
    assert_ok(hmreg_mr_close(mr));
}

/* ---- composites ------------------------------------------------------------------------- */

static int reg_two(char *memory, struct hmreg_mr **mr)
{
    struct hmreg_segment segments[2] = {
        {.kind = HMREG_SEGMENT_MEMORY, .u.memory = {memory, 16}},
        {.kind = HMREG_SEGMENT_MEMORY, .u.memory = {memory + 32, 16}},
    };

    return hmreg_mr_regsgl(fixture.domain, segments, 2, HMREG_ACCESS_REMOTE, 0, 5, 0, mr, NULL);
}

TEST(composite__second_piece_busy__only_close_is_left)
{
    struct hmreg_piece_info segment = {.size = sizeof(segment)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;
    uint8_t token[512];
    size_t size = sizeof(token);

    script_open(&fixture, NULL, NULL);
    assert_ok(reg_two(fixture.memory[0], &mr));
    script.dereg = -EBUSY;
    script.dereg_index = 1;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "dereg failed");
    assert_ok(hmreg_mr_query(mr, &info)); /* it has not begun to close */
    script.dereg_index = 2;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "dereg failed");
    assert_fails(hmreg_mr_query(mr, &info), -EINVAL, "partly closed");
    for (size_t i = 0; i < 2; i++)
        assert_fails(hmreg_mr_piece(mr, i, &segment), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_explain(mr, &why), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_pack(mr, token, &size), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_bind(mr, &fixture, 0), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_enable(mr), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_refresh(mr, NULL, 0, 0), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_raw_attr(mr, NULL, token, &size, 0), -EINVAL, "partly closed");
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_fails(hmreg_mr_close(mr), -EBUSY, "dereg failed");
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "1 regions");
    script.dereg = 0;
    assert_ok(hmreg_mr_close(mr));
}

/* The first piece is registered by then. */
TEST(composite__second_piece_fails__nothing_stays)
{
    static const enum hmreg_path paths[] = {HMREG_PATH_DMABUF, HMREG_PATH_MAPPED};

    for (int i = 0; i < 2; i++) {
        struct hmreg_mr *mr;

        script_open(&fixture, NULL, NULL);
        if (paths[i] == HMREG_PATH_MAPPED)
            script.can[HMREG_PATH_DMABUF][0] = script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
        script.fail[paths[i]] = -EIO;
        script.fail_index = 2;
        assert_reg_fails(reg_two(fixture.memory[0], &mr), mr, -EIO, "failed");
        assert_int_equal(script.count, 2);
        assert_int_equal(script_last()->path, paths[i]);
        assert_ok(reg_two(fixture.memory[0], &mr)); /* the requested key is free again */
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
}

/* ---- domains ---------------------------------------------------------------------------- */

/* The peer finds each byte of the region's ranges, which have 8 bytes each. */
static void check_token(const struct hmreg_mr *mr, const struct iovec *iov, unsigned count)
{
    struct hmreg_remote *remote;
    uint8_t token[4096];
    size_t size = sizeof(token);
    uint64_t addr, key;

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(fixture.domain, token, size, &remote));
    for (unsigned i = 0; i < count; i++) {
        assert_ok(hmreg_remote_addr(remote, 8 * i + 3, 5, &addr, &key));
        assert_int_equal(addr, (uintptr_t)iov[i].iov_base + 3);
        assert_int_equal(key, hmreg_mr_key(mr));
    }
    assert_fails(hmreg_remote_addr(remote, 8 * count - 1, 2, &addr, &key), -ERANGE, "outside");
    hmreg_remote_close(remote);
    size = sizeof(token);
    assert_ok(hmreg_mr_pack_range(mr, (char *)iov[count - 1].iov_base + 2, 6, token, &size));
    assert_ok(hmreg_remote_open(fixture.domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 1, 4, &addr, &key));
    assert_int_equal(addr, (uintptr_t)iov[count - 1].iov_base + 3);
    hmreg_remote_close(remote);
}

/* A fabric may take more ranges than a token that older peers read can name. */
TEST(domain__fabric_takes_a_thousand_ranges__64_are_offered)
{
    struct provider_caps caps = script_caps;
    struct iovec iov[TOKEN_FEW_SEGMENTS + 1];
    static char host[TOKEN_FEW_SEGMENTS + 1][16];
    struct hmreg_mr *mr;

    caps.iov_limit = 1000;
    script_open(&fixture, &caps, NULL);
    assert_int_equal(test_domain_info(fixture.domain).iov_limit, TOKEN_FEW_SEGMENTS);
    for (int i = 0; i <= TOKEN_FEW_SEGMENTS; i++)
        iov[i] = (struct iovec){host[i], 8};
    assert_reg_fails(hmreg_mr_regv(fixture.domain, iov, TOKEN_FEW_SEGMENTS + 1, HMREG_ACCESS_REMOTE,
                                   0, 0, 0, &mr, NULL),
                     mr, -EINVAL, "count is 65");
    assert_ok(hmreg_mr_regv(fixture.domain, iov, TOKEN_FEW_SEGMENTS, HMREG_ACCESS_REMOTE, 0, 0, 0,
                            &mr, NULL));
    check_token(mr, iov, TOKEN_FEW_SEGMENTS);
    assert_ok(hmreg_mr_close(mr));
}

TEST(domain_create__refused__the_providers_part_is_destroyed)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = 1u << 30};
    struct hmreg_domain *domain = (void *)1;
    struct hmreg *lib;

    script = (struct script){.times = -1};
    assert_ok(hmreg_open(NULL, &lib));
    assert_fails(hmreg_domain_create(NULL, &script_ops, &script_caps, NULL, NULL, &domain), -EINVAL,
                 "lib");
    assert_int_equal(script.destroys, 1);
    assert_fails(hmreg_domain_create(lib, &script_ops, &script_caps, NULL, NULL, NULL), -EINVAL,
                 "out");
    assert_int_equal(script.destroys, 2);
    assert_fails(hmreg_domain_create(lib, &script_ops, &script_caps, NULL, &config, &domain),
                 -HMREG_EBADFLAGS, "flags");
    assert_int_equal(script.destroys, 3);
    assert_ptr_equal(domain, (void *)1);
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
