/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See actor.h. For a turn, the director writes a byte to each process of a crew and reads a struct
 * answer from each; end of file means that the process died.
 */
#include "bench/actor.h"

#include "bench/bench.h"
#include "bench/series.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define MOST_TRIES   4   /* per steady turn */
#define MOST_SECONDS 120 /* per turn of one process */

struct answer {
    double values[MOST_VALUES]; /* sums over the process's threads */
    long preempted;             /* involuntary context switches of its threads */
    char absent[160];
};

/* The barrier at which the workers of a crew wait for each other. */
struct line {
    atomic_int arrived;
};

struct actor {
    const struct contestant *who;
    pid_t pid[MOST_WORKERS];
    int to[MOST_WORKERS], from[MOST_WORKERS];
    struct line *line; /* shared by its processes */
    char absent[160];
};

struct worker {
    const struct job *job;
    void *state;
    struct line *line;
    int number, crew, turn;
    bool cold; /* a new thread */
    double values[MOST_VALUES];
    long preempted;
};

static int answer_to;     /* in a contestant: the pipe to the director */
static cpu_set_t allowed; /* this program's cores, before any thread was pinned */

static int processes_of(const struct contestant *who)
{
    return who->processes ? who->processes : 1;
}

static int threads_of(const struct contestant *who)
{
    return who->threads ? who->threads : 1;
}

/* ---- in a contestant -------------------------------------------------------------------- */

_Noreturn void leave(const char *format, ...)
{
    struct answer answer = {.absent = ""};
    va_list args;

    va_start(args, format);
    vsnprintf(answer.absent, sizeof(answer.absent), format, args);
    va_end(args);
    if (!answer_to)
        die("%s", answer.absent);
    if (write(answer_to, &answer, sizeof(answer)) < 0)
        _exit(2);
    _exit(1);
}

