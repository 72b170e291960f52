/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory monitor: reports changes of registered memory. Its source is the kernel (the module
 * hmreg_counter, or userfaultfd), hooks in libc, or the application. Each opened library has one
 * monitor, to which the caches of its domains listen. The monitor pushes a change to the change
 * queue (change_queue.h) and marks the listeners' gates before the memory changes, or before the
 * thread that changed it continues. docs/monitors-compared.md compares the monitors.
 */
#ifndef HMREG_CORE_MONITOR_MONITOR_H
#define HMREG_CORE_MONITOR_MONITOR_H

#include "core/monitor/change/gate.h"
#include "core/monitor/userfaultfd/userfault.h"

#include <hmreg/hmreg.h>

struct monitor;

/* A domain's caches, as the monitor knows them. */
struct listener {
    struct listener *next;
    struct gate *gate; /* the monitor's changes mark it while the listener is attached */
    /* As in struct userfault_client. */
    bool (*needs)(struct listener *listener, uint64_t start, uint64_t end, struct span *out);
};

/* Starts the monitor that is requested by name; a default is left to monitor_choose(), which
 * chooses DISABLED if plain_calls forbids others the system calls that they need. -EPERM,
 * -ENOSYS: the kernel does not permit, or does not have, userfaultfd. -EOPNOTSUPP: this program
 * cannot be hooked. -ENOMEM, -EAGAIN, -EMFILE, -ENFILE. */
int monitor_open(enum hmreg_monitor asked, bool plain_calls, struct monitor **out);
void monitor_close(struct monitor *monitor); /* no listener is attached */

/* Does the device of the kernel module hmreg_counter exist? */
bool monitor_has_counter(void);

/* Chooses the monitor that serves as the default, unless it is chosen already: the first of
 * COUNTER, MEMHOOKS and USERFAULTFD that works in this process, else DISABLED. The kind stays
 * DEFAULT, and a later call chooses, if only memory or descriptors are short, another thread is
 * loading files, or loaded code is not all searched. So it does if another thread has been choosing
 * for a second: that may wait for the dynamic linker, whose locks the caller may hold. True: since
 * the last call that returned true, a monitor was chosen, has lost its power, or memory or
 * descriptors were short for the first time. Preserves the thread's last error.
 *
 * A monitor loses its power when other code changes libc's code and it cannot be hooked again, when
 * code is loaded that changes mappings past the hooks, or when the program closes the userfaultfd.
 * Then all memory counts as changed, and a default that was MEMHOOKS becomes USERFAULTFD if that
 * works; else the kind becomes DISABLED. */
bool monitor_choose(struct monitor *monitor);

/* The monitor's kind; DEFAULT: not chosen yet. */
enum hmreg_monitor monitor_kind(const struct monitor *monitor);

/* Closes all that the monitor has open, until monitor_wake(): no memory is watched any more, and
 * none can be. wake: a default is to be chosen anew; one that was asked for by name and cannot be
 * had any more becomes DISABLED. Nothing changes where the application is the monitor, or none is.
 */
void monitor_sleep(struct monitor *monitor);
void monitor_wake(struct monitor *monitor);

void monitor_attach(struct monitor *monitor, struct listener *listener);
/* Returns when no thread calls the listener's needs(), nor will. */
void monitor_detach(struct monitor *monitor, struct listener *listener);

/* Pushes the application's own notice (hmreg_invalidate()), of memory of any kind, to the monitor's
 * listeners; hits stay enabled for other monitors' domains. Async-signal-safe. */
void monitor_notice(const struct monitor *monitor, uint64_t start, uint64_t end);

/* Pushes the end of a vendor's memory, for all domains. A hmem_listener (core/contract/hmem.h). */
void monitor_ended(uint64_t start, uint64_t end);

/* Starts the thread that the monitor needs to watch, unless it runs. Call it before
 * monitor_watch(), without any lock, since libc starts threads under the dynamic linker's locks. If
 * it cannot be started, monitor_watch() returns false. */
void monitor_have_thread(struct monitor *monitor);
/* As userfault_watch() and userfault_unwatch(); memhooks likewise. One unwatch ends each watch that
 * returned true. unmapped: a change has unmapped the whole range. With any other kind
 * monitor_watch() returns false, and monitor_unwatch() does nothing. */
bool monitor_watch(struct monitor *monitor, uint64_t start, uint64_t end);
void monitor_unwatch(struct monitor *monitor, uint64_t start, uint64_t end, bool unmapped);
/* Stops watching one mapping without a region. It stayed watched so that a new region there is fast
 * (watched.h). False: there is none. */
bool monitor_tidy(struct monitor *monitor);
/* Can monitor_unwatch() leave work for monitor_tidy()? */
bool monitor_keeps(const struct monitor *monitor);
/* Ends the monitor's thread, until monitor_have_thread(), if it watches no range for any library of
 * the process. Waits for the thread's end. Any thread but the monitor's, without a lock.
 */
void monitor_rest(struct monitor *monitor);
/* As userfault_release_unread(). To be called first when a change was pushed. */
void monitor_release(void);

/* Returns when every change that had happened to watched memory at the call is in the queue. False:
 * the kernel did not deliver its events in time. With MEMHOOKS it does not ask the kernel; a change
 * made past libc is not reported at all. */
bool monitor_sync(struct monitor *monitor);

/* Puts the changes that the kernel has counted in the queue. Makes no system call, and does nothing
 * with other monitors than COUNTER. */
void monitor_collect(const struct monitor *monitor);

/* Notes whether the kernel answered what a range of host memory is. rc 0: it did; else the thread's
 * last error is the reason. Unless only descriptors or memory are short, no range will be cached
 * any more: the monitor has lost its power. monitor_is_short(): the last question failed for such a
 * shortage, or as monitor_awaits_linker(); host memory is not cached for now. */
void monitor_asked(struct monitor *monitor, int rc);
bool monitor_is_short(const struct monitor *monitor);
/* Is it short only because the dynamic linker is loading files, or loaded code is not all searched?
 */
bool monitor_awaits_linker(const struct monitor *monitor);

/* Examines the code that was loaded, and clears GATE_LOOKING in a listener's gate. Call it without
 * a lock, before cached memory of the domain is used. False: another thread is loading or unloading
 * files, or code is left to search; no host memory is cached meanwhile. */
bool monitor_look(struct monitor *monitor, struct gate *gate);

/* Has the monitor read every change that had happened to watched memory? Does not wait. */
bool monitor_is_read(const struct monitor *monitor);

/* With MEMHOOKS: is_quiet sets *when to a time at which no call was under way that may change
 * mappings; is_unchanged says whether none has begun since. False: not known. */
bool monitor_is_quiet(const struct monitor *monitor, uint64_t *when);
bool monitor_is_unchanged(const struct monitor *monitor, uint64_t when);

/* Events read from the kernel so far, by the whole process. */
uint64_t monitor_events(const struct monitor *monitor);

/* Fills in all fields but the size. */
void monitor_query(struct monitor *monitor, struct hmreg_monitor_info *out);

#endif
