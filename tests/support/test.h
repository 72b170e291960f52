/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The tests' small main around cmocka. cmocka alone lies to CTest (256 failures exit 0, an empty
 * or all-skipped suite exits 0); this one exits 0 only if at least one test passed and none
 * failed, 77 if all were skipped, 1 otherwise. It also counts open descriptors around each
 * test: one more or one fewer is a failure of that test. What a failed case has left behind (open
 * libraries, held locks) does not reach the next: the program is started anew with that one.
 *
 *     TEST(mr_reg__null_domain__inval) { ... }
 *     TEST_MAIN()
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include "tests/support/sanitizer.h"

/* What nearly every case uses: no program includes these itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* The only place that includes it; versions 1.1 and 2 both do. */
#include <cmocka.h>
/* Of version 2: a name that tests use for other things. */
#undef stop

struct test_case {
    const char *name;
    void (*run)(void **state);
    struct test_case *next;
};

/* For the macros. */
void test_add(struct test_case *test, bool first);

/* TEST(name) { ... }: a case of the program. A file's cases run in their order there; TEST_FIRST():
 * before those that leave something behind in the process. */
#define TEST(function)       TEST_AMONG(function, false)
#define TEST_FIRST(function) TEST_AMONG(function, true)
#define TEST_AMONG(function, first)                                                                \
    static void function(void **unused_);                                                          \
    __attribute__((constructor)) static void add_##function(void)                                  \
    {                                                                                              \
        static struct test_case test = {#function, function, NULL};                                \
                                                                                                   \
        test_add(&test, first);                                                                    \
    }                                                                                              \
    static void function(void **unused_)

/* Runs the cases; argv[1], if given, is a substring that selects among them. */
int test_main(int argc, char **argv);

#define TEST_MAIN()                                                                                \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return test_main(argc, argv);                                                              \
    }

/* Ends the test as skipped and says why. With HMREG_TEST_NO_SKIP=1 it fails instead. */
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Called by a case: calls the function when the case returns, what was named last first. A case
 * that fails or is skipped does not return. */
void test_after(void (*function)(void));
/* Calls them now, for a case that goes on, and restores the environment. */
void test_finish(void);

/* Sets a variable of the environment, or removes it (NULL), until the case returns. */
void test_setenv(const char *name, const char *value);

/* Skips under ThreadSanitizer, which does not support forks of a process with threads. Call it
 * first. */
void test_forks_with_threads(void);
/* The same if those threads and the child allocate: under AddressSanitizer too, whose allocator
 * keeps its locks in the child. */
void test_forks_while_threads_allocate(void);

/* Skips a test that forks with the library open if a fork does not wipe the memory that
 * MADV_WIPEONFORK names: an emulator (QEMU's user mode before 8.0 or so) ignores it. */
void test_forks_wipe(void);

/* Whatever else the machine does, an event that a test waits for comes sooner. */
#define TEST_PATIENCE_SECONDS 600

/* Waits until the condition holds, which other threads, processes or the kernel make true. The test
 * fails if it does not within TEST_PATIENCE_SECONDS. */
