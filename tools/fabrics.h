/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fabrics of this machine, as JSON: all fabrics of every fabric library that is built in.
 */
#ifndef HMREG_TOOLS_FABRICS_H
#define HMREG_TOOLS_FABRICS_H

#include "tools/fabric.h"

/* Sets "fabric_libraries" and "fabrics" of a document. */
void fabrics_describe(struct hmreg *lib, json_t *document);
/* The same, for a list whose lib and visit the caller has set. */
void fabrics_visit(struct fabric_list *list, json_t *document);

/* The text of "fabrics": what each requires, and what it can register. */
void fabrics_print_text(const json_t *fabrics);

#endif
