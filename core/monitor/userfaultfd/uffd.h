/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A userfaultfd that hears of unmapped, moved and discarded memory, and the ioctls on it: how it is
 * opened where the system call is refused or may kill, and whether this kernel's answers are exact.
 * Ranges are registered for write protection and never protected: no fault is ever taken.
 */
#ifndef HMREG_CORE_MONITOR_USERFAULTFD_UFFD_H
#define HMREG_CORE_MONITOR_USERFAULTFD_UFFD_H

#include "core/base/owned_fd.h"

#include <stdbool.h>
#include <stdint.h>

/* by_name: the user has asked for userfaultfd, not for whatever there is; only then is
 * userfaultfd(2) called under a seccomp filter, which may kill the process for it. -EPERM, -ENOSYS:
 * this process may not, or this kernel does not, do what it takes. -EMFILE, -ENFILE, -ENOMEM. */
int uffd_open(bool by_name, struct owned_fd *out);
/* Whole pages. 0 or -errno: -EINVAL, memory of a kind that cannot be watched; -EBUSY, memory that
 * another userfaultfd has. */
int uffd_watch(int fd, uint64_t start, uint64_t end);
int uffd_unwatch(int fd, uint64_t start, uint64_t end);
/* Is the page at addr watched, by this userfaultfd or another? False also where that is not known.
 */
bool uffd_is_watched(int fd, uint64_t addr, uint64_t page_size);

/* 0: every event is read. -EAGAIN: one is to come. Else there is no telling. */
int uffd_ask_changing(int fd);

/* Can uffd_ask_changing() be believed? features: all that UFFDIO_API reports; release: the
 * kernel's, of uname(2). */
bool uffd_is_exact(uint64_t features, const char *release);

#endif
