/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * get + put of cached regions of 4 KiB in random order: by one thread, over 1 to 1,000,000 regions;
 * on a group of eight domains beside one domain; by two threads of one process, compared with two
 * independent processes.
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"
#include "bench/filter.h"
#include "bench/subject.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_CONTESTANTS 12

struct task {
    const struct subject *subject;
    size_t regions;
    bool distinct;  /* each worker has different regions */
    bool filtered;  /* with a container's seccomp filter */
    bool scattered; /* the regions lie anywhere in 16 GiB of addresses, not side by side */
    bool parts;     /* one region, of which each get names another part */
};

struct walk {
    const struct task *task;
    void *cache;
    char *base;
    struct order order[MOST_WORKERS];
};

/* ---- a contestant ----------------------------------------------------------------------- */

static void register_all(struct walk *walk, size_t all)
{
    const struct task *task = walk->task;
    struct order sorted;

    order_sorted(&sorted, 0, all);
    if (task->scattered)
        order_scatter(&sorted);
    walk_once(task->subject, walk->cache, walk->base, &sorted);
    free(sorted.at);
}

/* Registers all regions in address order, so that a monitor's watched ranges are adjacent; if they
 * are scattered, in no order. */
static void *open_walk(const void *arg)
{
    const struct task *task = arg;
    size_t all = task->distinct ? MOST_WORKERS * task->regions : task->regions;
    struct walk *walk = calloc(1, sizeof(*walk));

    if (!walk)
        leave("no memory");
    walk->task = task;
    if (task->filtered)
        filter_begin();
    walk->cache = task->subject->open(task->subject, all);
    walk->base = fixture_reserve(task->scattered || task->parts ? SCATTERED : all);
    if (task->parts)
        task->subject->whole(walk->cache, walk->base, SCATTERED * REGION_BYTES);
    else
        register_all(walk, all);
    for (size_t i = 0; i < MOST_WORKERS; i++)
        order_shuffle(&walk->order[i], task->distinct ? i * task->regions : 0,
                      task->parts ? SCATTERED : task->regions, i + 1);
    for (size_t i = 0; task->scattered && i < MOST_WORKERS; i++)
        order_scatter(&walk->order[i]);
    return walk;
}

static void warm_walk(void *state, int worker)
{
    struct walk *walk = state;

    walk_once(walk->task->subject, walk->cache, walk->base, &walk->order[worker]);
}

static void sample_walk(void *state, int worker, double *values)
{
    struct walk *walk = state;
    const struct subject *subject = walk->task->subject;
    size_t all = walk->task->distinct ? MOST_WORKERS * walk->task->regions : walk->task->regions;

    values[0] = walk_timed(subject, walk->cache, walk->base, &walk->order[worker]);
    if (subject->check)
        subject->check(walk->cache, all);
}

static const struct job walk_job = {
    .open = open_walk, .warm = warm_walk, .sample = sample_walk, .steady = true};

/* ---- one thread ------------------------------------------------------------------------- */

static void hits_over(size_t regions)
{
    struct task tasks[MOST_CONTESTANTS];
    struct contestant contestants[MOST_CONTESTANTS];
    char name[40];
    struct measure measure = {name, "ns"};
    const struct subject *subject;
    size_t count = 0;
    bool many = regions >= 100000;

    snprintf(name, sizeof(name), "hits-%zu", regions);
    progress("hits: %zu regions", regions);
    for (size_t i = 0; (subject = subject_at(i)) != NULL; i++) {
        if (subject == &subject_hmreg_disabled || subject == &subject_loop ||
            (subject->most_regions && subject->most_regions < regions))
            continue;
        tasks[count] = (struct task){.subject = subject, .regions = regions};
        contestants[count] = (struct contestant){
            .who = subject->who, .job = &walk_job, .arg = &tasks[count], .absent = subject->absent};
        count++;
    }
    contest(&measure, 1, contestants, count, many ? 1 : plan.fresh,
            many ? plan.turns + 2 : plan.turns);
}

/* Measures the default and the peer only. */
static void hits_beside_ucx(const char *name, const struct task *task)
{
    struct task tasks[] = {*task, *task};
    struct measure measure = {name, "ns"};
    struct contestant contestants[] = {
        {.who = WHO_DEFAULT, .job = &walk_job, .arg = &tasks[0]},
        {.who = WHO_UCX, .job = &walk_job, .arg = &tasks[1], .absent = subject_ucx.absent},
    };

    progress("%s", name);
    tasks[0].subject = &subject_hmreg_default;
    tasks[1].subject = &subject_ucx;
    contest(&measure, 1, contestants, 2, plan.fresh, plan.turns);
}

