/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See table.h. libsmartcols aligns columns and sets wrapped cells; the line breaks are
 * chosen here, since its callbacks for that changed between Debian 12's version and Debian 13's.
 */
#include "tools/table.h"

#include "tools/command.h"
#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/progress.h"

#include <inttypes.h>
#include <libsmartcols.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP        "  "
#define GAP_WIDTH  (sizeof(GAP) - 1)
#define LEAST_WRAP 24 /* a narrower last column would be unreadable */

struct table {
    struct libscols_table *table;
    struct libscols_line *row;
    size_t count, cells;
    size_t last;  /* the width of the last column */
    size_t least; /* the least width to wrap it to */
    int indent;
};

static size_t width_limit;
static size_t most_lines, line_count; /* see print_most() */

void print_width(size_t columns)
{
    width_limit = columns;
}

size_t print_most(size_t most)
{
    size_t left_out = most_lines && line_count > most_lines ? line_count - most_lines : 0;

    most_lines = most;
    line_count = 0;
    return left_out;
}

/* Counts a line. True: print it. */
static bool next_line(void)
{
    return ++line_count <= most_lines || !most_lines;
}

void print_blank(void)
{
    if (next_line())
        putchar('\n');
}

/* The greatest width of a line, by that limit and the terminal; 0: no limit. */
static size_t print_columns(void)
{
    struct winsize size = {0};
    size_t width;

    if (!isatty(STDOUT_FILENO))
        return width_limit;
    width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
    return width_limit && width > width_limit ? width_limit : width;
}

/* ---- a table ----------------------------------------------------------------------------- */

static void *made(void *pointer)
{
    if (!pointer)
        doc_no_memory();
    return pointer;
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

static void add_column(struct table *table, const char *heading)
{
    bool right = heading[0] == '>';

    made(scols_table_new_column(table->table, heading + right, 0, right ? SCOLS_FL_RIGHT : 0));
    table->last = width_of(heading + right, strlen(heading + right));
    table->count++;
}

static struct table *new_table(const char *heading)
{
    struct table *table = made(calloc(1, sizeof(*table)));

    *table = (struct table){
        .table = made(scols_new_table()), .least = LEAST_WRAP, .indent = PAGE_INDENT};
    scols_table_set_column_separator(table->table, GAP);
    scols_table_set_termforce(table->table, SCOLS_TERMFORCE_NEVER);
    add_column(table, heading);
    return table;
}

/* The next cell, of words that the table frees; rows fill from the left. */
static void take_cell(struct table *table, char *cell)
{
    size_t column = table->cells++ % table->count;

    foreign_text(made(cell));
    if (!column)
        table->row = made(scols_table_new_line(table->table, NULL));
    if (scols_line_refer_data(table->row, column, cell))
        made(NULL);
    if (column + 1 == table->count && width_of(cell, strlen(cell)) > table->last)
        table->last = width_of(cell, strlen(cell));
}

static void add_cell(struct table *table, const char *words)
{
    take_cell(table, strdup(words));
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
        if (next_line())
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
            print_blank();
        if (*cell)
            print_paragraph(mark, "%s", cell);
    }
}

/* Prints to stdout and frees; a table without rows prints nothing. */
static void print_table(struct table *table)
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
    struct table *table = new_table(*mark ? ">" : "");
    char *cell = NULL;

    if (*mark)
        add_column(table, "");
    table->indent = indent;
    table->least = 1;
    scols_table_enable_noheadings(table->table, 1);
    scols_table_set_column_separator(table->table, "");
    if (*mark)
        add_cell(table, mark);
    if (vasprintf(&cell, format, args) < 0)
        made(NULL);
    take_cell(table, cell);
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
    print_blank();
    print_table(table);
}

void print_indented(int indent, const char *mark, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_table(row(indent, mark, format, args));
    va_end(args);
}

/* ---- cells ------------------------------------------------------------------------------ */

/* The value at "limits/soft"; NULL: absent. */
static const json_t *value_at(const json_t *row, const char *key)
{
    char name[64];

    for (; row && *key; key += strcspn(key, "/"), key += *key == '/') {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(key, "/"), key);
        row = json_is_array(row) ? json_array_get(row, strtoul(name, NULL, 10))
                                 : json_object_get(row, name);
    }
    return row;
}

static const char *words_of(const struct column *column, const json_t *row, char buf[CELL],
                            json_t *notes)
{
    const json_t *value = column->key ? value_at(row, column->key) : row;

    if (!value)
        return "";
    if (json_is_null(value))
        return column->none ? column->none : "";
    if (column->cell)
        return column->cell(value, buf, notes);
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_boolean(value))
        return json_is_true(value) ? "yes" : "no";
    snprintf(buf, CELL, "%" PRIu64, (uint64_t)json_integer_value(value));
    return buf;
}

