/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See monitor.h. One source of changes serves a library: the kernel (counter.c, userfault.c), hooks
 * in libc (memhooks.c) or the application (hmreg_invalidate()). Hooks push a change before it is
 * made, so with them a look-up need not ask the kernel.
 *
 * choose_lock serializes the choice of a default monitor; hooks and userfaultfd are opened under
 * it. `lock` guards the list of listeners and is taken inside choose_lock, by threads that open and
 * close domains, and by threads that unwatch memory and ask the listeners what they need; the
 * caches' locks are taken inside `lock`. Producers of changes never read the list: changes reach
 * the domains by their gates.
 */
#include "core/monitor/monitor.h"

#include "core/base/error.h"
#include "core/base/out_of_line.h"
#include "core/base/thread.h"
#include "core/monitor/change/change_queue.h"
#include "core/monitor/counter/counter.h"
#include "core/monitor/counter/device.h"
#include "core/monitor/memhooks/memhooks.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct monitor {
    struct userfault_client client; /* first: see on_needs() */
    enum hmreg_monitor asked;
    bool plain_calls;
    _Atomic enum hmreg_monitor kind;
    uint32_t serial;                 /* identifies the library's notices */
    struct userfault *userfault;     /* with USERFAULTFD */
    struct counter_monitor *counter; /* with COUNTER */
    pthread_mutex_t choose_lock;
    char why[768];         /* why no better monitor serves, or which one lost its power; under
                            * choose_lock */
    char no_counter[256];  /* appended to `why` of a default: why counter does not serve */
    atomic_bool told;      /* nothing has happened since monitor_choose() returned true */
    atomic_int short_of;   /* not 0: why nothing can be cached for now, as is_passing() */
    atomic_bool was_short; /* memory or descriptors were short before */
    pthread_mutex_t lock;
    struct listener *listeners;
};

/* ---- needs of the listeners ------------------------------------------------------------- */

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

/* ---- open and close --------------------------------------------------------------------- */

static int start(struct monitor *monitor, enum hmreg_monitor kind)
{
    switch (kind) {
    case HMREG_MONITOR_USERFAULTFD:
        return userfault_open(&monitor->client, kind == monitor->asked, &monitor->userfault);
    case HMREG_MONITOR_MEMHOOKS:
        return memhooks_open(kind == monitor->asked);
    case HMREG_MONITOR_COUNTER:
        return counter_monitor_open(&monitor->counter);
    default:
        return 0;
    }
}

static void monitor_free(struct monitor *monitor)
{
    pthread_mutex_destroy(&monitor->lock);
    pthread_mutex_destroy(&monitor->choose_lock);
    free(monitor);
}

int monitor_open(enum hmreg_monitor asked, bool plain_calls, struct monitor **out)
{
    static atomic_uint last_serial;
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    int rc;

    if (!monitor)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the monitor");
    monitor->client.needs = on_needs;
    monitor->serial = atomic_fetch_add(&last_serial, 1) + 1;
    monitor->asked = asked;
    atomic_init(&monitor->told, true);
    monitor->plain_calls = plain_calls;
    atomic_init(&monitor->kind, asked);
    pthread_mutex_init(&monitor->lock, NULL);
    pthread_mutex_init(&monitor->choose_lock, NULL);
    rc = start(monitor, asked);
    if (rc) {
        monitor_free(monitor);
        return rc;
    }
    *out = monitor;
    return 0;
}

void monitor_close(struct monitor *monitor)
{
    if (monitor_kind(monitor) == HMREG_MONITOR_MEMHOOKS)
        memhooks_close();
    if (monitor->userfault)
        userfault_close(monitor->userfault, &monitor->client);
    if (monitor->counter)
        counter_monitor_close(monitor->counter);
    monitor_free(monitor);
}

bool monitor_has_counter(void)
{
    return counter_device_is_there();
}

/* At least an acquire: a thread that reads a kind sees the state that belongs to it. */
enum hmreg_monitor monitor_kind(const struct monitor *monitor)
{
    return atomic_load(&monitor->kind);
}

