/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The parts of `hmreg stats`: finds the processes that use hmreg in /proc, and reads the statistics
 * that each publishes, as JSON (hmreg-stats(1)); prints that document as tables.
 */
#ifndef HMREG_TOOLS_STATS_STATS_H
#define HMREG_TOOLS_STATS_STATS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* Limits of one reading: for all processes, and for one of them. */
#define STATS_ALL_SECONDS     5
#define STATS_ALL_DESCRIPTORS (1u << 20)
#define STATS_ONE_DESCRIPTORS (1u << 17)
#define STATS_ALL_FILES       1024
#define STATS_ONE_FILES       16
#define STATS_ALL_CACHES      4096
#define STATS_ONE_CACHES      1024

/* Sets the document's "processes", an array; "unreadable", the number of processes that this user
 * may not inspect; and "left_out", the number of processes that were not read wholly because of the
 * limits above. */
void stats_find_all(json_t *document);

/* Reads one process. False, with the reason in why: it does not exist, may not be inspected, or
 * publishes no statistics. */
bool stats_find_one(json_t *document, pid_t pid, char why[512]);

void stats_print_text(const json_t *document);
/* Prints the document in OpenMetrics' text format. */
void stats_print_metrics(const json_t *document);
/* Prints the sums of all caches in one line of fixed width. first: with headings, without rates. */
void stats_print_line(const json_t *document, bool first);

#endif
