/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg run --trace=watch: which registrations repeat an earlier one of memory that is still the
 * same.
 */
#include "tests/preload/command.h"

static json_t *report(const char *mode, const char *scenario)
{
    struct tool tool =
        tool_run("run", "--json", mode, "--", "env", fake(), environment("PROGRAM"), scenario);
    json_t *document = tool_keep(json_loads(tool.err, 0, NULL));

    if (tool.status || !document)
        fail_msg("%s: exit status %d: %s", scenario, tool.status, tool.err);
    return document;
}

/* Of memory that was freed in between a cache would have saved nothing. */
TEST(run__freed_and_mapped_again__a_repeat_unless_watched)
{
    for (int watch = 0; watch < 2; watch++) {
        json_t *document = report(watch ? "--trace=watch" : "--trace", "renewed");

        assert_int_equal(number_at(document, "processes/0/totals/registrations"), 8);
        assert_int_equal(number_at(document, "processes/0/again/count"), watch ? 4 : 7);
        assert_int_equal(number_at(document, "processes/0/again/ranges/0/count"), watch ? 5 : 8);
        assert_int_equal(json_is_true(at(document, "processes/0/again/watched")), watch);
        assert_int_equal(json_array_size(list_at(document, "processes/0/passed_on")), 0);
    }
}

TEST(run__watched__the_same_memory_repeats)
{
    json_t *document = report("--trace=watch", "again");

    assert_int_equal(number_at(document, "processes/0/again/count"), 9);
}

TEST(run__other_word_of_trace__refused)
{
    struct tool tool = tool_run("run", "--trace=all", "true");

    assert_int_equal(tool.status, 125);
    assert_says(tool.err, "--trace and --trace=watch are accepted");
}

TEST_MAIN()
