/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg info on a machine without a vendor's runtime: its document, its tables. */
#include "tests/tools/tool.h"

#include <hmreg/hmreg.h>
#include <sys/resource.h>

TEST(document__begins_with_format_and_version)
{
    json_t *document = tool_document(0, "info", "--json");

    assert_int_equal(number_at(document, "format"), 1);
    assert_string_equal(words_at(document, "hmreg"), hmreg_version());
    assert_string_equal(words_at(document, "command"), "info");
}

TEST(document__every_iface_is_there_and_says_why_not)
{
    static const char *const ifaces[] = {"cuda", "rocr", "ze"};
    json_t *document = tool_document(0, "info", "--json");
    json_t *runtimes = list_at(document, "runtimes");

    assert_true(json_is_true(json_object_get(with(runtimes, "iface", "system"), "usable")));
    for (size_t i = 0; i < 3; i++) {
        json_t *runtime = with(runtimes, "iface", ifaces[i]);

        assert_true(json_is_false(json_object_get(runtime, "usable")));
        assert_string_not_equal(words_at(runtime, "why"), "");
        assert_int_equal(number_at(runtime, "devices"), 0);
    }
    assert_int_equal(json_array_size(list_at(document, "devices")), 0);
}

TEST(document__loopback_registers_host_memory)
{
    json_t *document = tool_document(0, "info", "--json");
    json_t *fabric = with(list_at(document, "fabrics"), "provider", "loopback");
    json_t *memory = with(list_at(fabric, "memory"), "iface", "system");

    assert_true(json_is_true(json_object_get(fabric, "opened")));
    assert_true(json_is_null(json_object_get(fabric, "error")));
    assert_int_equal(number_at(fabric, "key_size"), 8);
    assert_true(json_is_null(json_object_get(fabric, "max_mr_size")));
    assert_string_equal(words_at(memory, "best"), "system");
    assert_true(json_is_false(json_object_get(memory, "simulated")));
    assert_true(json_is_true(at(memory, "paths/system/usable")));
}

TEST(document__fabric_named__that_alone)
{
    json_t *document = tool_document(0, "info", "--json", "--fabric", "shm");
    json_t *fabrics = list_at(document, "fabrics");

    assert_int_equal(json_array_size(fabrics), 1);
    assert_string_equal(words_at(json_array_get(fabrics, 0), "fabric"), "shm");
    document = tool_document(1, "info", "--json", "-p", "nosuch");
    assert_int_equal(json_array_size(list_at(document, "fabrics")), 0);
    assert_int_equal(json_array_size(list_at(document, "failures")), 1);
}

/* Each library is listed; one without a fabric shows why. */
TEST(document__every_fabric_library_has_fabrics_or_a_reason)
{
    static const char *const providers[] = {"loopback", "ofi", "verbs"};
    json_t *document = tool_document(0, "info", "--json");

    for (size_t i = 0; i < 3; i++) {
        json_t *library = with(list_at(document, "fabric_libraries"), "provider", providers[i]);
        bool some = number_at(library, "fabrics") > 0;

        assert_true(some || words_at(library, "why")[0]);
    }
}

/* A fabric is described, or shows why it could not be opened. */
TEST(document__every_fabric_is_described_or_says_why_not)
{
    json_t *document, *fabric;
    size_t i;

    test_setenv("FI_PROVIDER", NULL);
    document = tool_document(0, "info", "--json");
    json_array_foreach(list_at(document, "fabrics"), i, fabric) {
        json_t *error = json_object_get(fabric, "error");

        words_at(fabric, "fabric");
        words_at(fabric, "domain");
        if (json_is_true(json_object_get(fabric, "opened"))) {
            with(list_at(fabric, "memory"), "iface", "system");
            list_at(fabric, "mr_mode");
            assert_true(number_at(fabric, "iov_limit") >= 1);
        } else {
            assert_string_not_equal(words_at(error, "text"), "");
        }
    }
    assert_true(i >= 1);
}

