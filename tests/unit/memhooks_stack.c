/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program gives back whole pages of a stack just below its stack pointer, by each call that hooks
 * hear: hooks need none of them when the call has returned. The stack pointer passes every place
 * that it can have on a page.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define STACK_PAGES 64
#define GIVEN       8 /* pages given back at once */
#define ARGS        6

typedef long (*any_function)(long, long, long, long, long, long);
#define FUNCTION(name) (any_function)(uintptr_t)(name)

enum way { MMAP, MMAP_NONE, SYSCALL_MMAP, MADVISE, SYSCALL_MADVISE, PROCESS_MADVISE, MUNMAP, WAYS };

/* What gives back GIVEN pages; at: where their address is to be written. */
static struct {
    enum way way;
    any_function function;
    long args[ARGS], *at;
    struct iovec range;
    size_t page;
} scene;

static void set(any_function function, int first, const long args[ARGS])
{
    scene.function = function;
    memcpy(scene.args, args, sizeof(scene.args));
    scene.at = &scene.args[first];
}

static void prepare(enum way way)
{
    const long len = GIVEN * (long)fixture_page(), fresh = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    const long both = PROT_READ | PROT_WRITE;

    scene.page = fixture_page();
    scene.way = way;
    switch (way) {
    case MMAP:
    case MMAP_NONE:
        set(FUNCTION(mmap), 0, (long[ARGS]){0, len, way == MMAP ? both : PROT_NONE, fresh, -1, 0});
        break;
    case SYSCALL_MMAP:
        set(FUNCTION(syscall), 1, (long[ARGS]){SYS_mmap, 0, len, both, fresh, -1});
        break;
    case MADVISE:
        set(FUNCTION(madvise), 0, (long[ARGS]){0, len, MADV_DONTNEED});
        break;
    case SYSCALL_MADVISE:
        set(FUNCTION(syscall), 1, (long[ARGS]){SYS_madvise, 0, len, MADV_DONTNEED});
        break;
    case PROCESS_MADVISE:
        scene.range.iov_len = (size_t)len;
        set(FUNCTION(syscall), 1,
            (long[ARGS]){440, syscall(SYS_pidfd_open, getpid(), 0), (long)&scene.range, 1,
                         MADV_DONTNEED, 0});
        scene.at = (long *)&scene.range.iov_base;
        break;
    default:
        set(FUNCTION(munmap), 0, (long[ARGS]){0, len});
    }
}

#if defined(__x86_64__)
/* Moves the stack pointer down by `down` bytes, writes to *at the address of the last GIVEN whole
 * pages below it, less the red zone, and calls the function; a seventh argument is 0. */
void call_below(size_t down, any_function function, const long *args, long *at);
__asm__(".text\n"
        ".globl call_below\n"
        ".hidden call_below\n"
        "call_below:\n"
        "  pushq %rbp\n"
        "  movq %rsp, %rbp\n"
        "  subq %rdi, %rsp\n"
        "  andq $-16, %rsp\n"
        "  subq $16, %rsp\n"
        "  movq $0, (%rsp)\n"
        "  leaq -128(%rsp), %rax\n"
        "  andq $-4096, %rax\n"
        "  subq $8*4096, %rax\n"
        "  movq %rax, (%rcx)\n"
        "  movq %rsi, %r11\n"
        "  movq %rdx, %r10\n"
        "  movq (%r10), %rdi\n"
        "  movq 8(%r10), %rsi\n"
        "  movq 16(%r10), %rdx\n"
        "  movq 24(%r10), %rcx\n"
        "  movq 32(%r10), %r8\n"
        "  movq 40(%r10), %r9\n"
        "  xorl %eax, %eax\n"
        "  call *%r11\n"
        "  leave\n"
        "  ret\n");
#else
static __attribute__((noinline)) void call_here(any_function function, const long *args, long *at)
{
    uintptr_t below = (uintptr_t)__builtin_frame_address(0) - 1024;

    *at = (long)((below & ~(scene.page - 1)) - GIVEN * scene.page);
    function(args[0], args[1], args[2], args[3], args[4], args[5]);
}

static void call_below(size_t down, any_function function, const long *args, long *at)
{
    volatile char *space = __builtin_alloca(down + 16);

    space[0] = 0;
    call_here(function, args, at);
    space[0] = 1; /* not a tail call */
}
#endif

/* What the next turn needs to give back. */
static void take_again(void)
{
    void *at = (void *)*scene.at;

    if (scene.way == MMAP_NONE)
        (void)mprotect(at, GIVEN * scene.page, PROT_READ | PROT_WRITE);
    if (scene.way == MUNMAP)
        (void)mmap(at, GIVEN * scene.page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void *at_every_place(void *arg)
{
    for (size_t down = 16; down < scene.page; down += 16) {
        call_below(down, scene.function, scene.args, scene.at);
        take_again();
    }
    return arg;
}

/* On a stack of the test's own, whose pages may be unmapped. */
static int run(enum way way)
{
    char *stack = fixture_map(STACK_PAGES), *memory = fixture_map(1), *other = fixture_map(GIVEN);
    pthread_attr_t attributes;
    pthread_t thread;

    prepare(way);
    fixture_open_hooked();
    fixture_key(memory, 10);
    *scene.at = (long)other;
    take_again(); /* resolves lazily bound symbols */
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, stack, STACK_PAGES * scene.page) ||
        pthread_create(&thread, &attributes, at_every_place, stack) || pthread_join(thread, NULL))
        return 2;
    pthread_attr_destroy(&attributes);
    for (int i = 0; INSIDE_COUNTS_CALLS && i < 16; i++)
        inside_is_quiet();
    return !INSIDE_COUNTS_CALLS || inside_is_quiet() ? 0 : 3; /* every call has ended */
}

static void check(enum way way)
{
    if (FIXTURE_SANITIZED)
        test_skip("a sanitizer keeps its own memory on stacks");
    fixture_open_hooked();
    fixture_close();
    test_in_child_or_skip(run(way), "");
}

TEST(stack__given_back_by_mmap__calls_return)
{
    check(MMAP);
}

TEST(stack__given_back_by_mmap_without_access__calls_return)
{
    check(MMAP_NONE);
}

TEST(stack__given_back_by_mmap_through_syscall__calls_return)
{
    check(SYSCALL_MMAP);
}

TEST(stack__given_back_by_madvise__calls_return)
{
    check(MADVISE);
}

TEST(stack__given_back_by_madvise_through_syscall__calls_return)
{
    check(SYSCALL_MADVISE);
}

TEST(stack__given_back_by_process_madvise__calls_return)
{
    check(PROCESS_MADVISE);
}

TEST(stack__given_back_by_munmap__calls_return)
{
    check(MUNMAP);
}

TEST_MAIN()
