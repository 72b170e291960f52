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

static void print_animals(void)
{
    struct table *table = table_new("name", ">legs", "says", NULL);

    table_add(table, "cat");
    table_add(table, "%d", 4);
    table_add(table, "meow, as every cat does");
    table_add(table, "centipede");
    table_add(table, "%d", 100);
    table_add(table, "%s", "");
    table_print(table);
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
    struct table *table = table_new("name", "says", NULL);

    table_add(table, "parrot");
    table_add(table, "one two three four five six seven abcdefghijklmnopqrstuvwxyz0123456789");
    table_print(table);
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
    struct table *table = table_new("a", "b", NULL);

    table_add(table, "\xc3\xa4\xc3\xb6");
    table_add(table, "x");
    table_add(table, "ab");
    table_add(table, "y");
    table_print(table);
}

TEST(utf8__counts_characters)
{
    assert_prints(print_foreign, 0, "  a   b\n  \xc3\xa4\xc3\xb6  x\n  ab  y\n");
}

static void print_hostile(void)
{
    struct table *table = table_new("name\033[2J", "says", NULL);

    table_add(table, "\033]0;me\007");
    table_add(table, "one\ntwo\x7f \xc2\x9b"
                     "31m \xc2\xa0");
    table_print(table);
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
    table_print(table_new("a", "b", NULL));
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
