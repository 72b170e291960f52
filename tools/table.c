/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See table.h. libsmartcols aligns columns and sets wrapped cells; the line breaks are
 * chosen here, since its callbacks for that changed between Debian 12's version and Debian 13's.
 */
#include "tools/table.h"

#include "tools/command.h"
#include "tools/foreign.h"
#include "tools/progress.h"

#include <libsmartcols.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP        "  "
#define LEAST_WRAP 24 /* a narrower last column would be unreadable */

struct table {
    struct libscols_table *table;
    struct libscols_line *row;
    size_t count, cells;
    size_t last;  /* the width of the last column */
    size_t least; /* to which it may be wrapped */
    int indent;
};

static size_t width_limit;

void print_width(size_t columns)
{
    width_limit = columns;
}

size_t print_columns(void)
{
    struct winsize size = {0};
    size_t width;

    if (!isatty(STDOUT_FILENO))
        return width_limit;
    width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
    return width_limit && width > width_limit ? width_limit : width;
}

/* ---- tables ----------------------------------------------------------------------------- */

static void *made(void *pointer)
{
    if (pointer)
        return pointer;
    fprintf(stderr, "hmreg: out of memory\n");
    exit(EXIT_FAILED);
}

/* UTF-8 continuation bytes do not count. */
static size_t width_of(const char *words, size_t bytes)
{
    size_t width = 0;

    for (size_t i = 0; i < bytes; i++)
        width += ((unsigned char)words[i] & 0xc0) != 0x80;
    return width;
}

/* The bytes of words that fit in a width, up to a space if there is one. */
static size_t bytes_that_fit(const char *words, size_t width)
{
    size_t space = 0, at = 0, used = 0;

    for (; words[at]; at++) {
        if (width_of(words + at, 1) && used++ == width)
            return space ? space : at;
        if (words[at] == ' ')
            space = at;
    }
    return at;
}

/* A copy with line breaks. */
static char *wrapped(const char *words, size_t width)
{
    char *text = made(malloc(2 * strlen(words) + 1)), *to = text;

    for (;;) {
        size_t bytes = bytes_that_fit(words, width);

        memcpy(to, words, bytes);
        to += bytes;
        words += bytes + strspn(words + bytes, " ");
        *to++ = *words ? '\n' : '\0';
        if (!*words)
            return text;
    }
}

void table_add_column(struct table *table, const char *heading)
{
    bool right = heading[0] == '>';

    made(scols_table_new_column(table->table, heading + right, 0, right ? SCOLS_FL_RIGHT : 0));
    table->last = width_of(heading + right, strlen(heading + right));
    table->count++;
}

struct table *table_new(const char *heading, ...)
{
    struct table *table = made(calloc(1, sizeof(*table)));
    va_list args;

    *table = (struct table){
        .table = made(scols_new_table()), .least = LEAST_WRAP, .indent = PAGE_INDENT};
    scols_table_set_column_separator(table->table, GAP);
    scols_table_set_termforce(table->table, SCOLS_TERMFORCE_NEVER);
    va_start(args, heading);
    for (; heading; heading = va_arg(args, const char *))
        table_add_column(table, heading);
    va_end(args);
    return table;
}

static void add(struct table *table, const char *format, va_list args)
{
    size_t column = table->cells++ % table->count;
    char *cell = NULL;

    if (vasprintf(&cell, format, args) < 0)
        made(NULL);
    foreign_text(cell);
    if (!column)
        table->row = made(scols_table_new_line(table->table, NULL));
    if (scols_line_refer_data(table->row, column, cell))
        made(NULL);
    if (column + 1 == table->count && width_of(cell, strlen(cell)) > table->last)
        table->last = width_of(cell, strlen(cell));
}

void table_add(struct table *table, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(table, format, args);
    va_end(args);
}

bool table_has_rows(const struct table *table)
{
    return table->cells > 0;
}

static char *text_of(struct table *table)
{
    char *text = NULL;

    if (scols_print_table_to_string(table->table, &text))
        made(NULL);
    return text;
}

