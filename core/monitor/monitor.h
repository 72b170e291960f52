/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What notices that memory changed: the kernel, where the library may listen to it, hooks in libc,
 * or the application. Each opened library has a monitor; the domains' caches listen to it. What it
 * notices is pushed to the queue of changes (changes.h) and marked in the listeners' gates, before
 * the memory changes or before the thread that changed it goes on. docs/monitors.md compares them.
 */
#ifndef HMREG_CORE_MONITOR_MONITOR_H
#define HMREG_CORE_MONITOR_MONITOR_H

#include "core/monitor/gate.h"
#include "core/monitor/userfaultfd/userfault.h"

#include <hmreg/hmreg.h>

struct monitor;

/* A domain's caches. */
struct listener {
    struct listener *next;
    struct gate *gate; /* hears the monitor's changes while it is attached */
    /* As userfault_client's. */
    bool (*needs)(struct listener *listener, uint64_t start, uint64_t end, struct span *out);
};

/* Starts the monitor that is asked for by name; the default is left for monitor_choose(). -EPERM,
 * -ENOSYS: the kernel does not permit or have userfaultfd. -EOPNOTSUPP: this program cannot be
 * hooked. -ENOMEM, -EAGAIN, -EMFILE, -ENFILE. */
int monitor_open(enum hmreg_monitor asked, struct monitor **out);
void monitor_close(struct monitor *monitor); /* no domain listens any more */

/* Chooses what serves a default, unless that is done: the first of MEMHOOKS and USERFAULTFD that
 * this process may have, else DISABLED. Where only memory or descriptors are short it stays
 * DEFAULT, to be chosen at a later call. True: it was this call that chose. The thread's last error
 * stays. */
bool monitor_choose(struct monitor *monitor);

/* USERFAULTFD, IMPORT, DISABLED or MEMHOOKS; DEFAULT: not chosen yet. */
enum hmreg_monitor monitor_kind(const struct monitor *monitor);

void monitor_attach(struct monitor *monitor, struct listener *listener);
/* After this it is not asked. */
void monitor_detach(struct monitor *monitor, struct listener *listener);

/* Pushes the application's own notice, of memory of any kind, for the monitor's listeners.
 * Async-signal-safe. */
void monitor_notice(const struct monitor *monitor, uint64_t start, uint64_t end);

/* As userfault_watch(), _unwatch(). Each watch that was true is ended by one unwatch.
 * unmapped: a change has unmapped all of it. With any other kind nothing is watched: false,
 * nothing. */
bool monitor_watch(struct monitor *monitor, uint64_t start, uint64_t end);
void monitor_unwatch(struct monitor *monitor, uint64_t start, uint64_t end, bool unmapped);
/* Stops watching one mapping that has no region and stayed watched to be fast when one comes again
 * (watching.h). False: there is none. */
bool monitor_tidy(struct monitor *monitor);

/* Returns when every change that had happened to watched memory at the call is in the queue. False:
 * that did not come about in a reasonable time. With MEMHOOKS the kernel is not asked: a change
 * made past libc is known when the call that made it has returned. */
bool monitor_sync(const struct monitor *monitor);

/* Has every change been read that had happened to watched memory? Does not wait. */
bool monitor_is_read(const struct monitor *monitor);

/* With MEMHOOKS: *when is a time at which no call was under way that may change what is mapped; and
 * has none begun since? False: not known. */
bool monitor_is_quiet(const struct monitor *monitor, uint64_t *when);
bool monitor_is_unchanged(const struct monitor *monitor, uint64_t when);

/* Events the kernel has told the process so far. */
uint64_t monitor_events(const struct monitor *monitor);

/* All but the size. */
void monitor_query(struct monitor *monitor, struct hmreg_monitor_info *out);

#endif
