/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What notices that memory changed: the kernel, where the library may listen to it, hooks in libc,
 * or the application. Each opened library has a monitor; caches listen to it. docs/monitors.md
 * compares them.
 */
#ifndef HMREG_CORE_MONITOR_H
#define HMREG_CORE_MONITOR_H

#include "core/pulse.h"
#include "core/userfault.h"

#include <hmreg/hmreg.h>
#include <stdatomic.h>

struct monitor;

/* A cache set. The rules of struct userfault_client hold for both functions. */
struct listener {
    struct listener *next;
    /* The monitor sets PULSE_DOUBT while it is about to read changes, or to tell them. With
     * MEMHOOKS the pulse is hooked while it is attached. */
    struct pulse *pulse;
    atomic_uint told; /* the monitor's: how often there was no more doubt */
    bool untold;      /* the monitor's: some of what was read */
    /* Takes note of a part of a change; true: there is more of it, call again. */
    bool (*changed)(struct listener *listener, const struct change *change);
    /* As userfault_client's. */
    bool (*needs)(struct listener *listener, uint64_t start, uint64_t end, struct span *out);
};

/* Starts the monitor a choice asks for. -EPERM, -ENOSYS: userfaultfd was asked for by name and
 * is not to be had; the default falls back to disabled, memhooks does without. -EOPNOTSUPP:
 * memhooks were asked for, and this program cannot be hooked. -ENOMEM, -EAGAIN, -EMFILE, -ENFILE.
 */
int monitor_open(enum hmreg_monitor choice, struct monitor **out);
void monitor_close(struct monitor *monitor); /* nobody listens any more */

/* USERFAULTFD, IMPORT, DISABLED or MEMHOOKS. */
enum hmreg_monitor monitor_kind(const struct monitor *monitor);

void monitor_attach(struct monitor *monitor, struct listener *listener);
/* After this it is not called. */
void monitor_detach(struct monitor *monitor, struct listener *listener);

/* Tells all listeners, of the application's own notice: nobody doubts meanwhile. */
void monitor_tell(struct monitor *monitor, const struct change *change);

/* As userfault_watch(), _unwatch(), _settle(). Each watch that was true is ended by one unwatch.
 * unmapped: a change has unmapped all of it. With IMPORT and DISABLED nothing is watched: false,
 * nothing, true. */
bool monitor_watch(struct monitor *monitor, uint64_t start, uint64_t end);
void monitor_unwatch(struct monitor *monitor, uint64_t start, uint64_t end, bool unmapped);
bool monitor_settle(struct monitor *monitor);

/* As monitor_settle(), but waits only until this listener has been told. With MEMHOOKS the kernel
 * is not asked: a change made past libc is told when the call that made it returns. */
bool monitor_settle_one(struct monitor *monitor, struct listener *listener);

/* Has every change been read that had happened to watched memory? Does not wait. Not to be asked
 * with MEMHOOKS, where the pulse alone says what is in doubt. */
bool monitor_is_read(const struct monitor *monitor);

/* Events the kernel has told the process so far. */
uint64_t monitor_events(const struct monitor *monitor);

/* All but the size. */
void monitor_query(const struct monitor *monitor, struct hmreg_monitor_info *out);

#endif
