/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library's effect on the program's own calls: the same calls in a process with the library and
 * in one without it, in turns. With the library, a region of one page is cached in the mapping that
 * the program moves, touches or unmaps.
 *
 * - realloc: grows 64 MiB, resident in pages of 4 KiB, by half; once where it must move, and once
 *   where there is room behind it
 * - mremap: moves the same to an address where the kernel must move each page, and back; and to one
 *   where it moves page tables, which costs so little that a report of the change shows
 * - faults: the first touch of each page of 16 MiB, of which one page is cached
 * - fork: forks a child that exits at once, and waits for it; 64 MiB are resident
 * - huge pages: the first touch of 32 MiB that may use huge pages, with one page of each 2 MiB
 *   cached; and how much of it huge pages then hold
 * - munmap: unmaps 64 KiB with one page touched and cached, each call timed separately; and the
 *   same while four threads spin on two cores
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"

#include <hmreg/hmreg.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB      ((size_t)1 << 20)
#define BIG      (64 * MIB)
#define FAULTS   (16 * MIB)
#define HUGE     (32 * MIB)
#define SMALL    (16 * REGION_BYTES)
#define SPINNERS 4

enum {
    REALLOC,
    REALLOC_IN_PLACE,
    MREMAP,
    MREMAP_TABLES,
    FAULT,
    FORK,
    HUGE_TOUCH,
    HUGE_PAGES,
    UNMAP,
    UNMAP_BUSY,
    VALUES
};

static const struct measure measures[VALUES] = {
    {"program-realloc", "us"}, {"program-realloc-in-place", "us"},
    {"program-mremap", "us"},  {"program-mremap-tables", "us"},
    {"program-fault", "ns"},   {"program-fork", "us"},
    {"program-huge", "us"},    {"program-huge-pages", "pages"},
    {"program-unmap", "ns"},   {"program-unmap-busy", "us"},
};

struct program {
    const struct subject *subject; /* NULL: without the library */
    struct hmreg_state *cache;
};

static void *open_program(const void *arg)
{
    struct program *program = calloc(1, sizeof(*program));

    if (!program)
        leave("no memory");
    program->subject = arg;
    if (arg)
        program->cache = program->subject->open(program->subject, 4096);
    return program;
}

/* ---- the program's memory --------------------------------------------------------------- */

static char *map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        leave("no memory");
    return memory;
}

static void touch(char *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += REGION_BYTES)
        ((volatile char *)memory)[at] = 1;
}

/* Touches memory in base pages: the kernel moves huge pages in a few microseconds. */
static void touch_small(char *memory, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)memory + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory + bytes) & ~(page - 1);

    madvise((void *)start, end - start, MADV_NOHUGEPAGE);
    touch(memory, bytes);
}

static void cache(const struct program *program, char *memory, size_t bytes)
{
    struct hmreg_mr *mr = NULL;

    if (!program->cache)
        return;
    hmreg_must(hmreg_mr_get(program->cache->domain, memory, bytes, HMREG_SEND, &mr),
               "hmreg_mr_get");
    hmreg_mr_put(mr);
}

/* ---- its calls -------------------------------------------------------------------------- */

/* Maps something behind memory, so that it must move to grow; NULL: that place is taken. */
static void *block(char *memory)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = ((uintptr_t)memory + malloc_usable_size(memory) + page - 1) & ~(page - 1);
    void *made = mmap((void *)end, page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    return made == MAP_FAILED ? NULL : made;
}

static double realloc_us(const struct program *program, bool moves)
{
    char *memory = malloc(BIG);
    double sum = 0;

    if (!memory)
        leave("no memory");
    touch_small(memory, BIG);
    for (int i = 0; i < 8 && memory; i++) {
        void *behind = moves ? block(memory) : NULL;
        double begun;

        cache(program, memory, REGION_BYTES);
        begun = now_ns();
        memory = realloc(memory, BIG + BIG / 2);
        sum += now_ns() - begun;
        if (behind)
            munmap(behind, (size_t)sysconf(_SC_PAGESIZE));
        memory = memory ? realloc(memory, BIG) : NULL;
    }
    if (!memory)
        leave("no memory");
    free(memory);
    return sum / 8 / 1e3;
}

/* The kernel moves page tables, of 2 MiB each, between addresses that are alike in their lower
 * bits: shift changes those. */
static double mremap_us(const struct program *program, size_t shift)
{
    char *room = map(2 * BIG + 6 * MIB);
    char *first = (char *)(((uintptr_t)room + 2 * MIB - 1) & ~(2 * MIB - 1));
    char *places[2] = {first, first + BIG + 2 * MIB + shift};
    double sum = 0;

    touch_small(places[0], BIG);
    for (int i = 0; i < 16; i++) {
        double begun;

        cache(program, places[i % 2], REGION_BYTES);
        begun = now_ns();
        if (mremap(places[i % 2], BIG, BIG, MREMAP_MAYMOVE | MREMAP_FIXED, places[1 - i % 2]) ==
            MAP_FAILED)
            leave("mremap fails");
        sum += now_ns() - begun;
    }
    munmap(room, 2 * BIG + 6 * MIB);
    return sum / 16 / 1e3;
}

