/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Shows the progress of a long command as one line on standard error, if that is a terminal. Also
 * tells which descriptors are terminals that can move the cursor.
 */
#ifndef HMREG_TOOLS_PROGRESS_H
#define HMREG_TOOLS_PROGRESS_H

#include <stdbool.h>

/* Is the descriptor a terminal on which a line can be written again? */
bool progress_terminal(int fd);

/* Replaces the line by this one. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Removes the line. Call before other output. */
void progress_end(void);

#endif
