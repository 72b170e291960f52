/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds runtimes that change mappings past every hook in libc, by their marks: a sanitizer's, Go's.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_BYPASS_H
#define HMREG_CORE_MONITOR_MEMHOOKS_BYPASS_H

/* Returns the runtime's usual name. *file: its file, valid while that is loaded. NULL: none was
 * found. */
const char *bypass_find(const char **file);

#endif
