/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opening a ROCm runtime with unreadable properties, one that is too old, one that does not start.
 */
#include "tests/gpu/rocr/app.h"

static const struct hmem_ops *ops = &hmem_rocr_ops;

TEST(device__no_product_name__agent_name)
{
    struct hmem *rocr = NULL;
    struct hmem_device device;

    app_start();
    /* Open queries the type of three agents, then the first GPU's product name. */
    app_fail("hsa_agent_get_info", HSA_STATUS_ERROR, 3, 1);
    assert_ok(ops->open(&rocr));
    ops->device(rocr, 0, &device);
    assert_string_equal(device.name, "gfx90a (simulated)");
    ops->device(rocr, 1, &device);
    assert_string_equal(device.name, "AMD GPU (simulated)");
    app_close(rocr);
}

TEST(device__pci_unreadable__not_valid)
{
    struct hmem *rocr = NULL;
    struct hmem_device device;

    app_start();
    app_fail("hsa_agent_get_info", HSA_STATUS_ERROR, 4, 1);
    assert_ok(ops->open(&rocr));
    ops->device(rocr, 0, &device);
    assert_int_equal(device.pci.valid, 0);
    assert_int_equal(device.pci.bus, 0);
    app_close(rocr);
}

TEST(open__status_has_no_words__io)
{
    struct hmem *rocr = NULL;

    app_start();
    app_fail("hsa_init", HSA_STATUS_ERROR, 0, -1);
    app_fail("hsa_status_string", HSA_STATUS_ERROR, 0, 1);
    assert_fails(ops->open(&rocr), -EIO, "hsa_init failed");
    assert_string_equal(hmreg_last_error()->vendor_text, "");
    assert_int_equal(hmreg_last_error()->vendor_code, HSA_STATUS_ERROR);
    assert_null(rocr);
    app_stop();
}

TEST(open__application_not_using_it__starts_and_stops_it)
{
    struct hmem *rocr = app_open();
    hsa_amd_pointer_info_t info = {.size = sizeof(info)};
    void *memory = app_alloc(0, 4096);

    assert_int_equal(app.hsa_shut_down(), 0);
    assert_int_equal(app_resolve(rocr, memory, 4096).kind, HMREG_MEM_DEVICE);
    app_free(memory);
    ops->close(rocr);
    assert_int_equal(app.hsa_amd_pointer_info(&info, &info, NULL, NULL, NULL),
                     HSA_STATUS_ERROR_NOT_INITIALIZED);
    app_closed();
}

/* The next user may be the application. */
TEST(close__runtime_that_starts_once__stays_in_use)
{
    struct hmem *rocr;

    test_setenv("HMREG_FAKE_HSA_ONCE", "1");
    rocr = app_open();
    assert_int_equal(app.hsa_shut_down(), 0);
    ops->close(rocr);
    app_closed();
    rocr = app_open();
    ops->close(rocr);
    app_closed();
    while (!app.hsa_shut_down())
        ;
}

TEST(runtime__driver_without_dmabuf__says_so)
{
    struct hmem *rocr;
    struct hmem_runtime runtime;
    struct hmem_device device;

    test_setenv("HMREG_FAKE_HSA_DMABUF", "0");
    rocr = app_open();
    ops->runtime(rocr, &runtime);
    assert_non_null(strstr(runtime.lacks, "too old for ROCm to export dmabufs"));
    ops->device(rocr, 0, &device);
    assert_false(device.dmabuf);
    app_close(rocr);
}

/* A runtime that does not know the query may still export. */
TEST(device__dmabuf_question_unknown__taken_for_able)
{
    struct hmem *rocr = NULL;
    struct hmem_device device;

    app_start();
    app_fail("hsa_system_get_info", HSA_STATUS_ERROR_INVALID_ARGUMENT, 3, 1);
    assert_ok(ops->open(&rocr));
    ops->device(rocr, 0, &device);
    assert_true(device.dmabuf);
    app_close(rocr);
}

static int open_in_child(void)
{
    struct hmem *rocr = NULL;

    if (ops->open(&rocr) != -ENODEV)
        return 1;
    return strstr(hmreg_last_error()->text, "the parent of this one") ? 0 : 2;
}

TEST(open__in_a_child__nodev)
{
    app_open();
    test_in_child(open_in_child());
}

TEST_MAIN()
