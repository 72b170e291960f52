/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See device.h.
 */
#include "tests/rdma/device.h"

#include "tests/support/softgpu.h"
#include "tests/support/test.h"

enum hmreg_iface device_iface(void)
{
    const char *vendor = getenv("VENDOR");

    for (int i = HMREG_IFACE_CUDA; vendor && i < HMREG_IFACE_COUNT; i++)
        if (!strcmp(vendor, hmreg_iface_name((enum hmreg_iface)i)))
            return (enum hmreg_iface)i;
    fail_msg("VENDOR is %s", vendor ? vendor : "not set");
    return HMREG_IFACE_SYSTEM;
}

static bool has_nvidia_rules(void)
{
    const char *rules = getenv("SOFTGPU_RULES");

    return rules && !strcmp(rules, "nvidia");
}

static bool has_no_pages(void)
{
    const char *pages = getenv("SOFTGPU_PAGES");

    return pages && !strcmp(pages, "0");
}

void device_open(struct bench *bench, enum hmreg_path path)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = HMREG_DOMAIN_PARTS, .order = {path}};

    softgpu_need();
    softgpu_set("nvidia", has_nvidia_rules() ? "1" : "0");
    softgpu_set("pages", has_no_pages() ? "0" : "1");
    softgpu_peermem(false);
    softgpu_set("client", has_nvidia_rules() ? "nv_mem_nc" : "softgpu");
    softgpu_peermem(path == HMREG_PATH_PEERMEM);
    bench_open_with(bench, &config);
}

void device_close(struct bench *bench)
{
    bench_close(bench);
    softgpu_peermem(false);
    softgpu_set("pages", "1");
    softgpu_set("nvidia", "0");
    softgpu_set("client", "softgpu");
    softgpu_assert_clean();
}

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 251 + seed);
}

void target_alloc(struct bench *bench, struct target *target)
{
    void *memory = NULL;

    *target = (struct target){.expected = malloc(TARGET_ROOM), .source = malloc(TARGET_BYTES)};
    assert_ok(
        hmreg_mem_alloc(bench->lib, device_iface(), 0, HMREG_MEM_DEVICE, TARGET_ROOM, &memory));
    target->memory = memory;
    fill(target->expected, TARGET_ROOM, 1);
    fill(target->source, TARGET_BYTES, 2);
    assert_ok(hmreg_copy(bench->lib, target->memory, target->expected, TARGET_ROOM));
    assert_ok(hmreg_mr_reg(bench->domain, target->source, TARGET_BYTES, HMREG_READ | HMREG_WRITE, 0,
                           0, 0, &target->source_mr, NULL));
}

void target_open(struct bench *bench, struct target *target, uint64_t access)
{
    target_alloc(bench, target);
    assert_ok(hmreg_mr_reg(bench->domain, target->memory + TARGET_SKEW, TARGET_BYTES, access, 0, 0,
                           0, &target->mr, NULL));
}

void target_close(struct bench *bench, struct target *target)
{
    assert_ok(hmreg_mr_close(target->mr));
    assert_ok(hmreg_mr_close(target->source_mr));
    assert_ok(hmreg_mem_free(bench->lib, target->memory));
    free(target->expected);
    free(target->source);
}

enum ibv_wc_status target_rdma(struct bench *bench, struct target *target,
                               enum ibv_wr_opcode opcode, uint64_t offset, size_t len)
{
    uint64_t addr = (uintptr_t)target->memory + TARGET_SKEW + offset;

    return bench_rdma(bench, opcode, target->source, len, target->source_mr, addr,
                      (uint32_t)hmreg_mr_key(target->mr));
}

void target_assert_expected(struct bench *bench, const struct target *target)
{
    unsigned char *found = malloc(TARGET_ROOM);

    assert_ok(hmreg_copy(bench->lib, found, target->memory, TARGET_ROOM));
    assert_memory_equal(found, target->expected, TARGET_ROOM);
    free(found);
}

int target_descriptor(struct bench *bench, const struct target *target)
{
    struct hmreg_dmabuf dmabuf;

    assert_ok(hmreg_export_dmabuf(bench->lib, target->memory, TARGET_ROOM, 0, &dmabuf));
    return dmabuf.fd;
}
