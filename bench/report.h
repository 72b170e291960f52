/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Writes the results as a table, JSON, plots and Markdown.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/machine.h"

#include <stdio.h>

/* Prints the table; returns how many targets were missed. */
int report_table(FILE *to, const struct machine *machine);
/* Prints every row with its target, without measuring. */
void report_targets(FILE *to);
/* Writes all rows and all series; see docs/performance.md. */
void report_json(const char *path, const struct machine *machine);
/* Reads the machine and all series of such a file, in place of measuring. */
void report_read(const char *path, struct machine *machine);
/* Writes SVG files into a folder, those that have values. */
void report_plots(const char *folder, const struct machine *machine);
/* Writes figures.md into the folder of the plots. */
void report_markdown(const char *folder, const struct machine *machine);

/* Formats a value with its significant digits. */
const char *number(char *room, size_t size, double value);

#endif