static double fault_ns(const struct program *program)
{
    const size_t regions = FAULTS / REGION_BYTES;
    char *memory = map(FAULTS);
    double begun, ns;

    madvise(memory, FAULTS, MADV_NOHUGEPAGE);
    cache(program, memory, REGION_BYTES);
    begun = now_ns();
    touch(memory, FAULTS);
    ns = (now_ns() - begun) / (double)regions;
    munmap(memory, FAULTS);
    return ns;
}

static double fork_us(const struct program *program)
{
    char *memory = map(BIG);
    double begun;

    touch(memory, BIG);
    cache(program, memory, REGION_BYTES);
    begun = now_ns();
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();

        if (child < 0)
            leave("no process");
        if (!child)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    begun = now_ns() - begun;
    munmap(memory, BIG);
    return begun / 10 / 1e3;
}

/* ---- huge pages ------------------------------------------------------------------------- */

/* KiB of the range held in huge pages. */
static double huge_kib(const char *memory)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    unsigned long start, kib = 0, sum = 0;
    bool inside = false;
    char line[300];

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-", &start) == 1 && strchr(line, '-'))
            inside = start >= (uintptr_t)memory && start < (uintptr_t)memory + HUGE;
        else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
            sum += kib;
    }
    if (file)
        fclose(file);
    return (double)sum;
}

/* Call it twice, for the second values: a virtual machine's host gives it memory at the first touch
 * only, which takes ten times as long as the rest. */
static void touch_huge(const struct program *program, double *us, double *pages)
{
    char *room = map(HUGE + 2 * MIB);
    char *memory = (char *)(((uintptr_t)room + 2 * MIB - 1) & ~(2 * MIB - 1));
    double begun, huge;

    madvise(memory, HUGE, MADV_HUGEPAGE);
    for (size_t at = 0; at < HUGE; at += 2 * MIB)
        cache(program, memory + at, REGION_BYTES);
    begun = now_ns();
    touch(memory, HUGE);
    *us = (now_ns() - begun) / 1e3;
    huge = huge_kib(memory) * 1024;
    *pages = huge / (double)(2 * MIB) + ((double)HUGE - huge) / REGION_BYTES;
    munmap(room, HUGE + 2 * MIB);
}

/* ---- munmap ----------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The quantile `share` of the durations of this many calls. */
static double unmap_ns(const struct program *program, size_t calls, double share)
{
    double *took = malloc(calls * sizeof(*took)), result;

    if (!took)
        leave("no memory");
    for (size_t i = 0; i < calls; i++) {
        char *memory = map(SMALL);
        double begun;

        *memory = 1;
        cache(program, memory, SMALL);
        begun = now_ns();
        munmap(memory, SMALL);
        took[i] = now_ns() - begun;
    }
    qsort(took, calls, sizeof(*took), by_value);
    result = took[(size_t)((double)(calls - 1) * share)];
    free(took);
    return result;
}

static void *spin(void *arg)
{
    atomic_bool *stop = arg;
    cpu_set_t two;

    CPU_ZERO(&two);
    for (int cpu = 0; cpu < 2; cpu++)
        CPU_SET(cpu, &two);
    pthread_setaffinity_np(pthread_self(), sizeof(two), &two);
    while (!atomic_load_explicit(stop, memory_order_relaxed))
        ;
    return NULL;
}

static double busy_unmap_us(const struct program *program)
{
    pthread_t threads[SPINNERS];
    atomic_bool stop = false;
    double ns;

    for (int i = 0; i < SPINNERS; i++)
        if (pthread_create(&threads[i], NULL, spin, &stop))
            leave("no thread");
    ns = unmap_ns(program, plan.quick ? 2000 : 10000, 0.999);
    atomic_store(&stop, true);
    for (int i = 0; i < SPINNERS; i++)
        pthread_join(threads[i], NULL);
    return ns / 1e3;
}

/* ---- all -------------------------------------------------------------------------------- */

static void sample_program(void *state, int worker, double *values)
{
    const struct program *program = state;

    values[REALLOC] = realloc_us(program, true);
    values[REALLOC_IN_PLACE] = realloc_us(program, false);
    values[MREMAP] = mremap_us(program, REGION_BYTES);
    values[MREMAP_TABLES] = mremap_us(program, 0);
    values[FAULT] = fault_ns(program);
    values[FORK] = fork_us(program);
    for (int i = 0; i < 2; i++)
        touch_huge(program, &values[HUGE_TOUCH], &values[HUGE_PAGES]);
    values[UNMAP] = unmap_ns(program, 2000, 0.5);
    values[UNMAP_BUSY] = busy_unmap_us(program);
}

void measure_program(void)
{
    static const struct job job = {.open = open_program, .sample = sample_program};
    const struct contestant contestants[] = {
        {.who = "without hmreg", .job = &job},
        {.who = WHO_DEFAULT, .job = &job, .arg = &subject_hmreg_default},
        {.who = WHO_USERFAULT, .job = &job, .arg = &subject_hmreg_userfault},
    };

    progress("program: what its own calls take with the library, and without");
    contest(measures, VALUES, contestants, 3, plan.fresh, plan.turns);
}
