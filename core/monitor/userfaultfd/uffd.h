/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A userfaultfd that reports unmapped, moved and discarded memory, and the ioctls on it: how it is
 * opened where the system call is refused or may kill the process, and whether this kernel's
 * answers are exact. Ranges are registered for write protection and never protected, so no fault is
 * ever taken.
 */
#ifndef HMREG_CORE_MONITOR_USERFAULTFD_UFFD_H
#define HMREG_CORE_MONITOR_USERFAULTFD_UFFD_H

#include "core/base/owned_fd.h"

#include <stdbool.h>
#include <stdint.h>

/* by_name: the user requested userfaultfd by name; only then is userfaultfd(2) called under a
 * seccomp filter, which may kill the process for it. -EPERM, -ENOSYS: this process may not use what
 * the monitor needs, or this kernel does not have it. -EMFILE, -ENFILE, -ENOMEM. */
int uffd_open(bool by_name, struct owned_fd *out);
/* Register and unregister whole pages. 0 or -errno: -EINVAL, memory of a kind that cannot be
 * watched; -EBUSY, memory registered with another userfaultfd. */
int uffd_watch(int fd, uint64_t start, uint64_t end);
int uffd_unwatch(int fd, uint64_t start, uint64_t end);
/* Unregisters a range in pieces, since the kernel walks its pages with the address space locked.
 * Calls between() after each piece, unless it is NULL. Registers the range first: that fails for
 * memory of another userfaultfd. False: it failed, and nothing has changed. */
bool uffd_leave(int fd, uint64_t start, uint64_t end, void (*between)(void *arg), void *arg);
/* Unregisters without registering first: for kernels that unregister only our own memory
 * (uffd_is_strict()). Memory that is not registered stays as it is. */
void uffd_leave_own(int fd, uint64_t start, uint64_t end, void (*between)(void *arg), void *arg);
/* Does the kernel refuse to unregister another userfaultfd's memory, as Linux 6.17 does? by_name:
 * as for uffd_open(), which opened fd. */
bool uffd_is_strict(int fd, bool by_name);
/* 0: the page at addr is watched, by this userfaultfd or another; -ENOENT: it is not; -EAGAIN: a
 * change is under way. Any other value: unknown. */
int uffd_ask_watched(int fd, uint64_t addr, uint64_t page_size);

/* 0: no change is under way, so every event has been read. -EAGAIN: an event is still to be read.
 * Any other value: unknown. */
int uffd_ask_changing(int fd);

/* False: a sandbox refuses the calling thread read(2) of the descriptor. Reads no event. */
bool uffd_may_read(int fd);

/* Is uffd_ask_changing() exact on this kernel? features: all that UFFDIO_API reports; release: that
 * of uname(2). */
bool uffd_is_exact(uint64_t features, const char *release);

#endif