/* ---- listeners -------------------------------------------------------------------------- */

/* Makes the monitor's changes mark a gate. A read of the kernel's events that began before may not
 * have marked the gate READING, so wait for its end: events of memory that is watched for the
 * listener from now on are not among those it reads. */
static void attach_gate(const struct monitor *monitor, enum hmreg_monitor kind, struct gate *gate)
{
    atomic_store(&gate->library, monitor->serial);
    if (kind == HMREG_MONITOR_MEMHOOKS) {
        atomic_store(&gate->sources, CHANGE_HOOKS);
        /* Lists made while the hooks were installed lack files that were being loaded. */
        atomic_fetch_or(&gate->state, GATE_LOOKING);
    }
    if (kind == HMREG_MONITOR_USERFAULTFD || kind == HMREG_MONITOR_COUNTER)
        atomic_store(&gate->sources, CHANGE_KERNEL);
    gate_count_by(gate,
                  kind == HMREG_MONITOR_COUNTER ? counter_monitor_counts(monitor->counter) : NULL);
    if (kind == HMREG_MONITOR_USERFAULTFD)
        userfault_await_reading(monitor->userfault);
}

void monitor_attach(struct monitor *monitor, struct listener *listener)
{
    pthread_mutex_lock(&monitor->lock);
    listener->next = monitor->listeners;
    monitor->listeners = listener;
    attach_gate(monitor, monitor_kind(monitor), listener->gate);
    pthread_mutex_unlock(&monitor->lock);
}

void monitor_detach(struct monitor *monitor, struct listener *listener)
{
    struct listener **link = &monitor->listeners;

    atomic_store(&listener->gate->sources, 0);
    pthread_mutex_lock(&monitor->lock);
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    pthread_mutex_unlock(&monitor->lock);
}

void monitor_notice(const struct monitor *monitor, uint64_t start, uint64_t end)
{
    struct change change = {start, end, .source = CHANGE_NOTICE, .library = monitor->serial};

    if (monitor_kind(monitor) == HMREG_MONITOR_MEMHOOKS)
        memhooks_count_notice(); /* later code may put other memory into a known mapping */
    changes_push(&change);
}

void monitor_ended(uint64_t start, uint64_t end)
{
    changes_push(&(struct change){start, end, .source = CHANGE_VENDOR});
}

/* ---- choosing --------------------------------------------------------------------------- */

/* All gates are set up before the first region is watched. */
static void take_kind(struct monitor *monitor, enum hmreg_monitor kind)
{
    pthread_mutex_lock(&monitor->lock);
    for (struct listener *listener = monitor->listeners; listener; listener = listener->next)
        attach_gate(monitor, kind, listener->gate);
    atomic_store(&monitor->kind, kind);
    pthread_mutex_unlock(&monitor->lock);
}

/* A later attempt may succeed. */
static bool is_passing(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN || rc == -EMFILE || rc == -ENFILE || rc == -EBUSY;
}

static void append(char *why, size_t size, const char *reason)
{
    if (reason[0])
        text_write(why, size, "%s%s%s", why, why[0] ? "; " : "", reason);
}

/* Appends to `why` the reason why a better monitor cannot serve. The reason against counter is kept
 * apart: it holds whether or not the others serve. */
static void note_lack(struct monitor *monitor, enum hmreg_monitor kind)
{
    const char *name = hmreg_monitor_name(kind), *text = hmreg_last_error()->text;
    bool named = strncmp(text, name, strlen(name)) == 0;

    if (kind == HMREG_MONITOR_COUNTER && monitor_kind(monitor) != kind) {
        text_write(monitor->no_counter, sizeof(monitor->no_counter), "%s", text);
        return;
    }
    text_write(monitor->why, sizeof(monitor->why), "%s%s%s%s%s", monitor->why,
               monitor->why[0] ? "; " : "", named ? "" : name, named ? "" : ": ", text);
}

static void take_chosen(struct monitor *monitor, enum hmreg_monitor kind)
{
    take_kind(monitor, kind);
    atomic_store(&monitor->told, false);
}

