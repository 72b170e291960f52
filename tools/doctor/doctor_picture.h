/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The file of `hmreg doctor --picture`.
 */
#ifndef HMREG_TOOLS_DOCTOR_DOCTOR_PICTURE_H
#define HMREG_TOOLS_DOCTOR_DOCTOR_PICTURE_H

#include <jansson.h>
#include <stdbool.h>

/* Does the name end in .svg, or in .dot for Graphviz's text? */
bool picture_is_name(const char *name);

/* Call before the proofs, which take long. False: the file cannot be written or Graphviz is
 * missing; an error is printed. */
bool picture_try(const char *name);
/* Writes the picture. False: an error is printed. */
bool picture_write(const char *name, const json_t *document);

#endif