void measure_hits(void)
{
    char name[40];

    for (size_t regions = 1; regions <= plan.most_regions; regions *= 10)
        hits_over(regions);
    for (size_t regions = 1000; regions <= 100000 && regions <= plan.most_regions; regions *= 10) {
        snprintf(name, sizeof(name), "hits-scattered-%zu", regions);
        hits_beside_ucx(name, &(struct task){.regions = regions, .scattered = true});
    }
    hits_beside_ucx("hits-parts", &(struct task){.regions = 1, .parts = true});
    for (size_t regions = 1; regions <= 1000; regions *= 10) {
        snprintf(name, sizeof(name), "hits-filtered-%zu", regions);
        hits_beside_ucx(name, &(struct task){.regions = regions, .filtered = true});
    }
}

/* ---- several rails, and the keys -------------------------------------------------------- */

static void three_over(const char *what, size_t regions, const struct subject *const subjects[3])
{
    struct contestant contestants[3];
    struct task tasks[3];
    char name[40];
    struct measure measure = {name, "ns"};

    snprintf(name, sizeof(name), "hits-%s-%zu", what, regions);
    progress("%s: %zu regions", what, regions);
    for (int i = 0; i < 3; i++) {
        tasks[i] = (struct task){.subject = subjects[i], .regions = regions};
        contestants[i] =
            (struct contestant){.who = subjects[i]->who, .job = &walk_job, .arg = &tasks[i]};
    }
    contest(&measure, 1, contestants, 3, plan.fresh, plan.turns);
}

void measure_groups(void)
{
    static const struct subject *const rails[] = {&subject_hmreg_default, &subject_hmreg_group,
                                                  &subject_hmreg_eight};
    static const struct subject *const keys[] = {&subject_hmreg_default, &subject_hmreg_head,
                                                 &subject_hmreg_calls};

    for (size_t regions = 1; regions <= 10000; regions *= 100)
        three_over("group", regions, rails);
    for (size_t regions = 1; regions <= 10000; regions *= 100)
        three_over("keys", regions, keys);
}

/* ---- two threads ------------------------------------------------------------------------ */

/* Two workers with the same regions or with different ones, as `distinct` and the name say; two
 * processes share nothing in either case. */
static void crews_over(const char *name, size_t regions, bool distinct)
{
    static const struct {
        const struct subject *subject;
        const char *threads, *processes;
    } crews[] = {
        {&subject_hmreg_notice, WHO_NOTICE ", 2 threads", WHO_NOTICE ", 2 processes"},
        {&subject_hmreg_userfault, WHO_USERFAULT ", 2 threads", WHO_USERFAULT ", 2 processes"},
        {&subject_hmreg_import, WHO_IMPORT ", 2 threads", WHO_IMPORT ", 2 processes"},
        {&subject_hmreg_default, WHO_DEFAULT ", 2 threads", WHO_DEFAULT ", 2 processes"},
        {&subject_ucx, WHO_UCX ", 2 threads", WHO_UCX ", 2 processes"},
    };
    struct task tasks[10];
    struct contestant contestants[10];
    struct measure measure = {name, "ns"};
    size_t count = 0;

    progress("threads: %s", name);
    for (size_t i = 0; i < sizeof(crews) / sizeof(crews[0]); i++)
        for (int processes = 1; processes <= 2; processes++) {
            tasks[count] = (struct task){
                .subject = crews[i].subject, .regions = regions, .distinct = distinct};
            contestants[count] =
                (struct contestant){.who = processes == 1 ? crews[i].threads : crews[i].processes,
                                    .job = &walk_job,
                                    .arg = &tasks[count],
                                    .processes = processes,
                                    .threads = 3 - processes,
                                    .absent = crews[i].subject->absent};
            count++;
        }
    contest(&measure, 1, contestants, count, plan.fresh, plan.turns);
}

void measure_threads(void)
{
    crews_over("threads-distinct-1000", 1000, true);
    crews_over("threads-same-1", 1, false);
    crews_over("threads-same-1000", 1000, false);
}
