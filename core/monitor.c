/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See monitor.h. The monitor hands on what the kernel (userfault.c), libc's callers (memhooks.c) or
 * the application (hmreg_invalidate) say. Hooks tell of a change before it is made: nobody need be
 * in doubt meanwhile, and nobody ask the kernel at a look-up. The kernel's events come in addition
 * where they may be had, for those who enter the kernel past libc.
 *
 * Locks: the list of listeners has one, which whoever tells or asks them shares: nobody waits for
 * it but who opens or closes a domain. It is taken inside userfault.c's client_lock, and the
 * caches' locks are taken inside it. What holds for those holds here: under it nothing is
 * allocated, freed, registered or deregistered, because the thread that reads the kernel's events
 * takes it while others sleep in munmap(2). So it is a quiet lock (quiet.h). A hook that cannot
 * take it, since it has interrupted its thread with a quiet lock held, doubts in the listeners'
 * pulses (pulse.h); the next look-up of each tells it that everything has changed, under late_lock,
 * which is inside the list's.
 */
#include "core/monitor.h"

#include "core/error.h"
#include "core/memhooks.h"
#include "core/quiet.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct monitor {
    struct userfault_client client; /* first: see on_expect() */
    struct memhooks_client hooks;
    enum hmreg_monitor asked, kind;
    struct userfault *userfault; /* NULL: not listened to */
    char why[256];               /* not what was asked, or without the kernel's events */
    pthread_rwlock_t lock;
    struct listener *listeners;
    pthread_mutex_t late_lock; /* held by who tells what hooks could not */
};

#define SETTLE_NS 20000

/* ---- the kernel's changes --------------------------------------------------------------- */

/* The lock is shared from here until all are told, so that who doubts and who is told are the
 * same. */
static void on_expect(struct userfault_client *client)
{
    struct monitor *monitor = (struct monitor *)client;

    quiet_rdlock(&monitor->lock);
    for (struct listener *listener = monitor->listeners; listener; listener = listener->next) {
        atomic_fetch_or(&listener->pulse->state, PULSE_DOUBT);
        listener->untold = true;
    }
}

static bool tell_part(struct listener *listener, const struct change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (listener->changed(listener, &changes[i]))
            return true;
    return false;
}

static void end_doubt(struct listener *listener)
{
    atomic_fetch_and(&listener->pulse->state, ~PULSE_DOUBT);
    atomic_fetch_add(&listener->told, 1);
}

/* In turns, a part each, so that one with much to forget does not keep the others in doubt. */
static bool tell_parts(struct monitor *monitor, const struct change *changes, size_t count)
{
    bool more = false;

    for (struct listener *listener = monitor->listeners; listener; listener = listener->next) {
        if (!listener->untold)
            continue;
        listener->untold = tell_part(listener, changes, count);
        if (!listener->untold)
            end_doubt(listener);
        more |= listener->untold;
    }
    return more;
}

static void on_changed(struct userfault_client *client, const struct change *changes, size_t count)
{
    struct monitor *monitor = (struct monitor *)client;

    while (tell_parts(monitor, changes, count))
        ;
    quiet_rwunlock(&monitor->lock);
}

static bool on_needs(struct userfault_client *client, uint64_t start, uint64_t end,
                     struct span *out)
{
    struct monitor *monitor = (struct monitor *)client;
    struct span one;
    bool any = false;

    quiet_rdlock(&monitor->lock);
    for (struct listener *listener = monitor->listeners; listener; listener = listener->next) {
        if (!listener->needs(listener, start, end, &one) || (any && one.start >= out->start))
            continue;
        *out = one;
        any = true;
    }
    quiet_rwunlock(&monitor->lock);
    return any;
}

/* ---- what is about to change ------------------------------------------------------------ */

static void on_call(struct memhooks_client *client, const struct change *change)
{
    monitor_tell((struct monitor *)((char *)client - offsetof(struct monitor, hooks)), change);
}

/* ---- life ------------------------------------------------------------------------------- */

/* Where it may go without the kernel's events, their lack is noted and no error. */
static int listen_to_kernel(struct monitor *monitor, bool must)
{
    struct hmreg_error before;
    int rc;

    hmreg_error_save(&before);
    rc = userfault_open(&monitor->client, &monitor->userfault);
    if (must || (rc != -EPERM && rc != -ENOSYS))
        return rc;
    snprintf(monitor->why, sizeof(monitor->why), "%s", hmreg_last_error()->text);
    hmreg_error_restore(&before);
    return 0;
}

static int start_default(struct monitor *monitor)
{
    int rc = listen_to_kernel(monitor, false);

    monitor->kind = monitor->userfault ? HMREG_MONITOR_USERFAULTFD : HMREG_MONITOR_DISABLED;
    return rc;
}

