/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The program that ./run bench starts: arguments, the table, JSON, documents. */
#include "tests/tools/tool.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/hmreg-bench-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[100];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

#define assert_refused(words, ...)                                                                 \
    do {                                                                                           \
        struct tool tool_ = tool_run(__VA_ARGS__);                                                 \
                                                                                                   \
        assert_int_equal(tool_.status, 2);                                                         \
        assert_says(tool_.err, words);                                                             \
        assert_string_equal(tool_.out, "");                                                        \
        tool_free(&tool_);                                                                         \
    } while (0)

TEST(arguments__wrong__refused_before_anything_is_measured)
{
    assert_refused("--only fly: no such part", "--only", "fly");
    assert_refused("--only : no such part", "--only", "misses,");
    assert_refused("usage: hmreg-bench", "--fly");
    assert_refused("usage: hmreg-bench", "--json");
    assert_refused("fly: what is this?", "fly");
    assert_refused("/nowhere/x.json: cannot be written", "--json", "/nowhere/x.json");
    assert_refused("/nowhere: plots cannot be put there", "--plots", "/nowhere");
    assert_refused("/nowhere: figures cannot be put there", "--docs", "/nowhere");
    assert_refused("own use", "--inside", "fly");
}

TEST(help__names_parts_and_statuses)
{
    struct tool tool = tool_run("--help");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "instructions");
    assert_says(tool.out, "Exit status");
    tool_free(&tool);
}

TEST(targets__printed_without_measuring)
{
    struct tool tool = tool_run("--targets");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "get + put, 1 thread, ns");
    assert_says(tool.out, "x<=1.600  beside a library that does nothing");
    assert_string_equal(tool.err, "");
    tool_free(&tool);
}

static json_t *document(const char *name)
{
    json_t *json = json_load_file(in_folder(name), 0, NULL);

    assert_non_null(json);
    return json;
}

static void assert_row(const json_t *row)
{
    assert_non_null(words_at(row, "part"));
    assert_non_null(words_at(row, "verdict"));
    assert_true(json_object_get(row, "value") || json_object_get(row, "absent"));
}

TEST(quick__table_json_and_page)
{
    struct tool tool = tool_run("--quick", "--only", "device,freed", "--revision", "abc \"1\"",
                                "--json", in_folder("x.json"));
    json_t *json = document("x.json");
    size_t rows = json_array_size(list_at(json, "rows"));

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "hit of CUDA memory, identity checked, ns");
    assert_says(tool.out, "freed device memory: until it is deregistered, ms");
    assert_says(tool.out, "takes ten seconds a turn");
    assert_silent(tool.out, "munmap");
    assert_says(tool.err, "device");
    assert_int_equal(json_integer_value(json_object_get(json, "version")), 2);
    assert_string_equal(words_at(json, "revision"), "abc \"1\"");
    assert_non_null(words_at(json, "date"));
    assert_non_null(words_at(json_object_get(json, "machine"), "cpu"));
    assert_true(json_is_true(json_object_get(json, "quick")));
    assert_true(rows > 0);
    for (size_t i = 0; i < rows; i++)
        assert_row(json_array_get(list_at(json, "rows"), i));
    assert_true(json_array_size(list_at(json, "series")) > 0);
    json_decref(json);
    tool_free(&tool);
}

TEST(docs__page_and_values)
{
    struct tool tool = tool_run("--quick", "--only", "device", "--docs", folder);
    FILE *page = fopen(in_folder("figures.md"), "re");
    char line[1000];

    assert_int_equal(tool.status, 0);
    assert_non_null(page);
    assert_non_null(fgets(line, sizeof(line), page));
    assert_says(line, "SPDX-License-Identifier");
    fclose(page);
    json_decref(document("figures.json"));
    tool_free(&tool);
}

/* False: it cannot be removed. */
static bool remove_folder(void)
{
    DIR *open = opendir(folder);
    struct dirent *entry;

    while (open && (entry = readdir(open)))
        unlinkat(dirfd(open), entry->d_name, 0);
    if (open)
        closedir(open);
    return !rmdir(folder);
}

int main(int argc, char **argv)
{
    int rc;

    if (!mkdtemp(folder))
        return 1;
    rc = test_main(argc, argv);
    return remove_folder() ? rc : 1;
}
