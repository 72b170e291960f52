/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Are the layers of the real loader in this process, which the tests named *_layered are run with?
 * They return an error for a call that the specification forbids, so those tests would fail.
 */
#include "tests/gpu/ze/bench.h"

#include <dlfcn.h>

TEST(layers__switched_on__check_each_call)
{
    static const char *const layers[] = {"libze_validation_layer.so.1", "libze_tracing_layer.so.1"};

    bench_open();
    for (int i = 0; i < 2; i++) {
        void *layer = dlopen(layers[i], RTLD_NOW | RTLD_NOLOAD);

        if (!layer)
            fail_msg("%s is not loaded", layers[i]);
        dlclose(layer);
    }
    assert_int_equal(zeMemFree(NULL, NULL), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
}

TEST_MAIN()
