/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The signals by which users end the command, and by which it crashes. Fabrics' libraries install
 * handlers for them when they are loaded (libfabric's psm providers). These call exit(3) inside the
 * interrupted code: the command then waits for ever for a lock of that code, or ends with a status
 * that means a verdict.
 */
#ifndef HMREG_TOOLS_SIGNALS_H
#define HMREG_TOOLS_SIGNALS_H

/* Restores the actions that the process was started with, before any library was initialised: the
 * default, or ignore, as by nohup(1). Call first in main(), and after each call that may load a
 * library. Any thread; keeps errno. */
void signals_restore(void);
/* Calls signals_restore() after a call, and returns that call's result. */
static inline int signals_after(int result)
{
    signals_restore();
    return result;
}

#endif
