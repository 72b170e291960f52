/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a range is: its fields, the bounds of its allocation, addresses of other memory, and the
 * identity, which changes whenever the memory does.
 */
#include "tests/gpu/gpu.h"

#include <sys/mman.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- fields ----------------------------------------------------------------------------- */

/* All but host_addr, which depends on the address. */
static void check_same(const struct hmem_range *part, const struct hmem_range *whole)
{
    assert_int_equal(part->device, whole->device);
    assert_int_equal(part->kind, whole->kind);
    assert_int_equal(part->alloc_base, whole->alloc_base);
    assert_int_equal(part->alloc_len, whole->alloc_len);
    assert_int_equal(part->identity, whole->identity);
    assert_int_equal(part->segments, whole->segments);
    assert_int_equal(part->read_only, whole->read_only);
    assert_int_equal(part->anonymous, whole->anonymous);
    assert_int_equal(part->exportable, whole->exportable);
}

static void check_inside(struct hmem *self, const struct hmem_range *whole)
{
    const size_t cuts[][2] = {{0, 1}, {1, 1}, {4095, 2}, {12345, 54321}, {whole->alloc_len - 1, 1}};

    for (size_t i = 0; i < COUNT(cuts); i++) {
        struct hmem_range part = gpu_resolve(self, whole->alloc_base + cuts[i][0], cuts[i][1]);

        check_same(&part, whole);
        assert_int_equal(part.host_addr, whole->host_addr ? whole->host_addr + cuts[i][0] : 0);
        assert_int_equal(gpu_identity(self, whole->alloc_base + cuts[i][0], cuts[i][1]),
                         whole->identity);
    }
}

TEST(resolve__device_memory__every_field)
{
    struct hmem *self = gpu.begin();

    for (int i = 0; i < gpu.devices(); i++) {
        uint64_t addr = gpu.alloc(i, HMREG_MEM_DEVICE, 3 * MIB + 7);
        struct hmem_range range = gpu_resolve(self, addr, 3 * MIB + 7);
        struct hmem_device device;

        gpu.ops->device(self, i, &device);
        assert_int_equal(range.device, i);
        assert_int_equal(range.kind, HMREG_MEM_DEVICE);
        assert_int_equal(range.alloc_base, addr);
        assert_int_equal(range.alloc_len, 3 * MIB + 7);
        assert_int_equal(range.segments, 1);
        assert_int_equal(range.host_addr, 0);
        assert_int_equal(range.exportable, device.dmabuf);
        check_inside(self, &range);
        gpu.free(addr, HMREG_MEM_DEVICE);
    }
    gpu.end(self);
}

/* Pinned and managed memory: the CPU reaches it. */
TEST(resolve__memory_of_the_host__at_its_address)
{
    struct hmem *self = gpu.begin();

    for (unsigned k = 1; k < gpu.kinds; k++) {
        uint64_t addr = gpu.alloc(0, gpu_kinds[k], MIB);
        struct hmem_range range = gpu_resolve(self, addr, MIB);

        assert_int_equal(range.device, gpu_kinds[k] == HMREG_MEM_MANAGED ? 0 : gpu.pinned_device);
        assert_int_equal(range.kind, gpu_kinds[k]);
        assert_int_equal(range.alloc_base, addr);
        assert_int_equal(range.alloc_len, MIB);
        assert_int_equal(range.host_addr, addr);
        assert_false(range.exportable);
        check_inside(self, &range);
        gpu_check_leaves(self, addr + 1, MIB, addr + MIB);
        memset((void *)(uintptr_t)addr, 1, MIB);
        gpu.free(addr, gpu_kinds[k]);
    }
    gpu.end(self);
}

/* ---- bounds ----------------------------------------------------------------------------- */

TEST(resolve__memory_of_the_process__not_mine)
{
    static char data[64];
    struct hmem *self = gpu.begin();
    char *heap = malloc(64), stack[64];
    void *unmapped = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint64_t addrs[] = {(uintptr_t)data,     (uintptr_t)heap, (uintptr_t)stack,
                              (uintptr_t)unmapped, (uintptr_t)&gpu, 1,
                              UINT64_MAX - 64};

    munmap(unmapped, 4096);
    for (size_t i = 0; i < COUNT(addrs); i++)
        gpu_check_not_mine(self, addrs[i], 64);
    free(heap);
    gpu.end(self);
}

/* ---- identity --------------------------------------------------------------------------- */

TEST(identity__address_used_again__another)
{
    struct hmem *self = gpu.begin();

    for (unsigned k = 0; k < gpu.kinds; k++) {
        uint64_t addr = gpu.alloc(0, gpu_kinds[k], MIB), seen[20];

        for (size_t i = 0; i < COUNT(seen); i++) {
            uint64_t before = addr;

            seen[i] = gpu_identity(self, addr, MIB);
            assert_int_equal(gpu_resolve(self, addr, MIB).identity, seen[i]);
            for (size_t j = 0; j < i; j++)
                assert_int_not_equal(seen[i], seen[j]);
            gpu.free(addr, gpu_kinds[k]);
            addr = gpu.alloc(0, gpu_kinds[k], MIB);
            if (gpu.fake())
                assert_int_equal(addr, before);
        }
        gpu.free(addr, gpu_kinds[k]);
    }
    gpu.end(self);
}

/* Two allocations become one and two again at the same addresses: no identity survives. */
TEST(identity__merged_and_split__others)
{
    uint64_t low, high, seen[5], found = 77;
    struct hmem *self;

    gpu_need_fake();
    self = gpu.begin();
    for (int i = 0; i < 4; i += 3) {
        low = gpu.alloc(0, HMREG_MEM_DEVICE, MIB);
        high = gpu.alloc(0, HMREG_MEM_DEVICE, MIB);
        assert_int_equal(high, low + MIB);
        seen[i] = gpu_identity(self, low, MIB);
        seen[i + 1] = gpu_identity(self, high, MIB);
        assert_fails(gpu.ops->identity(self, low, 2 * MIB, &found), -ERANGE,
                     "beyond its allocation");
        gpu.free(low, HMREG_MEM_DEVICE);
        gpu.free(high, HMREG_MEM_DEVICE);
        if (i)
            break;
        assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, 2 * MIB), low);
        seen[2] = gpu_identity(self, low, 2 * MIB);
        assert_int_equal(gpu_identity(self, high, 1), seen[2]);
        gpu.free(low, HMREG_MEM_DEVICE);
    }
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    gpu.end(self);
}

TEST(identity__many_allocations__all_differ)
{
    struct hmem *self = gpu.begin();
    uint64_t addrs[300], seen[300];

    for (size_t i = 0; i < COUNT(addrs); i++) {
        addrs[i] = gpu.alloc((int)i % gpu.devices(), HMREG_MEM_DEVICE, 4096);
        seen[i] = gpu_identity(self, addrs[i], 4096);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    }
    for (size_t i = 0; i < COUNT(addrs); i++)
        assert_int_equal(gpu_identity(self, addrs[i] + 4095, 1), seen[i]);
    for (size_t i = 0; i < COUNT(addrs); i++)
        gpu.free(addrs[i], HMREG_MEM_DEVICE);
    gpu.end(self);
}

TEST_MAIN()
