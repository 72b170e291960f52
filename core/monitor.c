/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See monitor.h. Changes come from the kernel (userfault.c), libc's callers (memhooks.c) or the
 * application (hmreg_invalidate). Hooks push a change before it is made, so with them a look-up
 * does not ask the kernel; its events come in addition where they may be had, for those who enter
 * the kernel past libc.
 *
 * The lock guards the list of listeners. It is taken by opening and closing domains, and by threads
 * that unwatch memory, which ask the listeners what they need; the caches' locks are taken inside
 * it. Who pushes changes does not know the list: changes reach domains by their gates.
 */
#include "core/monitor.h"

#include "core/changes.h"
#include "core/error.h"
#include "core/memhooks.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct monitor {
    struct userfault_client client; /* first: see on_needs() */
    enum hmreg_monitor asked, kind;
    uint32_t serial;             /* names the library's notices */
    struct userfault *userfault; /* NULL: not listened to */
    char why[256];               /* not what was asked, or without the kernel's events */
    pthread_mutex_t lock;
    struct listener *listeners;
};

/* ---- what must stay watched ------------------------------------------------------------- */

static bool on_needs(struct userfault_client *client, uint64_t start, uint64_t end,
                     struct span *out)
{
    struct monitor *monitor = (struct monitor *)client;
    struct span one;
    bool any = false;

    pthread_mutex_lock(&monitor->lock);
    for (struct listener *listener = monitor->listeners; listener; listener = listener->next) {
        if (!listener->needs(listener, start, end, &one) || (any && one.start >= out->start))
            continue;
        *out = one;
        any = true;
    }
    pthread_mutex_unlock(&monitor->lock);
    return any;
}

/* ---- life ------------------------------------------------------------------------------- */

/* Where it may go without the kernel's events, their lack is noted and no error. */
static int listen_to_kernel(struct monitor *monitor, bool must)
{
    struct hmreg_error before;
    int rc;

    hmreg_error_save(&before);
    rc = userfault_open(&monitor->client, must, &monitor->userfault);
    if (must || (rc != -EPERM && rc != -ENOSYS))
        return rc;
    snprintf(monitor->why, sizeof(monitor->why), "%s", hmreg_last_error()->text);
    hmreg_error_restore(&before);
    return 0;
}

/* False: libc cannot be hooked, which is added to the reasons and no error. */
static bool hook_libc(struct monitor *monitor)
{
    size_t used = strlen(monitor->why);
    struct hmreg_error before;
    int rc;

    hmreg_error_save(&before);
    rc = memhooks_open();
    if (rc)
        snprintf(monitor->why + used, sizeof(monitor->why) - used, "; %s",
                 hmreg_last_error()->text);
    hmreg_error_restore(&before);
    return !rc;
}

/* Most containers forbid userfaultfd: there, hooks in libc are the alternative to no cache. */
static int start_default(struct monitor *monitor)
{
    int rc = listen_to_kernel(monitor, false);

    if (rc)
        return rc;
    if (monitor->userfault)
        monitor->kind = HMREG_MONITOR_USERFAULTFD;
    else if (hook_libc(monitor))
        monitor->kind = HMREG_MONITOR_MEMHOOKS;
    else
        monitor->kind = HMREG_MONITOR_DISABLED;
    return 0;
}

static int start_hooks(struct monitor *monitor)
{
    int rc = memhooks_open();

    if (rc)
        return rc;
    rc = listen_to_kernel(monitor, false);
    if (rc)
        memhooks_close();
    return rc;
}

static int start(struct monitor *monitor)
{
    switch (monitor->kind) {
    case HMREG_MONITOR_DEFAULT:
        return start_default(monitor);
    case HMREG_MONITOR_USERFAULTFD:
        return listen_to_kernel(monitor, true);
    case HMREG_MONITOR_MEMHOOKS:
        return start_hooks(monitor);
    default:
        return 0;
    }
}

static void monitor_free(struct monitor *monitor)
{
    pthread_mutex_destroy(&monitor->lock);
    free(monitor);
}

