/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the document of `hmreg query` as a table.
 */
#ifndef HMREG_TOOLS_QUERY_H
#define HMREG_TOOLS_QUERY_H

#include <jansson.h>

void query_print_text(const json_t *document);

#endif
