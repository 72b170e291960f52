/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the document of `hmreg stats` as tables.
 */
#ifndef HMREG_TOOLS_STATS_STATS_TEXT_H
#define HMREG_TOOLS_STATS_STATS_TEXT_H

#include <jansson.h>

void stats_print_text(const json_t *document);

#endif
