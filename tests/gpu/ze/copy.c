/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Copies by Level Zero's engines, and memory for tools and tests. */
#include "tests/gpu/ze/bench.h"

#include <errno.h>
#include <stdlib.h>

static void copy__host_and_device__at_odd_places(void **state)
{
    struct hmem *self = bench_open();
    uint64_t device = bench_alloc(self, 0, HMREG_MEM_DEVICE, 20000);
    unsigned char out[9999], in[9999];

    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = pattern(i);
    memset(bench_peek(device), 0xaa, 20000);
    assert_ok(ze->copy(self, device + 5001, (uintptr_t)out, sizeof(out)));
    assert_memory_equal(bench_peek(device) + 5001, out, sizeof(out));
    assert_int_equal(bench_peek(device)[5000], 0xaa);
    assert_int_equal(bench_peek(device)[15000], 0xaa);
    memset(in, 0, sizeof(in));
    assert_ok(ze->copy(self, (uintptr_t)in, device + 5001, sizeof(in)));
    assert_memory_equal(in, out, sizeof(out));
    bench_free(self, device, HMREG_MEM_DEVICE);
    ze->close(self);
}

static void copy__every_pair_of_kinds__moves_the_bytes(void **state)
{
    static const enum hmreg_mem_kind kinds[] = {HMREG_MEM_DEVICE, HMREG_MEM_DEVICE,
                                                HMREG_MEM_HOST_PINNED, HMREG_MEM_MANAGED};
    enum { COUNT = 4, LEN = 5000 };
    struct hmem *self = bench_open();
    uint64_t addrs[COUNT];

    for (int i = 0; i < COUNT; i++)
        addrs[i] = bench_alloc(self, i % 2, kinds[i], LEN);
    for (int from = 0; from < COUNT; from++) {
        for (int to = 0; to < COUNT; to++) {
            if (to == from)
                continue;
            memset(bench_peek(addrs[from]), 16 * from + to, LEN);
            memset(bench_peek(addrs[to]), 0, LEN);
            assert_ok(ze->copy(self, addrs[to] + 3, addrs[from] + 9, LEN - 9));
            assert_int_equal(bench_peek(addrs[to])[2], 0);
            assert_int_equal(bench_peek(addrs[to])[3], 16 * from + to);
            assert_int_equal(bench_peek(addrs[to])[LEN - 7], 16 * from + to);
            assert_int_equal(bench_peek(addrs[to])[LEN - 6], 0);
        }
    }
    for (int i = 0; i < COUNT; i++)
        bench_free(self, addrs[i], kinds[i]);
    ze->close(self);
}

/* The devices do not reach one another: more than one piece goes by way of the host. */
static void copy__between_devices__of_several_mebibytes(void **state)
{
    size_t len = 3 * MIB + 4321;
    struct hmem *self = bench_open();
    uint64_t from = bench_alloc(self, 0, HMREG_MEM_DEVICE, len);
    uint64_t to = bench_alloc(self, 1, HMREG_MEM_DEVICE, len);
    unsigned char *source = bench_peek(from);

    for (size_t i = 0; i < len; i++)
        source[i] = pattern(i);
    assert_ok(ze->copy(self, to + 1, from + 1, len - 2));
    assert_memory_equal(bench_peek(to) + 1, source + 1, len - 2);
    assert_int_equal(bench_peek(to)[0], 0);
    assert_int_equal(bench_peek(to)[len - 1], 0);
    bench_free(self, from, HMREG_MEM_DEVICE);
    bench_free(self, to, HMREG_MEM_DEVICE);
    ze->close(self);
}

/* Host memory on both sides needs no engine. */
static void copy__host_memory__without_the_driver(void **state)
{
    struct hmem *self = bench_open();
    uint64_t pinned = bench_alloc(self, 0, HMREG_MEM_HOST_PINNED, 100);
    char out[100] = "to pinned memory";

    bench_control(0)->reset();
    assert_ok(ze->copy(self, pinned, (uintptr_t)out, sizeof(out)));
    assert_string_equal((char *)(uintptr_t)pinned, "to pinned memory");
    assert_int_equal(bench_control(0)->calls("zeCommandListCreateImmediate"), 0);
    bench_free(self, pinned, HMREG_MEM_HOST_PINNED);
    ze->close(self);
}

static void copy__no_memory_there__eio(void **state)
{
    struct hmem *self = bench_open();
    uint64_t device = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);

    assert_fails(ze->copy(self, device, 4096, 64), -EIO, "the copy of 64 bytes from 0x1000");
    assert_int_equal(hmreg_last_error()->vendor_code, ZE_RESULT_ERROR_INVALID_ARGUMENT);
    assert_fails(ze->copy(self, device + 4000, device, 97), -EIO, "the copy of 97 bytes");
    bench_free(self, device, HMREG_MEM_DEVICE);
    ze->close(self);
}

