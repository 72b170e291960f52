/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Makes text of others printable: names and contents of files, processes and devices, errors of
 * drivers, arguments. Some characters control a terminal, and others falsify what it shows, so all
 * output of the command passes through here: tables, JSON and messages.
 */
#ifndef HMREG_TOOLS_FOREIGN_H
#define HMREG_TOOLS_FOREIGN_H

#include <stddef.h>

/* Replaces in place by '?': control characters (U+0000 to U+001F, U+007F to U+009F), direction
 * marks (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), line separators (U+2028,
 * U+2029), and bytes that are not valid UTF-8. Returns text. */
char *foreign_text(char *text);

/* Copies at most room bytes, and changes the copy likewise; `to` has room + 1. `from` may change
 * meanwhile. */
void foreign_copy(char *to, const char *from, size_t room);

/* Prints a line on stderr through foreign_text(). */
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *first_error(void); /* the first one printed; "": there is none */

#endif
