/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sleep and wake of virtual memory, as inference engines do it: the physical memory is unmapped and
 * released, and other memory is mapped at the same addresses, in other pieces.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/support/queries.h"

#include <hmreg/hibernate.h>
#include <hmreg/loopback.h>
#include <hmreg/suspend.h>

#define GRANULES 4

static struct fixture {
    struct bench bench;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    uint64_t addr;
    size_t len;
    unsigned long virtuals; /* without physical memory */
} fixture;

/* Maps the range by so many allocations. */
static void map(unsigned pieces)
{
    struct cuda_memory_prop prop = prop_on(0);
    size_t len = fixture.len / pieces;

    for (unsigned i = 0; i < pieces; i++)
        cu_map(fixture.addr + i * len, len, &prop);
}

static void unmap(void)
{
    CU(cu.unmap(fixture.addr, fixture.len));
    assert_int_equal(cu.virtuals(), fixture.virtuals);
}

static void close_fixture(void)
{
    unmap();
    CU(cu.unreserve(fixture.addr, fixture.len));
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    bench_end(&fixture.bench);
}

static void open_fixture(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_CUDA)};
    struct hmreg_domain_config mapped = {
        .size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}, .flags = HMREG_DOMAIN_PARTS};

    driver_need_fake();
    fixture.bench = bench_begin();
    test_after(close_fixture);
    assert_ok(hmreg_open(&config, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &mapped, &fixture.domain));
    fixture.len = GRANULES * cu_granule();
    fixture.addr = cu_reserve(fixture.len);
    fixture.virtuals = cu.virtuals();
    map(GRANULES);
}

static void write_and_check(const struct hmreg_mr *mr, const char *text)
{
    struct hmreg_remote *remote = NULL;
    char in[16] = "", out[16] = "";

    snprintf(out, sizeof(out), "%s", text);
    remote = test_remote_of(fixture.domain, mr);
    for (uint64_t offset = 64; offset < fixture.len; offset += fixture.len / GRANULES) {
        uint64_t addr, key;

        assert_ok(hmreg_remote_addr(remote, offset, sizeof(out), &addr, &key));
        assert_ok(hmreg_loopback_write(remote, out, sizeof(out), NULL, addr, key));
        assert_ok(hmreg_copy(fixture.lib, in, as_pointer(fixture.addr + offset), sizeof(in)));
        assert_string_equal(in, text);
    }
    hmreg_remote_close(remote);
}

static void open_with_regions(struct hmreg_mr **explicit, struct hmreg_mr **held)
{
    open_fixture();
    assert_ok(hmreg_mr_reg(fixture.domain, as_pointer(fixture.addr), fixture.len,
                           HMREG_ACCESS_REMOTE, 0, 5, 0, explicit, NULL));
    assert_ok(hmreg_mr_get(fixture.domain, as_pointer(fixture.addr), fixture.len,
                           HMREG_ACCESS_REMOTE, held));
}

TEST(virtual_memory__slept_and_mapped_in_other_pieces__reached)
{
    static const unsigned pieces[] = {GRANULES, 1, 2, GRANULES};
    struct hmreg_mr *explicit = NULL, *held = NULL;

    open_with_regions(&explicit, &held);
    for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        assert_ok(hmreg_suspend(fixture.lib, as_pointer(fixture.addr), fixture.len));
        unmap();
        map(pieces[i]);
        assert_ok(hmreg_resume(fixture.lib, as_pointer(fixture.addr), fixture.len, NULL));
        write_and_check(explicit, "explicit");
        write_and_check(held, "held");
    }
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
}

/* The second piece is on no device when the first try to resume comes to it. */
TEST(resume__memory_in_part__still_suspended)
{
    struct hmreg_mr *explicit = NULL;
    struct cuda_memory_prop prop = prop_on(0);

    open_fixture();
    assert_ok(hmreg_mr_reg(fixture.domain, as_pointer(fixture.addr), fixture.len,
                           HMREG_ACCESS_REMOTE, 0, 5, 0, &explicit, NULL));
    assert_ok(hmreg_suspend(fixture.lib, as_pointer(fixture.addr), fixture.len));
    unmap();
    cu_map(fixture.addr, fixture.len / 2, &prop);
    assert_fails(hmreg_resume(fixture.lib, as_pointer(fixture.addr), fixture.len, NULL), -ERANGE,
                 "");
    assert_int_equal(hmreg_mr_key(explicit), HMREG_KEY_NOTAVAIL);
    cu_map(fixture.addr + fixture.len / 2, fixture.len / 2, &prop);
    assert_ok(hmreg_resume(fixture.lib, as_pointer(fixture.addr), fixture.len, NULL));
    write_and_check(explicit, "whole");
    assert_ok(hmreg_mr_close(explicit));
}

/* ---- hibernating ------------------------------------------------------------------------ */

static int sleep_memory(void)
{
    return hmreg_suspend(fixture.lib, as_pointer(fixture.addr), fixture.len);
}

static int wake_memory(void)
{
    return hmreg_resume(fixture.lib, as_pointer(fixture.addr), fixture.len, NULL);
}

static int sleep_fabric(void)
{
    return hmreg_hibernate(fixture.lib);
}

static int wake_fabric(void)
{
    return hmreg_thaw(fixture.lib, NULL);
}

/* What cuda-checkpoint does: the memory is unmapped, and comes back at the same addresses. */
static int checkpoint(void)
{
    unmap();
    map(GRANULES);
    return 0;
}

TEST(hibernate__memory_unmapped_and_mapped_again__reached)
{
    int (*const orders[][5])(void) = {
        {sleep_fabric, checkpoint, wake_fabric},
        {sleep_memory, sleep_fabric, checkpoint, wake_fabric, wake_memory},
        {sleep_memory, sleep_fabric, checkpoint, wake_memory, wake_fabric},
        {sleep_fabric, sleep_memory, checkpoint, wake_memory, wake_fabric},
        {sleep_fabric, sleep_memory, checkpoint, wake_fabric, wake_memory},
    };
    struct hmreg_mr *explicit = NULL, *held = NULL;

    open_with_regions(&explicit, &held);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        for (size_t j = 0; j < 5 && orders[i][j]; j++)
            assert_ok(orders[i][j]());
        write_and_check(explicit, "explicit");
        write_and_check(held, "held");
    }
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
}

/* cuda-checkpoint has not mapped all yet. */
TEST(thaw__memory_in_part__again_once_it_is_there)
{
    struct cuda_memory_prop prop = prop_on(0);
    struct hmreg_mr *explicit = NULL;

    open_fixture();
    assert_ok(hmreg_mr_reg(fixture.domain, as_pointer(fixture.addr), fixture.len,
                           HMREG_ACCESS_REMOTE, 0, 5, 0, &explicit, NULL));
    assert_ok(sleep_fabric());
    unmap();
    assert_fails(wake_fabric(), -EFAULT, "without memory");
    cu_map(fixture.addr, fixture.len / 2, &prop);
    assert_fails(wake_fabric(), -ERANGE, "1 regions");
    cu_map(fixture.addr + fixture.len / 2, fixture.len / 2, &prop);
    assert_ok(wake_fabric());
    write_and_check(explicit, "whole");
    assert_ok(hmreg_mr_close(explicit));
}

TEST_MAIN()
