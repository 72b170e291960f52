/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See reaper.h. `awake` set means that the thread will check for work again before it sleeps. The
 * thread clears it, checks whether anything is due, and then sleeps on it; reaper_wake() sets it
 * after work has become due. Both are sequentially consistent, so one sees the other's store.
 *
 * Before each round the thread pauses for REST_NS with `awake` set, and it sleeps again after a
 * round in which nothing was due. So a program that keeps changing memory makes no wake-up call but
 * the first, and the regions are deregistered in a batch, by one barrier in every thread. It also
 * makes these calls undisturbed: while another thread of its process runs, the kernel's part of
 * each waits for that thread's processor. The next sleep has a timeout, after which clients tidy.
 *
 * At exit(3) the thread stops before the destructor of any library runs, since a fabric that has
 * shut down must not be called.
 *
 * Locks: life_lock serializes start and stop; `lock`, taken inside it, guards the list, the visits
 * and `running`. Under either, only is_due() of a client is called. All state is on a page that is
 * wiped in a forked child, where zeroes are an empty list and free locks.
 */
#include "core/base/reaper.h"

#include "core/base/error.h"
#include "core/base/kernel_call.h"
#include "core/base/process.h"
#include "core/base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REST_NS          3000000
#define EXIT_PATIENCE_NS 500000000

struct reaper {
    pthread_mutex_t life_lock, lock;
    pthread_cond_t left; /* a client is no longer visited */
    struct reaper_client *clients;
    pthread_t thread;
    bool running; /* written under both locks */
    atomic_uint stopping;
};

static _Atomic(void *) shared; /* struct reaper */
static _Atomic int64_t idle_ns = REAPER_IDLE_NS;
static atomic_uint awake = 1; /* also 1 while there is no thread */

/* ---- sleeping --------------------------------------------------------------------------- */

static void futex_wait(atomic_uint *word, unsigned value, const struct timespec *most)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, most, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    kernel_call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void reaper_set_idle(int64_t ns)
{
    atomic_store(&idle_ns, ns);
}

void reaper_wake(void)
{
    if (!atomic_load(&awake) && !atomic_exchange(&awake, 1))
        futex_wake(&awake);
}

/* ---- the thread ------------------------------------------------------------------------- */

static bool is_due(struct reaper_client *client)
{
    return !client->paused && client->is_due(client);
}

static bool anything_is_due(struct reaper *reaper)
{
    bool due = false;

    pthread_mutex_lock(&reaper->lock);
    for (struct reaper_client *client = reaper->clients; client && !due; client = client->next)
        due = is_due(client);
    pthread_mutex_unlock(&reaper->lock);
    return due;
}

static bool may_visit(const struct reaper *reaper, const struct reaper_client *client)
{
    return !client->paused && !atomic_load(&reaper->stopping);
}

static bool anything_recurs(struct reaper *reaper)
{
    bool recurs = false;

    pthread_mutex_lock(&reaper->lock);
    for (struct reaper_client *client = reaper->clients; client && !recurs; client = client->next)
        recurs = client->recurs && client->recurs(client);
    pthread_mutex_unlock(&reaper->lock);
    return recurs;
}

/* Calls a function of a client, which stays in the list during the visit. The lock is released for
 * each call, so a thread that pauses the client waits for one call at most. */
static bool call(struct reaper *reaper, struct reaper_client *client,
                 bool (*function)(struct reaper_client *client))
{
    bool more;

    if (!may_visit(reaper, client))
        return false;
    client->visited = true;
    pthread_mutex_unlock(&reaper->lock);
    more = function(client);
    pthread_mutex_lock(&reaper->lock);
    client->visited = false;
    pthread_cond_broadcast(&reaper->left);
    return more;
}

/* Serves all clients that are due. False: none was. */
static bool go_round(struct reaper *reaper)
{
    struct reaper_client *client;
    bool due = false;

    pthread_mutex_lock(&reaper->lock);
    for (client = reaper->clients; client; client = client->next) {
        if (!is_due(client))
            continue;
        due = true;
        if (call(reaper, client, client->examine))
            while (call(reaper, client, client->reap))
                ;
    }
    pthread_mutex_unlock(&reaper->lock);
    return due;
}

static void mark_untidy(struct reaper *reaper)
{
    pthread_mutex_lock(&reaper->lock);
    for (struct reaper_client *client = reaper->clients; client; client = client->next)
        client->untidy = true;
    pthread_mutex_unlock(&reaper->lock);
}

/* Tidies the untidy clients; stops if work becomes due. A paused client is tidied after it resumes.
 * False: it stopped before the end. */
static bool tidy_some(struct reaper *reaper)
{
    bool more = false;

    pthread_mutex_lock(&reaper->lock);
    for (struct reaper_client *client = reaper->clients; client && !more; client = client->next) {
        if (!client->untidy)
            continue;
        do
            more = call(reaper, client, client->tidy);
        while (more && !atomic_load(&awake));
        client->untidy = more || client->paused;
    }
    pthread_mutex_unlock(&reaper->lock);
    return !more;
}

/* Tidies all clients. What becomes due meanwhile, often by the tidying itself, is served between
 * two calls and ends nothing. */
static void tidy(struct reaper *reaper)
{
    bool served = false;

    mark_untidy(reaper);
    while (!tidy_some(reaper) && !atomic_load(&reaper->stopping)) {
        atomic_store(&awake, 0);
        go_round(reaper);
        served = true;
    }
    if (served)
        atomic_store(&awake, 1); /* the next sleep has a timeout */
}

/* Returns whether the thread was woken. The sleep has a timeout if reaper_wake() was called since
 * the last sleep, or a client recurs. */
