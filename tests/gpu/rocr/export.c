/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Possible responses of ROCm's runtime to an export, and the refusal for each.
 */
#include "tests/gpu/rocr/app.h"

#define MIB (1u << 20)

static const struct hmem_ops *ops = &hmem_rocr_ops;

static void assert_refused(struct hmem *rocr, const char *addr, const struct hmem_range *range,
                           int code, const char *words)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7, .offset = 11, .length = 13};
    int before = test_count_fds();

    assert_fails(ops->export_dmabuf(rocr, at(addr), 10, range, 0, &dmabuf), code, words);
    assert_int_equal(dmabuf.fd, -7);
    assert_int_equal(dmabuf.offset, 11);
    assert_int_equal(dmabuf.length, 13);
    assert_int_equal(test_count_fds(), before);
}

TEST(export__descriptor_too_short__proto)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);
    struct hmreg_dmabuf dmabuf;

    setenv("HMREG_FAKE_HSA_SHORT", "4096", 1);
    assert_refused(rocr, memory + 4087, &range, -EPROTO, "4096 bytes");
    assert_refused(rocr, memory + 8192, &range, -EPROTO, "at 8192 would end");
    setenv("HMREG_FAKE_HSA_SHORT", "4097", 1);
    assert_ok(ops->export_dmabuf(rocr, at(memory) + 4087, 10, &range, 0, &dmabuf));
    close(dmabuf.fd);
    unsetenv("HMREG_FAKE_HSA_SHORT");
    app_free(memory);
}

/* The PCIe mapping is asked for by the newer call, which fails as the older does. */
TEST(export__pcie_mapping__by_the_newer_call)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);
    struct hmreg_dmabuf dmabuf = {.fd = -7};

    assert_ok(ops->export_dmabuf(rocr, at(memory) + 5, 10, &range, HMREG_EXPORT_PCIE, &dmabuf));
    assert_int_equal(dmabuf.offset, 5);
    close(dmabuf.fd);
    dmabuf.fd = -7;
    app_fail("hsa_amd_portable_export_dmabuf_v2", HSA_STATUS_ERROR_INVALID_AGENT, 0, 1);
    assert_fails(ops->export_dmabuf(rocr, at(memory), 10, &range, HMREG_EXPORT_PCIE, &dmabuf),
                 -EOPNOTSUPP, "no memory of this agent");
    assert_int_equal(dmabuf.fd, -7);
    app_free(memory);
}

TEST_MAIN()
