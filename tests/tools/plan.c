/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg plan, on loopback and libfabric's shm. */
#include "tests/tools/tool.h"

#include <hmreg/plan.h>
#include <string.h>

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
        assert_string_equal(words_at(limit, "limit"),
                            hmreg_plan_kind_name((enum hmreg_plan_kind)i));
    plan = loopback_plan(document, INT64_C(1) << 50);
    assert_int_equal(number_at(plan, "cacheable"), 0);
    assert_int_equal(json_array_size(list_at(document, "failures")), 0);
    json_decref(document);
}

TEST(no_size__a_gigabyte)
{
    json_t *document = tool_document(0, "plan", "--json");

    loopback_plan(document, 1 << 30);
    json_decref(document);
}

TEST(text__what_is_not_cached_has_a_note)
{
    struct tool tool = tool_run("plan", "1M", "1P");

    assert_int_equal(tool.status, 0);
    assert_string_equal(tool.err, "");
    assert_says(tool.out, "Memory: host");
    assert_says(tool.out, "loopback");
    assert_says(tool.out, "1 PiB");
    assert_says(tool.out, "none [1]");
    assert_says(tool.out, "[1] a cache holds at most");
    tool_free(&tool);
}

TEST(no_such_device__failed)
{
    json_t *document = tool_document(1, "plan", "--json", "--iface", "cuda", "1M", "2M");

    assert_int_equal(json_array_size(list_at(document, "plans")), 0);
    assert_true(json_array_size(list_at(document, "failures")) > 0);
    json_decref(document);
}

static void assert_refused(const char *words, const char *const *arguments)
{
    struct tool tool = tool_run_list(0, arguments);

    assert_int_equal(tool.status, 2);
    assert_string_equal(tool.out, "");
    assert_says(tool.err, words);
    tool_free(&tool);
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