static int start_hooks(struct monitor *monitor)
{
    int rc = memhooks_open(&monitor->hooks);

    if (rc)
        return rc;
    rc = listen_to_kernel(monitor, false);
    if (rc)
        memhooks_close(&monitor->hooks);
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
    pthread_mutex_destroy(&monitor->late_lock);
    pthread_rwlock_destroy(&monitor->lock);
    free(monitor);
}

int monitor_open(enum hmreg_monitor choice, struct monitor **out)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    int rc;

    if (!monitor)
        return hmreg_fail(-ENOMEM, "no memory for the monitor");
    monitor->client.expect = on_expect;
    monitor->client.changed = on_changed;
    monitor->client.needs = on_needs;
    monitor->hooks.changed = on_call;
    monitor->asked = choice;
    monitor->kind = choice;
    pthread_rwlock_init(&monitor->lock, NULL);
    pthread_mutex_init(&monitor->late_lock, NULL);
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
        memhooks_close(&monitor->hooks);
    if (monitor->userfault)
        userfault_close(monitor->userfault, &monitor->client);
    monitor_free(monitor);
}

enum hmreg_monitor monitor_kind(const struct monitor *monitor)
{
    return monitor->kind;
}

void monitor_attach(struct monitor *monitor, struct listener *listener)
{
    quiet_wrlock(&monitor->lock);
    listener->next = monitor->listeners;
    monitor->listeners = listener;
    quiet_rwunlock(&monitor->lock);
    atomic_store(&listener->pulse->hooked, monitor->kind == HMREG_MONITOR_MEMHOOKS);
}

void monitor_detach(struct monitor *monitor, struct listener *listener)
{
    struct listener **link = &monitor->listeners;

    atomic_store(&listener->pulse->hooked, false);
    quiet_wrlock(&monitor->lock);
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    quiet_rwunlock(&monitor->lock);
}

static bool tell_part_to_all(struct monitor *monitor, const struct change *change)
{
    bool more = false;

    quiet_rdlock(&monitor->lock);
    for (struct listener *listener = monitor->listeners; listener; listener = listener->next)
        more |= listener->changed(listener, change);
    quiet_rwunlock(&monitor->lock);
    return more;
}

/* Who has been told all of it is told again, of nothing that is left: so nobody who opens or closes
 * a domain waits for more than a part. */
void monitor_tell(struct monitor *monitor, const struct change *change)
{
    while (tell_part_to_all(monitor, change))
        ;
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
    if (monitor->userfault && !unmapped)
        userfault_unwatch(monitor->userfault, start, end);
}

/* ---- settling --------------------------------------------------------------------------- */

/* Tells a listener what hooks have left word of: that everything has changed. Once: what comes
 * meanwhile had not happened when the caller asked. */
static void tell_late(struct monitor *monitor, struct listener *listener)
{
    static const struct change everything = {0, UINT64_MAX, .host_only = true};

    if (!pulse_is_late(listener->pulse))
        return;
    quiet_lock(&monitor->late_lock);
    if (pulse_begin_telling(listener->pulse)) {
        while (listener->changed(listener, &everything))
            ;
        pulse_end_telling(listener->pulse);
    }
    quiet_unlock(&monitor->late_lock);
}

static void tell_late_to_all(struct monitor *monitor)
{
    quiet_rdlock(&monitor->lock);
    for (struct listener *listener = monitor->listeners; listener; listener = listener->next)
        tell_late(monitor, listener);
    quiet_rwunlock(&monitor->lock);
}

/* Returns when the listener is in no doubt, or has been in none. */
static void await_told(const struct listener *listener)
{
    static const struct timespec pause = {.tv_nsec = SETTLE_NS};
    unsigned told = atomic_load(&listener->told);

    while ((atomic_load(&listener->pulse->state) & PULSE_DOUBT) &&
           atomic_load(&listener->told) == told)
        nanosleep(&pause, NULL);
}

bool monitor_settle_one(struct monitor *monitor, struct listener *listener)
{
    tell_late(monitor, listener);
    if (monitor->kind != HMREG_MONITOR_MEMHOOKS && monitor->userfault &&
        !userfault_await_read(monitor->userfault))
        return false;
    if (monitor->userfault)
        await_told(listener);
    return true;
}

bool monitor_is_read(const struct monitor *monitor)
{
    return !monitor->userfault || userfault_is_read(monitor->userfault);
}

bool monitor_settle(struct monitor *monitor)
{
    tell_late_to_all(monitor);
    return !monitor->userfault || userfault_settle(monitor->userfault);
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
