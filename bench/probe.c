/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See probe.h.
 */
#include "bench/probe.h"

#include "bench/actor.h"
#include "bench/bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#define HITS_PER_READING 32       /* between two readings of the clock, for the mean */
#define CHECK_SLEEP_NS   5000     /* from this length on a gap is checked for sleep */
#define BUCKETS          (64 * 8) /* eight per power of two of ns */

/* ---- the prober ------------------------------------------------------------------------- */

/* Gives up after this multiple of until.ns if the machine is too busy to run both threads. */
#define TIMEOUT_FACTOR 40

static bool is_over(double ns, const struct until *until)
{
    if (until->stop)
        return atomic_load_explicit(until->stop, memory_order_relaxed);
    if (ns < until->ns)
        return false;
    return !until->units || ns > TIMEOUT_FACTOR * until->ns ||
           atomic_load_explicit(until->units, memory_order_relaxed) >= until->at_least;
}

static void hit(const struct prober *prober, size_t count)
{
    struct order *order = prober->order;

    if (order->next + count > order->count)
        order->next = 0;
    prober->subject->hits(prober->cache, prober->base, order->at + order->next, count);
    order->next += count;
}

void probe_mean(const struct prober *prober, const struct until *until, struct gaps *out)
{
    double begun = now_ns(), now = begun;
    size_t done = 0;

    while (!is_over(now - begun, until)) {
        hit(prober, HITS_PER_READING);
        done += HITS_PER_READING;
        now = now_ns();
    }
    out->mean_ns = (now - begun) / (double)(done ? done : 1);
}

static long sleeps(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static int bucket_of(uint64_t ns)
{
    int power = 63 - __builtin_clzll(ns | 8);

    return (power - 3) * 8 + (int)(ns >> (power - 3) & 7);
}

/* The lower end of a bucket. */
static double ns_of(int bucket)
{
    return (double)((uint64_t)(8 + bucket % 8) << (bucket / 8));
}

static double quantile(const uint32_t *buckets, uint64_t count, double share)
{
    uint64_t below = 0, wanted = (uint64_t)((double)count * share);

    for (int i = 0; i < BUCKETS; i++) {
        below += buckets[i];
        if (below > wanted)
            return ns_of(i);
    }
    return 0;
}

void probe_gaps(const struct prober *prober, const struct until *until, struct gaps *out)
{
    uint32_t buckets[BUCKETS] = {0};
    long slept = sleeps(), slept_now;
    double begun = now_ns(), before = begun, now = begun;
    uint64_t count = 0;

    out->longest_us = out->slept_us = 0;
    while (!is_over(now - begun, until)) {
        double gap;

        hit(prober, 1);
        now = now_ns();
        gap = now - before;
        before = now;
        buckets[bucket_of((uint64_t)gap)]++;
        count++;
        if (gap < CHECK_SLEEP_NS)
            continue;
        slept_now = sleeps();
        if (gap / 1e3 > out->longest_us)
            out->longest_us = gap / 1e3;
        if (slept_now != slept && gap / 1e3 > out->slept_us)
            out->slept_us = gap / 1e3;
        slept = slept_now;
        before = now_ns(); /* the check is not part of a gap */
    }
    out->p999_us = quantile(buckets, count, 0.999) / 1e3;
}

/* ---- the other thread ------------------------------------------------------------------- */

struct companion {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    _Atomic(enum other) what;
    atomic_size_t units;
    void (*work)(void *arg);
    void *arg;
};

static void sleep_until_stopped(struct companion *companion)
{
    pthread_mutex_lock(&companion->lock);
    while (atomic_load(&companion->what) == OTHER_SLEEPS)
        pthread_cond_wait(&companion->wake, &companion->lock);
    pthread_mutex_unlock(&companion->lock);
}

static void *accompany(void *arg)
{
    struct companion *companion = arg;

    pin(1);
    for (;;) {
        sleep_until_stopped(companion);
        if (atomic_load(&companion->what) == OTHER_WORKS)
            companion->work(companion->arg);
        else
            burn_ns(SPIN_NS);
        atomic_fetch_add(&companion->units, 1);
    }
    return NULL;
}

struct companion *companion_new(void (*work)(void *arg), void *arg)
{
    struct companion *companion = calloc(1, sizeof(*companion));
    pthread_t thread;

    if (!companion)
        leave("no memory");
    pthread_mutex_init(&companion->lock, NULL);
    pthread_cond_init(&companion->wake, NULL);
    companion->work = work;
    companion->arg = arg;
    if (pthread_create(&thread, NULL, accompany, companion))
        leave("no thread");
    return companion;
}

const atomic_size_t *companion_set(struct companion *companion, enum other what)
{
    pthread_mutex_lock(&companion->lock);
    atomic_store(&companion->what, what);
    pthread_cond_signal(&companion->wake);
    pthread_mutex_unlock(&companion->lock);
    burn_ns(2 * SPIN_NS); /* long enough for it to notice */
    atomic_store(&companion->units, 0);
    return what == OTHER_SLEEPS ? NULL : &companion->units;
}
