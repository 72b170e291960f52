/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Threads of the library's own that call fabrics: at exit(3) they begin no further call, and the
 * exit waits for those under way, since a fabric that has shut down must not be called. It waits
 * half a second at most, since a fabric may hang.
 */
#ifndef HMREG_CORE_BASE_EXITING_H
#define HMREG_CORE_BASE_EXITING_H

#include <stdbool.h>

/* Before the first such thread starts. False: no memory; not recorded. */
bool exiting_heed(void);
/* Such a thread is about to call a fabric, and has returned. False: the process exits. */
bool exiting_enter(void);
void exiting_leave(void);

#endif
