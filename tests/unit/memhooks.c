/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks in libc's code: what they preserve (code, registers, errno, forks), what they cost for
 * unwatched memory, where they run (inside hooks, signal handlers, vfork). memhooks_heard.c tests
 * the changes that only hooks report; monitor.c that every ordinary way to lose a page is reported.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"
#include "tests/support/hook_holder.h"
#include "tests/support/inside.h"
#include "tests/support/steps.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static uint64_t calls(void)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    return info.calls;
}

/* ---- libc's code ------------------------------------------------------------------------ */

enum { CODE = 32 }; /* less than each function has */

static void copy_code(uint8_t *out)
{
    memcpy(out, (const void *)(uintptr_t)munmap, CODE);
    memcpy(out + CODE, (const void *)(uintptr_t)madvise, CODE);
    memcpy(out + 2 * CODE, (const void *)(uintptr_t)syscall, CODE);
}

/* Mappings that are writable and executable. */
static int writable_code(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;

    while (fgets(line, sizeof(line), maps))
        count += strstr(line, " rwx") != NULL;
    fclose(maps);
    return count;
}

static int mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;

    while (fgets(line, sizeof(line), maps))
        count++;
    fclose(maps);
    return count;
}

TEST(open__code_is_changed_and_close_restores_it)
{
    uint8_t before[3 * CODE], during[3 * CODE], after[3 * CODE];

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    copy_code(before);
    fixture_open_hooked();
    copy_code(during);
    assert_int_equal(writable_code(), 0);
    fixture_close();
    copy_code(after);
    assert_memory_not_equal(before, during, sizeof(before));
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(writable_code(), 0);
}

/* Calls of process_vm_readv(2), each of which pins pages. */
static unsigned pins;

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                                const struct iovec *from, unsigned long from_count,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                                const struct iovec *from, unsigned long from_count,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
                                const struct iovec *from, unsigned long from_count,
                                unsigned long flags)
{
    pins++;
    return __real_process_vm_readv(pid, to, to_count, from, from_count, flags);
}

/* After the first pin of a process the kernel looks at each of its pages in each fork(2). */
TEST(open__pins_no_page)
{
    fixture_open_hooked();
    assert_int_equal(fixture_key(fixture_map(1), fixture_page()), 1);
    assert_int_equal(pins, 0);
}

TEST(open__many_times__takes_no_more_memory)
{
    int after_first = 0;

    if (FIXTURE_SANITIZED)
        test_skip("a sanitizer's own mappings change");
    for (unsigned long i = 0, times = test_times(100); i < times; i++) {
        fixture_open_hooked();
        fixture_close();
        if (i == 0)
            after_first = mappings();
    }
    assert_in_range(mappings(), 0, after_first + 2);
}

TEST(open__several__hooked_until_the_last_closes)
{
    size_t len = fixture_page();
    char *memory = fixture_map(1);
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *other;

    fixture_open_hooked();
    assert_ok(hmreg_open(&config, &other));
    fixture_key(memory, len);
    assert_ok(hmreg_close(other));
    munmap(memory, len);
    assert_int_equal(calls(), 1);
    assert_int_equal(fixture_stats().invalidations, 1);
}

TEST(monitor_query__says_what_serves)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    fixture_open_hooked();
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.asked, HMREG_MONITOR_MEMHOOKS);
    assert_int_equal(info.active, HMREG_MONITOR_MEMHOOKS);
    assert_int_equal(info.calls, 0);
    assert_int_equal(info.userfaultfd, 0);
    assert_string_equal(info.why, "");
}

/* ---- what a caller keeps ---------------------------------------------------------------- */

#if defined(__x86_64__)

