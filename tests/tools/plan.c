/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg plan, on loopback and libfabric's shm. */
#include "tests/tools/tool.h"
#include "tools/command.h"

#include <hmreg/plan.h>

static const char *const limit_names[HMREG_PLAN_KINDS] = {
    "max_len", "max_mr", "memlock", "descriptors", "cache_regions", "cache_bytes", "memory"};

static const json_t *loopback_plan(const json_t *document, int64_t size)
{
    const json_t *plan;
    size_t i;

    json_array_foreach(list_at(document, "plans"), i, plan)
        if (!strcmp(words_at(plan, "fabric"), "loopback") && number_at(plan, "size") == size)
            return plan;
    fail_msg("there is no plan of %lld bytes", (long long)size);
    return NULL;
}

/* To a thousandth, and no more than the cache holds. */
static void assert_longest_cacheable(const json_t *plan)
{
    const json_t *limit = json_array_get(list_at(plan, "limits"), HMREG_PLAN_CACHE_BYTES);
    int64_t longest = number_at(plan, "longest_cacheable"), value = number_at(limit, "value");

    assert_true(longest <= value && longest > value - value / 500);
}

TEST(sizes__each_with_its_limits)
{
    json_t *document = tool_document(0, "plan", "--json", "64K", "2G", "1P");
    const json_t *plan = loopback_plan(document, INT64_C(2) << 30), *limit;
    size_t i;

    assert_string_equal(words_at(document, "command"), "plan");
    assert_string_equal(words_at(document, "iface"), "system");
    assert_true(json_is_null(at(document, "device")));
    loopback_plan(document, 64 << 10);
    assert_string_equal(words_at(plan, "path"), "system");
    assert_int_equal(number_at(plan, "regions"), 1);
    assert_true(number_at(plan, "fits") == INT64_C(2) << 30);
    assert_int_equal(json_array_size(list_at(plan, "limits")), HMREG_PLAN_KINDS);
    json_array_foreach(list_at(plan, "limits"), i, limit)
        assert_string_equal(words_at(limit, "limit"), limit_names[i]);
    plan = loopback_plan(document, INT64_C(1) << 50);
    assert_int_equal(number_at(plan, "cacheable"), 0);
    assert_true(number_at(plan, "longest") == INT64_C(1) << 50);
    assert_longest_cacheable(plan);
    assert_int_equal(json_array_size(list_at(document, "failures")), 0);
}

TEST(no_size__a_gigabyte)
{
    json_t *document = tool_document(0, "plan", "--json");

    loopback_plan(document, 1 << 30);
}

TEST(text__what_is_not_cached_has_a_note)
{
    struct tool tool = tool_run("plan", "1M", "1P");

    assert_int_equal(tool.status, 0);
    assert_string_equal(tool.err, "");
    assert_says(tool.out, "Memory: host, ");
    assert_says(tool.out, "iB in all");
    assert_says(tool.out, "loopback");
    assert_says(tool.out, "1 PiB");
    assert_says(tool.out, "up to "); /* what a cache holds */
    assert_says(tool.out, "the range must be one region");
    assert_says(tool.out, "[1] a cache holds at most");
}

TEST(no_such_device__failed)
{
    json_t *document = tool_document(1, "plan", "--json", "--iface", "cuda", "1M", "2M");

    assert_int_equal(json_array_size(list_at(document, "plans")), 0);
    assert_int_equal(json_array_size(list_at(document, "failures")), 1); /* said once, for all */
    assert_string_equal(words_at(document, "failures/0"), "cuda has no device 0; it has 0 devices");
}

/* Loopback, which is of use to tests, is last. */
TEST(order__software_before_loopback)
{
    json_t *document = tool_document(0, "plan", "--json");
    json_t *plans = list_at(document, "plans");
    size_t count = json_array_size(plans);

    assert_true(count > 1);
    assert_string_equal(words_at(json_array_get(plans, count - 1), "fabric"), "loopback");
}

static json_t *document_with_nics(const char *command, const char *option, const char *value)
{
    const char *const arguments[] = {command, "--json", option, value, NULL};
    json_t *document;

    test_setenv("HMREG_FAKE_NICS", "mlx5_0,mlx5_1");
    tool_preload_nic(true);
    document = tool_document_list(0, arguments);
    tool_preload_nic(false);
    return document;
}

