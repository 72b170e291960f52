/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The userfaultfd monitor: the kernel reports memory whose pages change, because it is unmapped,
 * remapped or discarded. One userfaultfd and one thread serve the whole process, since a page can
 * be registered with one userfaultfd only; every opened library is a client.
 */
#ifndef HMREG_CORE_MONITOR_USERFAULTFD_USERFAULT_H
#define HMREG_CORE_MONITOR_USERFAULTFD_USERFAULT_H

#include "core/monitor/userfaultfd/watched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct userfault;

/* An opened library that watches memory. */
struct userfault_client {
    struct userfault_client *next;
    /* Finds the first piece of [start, end) that must stay watched for the client; a piece that
     * begins before start is reported whole. False: there is none. Called on the threads that
     * unwatch memory. */
    bool (*needs)(struct userfault_client *client, uint64_t start, uint64_t end, struct span *out);
};

/* Opens the monitor, or joins it; each open is paired with one userfault_close() of *out. A thread
 * of the monitor's own, which takes no lock of ours, pushes changes of watched memory to the change
 * queue (change_queue.h); the first watch starts it. by_name: see uffd_open(). -EPERM, -ENOSYS: the
 * kernel does not permit, or does not have, what the monitor needs. -ENOMEM, -EAGAIN, -EMFILE,
 * -ENFILE. */
int userfault_open(struct userfault_client *client, bool by_name, struct userfault **out);

/* After it returns the client is not called any more. At the call no region of the client is
 * watched any more. */
void userfault_close(struct userfault *userfault, struct userfault_client *client);

/* Starts the thread that a watch needs, unless it runs. -EBADF, not recorded: see
 * userfault_is_usable(). -EAGAIN, -ENOMEM, or another if a sandbox forbids it: the thread cannot be
 * started. */
int userfault_have_thread(struct userfault *userfault);
/* Watches the mappings that contain [start, end): later changes are pushed. -EINVAL, not recorded:
 * the kernel cannot watch it, or part of it is not mapped; -EBADF, not recorded: see
 * userfault_is_usable(); -ESRCH, not recorded: the thread does not run. 0 does not mean that every
 * change of this kind of memory is reported: see notice_watch_entry(). A client whose
 * needs() covers the range before this call keeps it watched. */
int userfault_watch(struct userfault *userfault, uint64_t start, uint64_t end);
/* Call when a client no longer needs [start, end). Stops watching mappings without a byte that a
 * client needs, except a few large ones (watched.h). unmapped: a change has unmapped the whole
 * range. */
void userfault_unwatch(struct userfault *userfault, uint64_t start, uint64_t end, bool unmapped);
/* Stops watching one of the large mappings that userfault_unwatch() left. False: there is none. */
bool userfault_tidy(struct userfault *userfault);

/* If no client needs any memory, ends the thread and the remaining watches, until
 * userfault_have_thread(). False: a client needs memory, or the thread has not begun yet. */
bool userfault_rest(struct userfault *userfault);

/* False: the application has closed the descriptor, or a sandbox refuses the thread read(2). Then
 * watches fail, and a change of all memory has been pushed. A thread with a descriptor of its own
 * reads on, if it may. */
bool userfault_is_usable(struct userfault *userfault);
/* Closes the program's descriptor if a sandbox has refused the monitor's thread read(2): threads
 * that sleep until their event is read go on. The push of that loss wakes the thread that is to
 * call this, one with the program's descriptors. Any thread; takes no lock. */
void userfault_release_unread(void);

/* Has the monitor read every change that had happened to watched memory? Does not wait. */
bool userfault_is_read(const struct userfault *userfault);

/* Returns when the current read of events, if any, has ended: the events it read are pushed. */
void userfault_await_reading(const struct userfault *userfault);
/* Returns when every change that had happened to watched memory at the call has been pushed. False:
 * the events were not read in time. */
bool userfault_sync(const struct userfault *userfault);
/* For tests: sets how often userfault_sync() asks the kernel whether the events were read. */
void userfault_set_tries(unsigned tries);

/* Events read so far, by the whole process. */
uint64_t userfault_events(const struct userfault *userfault);

#endif
