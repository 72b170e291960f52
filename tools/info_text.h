/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the document of `hmreg info` as tables.
 */
#ifndef HMREG_TOOLS_INFO_TEXT_H
#define HMREG_TOOLS_INFO_TEXT_H

#include <jansson.h>

void info_print_text(const json_t *document);

#endif
