/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The processes that use hmreg, found in /proc, and what each shows, as JSON (hmreg-stats(1)).
 */
#ifndef HMREG_TOOLS_STATS_STATS_FIND_H
#define HMREG_TOOLS_STATS_STATS_FIND_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* Sets in the document "processes", an array, and "unreadable", how many processes there was no
 * permission to look into. */
void stats_find_all(json_t *document);

/* The same for one process. False: it does not exist, must not be looked into, or shows nothing:
 * why has a sentence. */
bool stats_find_one(json_t *document, pid_t pid, char why[512]);

#endif