const char *cell_bytes(const json_t *value, char buf[CELL], json_t *notes)
{
    return doc_bytes_words((uint64_t)json_integer_value(value), buf);
}

const char *cell_device(const json_t *row, char buf[CELL], json_t *notes)
{
    return doc_device_words(row, buf);
}

/* ---- notes ------------------------------------------------------------------------------ */

size_t note_number(json_t *notes, const char *key, const char *words)
{
    const json_t *note;

    doc_each(note, notes)
        if (doc_equals(note, "key", key))
            return note_i + 1;
    doc_add(notes, doc_pack("{s:s, s:o}", "key", key, "words", doc_text(words)));
    return json_array_size(notes);
}

/* "[1] words" for each note, after an empty line. */
static void print_notes(const json_t *notes)
{
    const json_t *note;

    if (json_array_size(notes))
        print_blank();
    doc_each(note, notes) {
        char mark[24];

        snprintf(mark, sizeof(mark), "[%zu] ", note_i + 1);
        print_paragraph(mark, "%s", doc_words(note, "words"));
    }
}

/* ---- tables of objects
 * ----------------------------------------------------------------------------- */

static bool is_shown(const struct column *column, const json_t *rows, json_t *notes)
{
    bool shown = !column->usual;
    char buf[CELL];
    const json_t *row;

    doc_each(row, rows)
        shown = shown || strcmp(words_of(column, row, buf, notes), column->usual) != 0;
    return shown;
}

void print_rows(const struct column *columns, const json_t *rows)
{
    struct table *table = new_table(columns->heading);
    json_t *notes = doc_array();
    const struct column *column;
    uint64_t shown = 1;
    char buf[CELL];
    const json_t *row;

    for (column = columns + 1; column->heading; column++) {
        if (!is_shown(column, rows, notes))
            continue;
        shown |= UINT64_C(1) << (column - columns);
        add_column(table, column->heading);
    }
    doc_each(row, rows)
        for (column = columns; column->heading; column++)
            if (shown & UINT64_C(1) << (column - columns))
                add_cell(table, words_of(column, row, buf, notes));
    print_table(table);
    print_notes(notes);
    json_decref(notes);
}

void print_fields(const char *name, const char *value, const struct column *fields,
                  const json_t *document)
{
    struct table *table = new_table(name);
    char buf[CELL];

    add_column(table, value);
    for (; fields->heading; fields++) {
        add_cell(table, fields->heading);
        add_cell(table, words_of(fields, document, buf, NULL));
    }
    print_table(table);
}

void print_object(const char *name, const char *value, const json_t *object)
{
    struct table *table = new_table(name);
    const json_t *words;
    const char *key;

    add_column(table, value);
    json_object_foreach((json_t *)(uintptr_t)object, key, words) {
        add_cell(table, key);
        add_cell(table, json_string_value(words));
    }
    print_table(table);
}

/* ---- matrices --------------------------------------------------------------------------- */

static const char *name_at(const json_t *names, size_t i)
{
    return json_string_value(json_array_get(names, i));
}

static size_t longer(size_t length, const char *words)
{
    return strlen(words) > length ? strlen(words) : length;
}

/* How many columns fit beside the names of the rows. */
static size_t columns_that_fit(const struct matrix *matrix)
{
    size_t head = strlen(matrix->corner), widest = 0, width = print_columns();
    char buf[CELL];

    for (size_t row = 0; row < json_array_size(matrix->rows); row++) {
        head = longer(head, name_at(matrix->rows, row));
        for (size_t i = 0; i < json_array_size(matrix->columns); i++)
            widest = longer(widest, matrix->cell(matrix->context, row, i, buf));
    }
    for (size_t i = 0; i < json_array_size(matrix->columns); i++)
        widest = longer(widest, name_at(matrix->columns, i));
    if (!width)
        return SIZE_MAX;
    return width > head + GAP_WIDTH + widest ? (width - head - GAP_WIDTH) / (widest + GAP_WIDTH)
                                             : 1;
}

/* The columns from first up to, not including, end. */
static void print_part(const struct matrix *matrix, size_t first, size_t end)
{
    struct table *table = new_table(matrix->corner);
    char buf[CELL];

    for (size_t i = first; i < end; i++)
        add_column(table, name_at(matrix->columns, i));
    for (size_t row = 0; row < json_array_size(matrix->rows); row++) {
        add_cell(table, name_at(matrix->rows, row));
        for (size_t i = first; i < end; i++)
            add_cell(table, matrix->cell(matrix->context, row, i, buf));
    }
    print_table(table);
}

void print_matrix(const struct matrix *matrix)
{
    size_t count = json_array_size(matrix->columns), fit = columns_that_fit(matrix);

    for (size_t first = 0; first < count; first += fit < count ? fit : count) {
        if (first)
            print_blank();
        print_part(matrix, first, fit < count - first ? first + fit : count);
    }
}
