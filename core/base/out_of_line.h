/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Marks a static function that its callers seldom need. Inside them it would cost each call
 * registers to save, room on the stack, and a check of the stack.
 */
#ifndef HMREG_CORE_BASE_OUT_OF_LINE_H
#define HMREG_CORE_BASE_OUT_OF_LINE_H

#define OUT_OF_LINE __attribute__((noinline))

#endif
