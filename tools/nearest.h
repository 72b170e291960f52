/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Guesses the word that a user meant: the accepted word with the fewest letters different from the
 * typed one.
 */
#ifndef HMREG_TOOLS_NEAREST_H
#define HMREG_TOOLS_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *typed;
    size_t length;     /* number of typed letters to compare */
    const char *found; /* NULL: none is near */
    size_t distance;
};

void nearest_try(struct nearest *nearest, const char *accepted);

#endif
