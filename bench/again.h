/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Runs this program again, under another program or with a preloaded library.
 */
#ifndef BENCH_AGAIN_H
#define BENCH_AGAIN_H

#include <stdio.h>

/* Starts argv[0] (searched in PATH). Its stdout and stderr are read from the result, which
 * again_end() closes. environment: "NAME=value" to add, or NULL. */
FILE *again_begin(const char *const *argv, const char *environment);
/* Returns its exit status; -1: it was killed. */
int again_end(FILE *output);
/* The path of this program. */
const char *again_path(void);

#endif
