/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's word about memory whose pages change: unmapped, remapped, thrown away. One
 * userfaultfd and one thread serve the whole process, since a page can be watched by one
 * userfaultfd only; every opened library is a client.
 */
#ifndef HMREG_CORE_USERFAULT_H
#define HMREG_CORE_USERFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct userfault;

/* Memory that changed. */
struct change {
    uint64_t start, end; /* whole pages, from the kernel; any bytes, from the application */
    bool host_only;      /* the kernel's: it knows nothing of devices' memory */
    bool unmapped;       /* the kernel has stopped watching what is in it */
};

/* A piece of memory, in whole pages. */
struct span {
    uint64_t start, end;
};

/* Who wants to know. All three are called while some other thread sleeps in munmap(2) or its like,
 * holding whatever locks it holds: they do not allocate, free, register, deregister, or take a lock
 * under which anyone does. */
struct userfault_client {
    struct userfault_client *next;
    /* Changes are about to be read: what is known of memory is in doubt, until changed(). */
    void (*expect)(struct userfault_client *client);
    /* What was read, once after each expect(), be it nothing. The sleepers may run on already. */
    void (*changed)(struct userfault_client *client, const struct change *changes, size_t count);
    /* The first piece of [start, end) that must stay watched for the client, or all of a piece that
     * begins before start. False: none. */
    bool (*needs)(struct userfault_client *client, uint64_t start, uint64_t end, struct span *out);
};

/* Starts watching, or joins. *out is left with userfault_close(). -EPERM, -ENOSYS: the kernel
 * does not permit, or have, what it takes. -ENOMEM, -EAGAIN, -EMFILE, -ENFILE. */
int userfault_open(struct userfault_client *client, struct userfault **out);

/* After this the client is not called. Nothing of it is watched any more. */
void userfault_close(struct userfault *userfault, struct userfault_client *client);

/* Watches the pages of [start, end). Changes from now on are told. False: the kernel cannot. True
 * does not mean that all of it is mapped, or that it is memory of a kind whose every change is
 * told: see get.c. A client that needs() the range before this call keeps it watched. */
bool userfault_watch(struct userfault *userfault, uint64_t start, uint64_t end);
/* Stops, but for pages that a client still needs. */
void userfault_unwatch(struct userfault *userfault, uint64_t start, uint64_t end);

/* Has every change been read that had happened to watched memory? Does not wait. */
bool userfault_is_read(const struct userfault *userfault);

/* Returns when every change that had happened to watched memory at the call has been read. False:
 * that did not come about in a reasonable time. */
bool userfault_await_read(struct userfault *userfault);
/* Returns when every change that had happened to watched memory at the call has been told. False:
 * that did not come about in a reasonable time. */
bool userfault_settle(struct userfault *userfault);

/* Events read so far, by the whole process. */
uint64_t userfault_events(const struct userfault *userfault);

#endif