static bool sleep_until_woken(struct reaper *reaper, const struct timespec *idle)
{
    bool ends = atomic_exchange(&awake, 0);

    if (anything_is_due(reaper) || atomic_load(&reaper->stopping))
        atomic_store(&awake, 1);
    else
        futex_wait(&awake, 0, ends || anything_recurs(reaper) ? idle : NULL);
    return atomic_load(&awake);
}

static void *run(void *arg)
{
    static const struct timespec rest = {.tv_nsec = REST_NS};
    int64_t ns = atomic_load(&idle_ns);
    struct timespec idle = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    struct reaper *reaper = arg;

    thread_name("hmreg-reaper");
    while (!atomic_load(&reaper->stopping)) {
        if (!sleep_until_woken(reaper, &idle)) {
            tidy(reaper);
            continue;
        }
        do
            futex_wait(&reaper->stopping, 0, &rest);
        while (!atomic_load(&reaper->stopping) && go_round(reaper));
    }
    atomic_store(&awake, 1);
    return NULL;
}

/* ---- start and stop --------------------------------------------------------------------- */

static void ask_to_stop(struct reaper *reaper)
{
    atomic_store(&reaper->stopping, 1);
    futex_wake(&reaper->stopping);
    atomic_store(&awake, 1);
    futex_wake(&awake);
}

static bool is_visited(const struct reaper *reaper)
{
    for (const struct reaper_client *client = reaper->clients; client; client = client->next)
        if (client->visited)
            return true;
    return false;
}

static bool runs_on_another_thread(struct reaper *reaper)
{
    bool runs;

    pthread_mutex_lock(&reaper->lock);
    runs = reaper->running && !pthread_equal(reaper->thread, pthread_self());
    pthread_mutex_unlock(&reaper->lock);
    return runs;
}

/* Stops the thread and waits for a call in progress, at most EXIT_PATIENCE_NS since a fabric may
 * hang. Other threads may start and stop the reaper at the same time. */
static void at_exit(void)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    struct reaper *reaper = atomic_load(&shared);
    bool visited = reaper && runs_on_another_thread(reaper);

    if (visited)
        ask_to_stop(reaper);
    for (long waited = 0; visited && waited < EXIT_PATIENCE_NS; waited += pause.tv_nsec) {
        pthread_mutex_lock(&reaper->lock);
        visited = is_visited(reaper);
        pthread_mutex_unlock(&reaper->lock);
        if (visited)
            nanosleep(&pause, NULL);
    }
}

static bool register_at_exit(void)
{
    return atexit(at_exit) == 0;
}

static void set_running(struct reaper *reaper, bool running, pthread_t thread)
{
    pthread_mutex_lock(&reaper->lock);
    reaper->running = running;
    reaper->thread = thread;
    pthread_mutex_unlock(&reaper->lock);
}

/* With life_lock held. No client has joined yet, so the thread visits none before set_running(). */
static bool start(struct reaper *reaper)
{
    static atomic_int registered;
    pthread_t thread;

    if (reaper->running)
        return true;
    if (!process_once(&registered, register_at_exit)) {
        hmreg_fail(-ENOMEM, "hmreg has no memory for the reaper's exit handler");
        return false;
    }
    atomic_store(&reaper->stopping, 0);
    if (thread_start(&thread, NULL, run, reaper, "to deregister cached regions"))
        return false;
    set_running(reaper, true, thread);
    return true;
}

/* With life_lock held. */
static void stop(struct reaper *reaper)
{
    ask_to_stop(reaper);
    pthread_join(reaper->thread, NULL);
    set_running(reaper, false, reaper->thread);
}

bool reaper_join(struct reaper_client *client)
{
    struct reaper *reaper = process_page_at(&shared);
    bool started;

    if (!reaper) {
        hmreg_fail(-ENOMEM, "hmreg has no memory for the reaper");
        return false;
    }
    pthread_mutex_lock(&reaper->life_lock);
    started = start(reaper);
    if (started) {
        pthread_mutex_lock(&reaper->lock);
        client->paused = 0;
        client->visited = client->untidy = false;
        client->next = reaper->clients;
        reaper->clients = client;
        pthread_mutex_unlock(&reaper->lock);
        reaper_wake();
    }
    pthread_mutex_unlock(&reaper->life_lock);
    return started;
}

/* Removes a client from the list. False: it had not joined. */
static bool unlink_client(struct reaper *reaper, struct reaper_client *client)
{
    struct reaper_client **link = &reaper->clients;

    while (*link && *link != client)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = client->next;
    return true;
}

void reaper_leave(struct reaper_client *client)
{
    struct reaper *reaper = atomic_load(&shared);
    bool left, last;

    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->life_lock);
    pthread_mutex_lock(&reaper->lock);
    client->paused++;
    while (client->visited)
        pthread_cond_wait(&reaper->left, &reaper->lock);
    left = unlink_client(reaper, client);
    last = !reaper->clients;
    pthread_mutex_unlock(&reaper->lock);
    if (left && last)
        stop(reaper);
    pthread_mutex_unlock(&reaper->life_lock);
}

/* ---- pauses ----------------------------------------------------------------------------- */

void reaper_pause(struct reaper_client *client)
{
    struct reaper *reaper = atomic_load(&shared);

    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->lock);
    client->paused++;
    while (client->visited && !pthread_equal(reaper->thread, pthread_self()))
        pthread_cond_wait(&reaper->left, &reaper->lock);
    pthread_mutex_unlock(&reaper->lock);
}

void reaper_resume(struct reaper_client *client)
{
    struct reaper *reaper = atomic_load(&shared);
    bool due;

    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->lock);
    client->paused--;
    due = is_due(client) || client->untidy;
    pthread_mutex_unlock(&reaper->lock);
    if (due)
        reaper_wake();
}
