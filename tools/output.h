/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A file that the command writes, such as a report. It is made in memory, and written to its name
 * when it is complete; until then an existing file of that name stays.
 *
 * Accepted are a new name, a regular file of this user's own that has no second name, and a device.
 * Links in other users' folders and the like are refused (core/base/own_path.h). An existing file
 * is overwritten in place, so that it keeps its mode and mounts. /dev/stdout, /dev/stderr,
 * /dev/fd/N and /proc/self/fd/N are this process's own descriptors, written at their offset.
 */
#ifndef HMREG_TOOLS_OUTPUT_H
#define HMREG_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* Can the name be written? Changes nothing. False: errno. */
bool output_try(const char *path);

/* Opens a file in memory, to write and read; its descriptor too. NULL: errno. */
FILE *output_begin(void);
/* Writes the file's content to this name and closes the file; file NULL: writes an empty one.
 * False: errno. */
bool output_end(FILE *file, const char *path);

/* The text of an errno value that these calls or core/base/own_path.h return for a refused name:
 * "it is a symbolic link...". NULL: the value is the kernel's own. */
const char *output_refusal(int error);

#endif
