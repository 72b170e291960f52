/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What is known, by its marks, to change mappings past every hook in libc: a sanitizer's runtime,
 * a Go runtime.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_BYPASS_H
#define HMREG_CORE_MONITOR_MEMHOOKS_BYPASS_H

/* Returns its usual name. *file: where it is, valid as long as that file is loaded. NULL: none is
 * known. */
const char *bypass_find(const char **file);

#endif
