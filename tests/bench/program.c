/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The program that ./run bench starts: arguments, the table, JSON, documents. */
#include "tests/tools/tool.h"

#include <dirent.h>

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
}

TEST(targets__printed_without_measuring)
{
    struct tool tool = tool_run("--targets");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "get + put, 1 thread, ns");
    assert_says(tool.out, "x<=0.400  beside UCX");
    assert_string_equal(tool.err, "");
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
}

/* Values of a run of this revision, of one series of each of three contestants. */
static void write_values(int version, double bytes)
{
    FILE *to = fopen(in_folder("values.json"), "we");

    assert_non_null(to);
    fprintf(to,
            "{\"version\": %d, \"date\": \"2026-11-23T01:02:03Z\", \"revision\": \"abc1\","
            " \"quick\": false, \"machine\": {\"cpu\": \"Abacus\", \"cores\": 3}, \"series\": ["
            "{\"measure\": \"footprint-100000\", \"who\": \"hmreg default\", \"unit\": \"bytes\","
            " \"absent\": \"\", \"values\": [%g]},"
            "{\"measure\": \"hits-1\", \"who\": \"hmreg default\", \"unit\": \"ns\","
            " \"absent\": \"\", \"values\": [7, 8, 9]},"
            "{\"measure\": \"hits-1\", \"who\": \"UCX\", \"unit\": \"ns\","
            " \"absent\": \"built without libucx-dev\", \"values\": []}]}",
            version, bytes);
    fclose(to);
}

TEST(values__all_targets_met__status_0)
{
    struct tool tool;

    write_values(2, 160);
    tool = tool_run("--values", in_folder("values.json"));
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "Abacus, 3 cores");
    assert_says(tool.out, "2026-11-23T01:02:03Z; revision abc1");
    assert_says(tool.out, "absent: built without libucx-dev");
    assert_says(tool.out, "0 targets missed");
}

TEST(values__one_target_missed__status_1)
{
    struct tool tool;

    write_values(2, 177);
    tool = tool_run("--values", in_folder("values.json"));
    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "1 target missed");
}

TEST(values__of_another_version__refused)
{
    write_values(1, 160);
    assert_refused("not values of version 2", "--values", in_folder("values.json"));
    assert_refused("not values of version 2", "--values", "/nowhere/x.json");
}

static const char *plot_of(const char *name)
{
    static char plot[100000];
    FILE *file = fopen(in_folder(name), "re");

    assert_non_null(file);
    plot[fread(plot, 1, sizeof(plot) - 1, file)] = 0;
    fclose(file);
    return plot;
}

static void assert_plot(const char *plot)
{
    assert_says(plot, "Abacus, 3 cores");
    assert_says(plot, "revision abc1; medians of all turns, error bars: the middle half of them");
    assert_says(plot, "prefers-color-scheme: dark");
    assert_says(plot, ".gridline { stroke");
    assert_says(plot, "hmreg default");
}

TEST(plots__say_machine_revision_and_error_bars)
{
    struct tool tool;

    write_values(2, 160);
    tool = tool_run("--values", in_folder("values.json"), "--plots", folder);
    if (strstr(tool.err, "gnuplot is not installed")) {
        test_skip("gnuplot is not installed");
    }
    assert_plot(plot_of("hits.svg"));
    assert_plot(plot_of("memory.svg"));
    assert_says(plot_of("memory.svg"), "> 0</tspan>"); /* its bars begin there */
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
