/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A libcuda.so.1 that is no driver. HMREG_TEST_CUDA names the one in LD_LIBRARY_PATH: unloadable (a
 * file that is no library), broken (a library without the entry points), stub (the toolkit's
 * library for linking), no-device (a driver whose cuInit fails).
 */
#include "tests/gpu/cuda/driver.h"

#include <dlfcn.h>

static const struct {
    const char *which;
    int code;
    int64_t vendor_code;
    const char *words;
} expected[] = {
    {"unloadable", -ENOENT, 0, "libcuda.so.1 could not be loaded"},
    {"broken", -ELIBBAD, 0, "has no cuInit"},
    {"stub", -ENODEV, CUDA_STUB_LIBRARY, "stub"},
    {"no-device", -ENODEV, CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
};

TEST(open__no_driver__code_and_reason)
{
    const char *which = getenv("HMREG_TEST_CUDA");
    struct hmem *hmem = (struct hmem *)7;

    if (!which)
        test_skip("HMREG_TEST_CUDA is not set");
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        if (strcmp(expected[i].which, which))
            continue;
        assert_fails(hmem_cuda_ops.open(&hmem), expected[i].code, expected[i].words);
        assert_int_equal(hmreg_last_error()->vendor_code, expected[i].vendor_code);
        assert_ptr_equal(hmem, (struct hmem *)7);
        return;
    }
    fail_msg("HMREG_TEST_CUDA=%s is none of unloadable, broken, stub, no-device", which);
}

/* The stub exports the names of the driver version that it is for, which include those we look up.
 */
TEST(stub__each_entry_of_ours__is_there)
{
    static const char *const names[] = {
#define NAME(member, name, parameters) #name,
        CUDA_ENTRIES(NAME, NAME) CUDA_TEST_ENTRIES(NAME)
#undef NAME
    };
    const char *which = getenv("HMREG_TEST_CUDA");
    void *library;

    if (!which || strcmp(which, "stub"))
        test_skip("for the toolkit's stub");
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!dlsym(library, names[i]))
            fail_msg("the stub has no %s", names[i]);
    dlclose(library);
}

TEST_MAIN()
