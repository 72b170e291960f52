/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The file of `hmreg doctor --picture`.
 */
#ifndef HMREG_TOOLS_DOCTOR_DOCTOR_PICTURE_H
#define HMREG_TOOLS_DOCTOR_DOCTOR_PICTURE_H

#include "core/base/own_path.h"

#include <jansson.h>
#include <stdbool.h>

struct picture {
    const char *name;
    struct own_output output; /* open between picture_begin() and one of the others */
};

/* Does the name end in .svg, or in .dot for Graphviz's text? */
bool picture_is_name(const char *name);

/* Before the proofs, which take long: false, and it has said why, where the file cannot be written
 * or Graphviz is missing. */
bool picture_begin(struct picture *picture, const char *name);
/* Writes it. False: it has said why, and what had the name stays. */
bool picture_end(struct picture *picture, const json_t *document);
/* Where picture_end() was not called: what had the name stays. */
void picture_cancel(struct picture *picture);

#endif
