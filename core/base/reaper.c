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
 * The thread sleeps without a limit only while a client needs it. A client that ceases to need it
 * wakes it once (`sleeps_long`), and after a sleep with a timeout the thread ends. The thread, or
 * one in reaper_rest(), first clears `there`, and then asks the clients. A client whose need has
 * begun looks at `there`. needs() takes the lock under which the need begins, or says yes. So the
 * need is seen, or the client finds `there` cleared; then reaper_join() waits for the thread's end
 * and starts another.
 *
 * A thread that forks takes no lock that it would have to wait for, and sleeps on `progress`, which
 * each of the reaper's calls of a client advances: see before_fork(). A thread that hurries a
 * client waits in the same way.
 *
 * At exit(3) the thread stops before the destructor of any library runs, since a fabric that has
 * shut down must not be called.
 *
 * Locks: life_lock serializes start and stop; `lock`, taken inside it, guards the list, the visits,
 * `running` and `ended`. Under either, only is_due(), recurs(), needs() and sheds() of a client are
 * called. The thread does not take life_lock, under which it is joined. All state is on a page that
 * is wiped in a forked child, where zeroes are an empty list and free locks.
 */
#include "core/base/reaper.h"

#include "core/base/error.h"
#include "core/base/kernel_call.h"
#include "core/base/now.h"
#include "core/base/process.h"
#include "core/base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REST_NS          3000000
#define EXIT_PATIENCE_NS 500000000
#define PATIENCE_NS      1000000000 /* longest wait of an asking thread without progress */
#define MOST_NS          INT64_C(5000000000)
#define ASKED_REAPS      4096 /* calls of reap() for each client, at most */

/* The thread's times; only the thread uses them. */
struct reaper_times {
    int64_t idle;      /* the delay */
    int64_t active_at; /* something was due */
    int64_t recur_at;  /* next recurring work, not before this time */
    bool recurs;       /* a client had recurring work at the last look */
    bool tidied;       /* since active_at */
};

struct reaper {
    pthread_mutex_t life_lock, lock;
    pthread_cond_t left; /* a client is no longer visited */
    struct reaper_client *clients;
    pthread_t thread; /* under life_lock */
    struct thread_stack stack;
    pid_t task;   /* the thread's; 0: it has not begun */
    bool running; /* there is a thread to be joined; written under both locks */
    bool ended;   /* it has decided to end by itself */
    atomic_bool there;
    atomic_uint stopping;
    /* How many threads have asked the reaper's; of these, how many it has served. */
    atomic_uint asked, served;
    atomic_bool forks; /* one of them forks */
    atomic_uint progress;
};

static _Atomic(void *) shared; /* struct reaper */
static _Atomic int64_t idle_ns = REAPER_IDLE_NS;
static atomic_uint awake = 1; /* also 1 while there is no thread */
static atomic_bool sleeps_long;

/* ---- sleeping --------------------------------------------------------------------------- */

static void futex_wait(atomic_uint *word, unsigned value, const struct timespec *most)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, most, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    kernel_call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
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

bool reaper_runs(void)
{
    struct reaper *reaper = atomic_load(&shared);

    return reaper && atomic_load(&reaper->there);
}

/* Both exchange this word: the later one sees all that the other did before its own exchange. A
 * thread that starts later looks at the needs before it sleeps. */
void reaper_may_rest(void)
{
    if (reaper_runs() && atomic_exchange(&sleeps_long, false))
        reaper_wake();
}

/* ---- the clients' needs ------------------------------------------------------------------ */

static bool is_visited(const struct reaper *reaper)
{
    for (const struct reaper_client *client = reaper->clients; client; client = client->next)
        if (client->visited)
            return true;
    return false;
}

/* A thread that has paused a client may have left it work. */
static bool is_needed(const struct reaper *reaper)
{
    bool needed = false;

    for (struct reaper_client *client = reaper->clients; client && !needed; client = client->next)
        needed = atomic_load(&client->paused) || !client->needs || client->needs(client);
    return needed;
}

/* Caller holds the lock; it is released while waiting for a call of a client. False: a client needs
 * the thread. True: the thread visits no client any more. */