/* Files that are just being loaded are a passing reason, not worth a line in the log. */
static void run_short(struct monitor *monitor, int rc)
{
    atomic_store(&monitor->short_of, rc);
    if (rc != -EBUSY && !atomic_exchange(&monitor->was_short, true))
        atomic_store(&monitor->told, false);
}

static void choose(struct monitor *monitor)
{
    static const enum hmreg_monitor order[] = {HMREG_MONITOR_COUNTER, HMREG_MONITOR_MEMHOOKS,
                                               HMREG_MONITOR_USERFAULTFD};

    snprintf(monitor->why, sizeof(monitor->why), "%s",
             monitor->plain_calls
                 ? "HMREG_SYSCALLS=plain excludes counter, memhooks and userfaultfd"
                 : "");
    for (size_t i = 0; !monitor->plain_calls && i < sizeof(order) / sizeof(order[0]); i++) {
        int rc = start(monitor, order[i]);

        if (!rc) {
            atomic_store(&monitor->short_of, 0);
            take_chosen(monitor, order[i]);
            return;
        }
        note_lack(monitor, order[i]);
        if (is_passing(rc)) {
            run_short(monitor, rc);
            return;
        }
    }
    take_chosen(monitor, HMREG_MONITOR_DISABLED);
}

static OUT_OF_LINE void choose_once(struct monitor *monitor)
{
    struct hmreg_error before;

    hmreg_error_save(&before);
    if (!thread_lock_to_start(&monitor->choose_lock)) {
        if (monitor_kind(monitor) == HMREG_MONITOR_DEFAULT)
            choose(monitor);
        pthread_mutex_unlock(&monitor->choose_lock);
    }
    hmreg_error_restore(&before);
}

bool monitor_choose(struct monitor *monitor)
{
    if (monitor_kind(monitor) == HMREG_MONITOR_DEFAULT)
        choose_once(monitor);
    return !atomic_load(&monitor->told) && !atomic_exchange(&monitor->told, true);
}

/* ---- losing its power -------------------------------------------------------------------- */

static void change_all(void)
{
    changes_push(&(struct change){0, UINT64_MAX, .source = CHANGE_LOST});
}

static enum hmreg_monitor take_over(struct monitor *monitor, enum hmreg_monitor next)
{
    if (monitor->asked != HMREG_MONITOR_DEFAULT || next != HMREG_MONITOR_USERFAULTFD)
        return HMREG_MONITOR_DISABLED;
    if (start(monitor, HMREG_MONITOR_USERFAULTFD)) {
        note_lack(monitor, HMREG_MONITOR_USERFAULTFD);
        return HMREG_MONITOR_DISABLED;
    }
    return HMREG_MONITOR_USERFAULTFD;
}

/* next: the monitor that may take over. The thread's last error is the reason. Regions that other
 * threads are registering end like cached ones: they are in their cache before their memory is
 * watched, and so before the second change of all. */
static void lose(struct monitor *monitor, enum hmreg_monitor from, enum hmreg_monitor next)
{
    pthread_mutex_lock(&monitor->choose_lock);
    if (monitor_kind(monitor) == from) {
        monitor->why[0] = '\0';
        note_lack(monitor, from);
        change_all();
        take_chosen(monitor, take_over(monitor, next));
        change_all();
        if (from == HMREG_MONITOR_MEMHOOKS)
            memhooks_close();
        if (from == HMREG_MONITOR_COUNTER)
            counter_monitor_rest(monitor->counter);
    }
    pthread_mutex_unlock(&monitor->choose_lock);
}

/* rc: as is_passing(); 0: it has passed. */
static void note_short(struct monitor *monitor, int rc)
{
    pthread_mutex_lock(&monitor->choose_lock);
    if (rc || monitor_kind(monitor) != HMREG_MONITOR_USERFAULTFD)
        monitor->why[0] = '\0';
    if (rc) {
        note_lack(monitor, monitor_kind(monitor));
        run_short(monitor, rc);
    } else {
        atomic_store(&monitor->short_of, 0);
    }
    pthread_mutex_unlock(&monitor->choose_lock);
}

