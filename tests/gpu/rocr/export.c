/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Possible responses of ROCm's runtime to an export, and the refusal for each.
 */
#include "tests/gpu/rocr/app.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

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

TEST(export__allocation_shorter_than_resolved__xdev)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);

    assert_refused(rocr, memory + MIB - 9, &range, -EXDEV, "not in one allocation");
    assert_int_equal(hmreg_last_error()->vendor_code, HSA_STATUS_ERROR_INVALID_ALLOCATION);
    app_free(memory);
}

TEST(export__descriptor_too_short__proto)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);
    struct hmreg_dmabuf dmabuf;

    setenv("HMREG_FAKE_HSA_SHORT", "4096", 1);
    assert_refused(rocr, memory + 4087, &range, -EPROTO, "4096 bytes");
    assert_refused(rocr, memory + 8192, &range, -EPROTO, "at 8192 in it");
    setenv("HMREG_FAKE_HSA_SHORT", "4097", 1);
    assert_ok(ops->export_dmabuf(rocr, at(memory) + 4087, 10, &range, 0, &dmabuf));
    close(dmabuf.fd);
    unsetenv("HMREG_FAKE_HSA_SHORT");
    app_free(memory);
}

TEST(export__no_descriptor_left__emfile)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct rlimit before, tight;
    int lowest = dup(0);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    close(lowest);
    /* Room for the runtime's descriptor but not for ours; then for neither. */
    tight = (struct rlimit){(rlim_t)lowest + 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_fails(ops->export_dmabuf(rocr, at(memory), 10, &range, 0, &dmabuf), -EMFILE,
                 "duplicated");
    tight.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_fails(ops->export_dmabuf(rocr, at(memory), 10, &range, 0, &dmabuf), -EIO, "export");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(dmabuf.fd, -7);
    app_free(memory);
}

TEST(export__runtime_refuses__code_and_sentence)
{
    static const struct {
        hsa_status_t status;
        int code;
        const char *words;
    } cases[] = {
        {HSA_STATUS_ERROR, -EIO, "could not export"},
        {HSA_STATUS_ERROR_INVALID_AGENT, -EOPNOTSUPP, "no memory of this agent"},
        {HSA_STATUS_ERROR_INVALID_ALLOCATION, -EXDEV, "not in one allocation"},
    };
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        app_fail("hsa_amd_portable_export_dmabuf", cases[i].status, 0, 1);
        assert_refused(rocr, memory, &range, cases[i].code, cases[i].words);
        assert_int_equal(hmreg_last_error()->vendor_code, cases[i].status);
    }
    app_fail("hsa_amd_portable_close_dmabuf", HSA_STATUS_ERROR_RESOURCE_FREE, 0, 1);
    assert_refused(rocr, memory, &range, -EIO, "could not close");
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