static size_t longest_line(const char *text)
{
    size_t longest = 0;

    for (size_t bytes; *text; text += bytes + (text[bytes] == '\n')) {
        bytes = strcspn(text, "\n");
        longest = width_of(text, bytes) > longest ? width_of(text, bytes) : longest;
    }
    return longest;
}

/* Wraps the last column so that the longest line, of this length, fits. False: it cannot. */
static bool wrap(struct table *table, size_t length, size_t width)
{
    struct libscols_column *last = scols_table_get_column(table->table, table->count - 1);
    size_t others = length - table->last;
    struct libscols_line *row;

    if (scols_column_is_right(last) || table->last <= table->least || others + table->least > width)
        return false;
    scols_column_set_flags(last, SCOLS_FL_WRAP);
    scols_column_set_wrapfunc(last, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL);
    scols_column_set_safechars(last, "\n");
    for (size_t i = 0; (row = scols_table_get_line(table->table, i)); i++) {
        const char *cell = scols_cell_get_data(scols_line_get_cell(row, table->count - 1));
        char *lines = wrapped(cell, width - others);

        int rc = scols_line_set_data(row, table->count - 1, lines);

        free(lines);
        if (rc)
            made(NULL);
    }
    return true;
}

static void print_as_columns(const char *text, int indent)
{
    for (size_t bytes; *text; text += bytes + (text[bytes] == '\n')) {
        size_t used = bytes = strcspn(text, "\n");

        while (used && text[used - 1] == ' ')
            used--;
        printf("%*s%.*s\n", indent, "", (int)used, text);
    }
}

/* libsmartcols before 2.38 has no scols_column_get_name(). */
static const char *heading_of(struct table *table, size_t column)
{
    return scols_cell_get_data(
        scols_column_get_header(scols_table_get_column(table->table, column)));
}

static void print_as_blocks(struct table *table)
{
    int widest = 0;

    for (size_t i = 0; i < table->count; i++) {
        int width = (int)strlen(heading_of(table, i));

        widest = width > widest ? width : widest;
    }
    for (size_t i = 0; i < table->cells; i++) {
        size_t column = i % table->count;
        struct libscols_line *row = scols_table_get_line(table->table, i / table->count);
        const char *cell = scols_cell_get_data(scols_line_get_cell(row, column));
        char mark[64];

        snprintf(mark, sizeof(mark), "%-*s" GAP, widest, heading_of(table, column));
        if (i && !column)
            putchar('\n');
        if (*cell)
            print_paragraph(mark, "%s", cell);
    }
}

void table_print(struct table *table)
{
    size_t limit = print_columns(),
           width = limit > PAGE_INDENT ? limit - (size_t)table->indent : limit;
    char *text = table->cells ? text_of(table) : NULL;
    size_t length = text ? longest_line(text) : 0;

    if (width && length > width && wrap(table, length, width)) {
        free(text);
        text = text_of(table);
    } else if (width && length > width && table->count > 2) {
        print_as_blocks(table);
        table->cells = 0;
    }
    if (text && table->cells)
        print_as_columns(text, table->indent);
    free(text);
    scols_unref_table(table->table);
    free(table);
}

/* ---- text ------------------------------------------------------------------------------- */

/* A table of one row: the mark, and the words wrapped beside it. */
static struct table *row(int indent, const char *mark, const char *format, va_list args)
{
    struct table *table = *mark ? table_new(">", "", NULL) : table_new("", NULL);

    table->indent = indent;
    table->least = 1;
    scols_table_enable_noheadings(table->table, 1);
    scols_table_set_column_separator(table->table, "");
    if (*mark)
        table_add(table, "%s", mark);
    add(table, format, args);
    return table;
}

void print_heading(const char *format, ...)
{
    bool bold = progress_terminal(STDOUT_FILENO) && !secure_getenv("NO_COLOR");
    struct table *table;
    va_list args;

    va_start(args, format);
    table = row(0, "", format, args);
    va_end(args);
    scols_table_enable_colors(table->table, bold);
    scols_column_set_color(scols_table_get_column(table->table, 0), "bold");
    putchar('\n');
    table_print(table);
}

void print_indented(int indent, const char *mark, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    table_print(row(indent, mark, format, args));
    va_end(args);
}
