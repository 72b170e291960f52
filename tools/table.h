/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints headings, wrapped paragraphs, and tables of a document's objects, described by columns. On
 * a terminal no line is wider than the terminal: the last column is wrapped, and a table too wide
 * for that is printed as one small block per row. Elsewhere (a file, a pipe) each row is one line
 * unless print_width() was called. All text is as foreign_text() makes it.
 */
#ifndef HMREG_TOOLS_TABLE_H
#define HMREG_TOOLS_TABLE_H

#include <jansson.h>
#include <stddef.h>

#define PAGE_WIDTH  100 /* for text read as a page, see print_width() */
#define PAGE_INDENT 2

/* Limits the width of all further output, on a terminal or not. */
void print_width(size_t columns);

/* Limits the output from now on to this many lines; 0: no limit. Returns how many were left out
 * since the last call. */
size_t print_most(size_t lines);

/* An empty line. */
void print_blank(void);

/* A heading on a separate line, after an empty line. */
void print_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line, wrapped if the terminal is narrow; and a paragraph, all of whose lines are indented and
 * whose first begins with mark, e.g. "[1] ". */
#define print_line(...)            print_indented(0, "", __VA_ARGS__)
#define print_paragraph(mark, ...) print_indented(PAGE_INDENT, mark, __VA_ARGS__)
void print_indented(int indent, const char *mark, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- tables ----------------------------------------------------------------------------- */

#define CELL 2048 /* bytes of a cell's words */

/* A heading that begins with '>' is aligned right. A value that is absent is shown as nothing. */
struct column {
    const char *heading; /* NULL ends a list */
    const char *key;  /* path of the value in a row: "name", "nics/0/name"; NULL: the row itself */
    const char *none; /* the words for null; NULL: nothing */
    /* The words, in buf or elsewhere. NULL: text and numbers as they are, "yes" or "no". notes:
     * for note_number(). */
    const char *(*cell)(const json_t *value, char buf[CELL], json_t *notes);
    const char *usual; /* a column is left out if each cell has these words */
};

/* A column; more fields may follow: .none = "unknown". */
#define COLUMN(heading_, key_, ...)                                                                \
    {                                                                                              \
        .heading = heading_, .key = key_, __VA_ARGS__                                              \
    }

/* A note's number, from 1. Calls with the same key get the same number; the first one's text is
 * kept. */
size_t note_number(json_t *notes, const char *key, const char *words);

/* Prints a table with a row for each item of the array, and the notes of its cells. Without rows
 * prints nothing.
 */
void print_rows(const struct column *columns, const json_t *rows);

/* A table of two columns: a row for each field of the document, which `heading` names. */
void print_fields(const char *name, const char *value, const struct column *fields,
                  const json_t *document);

/* An object whose values are strings. */
void print_object(const char *name, const char *value, const json_t *object);

/* A table whose rows and columns have names, printed in parts of as many columns as fit. cell():
 * the words at a row and a column, by their numbers. */
struct matrix {
    const char *corner;
    const json_t *rows, *columns; /* names */
    const char *(*cell)(const void *context, size_t row, size_t column, char buf[CELL]);
    const void *context;
};
void print_matrix(const struct matrix *matrix);

/* Cells of columns: "16 GiB", "cuda 0" or "host" of a row. */
const char *cell_bytes(const json_t *value, char buf[CELL], json_t *notes);
const char *cell_device(const json_t *row, char buf[CELL], json_t *notes);

#endif
