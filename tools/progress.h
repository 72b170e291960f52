/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One line on standard error that says what a long command does now, where that is a terminal;
 * elsewhere nothing. And which descriptors are terminals that move the cursor.
 */
#ifndef HMREG_TOOLS_PROGRESS_H
#define HMREG_TOOLS_PROGRESS_H

#include <stdbool.h>

/* Is the descriptor a terminal on which a line can be written again? */
bool progress_terminal(int fd);

/* Puts this line in the place of the one before it. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Removes the line. Before other output. */
void progress_end(void);

#endif
