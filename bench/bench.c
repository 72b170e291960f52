/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Helpers for every part of the program; see bench.h.
 */
#include "bench/bench.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct plan plan = {.fresh = 3, .turns = 5, .sample_ms = 20, .most_regions = 1000000};

static double begun;
static volatile sig_atomic_t was_interrupted;

double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

void burn_ns(double ns)
{
    double end = now_ns() + ns;

    while (now_ns() < end)
        ;
}

void progress_begin(void)
{
    begun = now_ns();
}

void progress(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "[%5.1f s] ", (now_ns() - begun) / 1e9);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void interrupt(int number)
{
    (void)number;
    was_interrupted = 1;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART | SA_RESETHAND};

    sigaction(SIGINT, &action, NULL);
}

bool interrupted(void)
{
    return was_interrupted;
}

_Noreturn void die(const char *format, ...)
{
    va_list args;

    fputs("hmreg-bench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}
