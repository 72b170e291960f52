/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets and puts of cached regions of 4 KiB, 64 in one call, beside as many single calls. Buffers
 * are in random order; each turn walks all of them. "Get + put" of single calls puts each region
 * right after its get, which is the quickest order; 64 in one call are got, then put.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/fixture.h"
#include "bench/subject.h"

#include <hmreg/hmreg.h>

#include <stdio.h>
#include <stdlib.h>

#define A_CALL 64
#define ROUND  1024 /* regions between two readings of the clock */

enum { GET, PUT, BOTH, VALUES };

struct task {
    const struct subject *subject;
    size_t regions; /* a multiple of A_CALL */
    bool one_call;
};

struct buffers {
    const struct task *task;
    struct hmreg_domain *domain;
    size_t count, next; /* of iov; where the next round begins */
    struct iovec *iov;
    struct hmreg_mr *mrs[ROUND];
};

/* ---- a round ---------------------------------------------------------------------------- */

static void get_one(const struct buffers *buffers, const struct iovec *iov, struct hmreg_mr **mr)
{
    if (hmreg_mr_get(buffers->domain, iov->iov_base, iov->iov_len, HMREG_SEND, mr))
        hmreg_must(-1, "hmreg_mr_get");
}

static void get_call(const struct buffers *buffers, const struct iovec *iov, struct hmreg_mr **mrs)
{
    if (hmreg_mr_get_many(buffers->domain, iov, A_CALL, HMREG_SEND, mrs))
        hmreg_must(-1, "hmreg_mr_get_many");
}

static void get_all(struct buffers *buffers, const struct iovec *iov, size_t count)
{
    if (buffers->task->one_call)
        for (size_t i = 0; i < count; i += A_CALL)
            get_call(buffers, iov + i, buffers->mrs + i);
    else
        for (size_t i = 0; i < count; i++)
            get_one(buffers, iov + i, buffers->mrs + i);
}

static void put_all(struct buffers *buffers, size_t count)
{
    if (buffers->task->one_call)
        for (size_t i = 0; i < count; i += A_CALL)
            hmreg_mr_put_many(buffers->mrs + i, A_CALL);
    else
        for (size_t i = 0; i < count; i++)
            hmreg_mr_put(buffers->mrs[i]);
}

static void get_and_put_all(struct buffers *buffers, const struct iovec *iov, size_t count)
{
    if (buffers->task->one_call)
        for (size_t i = 0; i < count; i += A_CALL) {
            get_call(buffers, iov + i, buffers->mrs);
            hmreg_mr_put_many(buffers->mrs, A_CALL);
        }
    else
        for (size_t i = 0; i < count; i++) {
            get_one(buffers, iov + i, buffers->mrs);
            hmreg_mr_put(buffers->mrs[0]);
        }
}

/* ---- a contestant ----------------------------------------------------------------------- */

static void *open_buffers(const void *arg)
{
    const struct task *task = arg;
    struct buffers *buffers = calloc(1, sizeof(*buffers));
    struct order order;
    char *base;

    if (!buffers)
        leave("no memory");
    buffers->task = task;
    buffers->domain =
        ((struct hmreg_state *)task->subject->open(task->subject, task->regions))->domain;
    base = fixture_reserve(task->regions);
    order_shuffle(&order, 0, task->regions, 1);
    buffers->count = order.count - order.count % ROUND;
    buffers->iov = calloc(buffers->count, sizeof(*buffers->iov));
    if (!buffers->iov)
        leave("no memory");
    for (size_t i = 0; i < buffers->count; i++)
        buffers->iov[i] = (struct iovec){base + (size_t)order.at[i] * REGION_BYTES, REGION_BYTES};
    free(order.at);
    return buffers;
}

static void warm_buffers(void *state, int worker)
{
    struct buffers *buffers = state;

    for (size_t i = 0; i < buffers->count; i += ROUND)
        get_and_put_all(buffers, buffers->iov + i, ROUND);
}

/* Adds ns of a round, or of its two halves. */
static void time_round(struct buffers *buffers, const struct iovec *iov, double *values)
{
    double begun = now_ns(), got, put;

    get_all(buffers, iov, ROUND);
    got = now_ns();
    put_all(buffers, ROUND);
    put = now_ns();
    get_and_put_all(buffers, iov, ROUND);
    values[GET] += got - begun;
    values[PUT] += put - got;
    values[BOTH] += now_ns() - put;
}

static void check_all_hit(const struct buffers *buffers)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    hmreg_must(hmreg_domain_stats(buffers->domain, &stats), "hmreg_domain_stats");
    if (stats.uncached || stats.evictions || stats.misses != buffers->task->regions)
        leave("failed: %zu regions, but %llu misses, %llu uncached", buffers->task->regions,
              (unsigned long long)stats.misses, (unsigned long long)stats.uncached);
}

static void sample_buffers(void *state, int worker, double *values)
{
    struct buffers *buffers = state;
    double end = now_ns() + plan.sample_ms * 1e6;
    size_t rounds = 0;

    for (int i = 0; i < VALUES; i++)
        values[i] = 0;
    do {
        time_round(buffers, buffers->iov + buffers->next, values);
        buffers->next = (buffers->next + ROUND) % buffers->count;
        rounds++;
    } while (now_ns() < end);
    for (int i = 0; i < VALUES; i++)
        values[i] /= (double)rounds * ROUND;
    check_all_hit(buffers);
}

static void many_over(size_t regions)
{
    static const struct job job = {
        .open = open_buffers, .warm = warm_buffers, .sample = sample_buffers, .steady = true};
    const struct task tasks[] = {{&subject_hmreg_default, regions, false},
                                 {&subject_hmreg_default, regions, true},
                                 {&subject_hmreg_userfault, regions, false},
                                 {&subject_hmreg_userfault, regions, true}};
    const struct contestant contestants[] = {
        {.who = WHO_DEFAULT, .job = &job, .arg = &tasks[0]},
        {.who = WHO_DEFAULT_MANY, .job = &job, .arg = &tasks[1]},
        {.who = WHO_USERFAULT, .job = &job, .arg = &tasks[2]},
        {.who = WHO_USERFAULT_MANY, .job = &job, .arg = &tasks[3]},
    };
    char get[40], put[40], both[40];
    const struct measure measures[VALUES] = {{get, "ns"}, {put, "ns"}, {both, "ns"}};

    snprintf(get, sizeof(get), "many-get-%zu", regions);
    snprintf(put, sizeof(put), "many-put-%zu", regions);
    snprintf(both, sizeof(both), "many-both-%zu", regions);
    progress("many: 64 of %zu regions in one call", regions);
    contest(measures, VALUES, contestants, 4, plan.fresh, plan.turns);
}

void measure_many(void)
{
    many_over(64);
    many_over(1024);
    many_over(65536);
}
