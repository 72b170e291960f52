/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints headings, aligned columns and wrapped paragraphs. On a terminal no line is wider than the
 * terminal: the last column is wrapped, and a table too wide for that is printed as one small block
 * per row. Elsewhere (a file, a pipe) each row is one line unless print_width() was called. All
 * text is as foreign_text() makes it.
 */
#ifndef HMREG_TOOLS_TABLE_H
#define HMREG_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define PAGE_WIDTH  100 /* for text read as a page, see print_width() */
#define PAGE_INDENT 2

struct table;

/* Limits the width of all further output, on a terminal or not. */
void print_width(size_t columns);
/* How wide a line may be, by that limit and the terminal; 0: as wide as it is. */
size_t print_columns(void);

/* A heading on a separate line, after an empty line. */
void print_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line, wrapped if the terminal is narrow; and a paragraph, all of whose lines are indented and
 * whose first begins with mark, e.g. "[1] ". */
#define print_line(...)            print_indented(0, "", __VA_ARGS__)
#define print_paragraph(mark, ...) print_indented(PAGE_INDENT, mark, __VA_ARGS__)
void print_indented(int indent, const char *mark, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The arguments are headings, the last one is NULL; one that begins with '>' is aligned right. */
struct table *table_new(const char *heading, ...) __attribute__((sentinel));
/* Another column, before the first cell. */
void table_add_column(struct table *table, const char *heading);

/* The next cell; rows fill from the left. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool table_has_rows(const struct table *table);

/* Prints to stdout and frees; a table without rows prints nothing. */
void table_print(struct table *table);

#endif
