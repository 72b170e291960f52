/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * This program once more, inside another one or with something preloaded.
 */
#ifndef BENCH_AGAIN_H
#define BENCH_AGAIN_H

#include <stdio.h>

/* Starts argv[0] (looked up in PATH); what it prints on stdout and stderr is read from the result,
 * which again_end() closes. environment: "NAME=value" to add, or NULL. */
FILE *again_begin(const char *const *argv, const char *environment);
/* Its exit status; -1: it was killed. */
int again_end(FILE *output);
/* Where this program lies. */
const char *again_path(void);

#endif
