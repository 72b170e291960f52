/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What notices that host memory changed.
 */
#ifndef HMREG_CORE_MONITOR_H
#define HMREG_CORE_MONITOR_H

#include <hmreg/hmreg.h>

struct monitor;

/* Starts the monitor a choice asks for. -EPERM, -ENOSYS: userfaultfd was asked for by name and
 * is not to be had; the default falls back to disabled. -ENOMEM, -EAGAIN, -EMFILE. */
int monitor_open(enum hmreg_monitor choice, struct monitor **out);
void monitor_close(struct monitor *monitor);

#endif
