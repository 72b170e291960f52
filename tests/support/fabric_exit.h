/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A process that exits while the library's own threads deregister: a fabric's exit handler, which
 * runs after the library's, and a deregistration that would be called after it. For one file of a
 * program that is linked with -Wl,--wrap=nanosleep.
 */
#ifndef TESTS_FABRIC_EXIT_H
#define TESTS_FABRIC_EXIT_H

#include "tests/support/test.h"

#include <stdatomic.h>
#include <time.h>

static atomic_bool fabric_exits, fabric_is_awaited, fabric_is_down;
static void (*fabric_has_time)(
    void); /* the library's threads may go on: it returns when they have */

int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

/* The library's exit handler waits for its threads. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (atomic_load(&fabric_exits))
        atomic_store(&fabric_is_awaited, true);
    return __real_nanosleep(time, left);
}

static void __attribute__((destructor)) shut_fabric_down(void)
{
    if (!atomic_load(&fabric_exits))
        return;
    atomic_store(&fabric_is_down, true);
    fabric_has_time();
}

/* As the fabric is called: it lasts until the exit has begun. No call begins after the fabric's end,
 * nor is one under way then. */
static inline void call_exiting_fabric(void)
{
    if (atomic_load(&fabric_is_down))
        _exit(9);
    test_wait_until(atomic_load(&fabric_is_awaited) || atomic_load(&fabric_is_down));
    usleep(1000);
    if (atomic_load(&fabric_is_down))
        _exit(10);
}

/* LeakSanitizer's, if present: the exit leaves what has not ended. */
void __lsan_disable(void) __attribute__((weak));

static inline void exit_as(void (*run)(void))
{
    if (__lsan_disable)
        __lsan_disable();
    run();
    exit(0);
}

/* Runs it in a child, which then exits, with exit handlers and 0. */
static inline void exit_in_child(void (*run)(void))
{
    pid_t child;

    fflush(NULL);
    child = fork();
    if (!child)
        exit_as(run);
    test_await_or_skip(child, "the child cannot watch its memory");
}

#endif
