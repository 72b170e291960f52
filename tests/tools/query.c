/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg query on a machine without a vendor's runtime. */
#include "tests/tools/tool.h"

#include <hmreg/hmreg.h>

static json_t *range_of(const json_t *document, const char *part)
{
    const json_t *memory = with(list_at(document, "memory"), "iface", "system");

    return with(list_at(memory, "ranges"), "part", part);
}

TEST(system_memory__is_found_whole_and_odd)
{
    static const char *const parts[] = {"whole", "odd"};
    json_t *document = tool_document(0, "query", "--json", "--size", "64K");

    assert_string_equal(words_at(document, "command"), "query");
    assert_int_equal(number_at(document, "size"), 64 << 10);
    for (size_t i = 0; i < 2; i++) {
        const json_t *found = json_object_get(range_of(document, parts[i]), "found");

        assert_string_equal(words_at(found, "iface"), "system");
        assert_string_equal(words_at(found, "kind"), "host");
        assert_true(json_is_null(json_object_get(found, "device")));
        assert_true(json_is_null(json_object_get(found, "pci")));
        assert_true(json_is_null(json_object_get(found, "identity")));
        assert_true(json_is_true(json_object_get(found, "cpu_access")));
        assert_true(json_is_false(json_object_get(found, "exportable")));
    }
    assert_int_equal(json_array_size(list_at(document, "failures")), 0);
}

TEST(odd_range__is_inside_and_unaligned)
{
    json_t *document = tool_document(0, "query", "--json", "--size", "64K");
    const json_t *whole = range_of(document, "whole"), *odd = range_of(document, "odd");
    uint64_t base = strtoull(words_at(whole, "address"), NULL, 16);
    uint64_t addr = strtoull(words_at(odd, "address"), NULL, 16);
    uint64_t len = (uint64_t)number_at(odd, "length");

    assert_int_equal(number_at(whole, "length"), 64 << 10);
    assert_true(addr % 2 == 1 && len % 2 == 1);
    assert_true(addr > base && addr + len < base + (64 << 10));
}

TEST(export_of_host_memory__is_refused_with_the_reason)
{
    json_t *document = tool_document(0, "query", "--json");
    const json_t *export = json_object_get(range_of(document, "odd"), "export");
    const json_t *error = json_object_get(export, "error");

    assert_true(json_is_false(json_object_get(export, "done")));
    assert_true(json_is_null(json_object_get(export, "offset")));
    assert_string_equal(words_at(error, "name"), "EOPNOTSUPP");
    assert_says(words_at(error, "text"), "host memory has no dmabuf");
}

TEST(smallest_size__is_good)
{
    json_t *document = tool_document(0, "query", "--json", "--size", "16");

    assert_int_equal(number_at(range_of(document, "odd"), "length"), 5);
}

TEST(missing_runtimes__are_left_out_with_the_reason)
{
    json_t *document = tool_document(0, "query", "--json");
    const json_t *cuda = with(list_at(document, "left_out"), "iface", "cuda");

    assert_string_not_equal(words_at(cuda, "text"), "");
}

TEST(named_runtime_that_is_missing__fails)
{
    json_t *document = tool_document(1, "query", "--json", "--iface", "cuda");
    json_t *failures = list_at(document, "failures");

    assert_int_equal(json_array_size(failures), 1);
    assert_says(json_string_value(json_array_get(failures, 0)), "cuda: ");
    assert_int_equal(json_array_size(list_at(document, "memory")), 0);
}

TEST(nothing_that_matches__fails)
{
    struct tool tool = tool_run("query", "--iface", "system", "--kind", "device");
    struct tool other = tool_run("query", "--device", "7");

    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "\nFailed\n");
    assert_says(tool.out, "there is no memory of this iface, device and kind here");
    assert_says(tool.out, "system memory has the kind host only, not device");
    assert_int_equal(other.status, 1);
}

TEST(size_beyond_the_machine__fails_and_says_so)
{
    struct tool tool;

    tool = tool_run("query", "--iface", "system", "--size", "1T");
    if (tool.status == 0) {
        test_skip("this machine overcommits 1 TiB");
    }
    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "system, host: 1099511627776 bytes of host memory are not available");
}

TEST(text__says_what_was_found)
{
    struct tool tool = tool_run("query");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "hmreg " HMREG_VERSION_STRING ", 1 MiB of each kind of memory\n");
    assert_says(tool.out, "\nMemory\n");
    assert_says(tool.out, "system  whole  0x");
    assert_says(tool.out, "no [1]\n");
    assert_says(tool.out, "[1] host memory has no dmabuf");
}

TEST(text__on_a_narrow_terminal__is_a_block_a_range)
{
    struct tool tool;

    setenv("TERM", "dumb", 1);
    tool = tool_run_on(80, "query");
    assert_int_equal(tool.status, 0);
    assert_true(longest_line(tool.out) <= 80);
    assert_says(tool.out, "  part         odd\r\n");
}

TEST_MAIN()
