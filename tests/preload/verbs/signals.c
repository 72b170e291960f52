/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program whose signal handler calls libibverbs, or leaves by siglongjmp(3), while the thread is
 * inside a registration: the order of events is fixed by raises.c.
 */
#include "tests/preload/verbs/bench.h"
#include "tests/preload/verbs/raises.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 65536

static struct {
    void (*act)(void); /* what the handler does */
    struct bench *bench;
    struct ibv_mr *mr;
    char *memory;
    int result, second;
} on_signal;

static void receive(int number)
{
    on_signal.act();
}

/* The next registration that reaches libibverbs is interrupted by the handler, which acts. */
static void interrupt_next(void (*act)(void), int flags)
{
    const struct sigaction action = {.sa_handler = receive, .sa_flags = flags};
    struct raises *raises = dlsym(RTLD_DEFAULT, PRELOAD_RAISES);

    assert_non_null(raises);
    on_signal.act = act;
    on_signal.result = -1;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    raises->next = 1;
}

static bool reaches(const struct ibv_mr *mr, const char *memory)
{
    return ib.fake->reach(mr->lkey, (uint64_t)(uintptr_t)memory, PAGE, LOCAL) == memory;
}

/* ---- calls in the handler ----------------------------------------------------------------- */

static void dereg_twice(void)
{
    on_signal.result = ib.dereg_mr(on_signal.mr);
    on_signal.second = bench_mode("cache") ? ib.dereg_mr(on_signal.mr) : EINVAL;
}

/* Of the cache the region is hmreg's, and not the first one, whose address free(3) takes. */
static void dereg__in_a_handler_inside_a_registration__as_anywhere(void **state)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 2 * PAGE);
    struct ibv_mr *first = bench_reg(&bench, memory, PAGE, LOCAL), *mr;

    on_signal.mr = bench_reg(&bench, memory, PAGE, LOCAL);
    interrupt_next(dereg_twice, 0);
    mr = bench_reg(&bench, memory + PAGE, PAGE, LOCAL);
    assert_int_equal(on_signal.result, 0);
    assert_int_equal(on_signal.second, EINVAL);
    assert_true(reaches(mr, memory + PAGE));
    assert_true(reaches(first, memory));
    bench_dereg(mr);
    bench_dereg(first);
    munmap(memory, 2 * PAGE);
    bench_close(&bench);
}

static void reg_and_keep(void)
{
    on_signal.mr = ib.reg_mr(on_signal.bench->pd, on_signal.memory, PAGE, LOCAL);
    on_signal.result = on_signal.mr && reaches(on_signal.mr, on_signal.memory) ? 0 : 1;
}

static void reg__in_a_handler_inside_a_registration__as_anywhere(void **state)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 2 * PAGE);
    struct ibv_mr *mr;

    on_signal.bench = &bench;
    on_signal.memory = memory;
    interrupt_next(reg_and_keep, 0);
    mr = bench_reg(&bench, memory + PAGE, PAGE, LOCAL);
    assert_int_equal(on_signal.result, 0);
    bench_dereg(mr);
    bench_dereg(on_signal.mr);
    munmap(memory, 2 * PAGE);
    bench_close(&bench);
}

static void move(void)
{
    on_signal.result =
        ib.rereg_mr(on_signal.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, on_signal.memory, PAGE, 0);
}

static void rereg__in_a_handler_inside_a_registration__as_anywhere(void **state)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 3 * PAGE);
    struct ibv_mr *mr;

    on_signal.mr = bench_reg(&bench, memory, PAGE, LOCAL);
    on_signal.memory = memory + PAGE;
    interrupt_next(move, 0);
    mr = bench_reg(&bench, memory + 2 * PAGE, PAGE, LOCAL);
    assert_int_equal(on_signal.result, 0);
    assert_ptr_equal(on_signal.mr->addr, memory + PAGE);
    assert_true(reaches(on_signal.mr, memory + PAGE));
    bench_dereg(on_signal.mr);
    bench_dereg(mr);
    munmap(memory, 3 * PAGE);
    bench_close(&bench);
}

TEST_MAIN(TEST(dereg__in_a_handler_inside_a_registration__as_anywhere),
          TEST(reg__in_a_handler_inside_a_registration__as_anywhere),
          TEST(rereg__in_a_handler_inside_a_registration__as_anywhere))