TEST(order__rdma_devices_first)
{
    json_t *info, *plan, *one;

    if (!getenv("FAKE_NIC_LIBRARY"))
        test_skip("this build has no simulated NIC");
    info = document_with_nics("info", NULL, NULL);
    plan = document_with_nics("plan", NULL, NULL);
    one = document_with_nics("plan", "-p", "mlx5_1");
    assert_string_equal(words_at(info, "fabric_libraries/0/provider"), "verbs");
    assert_string_equal(words_at(info, "fabrics/0/fabric"), "mlx5_0");
    assert_string_equal(words_at(info, "fabrics/1/fabric"), "mlx5_1");
    assert_string_equal(words_at(plan, "plans/0/fabric"), "mlx5_0");
    assert_int_equal(json_array_size(list_at(one, "plans")), 1);
    assert_string_equal(words_at(one, "plans/0/fabric"), "mlx5_1");
}

TEST(fabric__only_that)
{
    static const char *const options[] = {"-p", "--fabric"};
    json_t *document;

    for (size_t i = 0; i < 2; i++) {
        document = tool_document(0, "plan", "--json", options[i], "loopback");
        assert_int_equal(json_array_size(list_at(document, "plans")), 1);
        loopback_plan(document, 1 << 30);
    }
    document = tool_document(1, "plan", "--json", "-p", "nosuch");
    assert_string_equal(words_at(document, "failures/0"),
                        "there is no fabric nosuch here; hmreg info lists the fabrics");
}

TEST(text__sizes_in_one_unit)
{
    struct tool tool = tool_run("plan", "-p", "loopback", "1M", "3G");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "   1 MiB");
    assert_says(tool.out, "3072 MiB");
    assert_silent(tool.out, "3 GiB");
}

/* ---- notes ------------------------------------------------------------------------------ */

static json_t *fixed;

static void print_fixed(void)
{
    command_plan.print(fixed);
}

/* A plan whose limits of locked memory and descriptors have no room, on a fabric before which so
 * much of them is in use. */
static json_t *too_large(const char *fabric, int in_use)
{
    json_t *limits = json_array();
    char memlock[128], descriptors[128];

    snprintf(memlock, sizeof(memlock), "RLIMIT_MEMLOCK is 8388608 bytes, %d of it in use; raise it",
             in_use);
    snprintf(descriptors, sizeof(descriptors), "RLIMIT_NOFILE is 20000, %d of it in use", in_use);
    for (int i = 0; i < HMREG_PLAN_KINDS; i++)
        json_array_append_new(
            limits,
            json_pack("{s:s, s:i, s:i, s:s}", "limit", limit_names[i], "value", 8388608, "fits",
                      i == HMREG_PLAN_MEMLOCK || i == HMREG_PLAN_DESCRIPTORS ? 4096 : 1 << 30,
                      "text", i == HMREG_PLAN_DESCRIPTORS ? descriptors : memlock));
    return json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "fabric", fabric,
                     "domain", "", "size", 1 << 30, "path", "system", "regions", 1, "region_len",
                     1 << 30, "exports", 0, "fits", 4096, "longest", 4096, "cacheable", 1 << 30,
                     "limits", limits);
}

TEST(text__limit_of_two_fabrics__one_note_in_units)
{
    char *text;

    fixed = json_pack("{s:s, s:n, s:[o, o], s:[]}", "iface", "system", "device", "plans",
                      too_large("mlx5_0", 0), too_large("mlx5_1", 12288), "failures");
    assert_non_null(fixed);
    text = output_of(print_fixed, 0);
    assert_says(text, "4 KiB [1] [2]");
    assert_says(text, "[1] RLIMIT_MEMLOCK is 8 MiB, 0 B of it in use; raise it");
    assert_says(text, "[2] RLIMIT_NOFILE is 20000, 0 of it in use");
    assert_silent(text, "[3]");
    json_decref(fixed);
}

static void assert_refused(const char *words, const char *const *arguments)
{
    struct tool tool = tool_run_list(0, arguments);

    assert_int_equal(tool.status, 2);
    assert_string_equal(tool.out, "");
    assert_says(tool.err, words);
}

#define REFUSED(words, ...) assert_refused(words, (const char *const[]){"plan", __VA_ARGS__, NULL})

TEST(wrong_argument__refused)
{
    static const char *const wrong[] = {"0",   "-1",    "1X",   "12Q4",
                                        "1KK", "1025P", "much", "99999999999999999999999"};
    const char *many[40] = {"plan"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (wrong[i][0] != '-')
            REFUSED("bytes are accepted, from 1 to 1024P", "1M", wrong[i]);
    REFUSED("accepted are system, cuda, rocr, ze", "--iface", "opencl");
    REFUSED("a device's index", "--device", "x");
    for (size_t i = 1; i < 34; i++)
        many[i] = "1M";
    assert_refused("32 are accepted", many);
}

TEST_MAIN()
