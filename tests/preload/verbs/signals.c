/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program whose signal handler calls libibverbs, or leaves by siglongjmp(3), while the thread is
 * inside a registration: the order of events is fixed by raises.c.
 */
#include "tests/preload/verbs/bench.h"
#include "tests/preload/verbs/raises.h"

#include "preload/record_layout.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE 65536

static struct {
    void (*act)(void); /* what the handler does */
    struct bench *bench;
    struct ibv_mr *mr;
    char *memory;
    int result;
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

static void dereg(void)
{
    on_signal.result = ib.dereg_mr(on_signal.mr);
}

/* Not of the first one, whose address free(3) takes. */
TEST(dereg__in_a_handler_inside_a_registration__as_anywhere)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 2 * PAGE);
    struct ibv_mr *first = bench_reg(&bench, memory, PAGE, LOCAL), *mr;

    on_signal.mr = bench_reg(&bench, memory, PAGE, LOCAL);
    interrupt_next(dereg, 0);
    mr = bench_reg(&bench, memory + PAGE, PAGE, LOCAL);
    assert_int_equal(on_signal.result, 0);
    assert_true(reaches(mr, memory + PAGE));
    assert_true(reaches(first, memory));
    bench_dereg(mr);
    bench_dereg(first);
    munmap(memory, 2 * PAGE);
}

static void reg_and_keep(void)
{
    on_signal.mr = ib.reg_mr(on_signal.bench->pd, on_signal.memory, PAGE, LOCAL);
    on_signal.result = on_signal.mr && reaches(on_signal.mr, on_signal.memory) ? 0 : 1;
}

TEST(reg__in_a_handler_inside_a_registration__as_anywhere)
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
}

static void move(void)
{
    on_signal.result =
        ib.rereg_mr(on_signal.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, on_signal.memory, PAGE, 0);
}

TEST(rereg__in_a_handler_inside_a_registration__as_anywhere)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 3 * PAGE);
    struct ibv_mr *mr;
    uint32_t old;

    on_signal.mr = bench_reg(&bench, memory, PAGE, LOCAL);
    old = on_signal.mr->lkey;
    on_signal.memory = memory + PAGE;
    interrupt_next(move, 0);
    mr = bench_reg(&bench, memory + 2 * PAGE, PAGE, LOCAL);
    assert_int_equal(on_signal.result, 0);
    assert_ptr_equal(on_signal.mr->addr, memory + PAGE);
    assert_true(reaches(on_signal.mr, memory + PAGE));
    assert_null(ib.fake->reach(old, (uint64_t)(uintptr_t)memory, PAGE, 0));
    bench_dereg(on_signal.mr);
    bench_dereg(mr);
    munmap(memory, 3 * PAGE);
}

TEST(rereg__refused_in_a_handler__old_region_stays)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 3 * PAGE);
    struct ibv_mr *mr;

    on_signal.mr = bench_reg(&bench, memory, PAGE, LOCAL);
    on_signal.memory = memory + PAGE;
    atomic_store(&ib.fake->no_rereg, 1);
    interrupt_next(move, 0);
    mr = bench_reg(&bench, memory + 2 * PAGE, PAGE, LOCAL);
    atomic_store(&ib.fake->no_rereg, 0);
    assert_int_equal(on_signal.result, IBV_REREG_MR_ERR_CMD);
    assert_ptr_equal(on_signal.mr->addr, memory);
    assert_true(reaches(on_signal.mr, memory));
    assert_int_equal(atomic_load(&ib.fake->live), 2);
    bench_dereg(on_signal.mr);
    bench_dereg(mr);
    munmap(memory, 3 * PAGE);
}

/* ---- jumps out of the handler -------------------------------------------------------------- */

static void *of_recorder(const char *name)
{
    void *library = dlopen("libhmreg-record.so", RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, name) : NULL;

    assert_non_null(found);
    return found;
}

