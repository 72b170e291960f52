/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Covering gets of CUDA's memory: virtual memory whole, across its handles, and what happens where
 * the driver exports the whole not.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/support/queries.h"

#include <hmreg/loopback.h>

#define SEGMENTS 4
#define EXPORT   "cuMemGetHandleForAddressRange"

static struct fixture {
    struct bench bench;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    uint64_t addr;  /* SEGMENTS granules of addresses */
    size_t granule; /* bytes */
} fixture;

static void close_fixture(void)
{
    if (!fixture.lib)
        return;
    CU(cu.unmap(fixture.addr, SEGMENTS * fixture.granule));
    CU(cu.unreserve(fixture.addr, SEGMENTS * fixture.granule));
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    bench_end(&fixture.bench);
    fixture.lib = NULL;
}

/* Maps segment i on device i / second_from. */
static void open_fixture(unsigned second_from)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_CUDA)};
    struct hmreg_domain_config cover = {
        .size = sizeof(cover), .order = {HMREG_PATH_MAPPED}, .cover = HMREG_COVER_ALLOCATION};

    close_fixture();
    driver_need_devices(2);
    fixture.bench = bench_begin();
    test_after(close_fixture);
    assert_ok(hmreg_open(&config, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &cover, &fixture.domain));
    fixture.granule = cu_granule();
    fixture.addr = cu_reserve(SEGMENTS * fixture.granule);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct cuda_memory_prop prop = prop_on((int)(i / second_from));

        cu_map(fixture.addr + i * fixture.granule, fixture.granule, &prop);
    }
    cu.fake->reset();
}

/* Gets `len` bytes at the start of a segment. The region must be of `count` segments from `first`
 * on; count 0: of these bytes. */
static void check_get_of(unsigned segment, size_t len, unsigned first, unsigned count)
{
    uint64_t addr = fixture.addr + segment * fixture.granule;
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture.domain, (void *)(uintptr_t)addr, len, HMREG_ACCESS_LOCAL, &mr));
    assert_int_equal(test_info_of(mr).addr, count ? fixture.addr + first * fixture.granule : addr);
    assert_int_equal(test_info_of(mr).len, count ? count * fixture.granule : len);
    hmreg_mr_put(mr);
}

static void check_get(unsigned segment, unsigned first, unsigned count)
{
    check_get_of(segment, 100, first, count);
}

TEST(cover__virtual_memory__whole_across_its_handles)
{
    open_fixture(SEGMENTS);
    check_get(2, 0, SEGMENTS);
    check_get(0, 0, SEGMENTS);
    assert_int_equal(test_stats_of(fixture.domain).misses, 1);
    assert_int_equal(cu.fake->calls(EXPORT), 1);
}

/* A segment, two of them, and all. */
TEST(cover__get_of_whole_segments__whole_across_its_handles)
{
    for (unsigned count = 1; count <= SEGMENTS; count *= 2) {
        open_fixture(SEGMENTS);
        check_get_of(SEGMENTS - count, count * fixture.granule, 0, SEGMENTS);
    }
}

TEST(cover__virtual_memory_ends_in_part__got_anew)
{
    struct cuda_memory_prop prop;

    open_fixture(SEGMENTS);
    check_get(2, 0, SEGMENTS);
    CU(cu.unmap(fixture.addr, fixture.granule));
    check_get(1, 1, SEGMENTS - 1);
    prop = prop_on(0);
    cu_map(fixture.addr, fixture.granule, &prop);
}

TEST(cover__of_two_devices__the_part_on_the_same)
{
    open_fixture(SEGMENTS / 2);
    check_get(1, 0, SEGMENTS / 2);
}

#define PLACES 8 /* granules of addresses, each mapped on device 0 or 1, or not (-1) */

static void map_places(uint64_t base, int *devices)
{
    for (int i = 0; i < PLACES; i++) {
        struct cuda_memory_prop prop;

        devices[i] = random() % 6 ? random() % 4 == 0 : -1;
        if (devices[i] < 0)
            continue;
        prop = prop_on(devices[i]);
        cu_map(base + (size_t)i * fixture.granule, fixture.granule, &prop);
    }
}

static void unmap_places(uint64_t base, const int *devices)
{
    for (int i = 0; i < PLACES; i++)
        if (devices[i] >= 0)
            CU(cu.unmap(base + (size_t)i * fixture.granule, fixture.granule));
}

/* Gets a part that begins in place `first`, whose device has [begin, end) around it. */
static void check_part(uint64_t base, size_t first, size_t begin, size_t end)
{
    size_t granule = fixture.granule, skip = random() % 2 ? 4096 : 0;
    size_t rest = (end - first) * granule - skip, len = random() % 2 ? 100 : rest;
    void *addr = (void *)(uintptr_t)(base + first * granule + skip);
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture.domain, addr, len, HMREG_ACCESS_LOCAL, &mr));
    assert_int_equal(test_info_of(mr).addr, base + begin * granule);
    assert_int_equal(test_info_of(mr).len, (end - begin) * granule);
    hmreg_mr_put(mr);
}

TEST(cover__random_mappings__all_of_the_same_device)
{
    int devices[PLACES];
    uint64_t base;

    srandom(1);
    open_fixture(SEGMENTS);
    base = cu_reserve(PLACES * fixture.granule);
    for (unsigned long round = test_times(300); round; round--) {
        size_t first = (size_t)random() % PLACES, begin = first, end = first;

        map_places(base, devices);
        while (begin && devices[begin - 1] == devices[first])
            begin--;
        while (end < PLACES && devices[end] == devices[first])
            end++;
        if (devices[first] == 0) /* the context's device */
            check_part(base, first, begin, end);
        unmap_places(base, devices);
    }
    CU(cu.unreserve(base, PLACES * fixture.granule));
}

TEST(cover__whole_refused__segment_then_the_range)
{
    open_fixture(SEGMENTS);
    (cu.fake->fail)(EXPORT, 2, 0, 1); /* out of memory */
    check_get(1, 1, 1);
    (cu.fake->fail)(EXPORT, 2, 0, 2);
    check_get(3, 0, 0);
    assert_int_equal(test_stats_of(fixture.domain).failures, 0);
    assert_int_equal(test_stats_of(fixture.domain).evictions, 0);
    assert_int_equal(test_stats_of(fixture.domain).regions, 2);
}

TEST_MAIN()