/* Changes every register that a hook may change. */
static void spoil_registers(void)
{
    __asm__ volatile(".irp r, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11\n\t"
                     "movq $77, %%\\r\n\t"
                     ".endr" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
}

/* madvise(2) with values in vector registers, which are read again after it. */
static long madvise_keeping(void *addr, size_t len, const uint64_t in[8], uint64_t out[8])
{
    register int (*function)(void *, size_t, int) __asm__("r14") = madvise;
    register uint64_t *to __asm__("r13") = out;
    long advice = MADV_DONTNEED, result;

    __asm__ volatile("movq %%rsp, %%r12\n\t"
                     "subq $256, %%rsp\n\t" /* red zone */
                     "andq $-16, %%rsp\n\t"
                     "vmovdqu (%%rbx), %%ymm0\n\t"
                     "vmovdqu 32(%%rbx), %%ymm15\n\t"
                     "call *%%r14\n\t"
                     "vmovdqu %%ymm0, (%%r13)\n\t"
                     "vmovdqu %%ymm15, 32(%%r13)\n\t"
                     "movq %%r12, %%rsp\n\t"
                     : "=a"(result), "+D"(addr), "+S"(len), "+d"(advice)
                     : "b"(in), "r"(to), "r"(function)
                     : "rcx", "r8", "r9", "r10", "r11", "r12", "memory", "cc", "xmm0", "xmm15");
    return result;
}

static bool can_spoil(void)
{
    return __builtin_cpu_supports("avx");
}

#elif defined(__aarch64__)

#define VECTORS                                                                                    \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
        "v28", "v29", "v30", "v31"
#define TEMPORARIES                                                                                \
    "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",     \
        "x17", "x30"

/* Changes every register that a hook may change. */
static void spoil_registers(void)
{
    __asm__ volatile(".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17\n\t"
                     "mov x\\n, #77\n\t"
                     ".endr"
                     :
                     :
                     : "x0", "x1", "x2", TEMPORARIES, "cc", "memory");
}

/* madvise(2) with values in registers that the kernel keeps, which are read again after it. */
static long madvise_keeping(void *addr, size_t len, const uint64_t in[8], uint64_t out[8])
{
    register int (*function)(void *, size_t, int) __asm__("x19") = madvise;
    register const uint64_t *from __asm__("x20") = in;
    register uint64_t *to __asm__("x21") = out;
    register void *x0 __asm__("x0") = addr;
    register size_t x1 __asm__("x1") = len;
    register long x2 __asm__("x2") = MADV_DONTNEED;

    __asm__ volatile("ldr q0, [x20]\n\tldr q31, [x20, #16]\n\t"
                     "ldp x9, x15, [x20, #32]\n\tldp x16, x17, [x20, #48]\n\t"
                     "blr x19\n\t"
                     "str q0, [x21]\n\tstr q31, [x21, #16]\n\t"
                     "stp x9, x15, [x21, #32]\n\tstp x16, x17, [x21, #48]"
                     : "+r"(x0), "+r"(x1), "+r"(x2)
                     : "r"(function), "r"(from), "r"(to)
                     : TEMPORARIES, VECTORS, "cc", "memory");
    return (int)(intptr_t)x0;
}

static bool can_spoil(void)
{
    return true;
}
#endif

TEST(hook__changes_every_register_and_errno__caller_keeps_them)
{
#if defined(__x86_64__) || defined(__aarch64__)
    size_t len = fixture_page();
    char *memory = fixture_map(1);
    const uint64_t in[8] = {11, 12, 13, 14, 15, 16, 17, 18};
    uint64_t out[8] = {0};

    if (FIXTURE_SANITIZED || !can_spoil())
        test_skip("no AVX, or a sanitizer's madvise");
    fixture_open_hooked();
    fixture_key(memory, len);
    hook_inside = spoil_registers;
    errno = ENOTTY;
    assert_int_equal(madvise_keeping(memory, len, in, out), 0);
    assert_int_equal(errno, ENOTTY);
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(calls(), 1);
    hook_inside = NULL;
    munmap(memory, len);
    fixture_close();
#else
    test_skip("no hooks on this processor");
#endif
}

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* Also where the kernel does not know the advice: the hook reports what is about to happen. */
TEST(madvise__each_advice__reported_if_it_throws_bytes_away)
{
    static const struct {
        int advice;
        bool reported;
    } cases[] = {
        {MADV_NORMAL, false},         {MADV_WILLNEED, false},     {MADV_SEQUENTIAL, false},
        {MADV_COLD, false},           {MADV_DONTNEED, true},      {MADV_FREE, true},
        {MADV_DONTNEED_LOCKED, true}, {MADV_GUARD_INSTALL, true},
    };

    fixture_open_hooked();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *memory = fixture_map(1);
        uint64_t key = fixture_key(memory, 10);

        madvise(memory, fixture_page(), cases[i].advice);
        assert_int_equal(fixture_key(memory, 10) != key, cases[i].reported);
        munmap(memory, fixture_page());
    }
}

#if defined(__aarch64__)
#ifndef PR_SET_TAGGED_ADDR_CTRL
#define PR_SET_TAGGED_ADDR_CTRL 55
#define PR_TAGGED_ADDR_ENABLE   1
#endif

/* The kernel ignores an address's top byte. */
TEST(madvise__of_a_tagged_address__reported)
{
    char *memory = fixture_map(1);
    void *tagged = (void *)((uintptr_t)memory | UINT64_C(5) << 56);

    if (prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0))
        test_skip("this kernel takes no tagged addresses: %s", strerror(errno));
    fixture_open_hooked();
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(madvise(tagged, fixture_page(), MADV_DONTNEED), 0);
    /* Whether the kernel drops the pages does not matter: emulators do not. */
    assert_int_equal(fixture_key(memory, 10), 2);
    munmap(memory, fixture_page());
}
#endif