TEST(document__limits_are_this_process_s)
{
    struct rlimit old, less;
    json_t *document;

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
    less = (struct rlimit){.rlim_cur = 64 << 10, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &less), 0);
    document = tool_document(0, "info", "--json");
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
    assert_int_equal(number_at(document, "limits/memlock/soft"), 64 << 10);
    assert_true(json_is_boolean(at(document, "limits/userfaultfd/available")));
}

TEST(document__default_monitor_is_the_one_that_serves)
{
    json_t *document = tool_document(0, "info", "--json");

    assert_string_equal(words_at(document, "limits/monitor/asked"), "default");
    assert_string_not_equal(words_at(document, "limits/monitor/active"), "default");
}

TEST(document__every_variable_that_is_read__is_shown_and_heeded)
{
    static const char *const variables[][2] = {
        {"HMREG_STATS", "on"},
        {"HMREG_DEBUG", "puts"},
        {"HMREG_CACHE_CHECK", "always"},
        {"HMREG_DMABUF_WAYS", "plain,pcie"},
        {"HMREG_SYNC_MEMOPS", "1"},
        {"HMREG_SYSCALLS", "all"},
        {"HMREG_CACHE_MAX_COUNT", "100"},
        {"HMREG_CACHE_MAX_SIZE", "1000000"},
        {"HMREG_FORK_MAX_SIZE", "1000000"},
        {"FI_MR_CACHE_MONITOR", "import"},
        {"FI_MR_CACHE_MAX_COUNT", "100"},
        {"FI_MR_CACHE_MAX_SIZE", "1000000"},
        {"FI_MR_CUDA_CACHE_MONITOR_ENABLED", "1"},
        {"FI_MR_ROCR_CACHE_MONITOR_ENABLED", "1"},
        {"FI_MR_ZE_CACHE_MONITOR_ENABLED", "1"},
    };
    const size_t count = sizeof(variables) / sizeof(variables[0]);
    json_t *document;

    for (size_t i = 0; i < count; i++)
        test_setenv(variables[i][0], variables[i][1]);
    document = tool_document(0, "info", "--json");
    for (size_t i = 0; i < count; i++)
        assert_string_equal(words_at(at(document, "environment"), variables[i][0]),
                            variables[i][1]);
    assert_int_equal(number_at(document, "limits/cache/regions"), 100);
    assert_string_equal(words_at(document, "limits/monitor/asked"), "import");
    assert_string_equal(words_at(document, "limits/monitor/active"), "import");
    assert_true(json_is_false(at(document, "limits/monitor/userfaultfd")));
}

TEST(text__has_every_section)
{
    static const char *const sections[] = {"\nRuntimes\n",
                                           "\nDevices\n",
                                           "\nFabric libraries\n",
                                           "\nFabrics\n",
                                           "\nMemory that each fabric can register, by path\n",
                                           "\nLimits\n",
                                           "\nEnvironment variables that hmreg reads\n"};
    struct tool tool = tool_run("info");

    assert_int_equal(tool.status, 0);
    assert_string_equal(tool.err, "");
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
        assert_says(tool.out, sections[i]);
    assert_says(tool.out, "cuda    no ");
}

TEST(text__on_a_terminal__fits_its_width)
{
    static const unsigned columns[] = {80, 100, 200};

    setenv("TERM", "dumb", 1);
    for (size_t i = 0; i < 3; i++) {
        struct tool tool = tool_run_on(columns[i], "info");

        assert_int_equal(tool.status, 0);
        assert_true(longest_line(tool.out) <= columns[i]);
    }
}

TEST(text__on_a_terminal__headings_are_bold_unless_unwanted)
{
    struct tool bold, plain;

    setenv("TERM", "xterm", 1);
    bold = tool_run_on(80, "info");
    test_setenv("NO_COLOR", "1");
    plain = tool_run_on(80, "info");
    assert_says(bold.out, "\033[1mRuntimes\033[0m");
    assert_silent(plain.out, "\033");
}

TEST_MAIN()
