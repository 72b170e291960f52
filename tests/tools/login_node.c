/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The command where CUDA's driver library is installed and no GPU is: on login nodes, in builds.
 * The driver is simulated, or NVIDIA's own. */
#include "tests/gpu/cuda/library.h"
#include "tests/tools/tool.h"

static json_t *document(int status, const char *command)
{
    library_need_fetched();
    return tool_document(status, command, "--json");
}

TEST(info__no_device__says_so_with_the_library)
{
    json_t *info = document(0, "info");
    json_t *cuda = with(list_at(info, "runtimes"), "iface", "cuda");

    assert_true(json_is_false(json_object_get(cuda, "usable")));
    assert_int_equal(number_at(cuda, "devices"), 0);
    assert_non_null(strstr(words_at(cuda, "why"), "libcuda.so"));
    assert_non_null(strstr(words_at(cuda, "why"), "CUDA_ERROR_NO_DEVICE (100)"));
}

TEST(doctor__no_device__is_a_finding)
{
    json_t *doctor = document(2, "doctor");

    assert_non_null(with(list_at(doctor, "findings"), "code", "no-device"));
}

TEST(verify__no_device__host_memory_passes_and_cuda_is_skipped)
{
    json_t *verify = document(0, "verify");
    json_t *runtime = with(list_at(verify, "checks"), "name", "runtime/cuda");
    json_t *host = with(list_at(verify, "checks"), "name", "loopback/system/host/usual");

    assert_string_equal(words_at(runtime, "result"), "skipped");
    assert_string_equal(words_at(host, "result"), "ok");
}

TEST_MAIN()