int monitor_open(enum hmreg_monitor choice, struct monitor **out)
{
    static atomic_uint last_serial;
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    int rc;

    if (!monitor)
        return hmreg_fail(-ENOMEM, "no memory for the monitor");
    monitor->client.needs = on_needs;
    monitor->serial = atomic_fetch_add(&last_serial, 1) + 1;
    monitor->asked = choice;
    monitor->kind = choice;
    pthread_mutex_init(&monitor->lock, NULL);
    rc = start(monitor);
    if (rc) {
        monitor_free(monitor);
        return rc;
    }
    *out = monitor;
    return 0;
}

void monitor_close(struct monitor *monitor)
{
    if (monitor->kind == HMREG_MONITOR_MEMHOOKS)
        memhooks_close();
    if (monitor->userfault)
        userfault_close(monitor->userfault, &monitor->client);
    monitor_free(monitor);
}

enum hmreg_monitor monitor_kind(const struct monitor *monitor)
{
    return monitor->kind;
}

/* The kernel's events may be being read, and the gate not be marked for it: what is watched for the
 * listener from now on is not among them. */
static void hear(const struct monitor *monitor, struct gate *gate)
{
    unsigned hears = monitor->kind == HMREG_MONITOR_MEMHOOKS ? CHANGE_HOOKS : 0;

    atomic_store(&gate->library, monitor->serial);
    atomic_store(&gate->hears, hears | (monitor->userfault ? CHANGE_KERNEL : 0));
    if (monitor->userfault)
        userfault_await_reading(monitor->userfault);
}

void monitor_attach(struct monitor *monitor, struct listener *listener)
{
    pthread_mutex_lock(&monitor->lock);
    listener->next = monitor->listeners;
    monitor->listeners = listener;
    pthread_mutex_unlock(&monitor->lock);
    hear(monitor, listener->gate);
}

void monitor_detach(struct monitor *monitor, struct listener *listener)
{
    struct listener **link = &monitor->listeners;

    atomic_store(&listener->gate->hears, 0);
    pthread_mutex_lock(&monitor->lock);
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    pthread_mutex_unlock(&monitor->lock);
}

void monitor_notice(const struct monitor *monitor, uint64_t start, uint64_t end)
{
    struct change change = {start, end, .source = CHANGE_NOTICE, .library = monitor->serial};

    changes_push(&change);
}

/* What hooks tell counts only where the kernel, if it is listened to, tells as well: nothing is
 * remembered with them that would not be without. */
bool monitor_watch(struct monitor *monitor, uint64_t start, uint64_t end)
{
    bool hooked = monitor->kind == HMREG_MONITOR_MEMHOOKS;

    if (hooked && !memhooks_watch(start, end))
        return false;
    if (!monitor->userfault)
        return hooked;
    if (userfault_watch(monitor->userfault, start, end))
        return true;
    if (hooked)
        memhooks_unwatch(start, end);
    return false;
}

void monitor_unwatch(struct monitor *monitor, uint64_t start, uint64_t end, bool unmapped)
{
    if (monitor->kind == HMREG_MONITOR_MEMHOOKS)
        memhooks_unwatch(start, end);
    if (monitor->userfault)
        userfault_unwatch(monitor->userfault, start, end, unmapped);
}

void monitor_tidy(struct monitor *monitor)
{
    if (monitor->userfault)
        userfault_tidy(monitor->userfault);
}

/* ---- settling --------------------------------------------------------------------------- */

bool monitor_settle(const struct monitor *monitor)
{
    if (!monitor->userfault)
        return true;
    if (monitor->kind != HMREG_MONITOR_MEMHOOKS)
        return userfault_settle(monitor->userfault);
    userfault_await_reading(monitor->userfault);
    return true;
}

bool monitor_is_read(const struct monitor *monitor)
{
    return !monitor->userfault || userfault_is_read(monitor->userfault);
}

/* ---- what it is ------------------------------------------------------------------------- */

uint64_t monitor_events(const struct monitor *monitor)
{
    return monitor->userfault ? userfault_events(monitor->userfault) : 0;
}

void monitor_query(const struct monitor *monitor, struct hmreg_monitor_info *out)
{
    out->asked = monitor->asked;
    out->active = monitor->kind;
    out->userfaultfd = monitor->userfault != NULL;
    out->events = monitor_events(monitor);
    out->calls = monitor->kind == HMREG_MONITOR_MEMHOOKS ? memhooks_calls() : 0;
    memcpy(out->why, monitor->why, sizeof(out->why));
}
