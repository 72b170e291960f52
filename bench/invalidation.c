/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The memory of 100,000 cached regions changes at once: through hmreg_invalidate(), or through
 * munmap(2) if the kernel reports it. Measures how long that takes; the hits of another cache of
 * the same library meanwhile, compared with hits while the other thread only spins for as long; and
 * how long our locks are held (locks.c).
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"
#include "bench/probe.h"

#include <hmreg/hmreg.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MANY 100000
#define HOT  1000

static const struct measure measures[] = {
    {"invalidate-total", "ms"},
    {"invalidate-flush", "ms"},
    {"invalidate-mean-spinning", "ns"},
    {"invalidate-mean-during", "ns"},
    {"invalidate-longest-spinning", "us"},
    {"invalidate-longest-during", "us"},
    {"invalidate-slept-spinning", "us"},
    {"invalidate-slept-during", "us"},
};

struct task {
    const struct subject *subject;
    bool unmaps;
};

struct invalidation {
    const struct task *task;
    struct hmreg_state *many; /* all its cached memory changes */
    struct hmreg_state hot;   /* another domain of the same library */
    char *base;               /* of many's regions */
    struct order sorted, order;
    struct prober prober;
    double ns; /* duration of the change, or of the spinning */
    bool spins;
    atomic_bool done;
};

/* munmap(2) returns once the monitor has the event; this waits until the cache is empty. */
static void wait_until_empty(const struct invalidation *self)
{
    struct hmreg_stats stats = {.size = sizeof(stats), .regions = 1};

    while (stats.regions) {
        hmreg_must(hmreg_domain_stats(self->many->domain, &stats), "hmreg_domain_stats");
        if (stats.regions)
            burn_ns(10e3);
    }
}

/* Changes all of the memory. After munmap, maps new memory at the same address. */
static void change(struct invalidation *self)
{
    size_t len = (size_t)MANY * REGION_BYTES;
    double begun = now_ns();

    if (self->task->unmaps)
        munmap(self->base, len);
    else
        hmreg_must(hmreg_invalidate(self->many->lib, self->base, len), "hmreg_invalidate");
    wait_until_empty(self);
    self->ns = now_ns() - begun;
    if (self->task->unmaps &&
        mmap(self->base, len, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        leave("no memory at the same address");
}

static void *change_or_spin(void *arg)
{
    struct invalidation *self = arg;

    pin(1);
    if (self->spins)
        burn_ns(self->ns);
    else
        change(self);
    atomic_store(&self->done, true);
    return NULL;
}

static void *open_invalidation(const void *arg)
{
    struct invalidation *self = calloc(1, sizeof(*self));

    if (!self)
        leave("no memory");
    self->task = arg;
    self->many = self->task->subject->open(self->task->subject, MANY);
    self->hot = (struct hmreg_state){self->many->lib, hmreg_another_domain(self->many->lib, HOT)};
    self->base = fixture_reserve(MANY);
    order_sorted(&self->sorted, 0, MANY);
    order_shuffle(&self->order, 0, HOT, 1);
    self->prober =
        (struct prober){self->task->subject, &self->hot, fixture_reserve(HOT), &self->order};
    return self;
}

static void fill(struct invalidation *self)
{
    walk_once(self->task->subject, self->many, self->base, &self->sorted);
    walk_once(self->task->subject, &self->hot, self->prober.base, &self->order);
}

/* Measures hits of the other cache while another thread changes all memory, or spins. */
static void probe(struct invalidation *self, bool spins, bool mean, struct gaps *gaps)
{
    struct until until = {.stop = &self->done};
    pthread_t thread;

    self->spins = spins;
    atomic_store(&self->done, false);
    if (pthread_create(&thread, NULL, change_or_spin, self))
        leave("no thread");
    (mean ? probe_mean : probe_gaps)(&self->prober, &until, gaps);
    pthread_join(thread, NULL);
}

static double flush_ns(struct invalidation *self)
{
    double begun = now_ns();

    hmreg_must(hmreg_domain_flush(self->many->domain), "hmreg_domain_flush");
    return now_ns() - begun;
}

static void sample_invalidation(void *state, int worker, double *values)
{
    struct invalidation *self = state;
    struct gaps during, spinning;

    fill(self);
    probe(self, false, true, &during);
    values[0] = self->ns / 1e6;
    values[1] = flush_ns(self) / 1e6;
    probe(self, true, true, &spinning);
    fill(self);
    probe(self, false, false, &during);
    flush_ns(self);
    probe(self, true, false, &spinning);
    values[2] = spinning.mean_ns;
    values[3] = during.mean_ns;
    values[4] = spinning.longest_us;
    values[5] = during.longest_us;
    values[6] = spinning.slept_us;
    values[7] = during.slept_us;
}

void measure_invalidation(void)
{
    static const struct job job = {.open = open_invalidation, .sample = sample_invalidation};
    static const struct task tasks[] = {
        {&subject_hmreg_notice, false},
        {&subject_hmreg_import, false},
        {&subject_hmreg_notice, true},
        {&subject_hmreg_userfault, true},
    };
    static const char *const names[] = {WHO_NOTICE, WHO_IMPORT, WHO_NOTICE ", munmap",
                                        WHO_USERFAULT ", munmap"};
    struct contestant contestants[4];

    progress("invalidation: %d regions at once", MANY);
    for (size_t i = 0; i < 4; i++)
        contestants[i] = (struct contestant){
            .who = names[i], .job = &job, .arg = &tasks[i], .absent = tasks[i].subject->absent};
    contest(measures, sizeof(measures) / sizeof(measures[0]), contestants, 4, 1,
            plan.quick ? 1 : plan.turns);
    measure_locks();
}
