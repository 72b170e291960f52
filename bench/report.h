/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The results, as people, programs and documents read them.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/machine.h"

#include <stdio.h>

/* The table; the result is how many targets were missed. */
int report_table(FILE *to, const struct machine *machine);
/* Every row with its verdict; not measured. */
void report_targets(FILE *to);
/* All rows and all series; see docs/performance.md. */
void report_json(const char *path, const struct machine *machine);
/* SVG files in a folder, as far as there are values for them. */
void report_plots(const char *folder, const struct machine *machine);
/* figures.md in a folder that has the plots. */
void report_markdown(const char *folder, const struct machine *machine);

/* A value with the digits that mean something. */
const char *number(char *room, size_t size, double value);

#endif