void monitor_asked(struct monitor *monitor, int rc)
{
    enum hmreg_monitor kind = monitor_kind(monitor);

    if (is_passing(rc) || (!rc && atomic_load(&monitor->short_of)))
        note_short(monitor, rc);
    else if (rc && (kind == HMREG_MONITOR_MEMHOOKS || kind == HMREG_MONITOR_USERFAULTFD ||
                    kind == HMREG_MONITOR_COUNTER))
        lose(monitor, kind, HMREG_MONITOR_DISABLED);
}

bool monitor_is_short(const struct monitor *monitor)
{
    return atomic_load(&monitor->short_of);
}

bool monitor_awaits_linker(const struct monitor *monitor)
{
    return atomic_load(&monitor->short_of) == -EBUSY;
}

/* Has the program closed the descriptor, or does a sandbox refuse read(2)? */
static void note_kernel_lost(struct monitor *monitor)
{
    struct hmreg_error before;

    if (userfault_is_usable(monitor->userfault))
        return;
    hmreg_error_save(&before);
    hmreg_fail(-EBADF, "userfaultfd: the program has closed the monitor's descriptor, or forbids "
                       "ioctl(2) or read(2) on it");
    lose(monitor, HMREG_MONITOR_USERFAULTFD, HMREG_MONITOR_DISABLED);
    hmreg_error_restore(&before);
}

/* Retries on -ESRCH: the thread has ended since monitor_have_thread(). */
static void note_kernel(struct monitor *monitor, int rc)
{
    if (rc == -EBADF || rc == -EINVAL)
        note_kernel_lost(monitor);
    else if (is_passing(rc))
        note_short(monitor, rc);
    else if (rc && rc != -ESRCH)
        lose(monitor, HMREG_MONITOR_USERFAULTFD, HMREG_MONITOR_DISABLED);
}

static OUT_OF_LINE bool watch_by_kernel(struct monitor *monitor, uint64_t start_addr, uint64_t end)
{
    struct hmreg_error_guard before;
    int rc;

    hmreg_error_guard(&before);
    rc = userfault_watch(monitor->userfault, start_addr, end);
    note_kernel(monitor, rc);
    hmreg_error_unguard(&before, true);
    return !rc;
}

static bool watch_by_hooks(struct monitor *monitor, uint64_t start_addr, uint64_t end)
{
    struct hmreg_error_guard before;
    int rc;

    hmreg_error_guard(&before);
    rc = memhooks_watch(start_addr, end);
    if (rc == -EBUSY)
        note_short(monitor, rc);
    else if (rc && !is_passing(rc))
        lose(monitor, HMREG_MONITOR_MEMHOOKS, HMREG_MONITOR_USERFAULTFD);
    hmreg_error_unguard(&before, true);
    return !rc || (monitor_kind(monitor) == HMREG_MONITOR_USERFAULTFD &&
                   watch_by_kernel(monitor, start_addr, end));
}

static void note_counter(struct monitor *monitor, int rc)
{
    if (rc == -EBADF)
        lose(monitor, monitor_kind(monitor), HMREG_MONITOR_USERFAULTFD);
    else if (is_passing(rc) || rc == -ENOSPC)
        note_short(monitor, rc);
}

static OUT_OF_LINE bool watch_by_counter(struct monitor *monitor, uint64_t start_addr, uint64_t end)
{
    struct hmreg_error_guard before;
    int rc;

    hmreg_error_guard(&before);
    rc = counter_monitor_watch(monitor->counter, start_addr, end);
    note_counter(monitor, rc);
    hmreg_error_unguard(&before, true);
    return !rc;
}

