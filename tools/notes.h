/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Numbered notes below a table, for reasons that many rows share.
 */
#ifndef HMREG_TOOLS_NOTES_H
#define HMREG_TOOLS_NOTES_H

#include <jansson.h>

/* A note's number, from 1. The same key has the same, and the words of the first. notes: an array,
 * empty at first. */
size_t note_number(json_t *notes, const char *key, const char *words);

/* "[1] words", after an empty line; nothing if there is none. */
void print_notes(const json_t *notes);

#endif
