/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Keeps why every path refused the calling thread's last failed registration, for
 * hmreg_mr_explain(NULL); and warns of a region of unreadable memory.
 */
#ifndef HMREG_CORE_MR_EXPLAIN_H
#define HMREG_CORE_MR_EXPLAIN_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

/* Keeps the reasons of each path and replaces the previous ones. Does nothing if out of memory. */
void explain_keep(enum hmreg_iface iface, int device, const struct hmreg_reason *reasons,
                  uint32_t count);

/* The calling thread's reasons; NULL: none. */
const struct hmreg_explanation *explain_kept(void);

/* Logs, once for a library, that a region is of system memory that the process cannot read, on a
 * fabric that permits it (no HMREG_MR_ALLOCATED). Looks only while the log takes warnings. */
void explain_warn_unreadable(const struct hmreg_mr *mr);

/* Adds to the kept reasons which domains hold the room that the registration lacked. */
void explain_keep_room(const char *why);

#endif