static int look(struct monitor *monitor, uint64_t *seen)
{
    struct hmreg_error before;
    int rc = 0;

    hmreg_error_save(&before);
    *seen = memhooks_loads();
    if (monitor_kind(monitor) == HMREG_MONITOR_MEMHOOKS)
        rc = memhooks_look(monitor->asked == HMREG_MONITOR_MEMHOOKS, seen);
    if (rc == -EBUSY)
        note_short(monitor, rc);
    else if (rc)
        lose(monitor, HMREG_MONITOR_MEMHOOKS, HMREG_MONITOR_USERFAULTFD);
    else if (atomic_load(&monitor->short_of) == -EBUSY)
        note_short(monitor, 0);
    hmreg_error_restore(&before);
    return rc;
}

/* A load that comes after `seen` was read sets the bit again: after it is cleared, or it is found
 * here. */
static OUT_OF_LINE bool look_until_done(struct monitor *monitor, struct gate *gate)
{
    uint64_t seen;

    while (atomic_load(&gate->state) & GATE_LOOKING) {
        if (look(monitor, &seen) == -EBUSY)
            return false;
        atomic_fetch_and(&gate->state, ~GATE_LOOKING);
        if (memhooks_loads() != seen)
            atomic_fetch_or(&gate->state, GATE_LOOKING);
    }
    return true;
}

bool monitor_look(struct monitor *monitor, struct gate *gate)
{
    return !(atomic_load(&gate->state) & GATE_LOOKING) || look_until_done(monitor, gate);
}

/* ---- sleeping --------------------------------------------------------------------------- */

static bool may_sleep(const struct monitor *monitor)
{
    return monitor->asked != HMREG_MONITOR_IMPORT && monitor->asked != HMREG_MONITOR_DISABLED;
}

/* What is closed waits for its thread, so the lock is not held then. */
void monitor_sleep(struct monitor *monitor)
{
    struct userfault *userfault;
    struct counter_monitor *counter;
    enum hmreg_monitor kind;

    if (!may_sleep(monitor))
        return;
    pthread_mutex_lock(&monitor->choose_lock);
    kind = monitor_kind(monitor);
    userfault = monitor->userfault;
    counter = monitor->counter;
    monitor->userfault = NULL;
    monitor->counter = NULL;
    snprintf(monitor->why, sizeof(monitor->why), "the library hibernates (hmreg_hibernate())");
    take_kind(monitor, HMREG_MONITOR_DISABLED);
    pthread_mutex_unlock(&monitor->choose_lock);
    if (kind == HMREG_MONITOR_MEMHOOKS)
        memhooks_close();
    if (userfault)
        userfault_close(userfault, &monitor->client);
    if (counter)
        counter_monitor_close(counter);
}

void monitor_wake(struct monitor *monitor)
{
    enum hmreg_monitor kind = monitor->asked;
    struct hmreg_error before;

    if (!may_sleep(monitor))
        return;
    hmreg_error_save(&before);
    pthread_mutex_lock(&monitor->choose_lock);
    monitor->why[0] = monitor->no_counter[0] = '\0';
    atomic_store(&monitor->short_of, 0);
    if (start(monitor, kind)) {
        note_lack(monitor, kind);
        kind = HMREG_MONITOR_DISABLED;
    }
    take_chosen(monitor, kind);
    pthread_mutex_unlock(&monitor->choose_lock);
    hmreg_error_restore(&before);
}

/* ---- watching --------------------------------------------------------------------------- */

void monitor_have_thread(struct monitor *monitor)
{
    enum hmreg_monitor kind = monitor_kind(monitor);
    struct hmreg_error_guard before;

    if (kind != HMREG_MONITOR_USERFAULTFD && kind != HMREG_MONITOR_COUNTER)
        return;
    hmreg_error_guard(&before);
    if (kind == HMREG_MONITOR_USERFAULTFD)
        note_kernel(monitor, userfault_have_thread(monitor->userfault));
    else
        note_counter(monitor, counter_monitor_have_thread(monitor->counter));
    hmreg_error_unguard(&before, true);
}

bool monitor_watch(struct monitor *monitor, uint64_t start_addr, uint64_t end)
{
    switch (monitor_kind(monitor)) {
    case HMREG_MONITOR_MEMHOOKS:
        return watch_by_hooks(monitor, start_addr, end);
    case HMREG_MONITOR_USERFAULTFD:
        return watch_by_kernel(monitor, start_addr, end);
    case HMREG_MONITOR_COUNTER:
        return watch_by_counter(monitor, start_addr, end);
    default:
        return false;
    }
}

