/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See table.h. Widths are in characters: UTF-8 continuation bytes do not count.
 */
#include "tools/table.h"

#include "tools/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define INDENT      2
#define GAP         2
#define LEAST_WRAP  24 /* a narrower last column would be unreadable */
#define MAX_COLUMNS 16

struct table {
    const char *const *columns;
    size_t count;
    size_t cells, room;
    char **cell; /* row by row */
};

/* ---- the terminal ----------------------------------------------------------------------- */

static size_t width_limit;

void print_width(size_t columns)
{
    width_limit = columns;
}

/* 0: no limit. */
static size_t terminal_width(void)
{
    struct winsize size = {0};

    if (!isatty(STDOUT_FILENO))
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
        return 80;
    return size.ws_col;
}

static size_t line_width(void)
{
    size_t width = terminal_width();

    return width_limit && (!width || width > width_limit) ? width_limit : width;
}

static bool may_embolden(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && strcmp(term, "dumb");
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

static size_t width_of(const char *words)
{
    size_t width = 0;

    for (; *words; words++)
        width += begins_character(*words);
    return width;
}

/* The length of a control character (ASCII, or Latin-1 in UTF-8) at words, else 0. Text may come
 * from files and drivers, so each control character is printed as one '?'. */
static size_t control_bytes(const char *words)
{
    unsigned char first = (unsigned char)words[0], second = first ? (unsigned char)words[1] : 0;

    if (first < ' ' || first == 0x7f)
        return 1;
    return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : 0;
}

static void print_words(const char *words, size_t bytes)
{
    for (size_t i = 0, control; i < bytes; i += control ? control : 1) {
        control = control_bytes(words + i);
        putchar(control ? '?' : words[i]);
    }
}

static void print_spaces(size_t count)
{
    printf("%*s", (int)count, "");
}

void print_heading(const char *words)
{
    bool bold = may_embolden();

    fputs(bold ? "\n\033[1m" : "\n", stdout);
    print_words(words, strlen(words));
    fputs(bold ? "\033[0m\n" : "\n", stdout);
}

/* ---- wrapping --------------------------------------------------------------------------- */

/* The number of bytes of words that fit in width characters, up to a space if there is one. */
static size_t bytes_that_fit(const char *words, size_t width)
{
    size_t space = 0, at = 0, used = 0;

    for (; words[at]; at++) {
        if (begins_character(words[at]) && used++ == width)
            return space ? space : at;
        if (words[at] == ' ')
            space = at;
    }
    return at;
}

/* Prints words from the current column on; further lines begin in the same column. */
static void print_wrapped(const char *words, size_t column, size_t width)
{
    size_t room = width > column + 1 ? width - column : 1;

    for (;;) {
        size_t bytes = width ? bytes_that_fit(words, room) : strlen(words);

        print_words(words, bytes);
        putchar('\n');
        words += bytes;
        words += strspn(words, " ");
        if (!*words)
            return;
        print_spaces(column);
    }
}

void print_line(const char *words)
{
    print_wrapped(words, 0, line_width());
}

void print_paragraph(const char *mark, const char *words)
{
    print_spaces(INDENT);
    print_words(mark, strlen(mark));
    print_wrapped(words, INDENT + width_of(mark), line_width());
}

/* ---- tables ----------------------------------------------------------------------------- */

static void *grown(void *old, size_t bytes)
{
    void *made = realloc(old, bytes);

    if (made)
        return made;
    fprintf(stderr, "hmreg: out of memory\n");
    exit(EXIT_FAILED);
}

struct table *table_new(const char *const *columns, size_t count)
{
    struct table *table = grown(NULL, sizeof(*table));

    *table = (struct table){.columns = columns, .count = count};
    return table;
}

void table_add(struct table *table, const char *format, ...)
{
    char *cell = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&cell, format, args) < 0)
        cell = strcpy(grown(NULL, 1), "");
    va_end(args);
    if (table->cells == table->room) {
        table->room = table->room ? 2 * table->room : 64;
        table->cell = grown(table->cell, table->room * sizeof(*table->cell));
    }
    table->cell[table->cells++] = cell;
}

static const char *heading_of(const struct table *table, size_t column)
{
    const char *heading = table->columns[column];

    return heading + (heading[0] == '>');
}

static void measure(const struct table *table, size_t *widths)
{
    for (size_t i = 0; i < table->count; i++)
        widths[i] = width_of(heading_of(table, i));
    for (size_t i = 0; i < table->cells; i++) {
        size_t width = width_of(table->cell[i]);

        if (width > widths[i % table->count])
            widths[i % table->count] = width;
    }
}

/* Prints one line of a table, up to the last cell that is not empty; row NULL: the headings. */
static void print_row(const struct table *table, char *const *row, const size_t *widths,
                      size_t width)
{
    size_t last = table->count - 1, column = INDENT;

    while (row && last && !*row[last])
        last--;
    print_spaces(INDENT);
    for (size_t i = 0;; i++) {
        const char *cell = row ? row[i] : heading_of(table, i);
        size_t pad = widths[i] > width_of(cell) ? widths[i] - width_of(cell) : 0;
        bool right = table->columns[i][0] == '>';

        print_spaces(right ? pad : 0);
        if (i == last) {
            print_wrapped(cell, column, width);
            return;
        }
        print_words(cell, strlen(cell));
        print_spaces((right ? 0 : pad) + GAP);
        column += widths[i] + GAP;
    }
}

static void print_as_columns(const struct table *table, const size_t *widths, size_t width)
{
    print_row(table, NULL, widths, width);
    for (size_t i = 0; i < table->cells; i += table->count)
        print_row(table, &table->cell[i], widths, width);
}

static void print_as_blocks(const struct table *table, size_t width)
{
    size_t widest = 0;

    for (size_t i = 0; i < table->count; i++)
        if (width_of(heading_of(table, i)) > widest)
            widest = width_of(heading_of(table, i));
    for (size_t i = 0; i < table->cells; i++) {
        const char *heading = heading_of(table, i % table->count);

        if (i && i % table->count == 0)
            putchar('\n');
        if (!*table->cell[i])
            continue;
        print_spaces(INDENT);
        print_words(heading, strlen(heading));
        print_spaces(widest - width_of(heading) + GAP);
        print_wrapped(table->cell[i], INDENT + widest + GAP, width);
    }
}

static bool fits(const struct table *table, const size_t *widths, size_t width)
{
    size_t last = widths[table->count - 1], needed = INDENT;

    for (size_t i = 0; i + 1 < table->count; i++)
        needed += widths[i] + GAP;
    return !width || needed + (last < LEAST_WRAP ? last : LEAST_WRAP) <= width;
}

void table_print(struct table *table)
{
    size_t widths[MAX_COLUMNS], width = line_width();

    measure(table, widths);
    if (table->cells && fits(table, widths, width))
        print_as_columns(table, widths, width);
    else
        print_as_blocks(table, width);
    for (size_t i = 0; i < table->cells; i++)
        free(table->cell[i]);
    free(table->cell);
    free(table);
}