/* Every list that was made is gone, whatever happened. */
static void copy__lists__all_destroyed(void **state)
{
    struct hmem *self = bench_open();
    const struct fake_control *fake = bench_control(0);
    uint64_t device = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4096);
    char host[64] = "";

    fake->reset();
    assert_ok(ze->copy(self, device, (uintptr_t)host, 64));
    assert_fails(ze->copy(self, device, 4096, 64), -EIO, "copy");
    assert_int_equal(fake->calls("zeCommandListCreateImmediate"), 2);
    assert_int_equal(fake->calls("zeCommandListDestroy"), 2);
    bench_free(self, device, HMREG_MEM_DEVICE);
    ze->close(self);
}

static void alloc__too_much__enomem(void **state)
{
    static const enum hmreg_mem_kind kinds[] = {HMREG_MEM_DEVICE, HMREG_MEM_HOST_PINNED,
                                                HMREG_MEM_MANAGED};
    struct hmem *self = bench_open();
    void *made = (void *)7;

    for (int i = 0; i < 3; i++) {
        assert_fails(ze->alloc(self, 0, kinds[i], SIZE_MAX / 2, &made), -ENOMEM,
                     hmreg_mem_kind_name(kinds[i]));
        assert_fails(ze->alloc(self, 1, kinds[i], (16ul << 30) + 1, &made), -ENOMEM, "device 1");
        assert_ptr_equal(made, (void *)7);
    }
    ze->close(self);
}

static void alloc__pageable_host_memory__eopnotsupp(void **state)
{
    struct hmem *self = bench_open();
    void *made = (void *)7;

    assert_fails(ze->alloc(self, 0, HMREG_MEM_HOST, 4096, &made), -EOPNOTSUPP, "pageable");
    assert_ptr_equal(made, (void *)7);
    ze->close(self);
}

static void alloc__device_without_shared_memory__eopnotsupp(void **state)
{
    struct hmem *self = bench_open();
    void *made = (void *)7;

    bench_fail(bench_control(0), "zeMemAllocShared", ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, 0, 1);
    assert_fails(ze->alloc(self, 0, HMREG_MEM_MANAGED, 4096, &made), -EOPNOTSUPP,
                 "device 0 has no managed memory");
    bench_control(0)->reset();
    assert_ptr_equal(made, (void *)7);
    ze->close(self);
}

static void free__foreign_memory__its_error(void **state)
{
    struct hmem *self = bench_open();
    struct app app;
    uint64_t theirs;
    int mine = 0;

    assert_fails(ze->free(self, &mine, HMREG_MEM_DEVICE), -EFAULT, "is no memory of Level Zero");
    app_open(&app, 0);
    theirs = app_alloc(&app, app.devices[0], 4096);
    assert_fails(ze->free(self, (void *)(uintptr_t)theirs, HMREG_MEM_DEVICE), -EIO, "zeMemFree");
    app_free(&app, theirs);
    app_close(&app);
    ze->close(self);
}

static void alloc__and_free__nothing_left(void **state)
{
    static const enum hmreg_mem_kind kinds[] = {HMREG_MEM_DEVICE, HMREG_MEM_HOST_PINNED,
                                                HMREG_MEM_MANAGED};
    static const size_t lens[] = {1, 100, 4095, 4096, 4097, 1000000};
    struct hmem *self = bench_open();

    for (int k = 0; k < 3; k++) {
        for (int l = 0; l < 6; l++) {
            struct hmem_range range = {0};
            uint64_t addr = bench_alloc(self, l % 2, kinds[k], lens[l]);

            assert_ok(ze->resolve(self, addr, lens[l], &range));
            assert_int_equal(range.kind, kinds[k]);
            assert_int_equal(range.alloc_len, lens[l]);
            bench_free(self, addr, kinds[k]);
        }
    }
    assert_int_equal(bench_control(0)->allocations(), 0);
    ze->close(self);
}

TEST_MAIN(TEST(copy__host_and_device__at_odd_places),
          TEST(copy__every_pair_of_kinds__moves_the_bytes),
          TEST(copy__between_devices__of_several_mebibytes),
          TEST(copy__host_memory__without_the_driver), TEST(copy__no_memory_there__eio),
          TEST(copy__lists__all_destroyed), TEST(alloc__too_much__enomem),
          TEST(alloc__pageable_host_memory__eopnotsupp),
          TEST(alloc__device_without_shared_memory__eopnotsupp),
          TEST(free__foreign_memory__its_error), TEST(alloc__and_free__nothing_left))