/* Registrations that hmreg has seen in this process. */
static uint64_t seen(void)
{
    const struct record_layout *file =
        ((const struct record_layout *(*)(void))of_recorder("record_file"))();
    uint64_t sum = 0;

    assert_non_null(file);
    for (unsigned i = 0; i < RECORD_ROWS; i++)
        sum += file->rows[i].key.error ? 0 : atomic_load(&file->rows[i].count);
    return sum;
}

/* A handler that runs on a stack of its own, above the interrupted call, ends nothing. */
TEST(reg__in_a_handler_on_an_alternate_stack__the_call_goes_on)
{
    char alternate[65536];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    const stack_t none = {.ss_flags = SS_DISABLE};
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 2 * PAGE);
    uint64_t counted = seen();
    struct ibv_mr *mr;

    assert_int_equal(sigaltstack(&stack, NULL), 0);
    on_signal.bench = &bench;
    on_signal.memory = memory;
    interrupt_next(reg_and_keep, SA_ONSTACK);
    mr = bench_reg(&bench, memory + PAGE, PAGE, LOCAL);
    assert_int_equal(sigaltstack(&none, NULL), 0);
    assert_int_equal(on_signal.result, 0);
    assert_int_equal(seen(), counted + 1);
    bench_dereg(mr);
    bench_dereg(on_signal.mr);
    munmap(memory, 2 * PAGE);
}

static ucontext_t coroutine, program;

static void yield(void)
{
    swapcontext(&coroutine, &program);
}

static void register_in_coroutine(void)
{
    interrupt_next(yield, 0);
    on_signal.mr = bench_reg(on_signal.bench, on_signal.memory, PAGE, LOCAL);
}

/* The coroutine is inside its call while the program, whose stack is above, makes one. */
TEST(reg__beside_a_coroutine_inside_a_registration__the_call_goes_on)
{
    struct bench bench = bench_open();
    char *memory = bench_map(NULL, 2 * PAGE), *stack = bench_map(NULL, 16 * PAGE);
    uint64_t counted = seen();
    struct ibv_mr *mr;

    on_signal.bench = &bench;
    on_signal.memory = memory;
    assert_int_equal(getcontext(&coroutine), 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = 16 * PAGE;
    coroutine.uc_link = &program;
    makecontext(&coroutine, register_in_coroutine, 0);
    assert_int_equal(swapcontext(&program, &coroutine), 0);
    mr = bench_reg(&bench, memory + PAGE, PAGE, LOCAL);
    assert_int_equal(seen(), counted);
    assert_int_equal(swapcontext(&program, &coroutine), 0);
    assert_int_equal(seen(), counted + 1);
    assert_true(reaches(on_signal.mr, memory));
    bench_dereg(mr);
    bench_dereg(on_signal.mr);
    munmap(stack, 16 * PAGE);
    munmap(memory, 2 * PAGE);
}

static sigjmp_buf before;

static void jump(void)
{
    siglongjmp(before, 1);
}

/* Registers and leaves by a jump, then registers the same from the same function: seen, not waited
 * for, and the thread may be cancelled as before. Returns NULL if so. */
static void *leave_and_register(void *arg)
{
    struct bench *bench = arg;
    char *memory = on_signal.memory;
    uint64_t counted = seen();
    int cancellation = -1;
    struct ibv_mr *mr;

    if (!sigsetjmp(before, 1)) {
        ib.reg_mr(bench->pd, memory, PAGE, LOCAL);
        return arg;
    }
    mr = ib.reg_mr(bench->pd, memory, PAGE, LOCAL);
    if (!mr || ib.dereg_mr(mr))
        return arg;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancellation);
    return seen() == counted + 1 && cancellation == PTHREAD_CANCEL_ENABLE ? NULL : arg;
}

TEST(reg__left_by_a_jump__later_calls_as_before)
{
    struct bench bench = bench_open();
    void *failed;

    on_signal.memory = bench_map(NULL, PAGE);
    for (int i = 0; i < 2; i++) {
        interrupt_next(jump, 0);
        assert_null(leave_and_register(&bench));
        interrupt_next(jump, 0);
        failed = test_on_a_thread(leave_and_register, &bench);
        assert_null(failed);
    }
    munmap(on_signal.memory, PAGE);
}

TEST_MAIN()