void pin(int number)
{
    cpu_set_t one;
    int cpu = 0;

    for (; cpu < CPU_SETSIZE - 1; cpu++)
        if (CPU_ISSET(cpu, &allowed) && number-- == 0)
            break;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (CPU_ISSET(cpu, &allowed))
        pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

/* Waits for the crew's other workers. */
static void line_up(const struct worker *worker)
{
    int all = worker->crew * (worker->turn + 1);

    if (worker->crew == 1)
        return;
    atomic_fetch_add(&worker->line->arrived, 1);
    while (atomic_load(&worker->line->arrived) < all)
        sched_yield();
}

static long preemptions(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    pin(worker->number);
    if (worker->job->warm && worker->cold)
        worker->job->warm(worker->state, worker->number);
    line_up(worker);
    worker->preempted = preemptions();
    worker->job->sample(worker->state, worker->number, worker->values);
    worker->preempted = preemptions() - worker->preempted;
    return NULL;
}

/* Creates new threads for each turn; a single worker runs on the process's main thread. */
static void take_turn(const struct worker *like, int first, int threads, struct answer *answer)
{
    struct worker workers[MOST_WORKERS];
    pthread_t thread[MOST_WORKERS];

    if (threads == 1) {
        workers[0] = *like;
        workers[0].number = first;
        workers[0].cold = like->turn == 0;
        work(&workers[0]);
        memcpy(answer->values, workers[0].values, sizeof(answer->values));
        answer->preempted = workers[0].preempted;
        return;
    }
    for (int i = 0; i < threads; i++) {
        workers[i] = *like;
        workers[i].number = first + i;
        workers[i].cold = true;
        if (pthread_create(&thread[i], NULL, work, &workers[i]))
            leave("no thread");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        answer->preempted += workers[i].preempted;
        for (int v = 0; v < MOST_VALUES; v++)
            answer->values[v] += workers[i].values[v];
    }
}

static _Noreturn void play(const struct contestant *who, struct line *line, int process, int from)
{
    struct worker like = {
        .job = who->job, .line = line, .crew = processes_of(who) * threads_of(who)};
    struct answer answer = {.absent = ""};
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(MOST_SECONDS);
    like.state = who->job->open(who->arg);
    alarm(0);
    if (write(answer_to, &answer, sizeof(answer)) < 0) /* ready */
        _exit(2);
    for (; read(from, &byte, 1) == 1; like.turn++) {
        alarm(MOST_SECONDS);
        memset(&answer, 0, sizeof(answer));
        take_turn(&like, process * threads_of(who), threads_of(who), &answer);
        alarm(0);
        if (write(answer_to, &answer, sizeof(answer)) < 0)
            _exit(2);
    }
    _exit(0);
}

/* ---- the director ----------------------------------------------------------------------- */

static struct line *line_new(void)
{
    struct line *line =
        mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (line == MAP_FAILED)
        die("no memory for a line");
    atomic_init(&line->arrived, 0);
    return line;
}

static void start_process(struct actor *actor, int number)
{
    int ask[2], answer[2];

    if (pipe(ask) || pipe(answer))
        die("no pipe for a contestant");
    fflush(NULL);
    actor->pid[number] = fork();
    if (actor->pid[number] < 0)
        die("no process for a contestant");
    if (!actor->pid[number]) {
        close(ask[1]);
        close(answer[0]);
        answer_to = answer[1];
        play(actor->who, actor->line, number, ask[0]);
    }
    close(ask[0]);
    close(answer[1]);
    actor->to[number] = ask[1];
    actor->from[number] = answer[0];
}

/* Adds up the answers of a contestant's processes. False: one of them cannot be measured. */
static bool receive_answer(struct actor *actor, double *values, long *preempted)
{
    int processes = processes_of(actor->who);

    *preempted = 0;
    memset(values, 0, MOST_VALUES * sizeof(*values));
    for (int i = 0; i < processes; i++) {
        struct answer answer;
        ssize_t got = read(actor->from[i], &answer, sizeof(answer));

        if (got != (ssize_t)sizeof(answer))
            snprintf(answer.absent, sizeof(answer.absent), "failed: its process died");
        if (answer.absent[0] && !actor->absent[0])
            memcpy(actor->absent, answer.absent, sizeof(actor->absent));
        for (int v = 0; v < MOST_VALUES && !answer.absent[0]; v++)
            values[v] += answer.values[v];
        *preempted += answer.preempted;
    }
    return !actor->absent[0];
}

static void start(struct actor *actor, const struct contestant *who)
{
    double nothing[MOST_VALUES];
    long preempted;

    memset(actor, 0, sizeof(*actor));
    actor->who = who;
    if (who->absent) {
        snprintf(actor->absent, sizeof(actor->absent), "%s", who->absent);
        return;
    }
    actor->line = line_new();
    for (int i = 0; i < processes_of(who); i++)
        start_process(actor, i);
    receive_answer(actor, nothing, &preempted);
}

static bool try_turn(struct actor *actor, double *values, long *preempted)
{
    for (int i = 0; i < processes_of(actor->who) && !actor->absent[0]; i++)
        if (write(actor->to[i], "", 1) != 1)
            snprintf(actor->absent, sizeof(actor->absent), "failed: its process died");
    return !actor->absent[0] && receive_answer(actor, values, preempted);
}

static bool sample(struct actor *actor, double *values)
{
    int workers = processes_of(actor->who) * threads_of(actor->who);
    int tries = actor->who->job && actor->who->job->steady ? MOST_TRIES : 1;
    long preempted = 1;

    for (int i = 0; i < tries && preempted; i++)
        if (!try_turn(actor, values, &preempted))
            return false;
    for (int v = 0; v < MOST_VALUES; v++)
        values[v] /= workers;
    return true;
}

static void stop(struct actor *actor)
{
    if (!actor->line)
        return;
    for (int i = 0; i < processes_of(actor->who); i++) {
        kill(actor->pid[i], SIGKILL);
        waitpid(actor->pid[i], NULL, 0);
        close(actor->to[i]);
        close(actor->from[i]);
    }
    munmap(actor->line, sizeof(*actor->line));
}

static void keep(const struct measure *measures, size_t count, struct actor *actor)
{
    double values[MOST_VALUES] = {0};
    bool there = sample(actor, values);

    for (size_t m = 0; m < count; m++) {
        if (there && isnan(values[m]))
            series_absent(measures[m].name, actor->who->who, measures[m].unit, "it has none");
        else if (there)
            series_add(measures[m].name, actor->who->who, measures[m].unit, values[m]);
        else
            series_absent(measures[m].name, actor->who->who, measures[m].unit, actor->absent);
    }
}

void contest(const struct measure *measures, size_t measure_count,
             const struct contestant *contestants, size_t contestant_count, unsigned fresh,
             unsigned turns)
{
    struct actor *actors = calloc(contestant_count, sizeof(*actors));

    if (!actors)
        die("no memory for the contestants");
    sched_getaffinity(0, sizeof(allowed), &allowed);
    signal(SIGPIPE, SIG_IGN); /* end of file reports a contestant that died */
    for (unsigned f = 0; f < fresh && !interrupted(); f++) {
        for (size_t i = 0; i < contestant_count; i++)
            start(&actors[i], &contestants[i]);
        for (unsigned t = 0; t < turns && !interrupted(); t++) /* rotates which one begins */
            for (size_t i = 0; i < contestant_count; i++)
                keep(measures, measure_count, &actors[(i + t) % contestant_count]);
        for (size_t i = 0; i < contestant_count; i++)
            stop(&actors[i]);
    }
    free(actors);
}
