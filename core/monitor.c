/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See monitor.h. The monitor hands on what the kernel (userfault.c) or the application
 * (hmreg_invalidate) says.
 *
 * Locks: the list of listeners has one, held while they are told. It is taken inside userfault.c's
 * client_lock, and the caches' locks are taken inside it. What holds for those holds here: under
 * it nothing is allocated, freed, registered or deregistered, because the thread that reads the
 * kernel's events takes it while others sleep in munmap(2).
 */
#include "core/monitor.h"

#include "core/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct monitor {
    struct userfault_client client; /* first: see on_change() */
    enum hmreg_monitor kind;
    struct userfault *userfault; /* NULL: another kind */
    pthread_mutex_t lock;
    struct listener *listeners;
};

static void on_change(struct userfault_client *client, const struct change *change)
{
    monitor_tell((struct monitor *)client, change);
}

static int listen_to_kernel(struct monitor *monitor)
{
    struct hmreg_error before;
    int rc;

    hmreg_error_save(&before);
    rc = userfault_open(&monitor->client, &monitor->userfault);
    if (monitor->kind == HMREG_MONITOR_DEFAULT && (rc == -EPERM || rc == -ENOSYS)) {
        hmreg_error_restore(&before);
        monitor->kind = HMREG_MONITOR_DISABLED;
        return 0;
    }
    if (!rc)
        monitor->kind = HMREG_MONITOR_USERFAULTFD;
    return rc;
}

int monitor_open(enum hmreg_monitor choice, struct monitor **out)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    int rc = 0;

    if (!monitor)
        return hmreg_fail(-ENOMEM, "no memory for the monitor");
    monitor->client.changed = on_change;
    monitor->kind = choice;
    pthread_mutex_init(&monitor->lock, NULL);
    if (choice == HMREG_MONITOR_DEFAULT || choice == HMREG_MONITOR_USERFAULTFD)
        rc = listen_to_kernel(monitor);
    if (rc) {
        pthread_mutex_destroy(&monitor->lock);
        free(monitor);
        return rc;
    }
    *out = monitor;
    return 0;
}

void monitor_close(struct monitor *monitor)
{
    if (monitor->userfault)
        userfault_close(monitor->userfault, &monitor->client);
    pthread_mutex_destroy(&monitor->lock);
    free(monitor);
}

enum hmreg_monitor monitor_kind(const struct monitor *monitor)
{
    return monitor->kind;
}

void monitor_attach(struct monitor *monitor, struct listener *listener)
{
    pthread_mutex_lock(&monitor->lock);
    listener->next = monitor->listeners;
    monitor->listeners = listener;
    pthread_mutex_unlock(&monitor->lock);
}

void monitor_detach(struct monitor *monitor, struct listener *listener)
{
    struct listener **link = &monitor->listeners;

    pthread_mutex_lock(&monitor->lock);
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    pthread_mutex_unlock(&monitor->lock);
}

void monitor_tell(struct monitor *monitor, const struct change *change)
{
    pthread_mutex_lock(&monitor->lock);
    for (struct listener *listener = monitor->listeners; listener; listener = listener->next)
        listener->changed(listener, change);
    pthread_mutex_unlock(&monitor->lock);
}

bool monitor_watch(struct monitor *monitor, struct watch *watch, uint64_t start, uint64_t end)
{
    return monitor->userfault && userfault_watch(monitor->userfault, watch, start, end);
}

void monitor_unwatch(struct monitor *monitor, struct watch *watch)
{
    if (monitor->userfault)
        userfault_unwatch(monitor->userfault, watch);
}

bool monitor_settle(struct monitor *monitor)
{
    return !monitor->userfault || userfault_settle(monitor->userfault);
}

uint64_t monitor_events(const struct monitor *monitor)
{
    return monitor->userfault ? userfault_events(monitor->userfault) : 0;
}
