/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The signals by which users end the command, and by which it crashes. Fabrics' libraries install
 * handlers for them as they are loaded (libfabric's psm providers), which call exit(3) in the
 * middle of whatever was interrupted: the command waits for ever for a lock that this code holds,
 * or ends with a status that means a verdict.
 */
#ifndef HMREG_TOOLS_SIGNALS_H
#define HMREG_TOOLS_SIGNALS_H

/* Gives each of them the action that the process was started with, before any library was
 * initialised: the default, or none where it was started so, as by nohup(1). Call it first in
 * main(), and after each call that may load a library. Any thread; keeps errno. */
void signals_restore(void);
/* The same after a call with this result, which it returns. */
static inline int signals_after(int result)
{
    signals_restore();
    return result;
}

#endif
