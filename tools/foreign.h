/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Text that others wrote: names and contents of files, of processes and of devices, errors of
 * drivers, arguments. A terminal obeys some of its characters, and others make it show what is not
 * there; so what the command prints passes through here, in tables, JSON and messages.
 */
#ifndef HMREG_TOOLS_FOREIGN_H
#define HMREG_TOOLS_FOREIGN_H

#include <stddef.h>

/* Changes text in place: each control character (U+0000 to U+001F, U+007F to U+009F), each that
 * sets a direction (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069) or separates lines
 * (U+2028, U+2029), and each byte that is not of a character in UTF-8 becomes '?'. Returns text. */
char *foreign_text(char *text);

/* The same of a copy of at most room bytes; `to` has room + 1. `from` may change meanwhile. */
void foreign_copy(char *to, const char *from, size_t room);

/* A line on stderr, the same of all of it. */
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
