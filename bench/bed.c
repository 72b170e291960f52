/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Workers and clocks. Every worker is pinned to a core of its own, all start together, the
 * slower one's time counts. Each run has processes of its own, so that none inherits another's
 * heap.
 */
#include "bench/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_WORKERS 2

struct shared {
    pthread_barrier_t start;
    double ns[MOST_WORKERS];
};

struct worker {
    const struct subject *subject;
    const struct work *work;
    struct shared *shared;
    void *state;
    char *base;
    uint32_t *order;
    int number;
};

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pin(int number)
{
    cpu_set_t allowed, one;
    int cpu = 0;

    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (; cpu < CPU_SETSIZE - 1; cpu++)
        if (CPU_ISSET(cpu, &allowed) && number-- == 0)
            break;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (CPU_ISSET(cpu, &allowed))
        pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

/* The same shuffle for everybody who asks with the same seed. */
static uint32_t *shuffled(size_t count, uint64_t seed)
{
    uint32_t *order = malloc(count * sizeof(*order));

    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        uint32_t swap = order[i - 1];
        size_t other;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        other = (size_t)(seed >> 33) % i;
        order[i - 1] = order[other];
        order[other] = swap;
    }
    return order;
}

static void *reserve(size_t regions)
{
    char *base = mmap(NULL, regions * REGION_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (base == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return base;
}

static double timed(const struct worker *worker)
{
    size_t count = worker->work->regions, done = 0;
    double begun = now_ns();

    do {
        worker->subject->hits(worker->state, worker->base, worker->order, count);
        done += count;
    } while (done < worker->work->gets && !worker->work->misses);
    return (now_ns() - begun) / (double)done;
}

static void *run_worker(void *arg)
{
    struct worker *worker = arg;

    pin(worker->number);
    if (!worker->work->misses)
        worker->subject->hits(worker->state, worker->base, worker->order, worker->work->regions);
    pthread_barrier_wait(&worker->shared->start);
    worker->shared->ns[worker->number] = timed(worker);
    return NULL;
}

static void prepare(struct worker *worker, const struct worker *like, int number)
{
    *worker = *like;
    worker->number = number;
    worker->order = shuffled(like->work->regions, like->work->same ? 1 : (uint64_t)number + 1);
}

/* One process: its cache, and as many threads on it. */
static void run_process(const struct worker *like, int first, int threads)
{
    struct worker workers[MOST_WORKERS], base = *like;
    pthread_t thread[MOST_WORKERS];

    base.state = like->subject->open(like->work->regions);
    base.base = reserve(like->work->regions);
    for (int i = 0; i < threads; i++) {
        prepare(&workers[i], &base, first + i);
        pthread_create(&thread[i], NULL, run_worker, &workers[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    like->subject->close(base.state);
}

static void start_process(const struct worker *like, int first, int threads)
{
    if (fork())
        return;
    run_process(like, first, threads);
    _exit(0);
}

static struct shared *share(unsigned workers)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attr;

    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->start, &attr, workers);
    pthread_barrierattr_destroy(&attr);
    return shared;
}

double bed_run(const struct subject *subject, const struct work *work)
{
    int workers = work->crew == ONE_THREAD ? 1 : 2;
    int processes = work->crew == TWO_PROCESSES ? 2 : 1;
    struct worker like = {.subject = subject, .work = work, .shared = share((unsigned)workers)};
    double slowest = 0;

    for (int i = 0; i < processes; i++)
        start_process(&like, i, workers / processes);
    for (int i = 0; i < processes; i++) {
        int status;

        if (wait(&status) < 0 || status) {
            fprintf(stderr, "a worker of %s failed\n", subject->name);
            exit(1);
        }
    }
    for (int i = 0; i < workers; i++)
        slowest = like.shared->ns[i] > slowest ? like.shared->ns[i] : slowest;
    munmap(like.shared, sizeof(*like.shared));
    return slowest;
}
