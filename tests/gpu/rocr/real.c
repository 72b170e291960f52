/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ROCm of this machine, if it has one: without an AMD GPU the reason is reported, with one a
 * buffer is resolved, exported and copied once.
 */
#include "tests/gpu/rocr/app.h"

#define LEN 65536u

static const struct hmem_ops *ops = &hmem_rocr_ops;

/* The vendor opens, or reports a reason that the user can act on. */
TEST(open__real_runtime__works_or_says_why)
{
    struct hmem *rocr = NULL;
    int rc = ops->open(&rocr);

    if (!rc) {
        assert_true(ops->device_count(rocr) > 0);
        ops->close(rocr);
        return;
    }
    assert_null(rocr);
    assert_int_equal(hmreg_last_error()->code, rc);
    assert_string_equal(hmreg_last_error()->source, "rocr");
    if (rc == -ENOENT) {
        assert_non_null(strstr(hmreg_last_error()->text, "libhsa-runtime64.so.1"));
        return;
    }
    assert_int_equal(rc, -ENODEV);
    if (access("/dev/kfd", F_OK))
        assert_non_null(strstr(hmreg_last_error()->text, "there is no /dev/kfd"));
    assert_int_equal(hmreg_last_error()->vendor_code, HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    assert_non_null(strstr(hmreg_last_error()->vendor_text, "HSA_STATUS_ERROR_OUT_OF_RESOURCES"));
}

static struct hmem *open_real(void)
{
    struct hmem *rocr = NULL;

    if (ops->open(&rocr))
        test_skip("%s", hmreg_last_error()->text);
    return rocr;
}

TEST(device__real__described)
{
    struct hmem *rocr = open_real();

    for (int i = 0; i < ops->device_count(rocr); i++) {
        struct hmem_device device;

        ops->device(rocr, i, &device);
        assert_string_not_equal(device.name, "");
        assert_int_equal(device.pci.valid, 1);
        assert_false(device.simulated);
    }
    ops->close(rocr);
}

TEST(memory__real_device__resolved_and_copied)
{
    struct hmem *rocr = open_real();
    unsigned char *out = malloc(LEN), *back = calloc(1, LEN);
    struct hmem_range range;
    void *memory = NULL;
    uint64_t number = 0;

    for (size_t i = 0; i < LEN; i++)
        out[i] = pattern(i, 1);
    assert_ok(ops->alloc(rocr, 0, HMREG_MEM_DEVICE, LEN, &memory));
    assert_ok(ops->resolve(rocr, at(memory) + 5, 100, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, 0);
    assert_int_equal(range.alloc_base, at(memory));
    assert_int_equal(range.alloc_len, LEN);
    assert_ok(ops->identity(rocr, at(memory), LEN, &number));
    assert_int_equal(number, range.identity);
    assert_int_not_equal(number, 0);
    assert_ok(ops->copy(rocr, at(memory), at(out), LEN));
    assert_ok(ops->copy(rocr, at(back), at(memory), LEN));
    assert_memory_equal(out, back, LEN);
    assert_ok(ops->free(rocr, memory, HMREG_MEM_DEVICE));
    ops->close(rocr);
    free(out);
    free(back);
}

TEST(export__real_device__covers_the_range)
{
    struct hmem *rocr = open_real();
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    struct hmem_range range;
    void *memory = NULL;

    assert_ok(ops->alloc(rocr, 0, HMREG_MEM_DEVICE, LEN, &memory));
    assert_ok(ops->resolve(rocr, at(memory) + 5, 100, &range));
    if (range.exportable) {
        assert_ok(ops->export_dmabuf(rocr, at(memory) + 5, 100, &range, 0, &dmabuf));
        assert_int_equal(dmabuf.length, 100);
        close(dmabuf.fd);
    } else {
        assert_int_equal(ops->export_dmabuf(rocr, at(memory) + 5, 100, &range, 0, &dmabuf),
                         -EOPNOTSUPP);
    }
    assert_ok(ops->free(rocr, memory, HMREG_MEM_DEVICE));
    ops->close(rocr);
}

TEST_MAIN()