static bool may_end(struct reaper *reaper)
{
    bool needed;

    atomic_store(&reaper->there, false);
    while (!(needed = is_needed(reaper)) && is_visited(reaper))
        pthread_cond_wait(&reaper->left, &reaper->lock);
    if (needed)
        atomic_store(&reaper->there, true);
    return !needed;
}

/* ---- the thread ------------------------------------------------------------------------- */

static bool is_asked(struct reaper *reaper)
{
    return atomic_load(&reaper->asked) != atomic_load(&reaper->served);
}

static bool is_due(struct reaper_client *client)
{
    return !atomic_load(&client->paused) && client->is_due(client);
}

static bool anything_is_due(struct reaper *reaper)
{
    bool due = is_asked(reaper);

    pthread_mutex_lock(&reaper->lock);
    for (struct reaper_client *client = reaper->clients; client && !due; client = client->next)
        due = is_due(client);
    pthread_mutex_unlock(&reaper->lock);
    return due;
}

static bool may_visit(const struct reaper *reaper, const struct reaper_client *client)
{
    return !atomic_load(&client->paused) && !atomic_load(&reaper->stopping);
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

static void show_progress(struct reaper *reaper)
{
    atomic_fetch_add(&reaper->progress, 1);
    if (is_asked(reaper))
        futex_wake(&reaper->progress);
}

/* Calls a function of a client, which stays in the list during the visit. It releases the lock for
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
    show_progress(reaper);
    return more;
}

/* Lets the client prepare the work that a thread waits for: memory that a fork would copy, or due
 * work. False: there is nothing. */
static bool prepare_asked(struct reaper *reaper, struct reaper_client *client, bool forks)
{
    bool any = atomic_exchange(&client->hurried, false) && call(reaper, client, client->examine);

    if (forks && client->sheds && client->sheds(client))
        any |= call(reaper, client, client->shed);
    return any;
}

/* Does the work that threads wait for. Caller holds the lock. */
static void serve_asked(struct reaper *reaper)
{
    unsigned asked = atomic_load(&reaper->asked);
    bool forks;

    if (!is_asked(reaper))
        return;
    forks = atomic_exchange(&reaper->forks, false);
    for (struct reaper_client *client = reaper->clients; client; client = client->next) {
        if (!prepare_asked(reaper, client, forks))
            continue;
        for (int i = 0; i < ASKED_REAPS && call(reaper, client, client->reap); i++)
            ;
    }
    atomic_store(&reaper->served, asked);
    atomic_fetch_add(&reaper->progress, 1);
    futex_wake(&reaper->progress);
}

/* Serves all clients that are due. False: none was. */
static bool go_round(struct reaper *reaper)
{
    struct reaper_client *client;
    bool due = false;

    pthread_mutex_lock(&reaper->lock);
    serve_asked(reaper);
    for (client = reaper->clients; client; client = client->next) {
        if (!is_due(client))
            continue;
        due = true;
        if (call(reaper, client, client->examine))
            while (call(reaper, client, client->reap) && !is_asked(reaper))
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

/* Does some of the recurring work. True: more is left. */
static bool recur_some(struct reaper *reaper)
{
    bool more = false;

    pthread_mutex_lock(&reaper->lock);
    for (struct reaper_client *client = reaper->clients; client; client = client->next)
        if (client->recurs && client->recurs(client))
            more |= call(reaper, client, client->recur);
    pthread_mutex_unlock(&reaper->lock);
    return more;
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
        client->untidy = more || atomic_load(&client->paused);
    }
    pthread_mutex_unlock(&reaper->lock);
    return !more;
}

/* Tidies all clients. Work that becomes due meanwhile, often through the tidying itself, is served
 * between two calls and does not end the tidying. */
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

/* May the thread sleep until it is woken? */
static bool may_sleep_long(struct reaper *reaper)
{
    bool may;

    (void)atomic_exchange(&sleeps_long, true); /* see reaper_may_rest() */
    pthread_mutex_lock(&reaper->lock);
    may = is_needed(reaper);
    pthread_mutex_unlock(&reaper->lock);
    may = may && !anything_recurs(reaper);
    if (!may)
        atomic_store(&sleeps_long, false);
    return may;
}

static int64_t after(int64_t at, int64_t delay)
{
    return delay > INT64_MAX - at ? INT64_MAX : at + delay;
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* Until when may the thread sleep if nothing becomes due? */
static int64_t sleeps_until(const struct reaper_times *times)
{
    int64_t until = after(times->tidied ? now_ns() : times->active_at, times->idle);

    return times->recurs ? earlier(until, times->recur_at) : until;
}

static void sleep_until(int64_t until)
{
    int64_t left = until - now_ns();
    struct timespec most = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

    if (left > 0)
        futex_wait(&awake, 0, &most);
}

/* Returns whether the thread was woken. The sleep has a timeout if something is to be tidied after
 * it, a client recurs, or none needs the thread. */
static bool sleep_until_woken(struct reaper *reaper, struct reaper_times *times)
{
    if (atomic_exchange(&awake, 0)) {
        times->active_at = now_ns();
        times->tidied = false;
    }
    if (anything_is_due(reaper) || atomic_load(&reaper->stopping))
        atomic_store(&awake, 1);
    else if (times->tidied && may_sleep_long(reaper))
        futex_wait(&awake, 0, NULL);
    else
        sleep_until(sleeps_until(times));
    atomic_store(&sleeps_long, false);
    return atomic_load(&awake);
}

/* Ends the thread after a sleep if no client needs it. Then nothing is due. */
static void end_if_idle(struct reaper *reaper)
{
    pthread_mutex_lock(&reaper->lock);
    if (!atomic_load(&reaper->stopping) && may_end(reaper)) {
        reaper->ended = true;
        atomic_store(&reaper->stopping, 1);
    }
    pthread_mutex_unlock(&reaper->lock);
}

static void set_task(struct reaper *reaper)
{
    pthread_mutex_lock(&reaper->lock);
    reaper->task = thread_task();
    pthread_mutex_unlock(&reaper->lock);
}

/* The period of recurring work begins when a client first has some. It is done in steps, as other
 * work is. */
static void recur_if_due(struct reaper *reaper, struct reaper_times *times)
{
    bool begins = !times->recurs, more;

    times->recurs = anything_recurs(reaper);
    if (!times->recurs)
        return;
    if (begins)
        times->recur_at = after(now_ns(), times->idle);
    if (now_ns() < times->recur_at)
        return;
    more = recur_some(reaper);
    times->recur_at = after(now_ns(), more ? 0 : times->idle);
    if (more)
        atomic_store(&awake, 1);
}

static void tidy_if_idle(struct reaper *reaper, struct reaper_times *times)
{
    if (!times->tidied && now_ns() - times->active_at >= times->idle) {
        tidy(reaper);
        times->tidied = true;
    }
    if (times->tidied)
        end_if_idle(reaper);
}

static void *run(void *arg)
{
    static const struct timespec rest = {.tv_nsec = REST_NS};
    struct reaper_times times = {.idle = atomic_load(&idle_ns), .recurs = false};
    struct reaper *reaper = arg;

    thread_name("hmreg-reaper");
    set_task(reaper); /* before it visits a client */
    times.active_at = now_ns();
    while (!atomic_load(&reaper->stopping)) {
        bool woken;

        recur_if_due(reaper, &times);
        woken = sleep_until_woken(reaper, &times);
        if (!woken) {
            tidy_if_idle(reaper, &times);
            continue;
        }
        do {
            if (!is_asked(reaper))
                futex_wait(&reaper->stopping, 0, &rest);
            recur_if_due(reaper, &times);
        } while (!atomic_load(&reaper->stopping) && go_round(reaper));
    }
    atomic_store(&awake, 1);
    show_progress(reaper); /* a thread that waits sees `stopping` */
    return NULL;
}

/* ---- threads that wait ------------------------------------------------------------------- */

/* Waits until the thread has served the caller, or makes no progress; at most MOST_NS, because
 * others may retire regions as fast as it frees them. */
static bool await_served(struct reaper *reaper, unsigned number, int64_t patience)
{
    unsigned seen = atomic_load(&reaper->progress);
    int64_t until = now_ns() + patience, last = now_ns() + MOST_NS;

    while ((int)(atomic_load(&reaper->served) - number) < 0) {
        int64_t left = until - now_ns();
        struct timespec most = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

        if (atomic_load(&reaper->stopping))
            return true;
        if (left <= 0)
            return false;
        futex_wait(&reaper->progress, seen, &most);
        if (atomic_load(&reaper->progress) != seen) {
            seen = atomic_load(&reaper->progress);
            until = now_ns() + patience < last ? now_ns() + patience : last;
        }
    }
    return true;
}

static bool ask(struct reaper *reaper, int64_t patience)
{
    unsigned number = atomic_fetch_add(&reaper->asked, 1) + 1;

    reaper_wake();
    return await_served(reaper, number, patience);
}

bool reaper_hurry(struct reaper_client *client)
{
    struct reaper *reaper = atomic_load(&shared);

    if (!reaper || !atomic_load(&reaper->there) || pthread_equal(reaper->thread, pthread_self()))
        return false;
    atomic_store(&client->hurried, true);
    return ask(reaper, PATIENCE_NS);
}

static _Atomic int64_t fork_patience = PATIENCE_NS;

/* Has a client something to give back, or does the thread still do so for an earlier fork? If the
 * lock is not free, true: a signal handler that forks may have interrupted the thread that holds
 * it. */
static bool anything_sheds(struct reaper *reaper)
{
    bool sheds = is_asked(reaper);

    if (sheds || pthread_mutex_trylock(&reaper->lock))
        return true;
    for (struct reaper_client *client = reaper->clients; client && !sheds; client = client->next)
        sheds = client->sheds && client->sheds(client);
    pthread_mutex_unlock(&reaper->lock);
    return sheds;
}

/* Unserved forks wait for twice PATIENCE_NS in total: each time the forking thread may hold a lock
 * that the reaper needs. */
static void wait_for_reaper(struct reaper *reaper)
{
    int64_t patience = atomic_load(&fork_patience);

    atomic_store(&reaper->forks, true);
    patience = ask(reaper, patience) ? PATIENCE_NS : patience / 2;
    atomic_store(&fork_patience, patience);
}

static void before_fork(void)
{
    struct reaper *reaper = atomic_load(&shared);
    int before = errno;

    if (reaper && atomic_load(&reaper->there) && !pthread_equal(reaper->thread, pthread_self()) &&
        anything_sheds(reaper))
        wait_for_reaper(reaper);
    errno = before;
}

/* ---- start and stop --------------------------------------------------------------------- */

static void ask_to_stop(struct reaper *reaper)
{
    atomic_store(&reaper->stopping, 1);
    futex_wake(&reaper->stopping);
    atomic_store(&awake, 1);
    futex_wake(&awake);
}

/* Caller holds the lock. */
static bool is_own_thread(const struct reaper *reaper)
{
    return reaper->task && reaper->task == thread_task();
}

static bool runs_here(struct reaper *reaper)
{
    bool here;

    pthread_mutex_lock(&reaper->lock);
    here = is_own_thread(reaper);
    pthread_mutex_unlock(&reaper->lock);
    return here;
}

static bool runs_on_another_thread(struct reaper *reaper)
{
    bool runs;

    pthread_mutex_lock(&reaper->lock);
    runs = reaper->running && !is_own_thread(reaper);
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

static atomic_int handled;

static void in_child(void)
{
    process_once_done(&handled);
}

/* Registered after the handlers of the program's allocator and of the monitors. Those handlers run
 * after before_fork(), and the locks that they take are free until then. */
static bool register_handlers(void)
{
    return atexit(at_exit) == 0 && pthread_atfork(before_fork, NULL, in_child) == 0;
}

/* Joins the thread, which was asked to stop or has decided to end. Caller holds life_lock. */
static void join_thread(struct reaper *reaper)
{
    thread_join(reaper->thread, &reaper->task);
    thread_stack_unmap(&reaper->stack);
    pthread_mutex_lock(&reaper->lock);
    reaper->running = reaper->ended = false;
    reaper->task = 0;
    pthread_mutex_unlock(&reaper->lock);
}

static bool has_ended(struct reaper *reaper)
{
    bool ended;

    pthread_mutex_lock(&reaper->lock);
    ended = reaper->ended;
    pthread_mutex_unlock(&reaper->lock);
    return ended;
}

/* Caller holds life_lock. */
static bool start(struct reaper *reaper)
{
    if (reaper->running && !has_ended(reaper))
        return true;
    if (reaper->running)
        join_thread(reaper);
    if (!process_once(&handled, register_handlers)) {
        hmreg_fail(-ENOMEM, "hmreg has no memory for the reaper's handlers of exit and fork");
        return false;
    }
    atomic_store(&reaper->stopping, 0);
    if (thread_stack_map(&reaper->stack))
        return false;
    if (thread_start(&reaper->thread, &reaper->stack, run, reaper,
                     "to deregister cached regions")) {
        thread_stack_unmap(&reaper->stack);
        return false;
    }
    pthread_mutex_lock(&reaper->lock);
    reaper->running = true;
    atomic_store(&reaper->there, !reaper->ended);
    pthread_mutex_unlock(&reaper->lock);
    return true;
}

/* Stops the thread if no client needs it. Caller holds life_lock. */
static void stop_if_idle(struct reaper *reaper)
{
    bool ends;

    if (!reaper->running)
        return;
    pthread_mutex_lock(&reaper->lock);
    ends = reaper->ended || may_end(reaper);
    if (ends)
        ask_to_stop(reaper); /* under the lock: it visits no client from now on */
    pthread_mutex_unlock(&reaper->lock);
    if (ends)
        join_thread(reaper);
}

/* Caller holds life_lock. */
static void link_client(struct reaper *reaper, struct reaper_client *client)
{
    pthread_mutex_lock(&reaper->lock);
    if (!client->joined) {
        client->joined = true;
        client->visited = client->untidy = false;
        client->next = reaper->clients;
        reaper->clients = client;
    }
    pthread_mutex_unlock(&reaper->lock);
}

static void unlink_client(struct reaper *reaper, struct reaper_client *client)
{
    struct reaper_client **link = &reaper->clients;

    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
    client->joined = false;
}

/* The client is in the list before the thread runs: otherwise the thread could see no need for
 * itself and end. */
bool reaper_join(struct reaper_client *client)
{
    struct reaper *reaper = process_page_at(&shared);
    bool started, joins;

    if (!reaper) {
        hmreg_fail(-ENOMEM, "hmreg has no memory for the reaper");
        return false;
    }
    if (thread_lock_to_start(&reaper->life_lock))
        return false;
    joins = !client->joined;
    link_client(reaper, client);
    started = start(reaper);
    if (!started && joins) {
        pthread_mutex_lock(&reaper->lock);
        unlink_client(reaper, client);
        pthread_mutex_unlock(&reaper->lock);
    }
    if (started)
        reaper_wake();
    pthread_mutex_unlock(&reaper->life_lock);
    return started;
}

void reaper_leave(struct reaper_client *client)
{
    struct reaper *reaper = atomic_load(&shared);

    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->life_lock);
    pthread_mutex_lock(&reaper->lock);
    atomic_fetch_add(&client->paused, 1);
    while (client->visited)
        pthread_cond_wait(&reaper->left, &reaper->lock);
    if (client->joined)
        unlink_client(reaper, client);
    atomic_fetch_sub(&client->paused, 1);
    pthread_mutex_unlock(&reaper->lock);
    stop_if_idle(reaper);
    pthread_mutex_unlock(&reaper->life_lock);
}

void reaper_rest(void)
{
    struct reaper *reaper = atomic_load(&shared);

    if (!reaper || runs_here(reaper))
        return;
    pthread_mutex_lock(&reaper->life_lock);
    stop_if_idle(reaper);
    pthread_mutex_unlock(&reaper->life_lock);
}

/* ---- pauses ----------------------------------------------------------------------------- */

/* The count comes first: no visit begins after it, even if the client joins only then. */
void reaper_pause(struct reaper_client *client)
{
    struct reaper *reaper;

    atomic_fetch_add(&client->paused, 1);
    reaper = atomic_load(&shared);
    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->lock);
    while (client->visited && !is_own_thread(reaper))
        pthread_cond_wait(&reaper->left, &reaper->lock);
    pthread_mutex_unlock(&reaper->lock);
}

void reaper_resume(struct reaper_client *client)
{
    struct reaper *reaper;
    bool due;

    atomic_fetch_sub(&client->paused, 1);
    reaper = atomic_load(&shared);
    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->lock);
    due = client->joined && (is_due(client) || client->untidy);
    pthread_mutex_unlock(&reaper->lock);
    if (due)
        reaper_wake();
}
