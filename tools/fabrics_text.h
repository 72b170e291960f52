/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fabrics of `hmreg info` as text: what each requires, and what it can register.
 */
#ifndef HMREG_TOOLS_FABRICS_TEXT_H
#define HMREG_TOOLS_FABRICS_TEXT_H

#include <jansson.h>

void fabrics_print_text(const json_t *fabrics);

#endif
