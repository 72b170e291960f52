/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Copies between any two places, and the allocations for tools and tests.
 */
#include "tests/gpu/gpu.h"

#define LEN 20000

/* ---- copies ----------------------------------------------------------------------------- */

/* To the memory and back, at odd offsets; the bytes outside the range do not change. */
TEST(copy__memory_and_process__only_those_bytes)
{
    static const size_t cuts[][2] = {{0, LEN}, {1, 4096}, {4093, 9}, {LEN - 1, 1}, {5001, 9999}};
    struct hmem *self = gpu.begin();
    unsigned char out[LEN], in[LEN];

    memset(out, 0xee, LEN);
    for (unsigned k = 0; k < gpu.kinds; k++) {
        uint64_t addr = gpu.alloc(0, gpu_kinds[k], LEN);

        for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
            size_t skip = cuts[i][0], len = cuts[i][1];

            gpu_fill(self, addr, LEN, 1);
            assert_ok(gpu.ops->copy(self, addr + skip, (uintptr_t)out, len));
            gpu_check(self, addr, LEN, 1, skip, len, 0xee);
            memset(in, 0, LEN);
            assert_ok(gpu.ops->copy(self, (uintptr_t)in, addr + skip, len));
            assert_memory_equal(in, out, len);
            assert_true(len == LEN || !in[len]);
        }
        gpu.free(addr, gpu_kinds[k]);
    }
    gpu.end(self);
}

/* Starts with the last device, so that pairs of devices are included. */
TEST(copy__every_pair_of_places__moves_the_bytes)
{
    struct hmem *self = gpu.begin();
    unsigned count = gpu.kinds + 1;
    enum hmreg_mem_kind kinds[4] = {HMREG_MEM_DEVICE};
    uint64_t addrs[4];

    memcpy(kinds + 1, gpu_kinds, sizeof(gpu_kinds));
    for (unsigned i = 0; i < count; i++)
        addrs[i] = gpu.alloc(i ? 0 : gpu.devices() - 1, kinds[i], LEN);
    for (unsigned pair = 0; pair < count * count; pair++) {
        uint64_t from = addrs[pair / count], to = addrs[pair % count];
        unsigned char byte = (unsigned char)pair, *bytes = malloc(LEN);

        memset(bytes, byte, LEN);
        if (from != to) {
            gpu_fill(self, to, LEN, 2);
            assert_ok(gpu.ops->copy(self, from, (uintptr_t)bytes, LEN));
            assert_ok(gpu.ops->copy(self, to + 3, from + 9, LEN - 9));
            gpu_check(self, to, LEN, 2, 3, LEN - 9, byte);
        }
        free(bytes);
    }
    for (unsigned i = 0; i < count; i++)
        gpu.free(addrs[i], kinds[i]);
    gpu.end(self);
}

/* Copies of more than one piece between devices without peer access go through the host. */
TEST(copy__between_devices__of_several_mebibytes)
{
    struct hmem *self = gpu.begin();
    size_t len = 3 * MIB + 4321;
    uint64_t from = gpu.alloc(0, HMREG_MEM_DEVICE, len);
    uint64_t to = gpu.alloc(gpu.devices() - 1, HMREG_MEM_DEVICE, len);

    gpu_fill(self, from, len, 5);
    gpu_fill(self, to, len, 5);
    assert_ok(gpu.ops->copy(self, to + 1, from + 1, len - 2));
    gpu_check(self, to, len, 5, 0, 0, 0);
    gpu_fill(self, to, len, 6);
    assert_ok(gpu.ops->copy(self, to, from, len));
    gpu_check(self, to, len, 5, 0, 0, 0);
    gpu.free(from, HMREG_MEM_DEVICE);
    gpu.free(to, HMREG_MEM_DEVICE);
    gpu.end(self);
}

/* ---- allocations ------------------------------------------------------------------------ */

static void check_alloc(struct hmem *self, int device, enum hmreg_mem_kind kind, size_t len)
{
    struct hmem_device described;
    struct hmem_range range;
    void *made = NULL;

    gpu.ops->device(self, device, &described);
    assert_ok(gpu.ops->alloc(self, device, kind, len, &made));
    range = gpu_resolve(self, (uintptr_t)made, len);
    assert_int_equal(range.kind, kind);
    assert_int_equal(range.device,
                     kind == HMREG_MEM_HOST_PINNED && gpu.pinned_device < 0 ? -1 : device);
    assert_int_equal(range.alloc_base, (uintptr_t)made);
    assert_int_equal(range.alloc_len, len);
    assert_int_equal(range.exportable, kind == HMREG_MEM_DEVICE && described.dmabuf);
    if (kind != HMREG_MEM_DEVICE)
        memset(made, 1, len);
    assert_ok(gpu.ops->free(self, made, kind));
    gpu_check_not_mine(self, (uintptr_t)made, 1);
}

TEST(alloc__each_kind_and_length__is_what_resolve_says)
{
    static const size_t lens[] = {1, 100, 4095, 4096, 4097, 12345, 1000000};
    struct hmem *self = gpu.begin();

    for (unsigned k = 0; k < gpu.kinds; k++)
        for (int device = 0; device < gpu.devices(); device++)
            for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
                check_alloc(self, device, gpu_kinds[k], lens[i]);
    gpu.end(self);
}

TEST(alloc__too_much__enomem)
{
    struct hmem *self = gpu.begin();
    void *made = self;

    for (unsigned k = 0; k < (gpu.fake() ? gpu.kinds : 1); k++)
        for (int device = 0; device < gpu.devices(); device++)
            assert_fails(gpu.ops->alloc(self, device, gpu_kinds[k], (size_t)1 << 46, &made),
                         -ENOMEM, "70368744177664 bytes");
    assert_string_not_equal(hmreg_last_error()->vendor_text, "");
    assert_ptr_equal(made, self);
    gpu.end(self);
}

TEST_MAIN()
