/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's word about memory whose pages change: unmapped, remapped, thrown away. One
 * userfaultfd and one thread serve the whole process, since a page can be watched by one
 * userfaultfd only; every opened library is a client.
 */
#ifndef HMREG_CORE_MONITOR_USERFAULTFD_USERFAULT_H
#define HMREG_CORE_MONITOR_USERFAULTFD_USERFAULT_H

#include "core/monitor/userfaultfd/watched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct userfault;

/* Who watches memory. */
struct userfault_client {
    struct userfault_client *next;
    /* The first piece of [start, end) that must stay watched for the client, or all of a piece that
     * begins before start. False: none. Called on the threads that unwatch memory. */
    bool (*needs)(struct userfault_client *client, uint64_t start, uint64_t end, struct span *out);
};

/* Starts watching, or joins. *out is left with userfault_close(). Changes of watched memory are
 * pushed to the queue (changes.h) on a thread of its own, which takes no lock of ours. -EPERM,
 * -ENOSYS: the kernel does not permit, or have, what it takes. -ENOMEM, -EAGAIN, -EMFILE, -ENFILE.
 * by_name: see uffd_open(). */
int userfault_open(struct userfault_client *client, bool by_name, struct userfault **out);

/* After this the client is not asked. Nothing of it is watched any more. */
void userfault_close(struct userfault *userfault, struct userfault_client *client);

/* Watches the mappings that hold [start, end). Changes from now on are pushed. False: the kernel
 * cannot, or part of it is not mapped. True does not mean that it is memory of a kind whose every
 * change is known: see get.c. A client that needs() the range before this call keeps it watched. */
bool userfault_watch(struct userfault *userfault, uint64_t start, uint64_t end);
/* A client no longer needs [start, end). Stops watching mappings of which no client needs any
 * byte, but for a few large ones (watching.h). unmapped: a change has unmapped all of it. */
void userfault_unwatch(struct userfault *userfault, uint64_t start, uint64_t end, bool unmapped);
/* Stops watching one of those, too. False: there is none. */
bool userfault_tidy(struct userfault *userfault);

/* Has the application closed the descriptor? Then nothing is watched any more, watches fail, and
 * all memory was told of as changed. */
bool userfault_is_lost(const struct userfault *userfault);

/* Has every change been read that had happened to watched memory? Does not wait. */
bool userfault_is_read(const struct userfault *userfault);

/* Returns when a reading of events that is under way has ended: what it read is pushed. */
void userfault_await_reading(const struct userfault *userfault);
/* Returns when every change that had happened to watched memory at the call has been pushed. False:
 * that did not come about in a reasonable time. */
bool userfault_sync(const struct userfault *userfault);

/* Events read so far, by the whole process. */
uint64_t userfault_events(const struct userfault *userfault);

#endif
