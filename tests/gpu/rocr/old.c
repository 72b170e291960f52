/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm as in Debian 12 (5.2.3): everything but dmabufs, and a reason for those. Runs on the fake
 * without the newer entry points, as rocr_gpu_memory_old and rocr_gpu_resolve_old do.
 */
#include "tests/gpu/rocr/app.h"

#define LEN 8192u

static const struct hmem_ops *ops = &hmem_rocr_ops;

TEST(runtime__old__says_what_it_lacks)
{
    struct hmem *rocr = app_open();
    struct hmem_runtime runtime;

    assert_null(app.hsa_amd_portable_export_dmabuf);
    ops->runtime(rocr, &runtime);
    assert_non_null(strstr(runtime.lacks, "no hsa_amd_portable_export_dmabuf"));
    assert_non_null(strstr(runtime.library, "rocr-5.2/"));
}

TEST(device__old__no_dmabuf)
{
    struct hmem *rocr = app_open();
    struct hmem_device device;

    assert_int_equal(ops->device_count(rocr), 2);
    ops->device(rocr, 1, &device);
    assert_false(device.dmabuf);
    assert_int_equal(device.pci.valid, 1);
}

TEST(export__old__not_supported_in_words)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, LEN);
    struct hmem_range range = app_resolve(rocr, memory, LEN);
    struct hmreg_dmabuf dmabuf = {.fd = -7};

    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_false(range.exportable);
    assert_fails(ops->export_dmabuf(rocr, at(memory), LEN, &range, 0, &dmabuf), -EOPNOTSUPP,
                 "no hsa_amd_portable_export_dmabuf");
    assert_int_equal(dmabuf.fd, -7);
    app_free(memory);
}

TEST_MAIN()
