/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The calling thread's last registration that no path could take: kept for hmreg_explain(NULL).
 */
#ifndef HMREG_CORE_MR_EXPLAIN_H
#define HMREG_CORE_MR_EXPLAIN_H

#include <hmreg/hmreg.h>

/* Keeps why each path refused, in the place of what was kept before; without memory for it, not. */
void explain_keep(enum hmreg_iface iface, int device, const struct hmreg_reason *reasons,
                  uint32_t count);

#endif
