/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Bytes of memory per cached region: the growth of the process's anonymous memory, in the kernel's
 * page counts, while one thread registers many regions of 4 KiB and then hits each once in random
 * order. It includes everything in the cache: entries, index, the thread's tables, the allocator's
 * overhead. The provider allocates nothing, and the regions' pages are never touched.
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"

#include <stdio.h>

struct task {
    const struct subject *subject;
    size_t regions;
};

static void *open_task(const void *arg)
{
    return (void *)arg;
}

static void sample_footprint(void *state, int worker, double *values)
{
    const struct task *task = state;
    char *base = fixture_reserve(task->regions);
    void *cache = task->subject->open(task->subject, task->regions);
    struct order sorted, order;
    double before;

    order_sorted(&sorted, 0, task->regions);
    order_shuffle(&order, 0, task->regions, 1);
    before = anonymous_bytes();
    walk_once(task->subject, cache, base, &sorted);
    values[0] = (anonymous_bytes() - before) / (double)task->regions;
    walk_once(task->subject, cache, base, &order);
    values[1] = (anonymous_bytes() - before) / (double)task->regions;
    if (task->subject->check)
        task->subject->check(cache, task->regions);
}

static void footprint_of(size_t regions)
{
    static const struct job job = {.open = open_task, .sample = sample_footprint};
    const struct subject *subjects[] = {&subject_hmreg_default, &subject_hmreg_userfault,
                                        &subject_hmreg_notice, &subject_hmreg_import, &subject_ucx};
    struct contestant contestants[5];
    struct task tasks[5];
    char unused[40], used[40];
    struct measure measures[] = {{unused, "bytes"}, {used, "bytes"}};

    snprintf(unused, sizeof(unused), "footprint-unhit-%zu", regions);
    snprintf(used, sizeof(used), "footprint-%zu", regions);
    progress("footprint: %zu regions", regions);
    for (size_t i = 0; i < 5; i++) {
        tasks[i] = (struct task){subjects[i], regions};
        contestants[i] = (struct contestant){
            .who = subjects[i]->who, .job = &job, .arg = &tasks[i], .absent = subjects[i]->absent};
    }
    contest(measures, 2, contestants, 5, regions >= 1000000 ? 1 : plan.fresh, 1);
}

void measure_footprint(void)
{
    for (size_t regions = 100000; regions <= plan.most_regions; regions *= 10)
        footprint_of(regions);
}
