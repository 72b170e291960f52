/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's word about memory whose pages change: unmapped, remapped, thrown away. One
 * userfaultfd and one thread serve the whole process, since a page can be watched by one
 * userfaultfd only; every opened library is a client.
 */
#ifndef HMREG_CORE_USERFAULT_H
#define HMREG_CORE_USERFAULT_H

#include "core/itree.h"

#include <stdbool.h>
#include <stdint.h>

struct userfault;

/* Memory that changed. */
struct change {
    uint64_t start, end; /* whole pages, from the kernel; any bytes, from the application */
    bool host_only;      /* the kernel's: it knows nothing of devices' memory */
    bool unmapped;       /* the kernel has stopped watching what is in it */
};

/* changed() is called on the thread that reads events, while some other thread sleeps in
 * munmap(2) or its like, holding whatever locks it holds: it does not allocate, free, register,
 * deregister, or take a lock under which anyone does. */
struct userfault_client {
    struct userfault_client *next;
    void (*changed)(struct userfault_client *client, const struct change *change);
};

/* A range that is watched, in whole pages; part of what is to be invalidated. */
struct watch {
    struct itree_node node;
    bool on;
    bool gone; /* a change has unmapped all of it: nothing is left to stop watching */
};

/* Starts watching, or joins. *out is left with userfault_close(). -EPERM, -ENOSYS: the kernel
 * does not permit, or have, what it takes. -ENOMEM, -EAGAIN, -EMFILE, -ENFILE. */
int userfault_open(struct userfault_client *client, struct userfault **out);

/* After this the client is not called. Nothing of it is watched any more. */
void userfault_close(struct userfault *userfault, struct userfault_client *client);

/* Watches the pages of [start, end). Changes from now on are told. False: the kernel cannot. True
 * does not mean that all of it is mapped, or that it is memory of a kind whose every change is
 * told: see cache_set.c. */
bool userfault_watch(struct userfault *userfault, struct watch *watch, uint64_t start,
                     uint64_t end);
/* Stops, but for pages that other watches need. One that is not on is left alone. */
void userfault_unwatch(struct userfault *userfault, struct watch *watch);

/* Returns when every change that had happened to watched memory at the call has been told. False:
 * that did not come about in a reasonable time. */
bool userfault_settle(struct userfault *userfault);

/* Events read so far, by the whole process. */
uint64_t userfault_events(const struct userfault *userfault);

#endif