/* ---- cost for unwatched memory ---------------------------------------------------------- */

#if defined(__x86_64__)

/* Each of unmapped memory. */
static void call_munmap(void *nothing)
{
    munmap(nothing, fixture_page());
}

static void call_madvise(void *nothing)
{
    madvise(nothing, fixture_page(), MADV_DONTNEED);
}

static void call_syscall(void *nothing)
{
    syscall(SYS_getppid);
}

/* The call once more before, which resolves lazily bound symbols. */
static void unwatched(void (*call)(void *), const char *name, unsigned limit)
{
    char *memory = fixture_map(1), *nothing = memory - (64 << 20);
    unsigned before, after;

    if (FIXTURE_SANITIZED)
        test_skip("a sanitizer's own calls would be counted");
    before = steps_of(call, call, nothing);
    fixture_open_hooked();
    fixture_key(memory, 10); /* some other memory is watched */
    /* A child's hooks are the same code with an empty table. */
    after = steps_of(call, call, nothing);
    print_message("%s: %u instructions, %u with hooks\n", name, before, after);
    assert_in_range(after, before + 1, before + limit);
    munmap(memory, fixture_page());
    assert_int_equal(calls(), 1);
    fixture_close();
}

TEST(munmap__of_unwatched_memory__costs_few_instructions)
{
    unwatched(call_munmap, "munmap", 72);
}

TEST(madvise__of_unwatched_memory__costs_few_instructions)
{
    unwatched(call_madvise, "madvise", 24);
}

TEST(syscall__of_another_number__costs_few_instructions)
{
    unwatched(call_syscall, "syscall", 12);
}
#endif

/* ---- where hooks run -------------------------------------------------------------------- */

static struct {
    char *memory;
    bool done;
} inner;

/* Like a signal handler that interrupts a hook. */
static void unmap_inner(void)
{
    if (!inner.done) {
        inner.done = true;
        munmap(inner.memory, fixture_page());
        fixture_map_again(inner.memory, fixture_page());
    }
}

TEST(munmap__inside_a_hook__no_deadlock_and_known)
{
    char *outer = fixture_map(1);

    inner.memory = fixture_map(1);
    inner.done = false;
    fixture_open_hooked();
    assert_int_equal(fixture_key(inner.memory, 10), 1);
    assert_int_equal(fixture_key(outer, 10), 2);
    hook_inside = unmap_inner;
    munmap(outer, fixture_page());
    hook_inside = NULL;
    assert_true(inner.done);
    assert_int_equal(fixture_key(inner.memory, 10), 3);
    munmap(inner.memory, fixture_page());
}

static void unmap_in_handler(int signal_number)
{
    int before = errno;

    munmap(inner.memory, fixture_page());
    errno = before;
}

TEST(munmap__in_a_handler_that_interrupts_the_library__no_deadlock_and_known)
{
    struct sigaction action = {.sa_handler = unmap_in_handler}, before;

    inner.memory = fixture_map(1);
    fixture_open_hooked();
    assert_int_equal(fixture_key(inner.memory, 10), 1);
    sigaction(SIGUSR1, &action, &before);
    pthread_mutex_lock(inside_lock(fixture.domain));
    raise(SIGUSR1);
    pthread_mutex_unlock(inside_lock(fixture.domain));
    sigaction(SIGUSR1, &before, NULL);
    fixture_map_again(inner.memory, fixture_page());
    assert_int_equal(fixture_key(inner.memory, 10), 2);
    munmap(inner.memory, fixture_page());
}