void monitor_unwatch(struct monitor *monitor, uint64_t start_addr, uint64_t end, bool unmapped)
{
    if (monitor_kind(monitor) == HMREG_MONITOR_MEMHOOKS)
        memhooks_unwatch(start_addr, end);
    if (monitor_kind(monitor) == HMREG_MONITOR_USERFAULTFD)
        userfault_unwatch(monitor->userfault, start_addr, end, unmapped);
    if (monitor_kind(monitor) == HMREG_MONITOR_COUNTER)
        counter_monitor_unwatch(monitor->counter, start_addr, end);
}

bool monitor_tidy(struct monitor *monitor)
{
    return monitor_kind(monitor) == HMREG_MONITOR_USERFAULTFD && userfault_tidy(monitor->userfault);
}

bool monitor_keeps(const struct monitor *monitor)
{
    return monitor_kind(monitor) == HMREG_MONITOR_USERFAULTFD;
}

/* A userfaultfd that has lost its power has a thread, too. */
void monitor_rest(struct monitor *monitor)
{
    struct userfault *userfault;

    pthread_mutex_lock(&monitor->choose_lock);
    userfault = monitor->userfault;
    pthread_mutex_unlock(&monitor->choose_lock);
    if (userfault)
        userfault_rest(userfault);
    if (monitor_kind(monitor) == HMREG_MONITOR_COUNTER)
        counter_monitor_rest(monitor->counter);
}

void monitor_release(void)
{
    userfault_release_unread();
}

/* ---- settling --------------------------------------------------------------------------- */

void monitor_collect(const struct monitor *monitor)
{
    if (monitor_kind(monitor) == HMREG_MONITOR_COUNTER)
        counter_monitor_sync(monitor->counter);
}

bool monitor_sync(struct monitor *monitor)
{
    monitor_collect(monitor);
    if (monitor_kind(monitor) != HMREG_MONITOR_USERFAULTFD || userfault_sync(monitor->userfault))
        return true;
    note_kernel_lost(monitor);
    return false;
}

bool monitor_is_read(const struct monitor *monitor)
{
    return monitor_kind(monitor) != HMREG_MONITOR_USERFAULTFD ||
           userfault_is_read(monitor->userfault);
}

/* ---- mapping changes -------------------------------------------------------------------- */

bool monitor_is_quiet(const struct monitor *monitor, uint64_t *when)
{
    return monitor_kind(monitor) == HMREG_MONITOR_MEMHOOKS && memhooks_is_quiet(when);
}

bool monitor_is_unchanged(const struct monitor *monitor, uint64_t when)
{
    return monitor_kind(monitor) == HMREG_MONITOR_MEMHOOKS && memhooks_none_since(when);
}

/* ---- queries ---------------------------------------------------------------------------- */

uint64_t monitor_events(const struct monitor *monitor)
{
    if (monitor_kind(monitor) == HMREG_MONITOR_COUNTER)
        return counter_monitor_events(monitor->counter);
    return monitor_kind(monitor) == HMREG_MONITOR_USERFAULTFD ? userfault_events(monitor->userfault)
                                                              : 0;
}

void monitor_query(struct monitor *monitor, struct hmreg_monitor_info *out)
{
    pthread_mutex_lock(&monitor->choose_lock);
    memcpy(out->why, monitor->why, sizeof(out->why));
    append(out->why, sizeof(out->why), monitor->no_counter);
    out->active = monitor_kind(monitor);
    pthread_mutex_unlock(&monitor->choose_lock);
    out->asked = monitor->asked;
    out->userfaultfd = out->active == HMREG_MONITOR_USERFAULTFD;
    out->events = monitor_events(monitor);
    out->calls = out->active == HMREG_MONITOR_MEMHOOKS ? memhooks_calls() : 0;
}
