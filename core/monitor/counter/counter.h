/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The monitor counter: the kernel module hmreg_counter counts each change of a watched range before
 * it can be seen, for any memory and any cause. One open file of its device serves the whole
 * process, and one thread while a range is watched.
 */
#ifndef HMREG_CORE_MONITOR_COUNTER_COUNTER_H
#define HMREG_CORE_MONITOR_COUNTER_COUNTER_H

#include "core/monitor/change/gate.h"

#include <stdbool.h>
#include <stdint.h>

struct counter_monitor;

/* Opens the device, or joins the libraries that have; starts no thread. Each open is paired with
 * one close. -ENOENT: the module is not loaded; -EACCES, -EPERM, -EOPNOTSUPP, -EDQUOT; -ENOMEM,
 * -EAGAIN, -EMFILE, -ENFILE. */
int counter_monitor_open(struct counter_monitor **out);
/* The client watches nothing any more. */
void counter_monitor_close(struct counter_monitor *counter);

/* Starts the thread that a watch needs, unless it runs. -ENOMEM, -EAGAIN; -EBADF: the program has
 * closed the descriptor; a change of all memory was pushed, and nothing can be watched any more. */
int counter_monitor_have_thread(struct counter_monitor *counter);
/* Watches [start, end): later changes of its pages are counted. Call it before the pages are
 * pinned, when the range is in its cache already. -ENOSPC: it watches as many ranges as it can; or
 * -ENOMEM, -EAGAIN, recorded. -EBADF: as above. -ESRCH, not recorded: the thread does not run. */
int counter_monitor_watch(struct counter_monitor *counter, uint64_t start, uint64_t end);
/* Ends one watch of exactly this range. */
void counter_monitor_unwatch(struct counter_monitor *counter, uint64_t start, uint64_t end);
/* Ends the thread if no range is watched, or none can be any more. counter_monitor_have_thread()
 * starts it again. */
void counter_monitor_rest(struct counter_monitor *counter);

/* The counts for gate_count() of domains whose memory it watches. */
const struct gate_counts *counter_monitor_counts(const struct counter_monitor *counter);
/* Returns when every change that was counted at the call is in the queue. */
void counter_monitor_sync(struct counter_monitor *counter);

/* Changes read so far. */
uint64_t counter_monitor_events(const struct counter_monitor *counter);

#endif