TEST(vfork__child_unmaps__parent_is_notified)
{
    char *memory = fixture_map(1);
    unsigned char in_core;
    int status;
    pid_t child;

    if (FIXTURE_SANITIZED)
        test_skip("sanitizers make a fork of vfork");
    fixture_open_hooked();
    fixture_key(memory, 10);
    child = vfork();
    if (child == 0) {
        munmap(memory, fixture_page());
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (mincore(memory, 1, &in_core) == 0) {
        fixture_close();
        test_skip("an emulator makes a fork of vfork");
    }
    fixture_map_again(memory, fixture_page());
    assert_int_equal(fixture_key(memory, 10), 2);
    munmap(memory, fixture_page());
}

/* ---- forks ------------------------------------------------------------------------------ */

static void open_after_a_large_free(void)
{
    free(malloc(64 << 20));
    fixture_open_hooked();
}

TEST(fork__while_a_thread_is_in_a_hook__child_does_not_hang)
{
    char *held = fixture_map(1), *other = fixture_map(1);
    struct hook_holder holder;

    if (FIXTURE_SANITIZED)
        test_skip("ThreadSanitizer forbids threads in a forked child");
    test_forks_wipe();
    fixture_open_hooked();
    fixture_key(held, 10);
    fixture_key(other, 10);
    hook_holder_start(&holder, held);
    test_in_child(fixture_in_child(open_after_a_large_free, other));
    hook_holder_go_on(&holder);
    hook_holder_end(&holder);
    assert_int_equal(fixture_key(other, 10), 2);
    munmap(other, fixture_page());
}

TEST(fork__child_has_none_of_the_parents_hooks)
{
    char *memory = fixture_map(1);
    pid_t child;

    test_forks_wipe();
    fixture_open_hooked();
    fixture_key(memory, 10);
    child = fork();
    if (child == 0) {
        munmap(memory, fixture_page());
        _exit(inside_hook_calls() != 0);
    }
    test_await(child);
    assert_int_equal(calls(), 0);
    assert_int_equal(fixture_key(memory, 10), 1);
    munmap(memory, fixture_page());
}

/* ---- a handler that jumps out of a hook -------------------------------------------------- */

static sigjmp_buf before_unmap;

static void jump_out(void)
{
    hook_inside = NULL;
    siglongjmp(before_unmap, 1);
}

/* How often this thread sleeps in a close. */
static long sleeps_of_a_close(void)
{
    struct rusage before, after;

    getrusage(RUSAGE_THREAD, &before);
    fixture_close();
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_nvcsw - before.ru_nvcsw;
}

/* The thread counts as inside for ever. */
TEST(close__after_a_jump_out_of_a_hook__waits_for_it_once)
{
    char *memory = fixture_map(1);
    long first, second;

    fixture_open_hooked();
    fixture_key(memory, 10);
    hook_inside = jump_out;
    if (!sigsetjmp(before_unmap, 1))
        munmap(memory, fixture_page());
    assert_int_equal(atomic_load(inside_hooks()), 1);
    first = sleeps_of_a_close();
    fixture_open_hooked_in(&fixture);
    fixture_key(memory, 10);
    second = sleeps_of_a_close();
    print_message("%ld sleeps in the first close, %ld in the second\n", first, second);
    atomic_store(inside_hooks(), 0); /* for the other cases */
    assert_in_range(second, 0, 100);
    munmap(memory, fixture_page());
}

/* ---- code changed while threads run it -------------------------------------------------- */

static atomic_bool enough;
static atomic_uint rounds; /* of the threads */

static void *map_and_unmap(void *arg)
{
    size_t len = 3 * fixture_page();

    while (!atomic_load(&enough)) {
        char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED || memory[0])
            return NULL;
        memory[0] = 1;
        if (madvise(memory, len, MADV_DONTNEED) || memory[0])
            return NULL;
        memory = mremap(memory, len, 2 * len, MREMAP_MAYMOVE);
        if (memory == MAP_FAILED || munmap(memory, 2 * len))
            return NULL;
        if (syscall(SYS_getpid) != getpid())
            return NULL;
        atomic_fetch_add(&rounds, 1);
    }
    return arg;
}

TEST(open_and_close__while_threads_are_in_the_code__all_continue)
{
    pthread_t threads[3];
    unsigned before;
    void *result;

    atomic_store(&enough, false);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, map_and_unmap, &enough), 0);
    for (unsigned long i = test_times(FIXTURE_SANITIZED ? 20 : 100); i > 0; i--) {
        before = atomic_load(&rounds);
        test_wait_until(atomic_load(&rounds) != before);
        fixture_open_hooked();
        fixture_close();
    }
    atomic_store(&enough, true);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &enough);
    }
}

static void *open_and_close(void *arg)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};

    while (!atomic_load(&enough)) {
        struct hmreg *lib;

        if (hmreg_open(&config, &lib) || hmreg_close(lib))
            return NULL;
        atomic_fetch_add(&rounds, 1);
    }
    return arg;
}

TEST(fork__while_code_is_being_changed__children_run_whole_code)
{
    pthread_t thread;
    void *result;

    if (FIXTURE_SANITIZED)
        test_skip("slow, and the same code");
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, open_and_close, &enough), 0);
    for (unsigned long i = test_times(100); i > 0; i--) {
        unsigned before = atomic_load(&rounds);
        pid_t child;

        test_wait_until(atomic_load(&rounds) != before);
        child = test_fork();
        if (child == 0) {
            munmap(mmap(NULL, 10, PROT_READ, ANONYMOUS, -1, 0), 10);
            _exit(0);
        }
        test_await(child);
    }
    atomic_store(&enough, true);
    pthread_join(thread, &result);
    assert_ptr_equal(result, &enough);
}

TEST_MAIN()
