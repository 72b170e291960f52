/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Numbered notes below a table, for reasons that many rows share; and objects as tables.
 */
#ifndef HMREG_TOOLS_NOTES_H
#define HMREG_TOOLS_NOTES_H

#include <jansson.h>

/* A note's number, from 1. Calls with the same key get the same number; the first one's text is
 * kept. notes: an array, initially empty. */
size_t note_number(json_t *notes, const char *key, const char *words);

/* Prints "[1] words" for each note, after an empty line; prints nothing if there is no note. */
void print_notes(const json_t *notes);

/* Prints an object whose values are strings as a table with these headings. */
void print_object(const char *key, const char *value, const json_t *object);

#endif
