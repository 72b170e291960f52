/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The word that a user may have meant: the one of those accepted that the fewest letters tell from
 * what was typed.
 */
#ifndef HMREG_TOOLS_NEAREST_H
#define HMREG_TOOLS_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *typed;
    size_t length;     /* of what counts in typed */
    const char *found; /* NULL: none is near */
    size_t distance;
};

void nearest_try(struct nearest *nearest, const char *accepted);

#endif