#define test_wait_until(condition)                                                                 \
    do {                                                                                           \
        int64_t test_until_ = test_patience();                                                     \
                                                                                                   \
        while (!(condition))                                                                       \
            test_pause(test_until_, __FILE__, __LINE__, #condition);                               \
    } while (0)

/* For test_wait_until(): when it fails, and a millisecond's wait. */
int64_t test_patience(void);
void test_pause(int64_t until, const char *file, int line, const char *condition);

/* Waits until each other thread of the process sleeps in the kernel, or has ended: it waits for
 * what the case makes it wait for. */
void test_wait_until_others_sleep(void);

/* Runs it on a thread of its own, and returns its result. */
void *test_on_a_thread(void *(*body)(void *), void *arg);
/* On so many threads at once: thread i with the element i, of this size, of an array (0: all with
 * the same). Waits for all, each of which must return NULL. */
void test_on_threads(unsigned count, void *(*body)(void *), void *args, size_t size);

/* Private memory, which the kernel has cleared. */
void *test_map(size_t len);

/* fork(2). The kernel kills the child when the calling thread ends: a child that hangs ends with
 * the test, whose time CTest limits. */
pid_t test_fork(void);
/* The same for a child made otherwise, in which it is called; parent: who made it. */
void test_end_with(pid_t parent);

/* A child that only waits, with copies of the process's descriptors. make: NULL: clone(2), without
 * fork handlers. end: kills it. */
pid_t test_waiting_child(pid_t (*make)(void));
void test_end_child(pid_t child);

/* Threads of this process, as the kernel counts them. */
unsigned test_threads(void);

/* Waits for the child to exit with 0. The other also takes 77: the case is skipped, and says why.
 */
void test_await(pid_t child);
void test_await_or_skip(pid_t child, const char *why);

/* Has it? If not, says so on stderr. For processes that are no case's. */
bool test_ended_well(pid_t child);

/* The same for a child that evaluates the result and exits with it. An assertion that fails there
 * ends the child with 1. */
#define test_in_child(result) test_in_child_then(result, test_await(test_child_))
#define test_in_child_or_skip(result, why)                                                         \
    test_in_child_then(result, test_await_or_skip(test_child_, why))
#define test_in_child_then(result, await)                                                          \
    do {                                                                                           \
        pid_t test_child_ = test_fork();                                                           \
                                                                                                   \
        if (test_child_ == 0)                                                                      \
            _exit(result);                                                                         \
        await;                                                                                     \
    } while (0)

/* The number of repetitions of a random test: with HMREG_TEST_PART=10 a tenth. */
unsigned long test_times(unsigned long usual);

/* The ring of a performance event, which no device can reach; skips the case where there is none.
 */
int test_perf_ring(void);

/* The number of descriptors that this process has open. */
int test_count_fds(void);

/* The pages of this process's address space that are mapped, reserved ones included. */
unsigned long test_mapped_pages(void);

/* From now on only dmabufs count as descriptors: a real driver opens others, and keeps them. */
void test_count_dmabufs_only(void);

/* Expects 0; a failure shows the last error's sentence. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        int test_rc_ = (call);                                                                     \
                                                                                                   \
        if (test_rc_)                                                                              \
            fail_msg("%s = %d: %s", #call, test_rc_, hmreg_last_error()->text);                    \
    } while (0)

/* Compares without signs: a negative value is in no range. Version 2 of cmocka warns of its own. */
#undef assert_in_range
#define assert_in_range(value, least, most)                                                        \
    do {                                                                                           \
        uintmax_t test_value_ = (uintmax_t)(value);                                                \
        uintmax_t test_least_ = (uintmax_t)(least), test_most_ = (uintmax_t)(most);                \
                                                                                                   \
        if (test_value_ < test_least_ || test_value_ > test_most_)                                 \
            fail_msg("%s = %ju, not from %ju to %ju", #value, test_value_, test_least_,            \
                     test_most_);                                                                  \
    } while (0)

/* The call fails with this code and a text that contains `words`. */
#define assert_fails(call, expected, words)                                                        \
    do {                                                                                           \
        int test_rc_ = (call);                                                                     \
                                                                                                   \
        if (test_rc_ != (expected))                                                                \
            fail_msg("%s = %d, not %s (%s)", #call, test_rc_, #expected,                           \
                     test_rc_ ? hmreg_last_error()->text : "success");                             \
        if (hmreg_last_error()->code != test_rc_)                                                  \
            fail_msg("%s: last error has code %d, the call returned %d", #call,                    \
                     hmreg_last_error()->code, test_rc_);                                          \
        if (!strstr(hmreg_last_error()->text, words))                                              \
            fail_msg("%s says \"%s\", without \"%s\"", #call, hmreg_last_error()->text, words);    \
    } while (0)

#endif
