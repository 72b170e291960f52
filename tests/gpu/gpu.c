/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gpu.h.
 */
#include "tests/gpu/gpu.h"

#include <inttypes.h>

const enum hmreg_mem_kind gpu_kinds[3] = {HMREG_MEM_DEVICE, HMREG_MEM_HOST_PINNED,
                                          HMREG_MEM_MANAGED};

unsigned long gpu_leaked;

void gpu_need_fake(void)
{
    struct hmem *self = gpu.begin();
    bool real = !gpu.fake();

    gpu.end(self);
    if (real)
        test_skip("needs the simulated runtime, to count calls or make them fail");
}

void gpu_fail(const char *call, long code, int skip, int times)
{
    (gpu.fake()->fail)(call, code, skip, times); /* cmocka has a macro of that name */
}

/* ---- bytes ------------------------------------------------------------------------------ */

unsigned char gpu_byte(size_t i, unsigned seed)
{
    return (unsigned char)(i * 167 + i / 251 + seed * 7 + 13);
}

void gpu_fill(struct hmem *self, uint64_t addr, size_t len, unsigned seed)
{
    unsigned char *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = gpu_byte(i, seed);
    if (gpu.fake())
        memcpy(gpu.fake()->peek(addr), bytes, len);
    else
        assert_ok(gpu.ops->copy(self, addr, (uintptr_t)bytes, len));
    free(bytes);
}

void gpu_check(struct hmem *self, uint64_t addr, size_t len, unsigned seed, size_t from,
               size_t count, unsigned char other)
{
    unsigned char *bytes = malloc(len);

    assert_non_null(bytes);
    if (gpu.fake())
        memcpy(bytes, gpu.fake()->peek(addr), len);
    else
        assert_ok(gpu.ops->copy(self, (uintptr_t)bytes, addr, len));
    for (size_t i = 0; i < len; i++) {
        unsigned char expected = i >= from && i < from + count ? other : gpu_byte(i, seed);

        if (bytes[i] != expected)
            fail_msg("byte %zu of %zu is %#x, not %#x", i, len, bytes[i], expected);
    }
    free(bytes);
}

/* ---- operations ------------------------------------------------------------------------- */

struct hmem_range gpu_resolve(struct hmem *self, uint64_t addr, size_t len)
{
    struct hmem_range range = {0};

    assert_ok(gpu.ops->resolve(self, addr, len, &range));
    return range;
}

uint64_t gpu_identity(struct hmem *self, uint64_t addr, size_t len)
{
    uint64_t identity = 0;

    assert_ok(gpu.ops->identity(self, addr, len, &identity));
    assert_int_not_equal(identity, 0);
    return identity;
}

struct hmreg_dmabuf gpu_export(struct hmem *self, uint64_t addr, size_t len)
{
    struct hmem_range range = gpu_resolve(self, addr, len);
    struct hmreg_dmabuf dmabuf = {.fd = -1};

    assert_ok(gpu.ops->export_dmabuf(self, addr, len, &range, 0, &dmabuf));
    assert_true(dmabuf.fd >= 0);
    assert_int_equal(dmabuf.length, len);
    return dmabuf;
}

void gpu_check_not_mine(struct hmem *self, uint64_t addr, size_t len)
{
    struct hmem_range range, before;
    uint64_t identity = 77;

    memset(&range, 0x5a, sizeof(range));
    before = range;
    hmreg_fail(-EUCLEAN, "the error of before");
    assert_int_equal(gpu.ops->resolve(self, addr, len, &range), -HMEM_NOT_MINE);
    assert_int_equal(gpu.ops->identity(self, addr, len, &identity), -HMEM_NOT_MINE);
    assert_string_equal(hmreg_last_error()->text, "the error of before");
    assert_memory_equal(&range, &before, sizeof(range));
    assert_int_equal(identity, 77);
}

void gpu_check_leaves(struct hmem *self, uint64_t addr, size_t len, uint64_t end)
{
    struct hmem_range range, before;
    uint64_t identity = 77;
    char words[32];

    snprintf(words, sizeof(words), "at %#" PRIx64, end);
    memset(&range, 0x5a, sizeof(range));
    before = range;
    assert_fails(gpu.ops->resolve(self, addr, len, &range), -ERANGE, words);
    assert_fails(gpu.ops->identity(self, addr, len, &identity), -ERANGE, words);
    assert_memory_equal(&range, &before, sizeof(range));
    assert_int_equal(identity, 77);
}
