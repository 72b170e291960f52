/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What notices that memory changed: the kernel, where the library may listen to it, or the
 * application. Each opened library has a monitor; caches listen to it.
 */
#ifndef HMREG_CORE_MONITOR_H
#define HMREG_CORE_MONITOR_H

#include "core/userfault.h"

#include <hmreg/hmreg.h>

struct monitor;

/* changed(): see struct userfault_client, whose rules hold here. */
struct listener {
    struct listener *next;
    void (*changed)(struct listener *listener, const struct change *change);
};

/* Starts the monitor a choice asks for. -EPERM, -ENOSYS: userfaultfd was asked for by name and
 * is not to be had; the default falls back to disabled. -ENOMEM, -EAGAIN, -EMFILE, -ENFILE. */
int monitor_open(enum hmreg_monitor choice, struct monitor **out);
void monitor_close(struct monitor *monitor); /* nobody listens any more */

/* USERFAULTFD, IMPORT or DISABLED. */
enum hmreg_monitor monitor_kind(const struct monitor *monitor);

void monitor_attach(struct monitor *monitor, struct listener *listener);
/* After this it is not called. */
void monitor_detach(struct monitor *monitor, struct listener *listener);

/* Tells all listeners. */
void monitor_tell(struct monitor *monitor, const struct change *change);

/* As userfault_watch(), _unwatch(), _settle(). With IMPORT and DISABLED nothing is watched:
 * false, nothing, true. */
bool monitor_watch(struct monitor *monitor, struct watch *watch, uint64_t start, uint64_t end);
void monitor_unwatch(struct monitor *monitor, struct watch *watch);
bool monitor_settle(struct monitor *monitor);

/* Events the kernel has told the process so far. */
uint64_t monitor_events(const struct monitor *monitor);

#endif
