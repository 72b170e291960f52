/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Tables: aligned, wrapped in their last column, or as blocks on a narrow terminal. */
#include "tools/table.h"

#include "tests/tools/tool.h"

#include <locale.h>

static void assert_prints(void (*print)(void), unsigned columns, const char *expected)
{
    char *output;

    setenv("TERM", "dumb", 1);
    setlocale(LC_CTYPE, "C.UTF-8");
    output = output_of(print, columns);
    assert_string_equal(output, expected);
}

/* rows: JSON, with ' for ". */
static void print_json(const struct column *columns, const char *rows)
{
    char text[512];
    json_t *parsed;

    snprintf(text, sizeof(text), "%s", rows);
    for (char *at = text; (at = strchr(at, '\'')); at++)
        *at = '"';
    parsed = json_loads(text, 0, NULL);
    assert_non_null(parsed);
    print_rows(columns, parsed);
    json_decref(parsed);
}

static const struct column two[] = {COLUMN("name", "a"), COLUMN("says", "b"), {0}};

static void print_animals(void)
{
    static const struct column columns[] = {
        COLUMN("name", "name"), COLUMN(">legs", "legs"), COLUMN("says", "says"), {0}};

    print_json(columns, "[{'name': 'cat', 'legs': 4, 'says': 'meow, as every cat does'},"
                        " {'name': 'centipede', 'legs': 100}]");
}

TEST(columns__are_aligned_and_end_with_their_last_word)
{
    assert_prints(print_animals, 0,
                  "  name       legs  says\n"
                  "  cat           4  meow, as every cat does\n"
                  "  centipede   100\n");
}

TEST(terminal_just_wide_enough__columns)
{
    assert_prints(print_animals, 42,
                  "  name       legs  says\r\n"
                  "  cat           4  meow, as every cat does\r\n"
                  "  centipede   100\r\n");
}

static void print_talker(void)
{
    print_json(two, "[{'a': 'parrot', 'b': 'one two three four five six seven "
                    "abcdefghijklmnopqrstuvwxyz0123456789'}]");
}

TEST(narrow_terminal__last_column_wraps_at_spaces_and_in_long_words)
{
    assert_prints(print_talker, 34,
                  "  name    says\r\n"
                  "  parrot  one two three four five\r\n"
                  "          six seven\r\n"
                  "          abcdefghijklmnopqrstuvwx\r\n"
                  "          yz0123456789\r\n");
}

TEST(narrower_terminal__blocks)
{
    assert_prints(print_animals, 30,
                  "  name  cat\r\n"
                  "  legs  4\r\n"
                  "  says  meow, as every cat\r\n"
                  "        does\r\n"
                  "\r\n"
                  "  name  centipede\r\n"
                  "  legs  100\r\n");
}

static void print_foreign(void)
{
    print_json(two, "[{'a': '\xc3\xa4\xc3\xb6', 'b': 'x'}, {'a': 'ab', 'b': 'y'}]");
}

TEST(utf8__counts_characters)
{
    assert_prints(print_foreign, 0, "  name  says\n  \xc3\xa4\xc3\xb6    x\n  ab    y\n");
}

static void print_hostile(void)
{
    static const struct column columns[] = {COLUMN("name\033[2J", "a"), COLUMN("says", "b"), {0}};

    print_json(columns, "[{'a': '\\u001b]0;me\\u0007',"
                        " 'b': 'one\\ntwo\\u007f \\u009b31m \\u00a0'}]");
    print_heading("a\033[31mb");
    print_paragraph("\r", "\033c");
    print_line("\t.");
}

TEST(control_characters__none_is_printed)
{
    assert_prints(print_hostile, 0,
                  "  name\\x1b[2J  says\n"
                  "  ?]0;me?      one?two? ?31m \xc2\xa0\n"
                  "\na?[31mb\n"
                  "  ??c\n"
                  "?.\n");
}

static void print_forged(void)
{
    print_paragraph("", "a word, and\nhmreg: a forged line, and another word");
}

/* A line break of the words is none of the lines. */
TEST(control_characters_in_a_wrapped_cell__no_line_break)
{
    assert_prints(print_forged, 30,
                  "  a word, and?hmreg: a forged\r\n"
                  "  line, and another word\r\n");
}

static void print_empty(void)
{
    print_json(two, "[]");
}

static const char *cell_note(const json_t *value, char buf[CELL], json_t *notes)
{
    snprintf(buf, CELL, "no [%zu]", note_number(notes, json_string_value(value), "a reason"));
    return buf;
}

static void print_values(void)
{
    static const struct column columns[] = {COLUMN("text", "a/b"),
                                            COLUMN("first", "list/0"),
                                            COLUMN("null", "null", .none = "unknown"),
                                            COLUMN(">bytes", "bytes", .cell = cell_bytes),
                                            COLUMN("rare", "rare", .usual = "0"),
                                            COLUMN("never", "never", .usual = "0"),
                                            COLUMN("note", "why", .cell = cell_note),
                                            {0}};

    print_json(columns, "[{'a': {'b': true}, 'list': ['x'], 'null': null, 'bytes': 2048,"
                        "  'rare': 0, 'never': 0, 'why': 'k'},"
                        " {'rare': 7, 'never': 0, 'why': 'k'}]");
}

TEST(values__as_their_columns_say)
{
    assert_prints(print_values, 0,
                  "  text  first  null     bytes  rare  note\n"
                  "  yes   x      unknown  2 KiB  0     no [1]\n"
                  "                               7     no [1]\n"
                  "\n"
                  "  [1] a reason\n");
}

static const char *cell_sum(const void *context, size_t row, size_t column, char buf[CELL])
{
    snprintf(buf, CELL, "%zu%zu", row, column);
    return buf;
}

static void print_sums(void)
{
    json_t *rows = json_pack("[s, s]", "a", "b"),
           *columns = json_pack("[s, s, s]", "x", "yyy", "z");

    print_matrix(&(struct matrix){"of", rows, columns, cell_sum, NULL});
    json_decref(rows);
    json_decref(columns);
}

TEST(matrix__narrow_terminal__in_parts)
{
    assert_prints(print_sums, 0, "  of  x   yyy  z\n  a   00  01   02\n  b   10  11   12\n");
    assert_prints(print_sums, 16,
                  "  of  x   yyy\r\n  a   00  01\r\n  b   10  11\r\n"
                  "\r\n"
                  "  of  z\r\n  a   02\r\n  b   12\r\n");
}

TEST(no_rows__nothing)
{
    assert_prints(print_empty, 0, "");
}

static void print_words(void)
{
    print_heading("Heading");
    print_paragraph("[1] ", "some words that do not fit in one line");
}

TEST(paragraph__wraps_below_its_first_word)
{
    assert_prints(print_words, 30,
                  "\r\nHeading\r\n"
                  "  [1] some words that do not\r\n"
                  "      fit in one line\r\n");
}

TEST_MAIN()
