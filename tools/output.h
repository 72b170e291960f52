/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A file that the command writes, such as a report: made in memory, and written to its name when it
 * is complete. Until then, and where the process ends before, what has the name stays.
 *
 * Accepted are a new name, a regular file of this user's own that has no second name, and a device.
 * Links in other users' folders and the like are refused (core/base/own_path.h). A file that is
 * there is written from its beginning, so that it keeps its mode and whatever is mounted on it.
 * /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N are this process's own descriptors,
 * written where they are.
 */
#ifndef HMREG_TOOLS_OUTPUT_H
#define HMREG_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Can it be written? What has the name stays. False: errno. */
bool output_try(const char *path);

/* To be written and read, in memory; its descriptor too. NULL: errno. */
FILE *output_begin(void);
/* Writes what is in the file, or NULL: nothing, to this name, and closes it. False: errno. */
bool output_end(FILE *file, const char *path);

/* The refusal that an errno value of these, or of core/base/own_path.h, stands for, in words: "it
 * is a symbolic link...". NULL: it is the kernel's own. */
const char *output_refusal(int error);

#endif
