/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every call that memhooks hear, with every argument whose upper half the kernel ignores dirty, and
 * with every system call of a hook's own refused: what the kernel changed was reported. Whether it
 * changed anything is read from the memory itself.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"

#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define DIRTY (UINT64_C(0xdeadbeef) << 32)
#define PAGES 4 /* of the scene; the first two are changed */

typedef long (*any_function)(long, long, long, long, long, long);

static struct {
    char *memory, *spare;
    int self, file, segment;
    struct iovec ranges[1];
} scene;

/* ---- the calls -------------------------------------------------------------------------- */

/* Arguments of a call that changes the scene's first two pages, with their type in the kernel. */
struct call {
    const char *name;
    any_function function; /* NULL: by syscall(2) only */
    long number;
    unsigned ints; /* bits: the arguments that the kernel takes as int, or as unsigned int */
    void (*fill)(long *args);
};

static void fill_munmap(long *args)
{
    args[0] = (long)scene.memory;
    args[1] = 2 * (long)fixture_page();
}

static void fill_mmap(long *args)
{
    fill_munmap(args);
    args[2] = PROT_READ | PROT_WRITE;
    args[3] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    args[4] = -1;
}

static void fill_mmap_file(long *args)
{
    fill_mmap(args);
    args[3] = MAP_SHARED | MAP_FIXED;
    args[4] = scene.file;
}

static void fill_mremap_shrink(long *args)
{
    args[0] = (long)scene.memory;
    args[1] = PAGES * (long)fixture_page();
    args[2] = (long)fixture_page();
}

static void fill_mremap_move(long *args)
{
    fill_munmap(args);
    args[2] = args[1];
    args[3] = MREMAP_MAYMOVE | MREMAP_FIXED;
    args[4] = (long)scene.spare;
}

static void fill_mremap_over(long *args)
{
    args[0] = (long)scene.spare;
    args[1] = args[2] = 2 * (long)fixture_page();
    args[3] = MREMAP_MAYMOVE | MREMAP_FIXED;
    args[4] = (long)scene.memory;
}

static void fill_madvise(long *args)
{
    fill_munmap(args);
    args[2] = MADV_DONTNEED;
}

/* POSIX_MADV_DONTNEED does nothing in glibc, which passes other numbers on. */
static void fill_posix_madvise(long *args)
{
    fill_munmap(args);
    args[2] = 24; /* MADV_DONTNEED_LOCKED */
}

static void fill_shmat(long *args)
{
    args[0] = scene.segment;
    args[1] = (long)scene.memory;
    args[2] = SHM_REMAP;
}

static void fill_process_madvise(long *args)
{
    scene.ranges[0] = (struct iovec){scene.memory, 2 * fixture_page()};
    args[0] = scene.self;
    args[1] = (long)scene.ranges;
    args[2] = 1;
    args[3] = MADV_DONTNEED;
}

extern ssize_t process_madvise(int, const struct iovec *, size_t, int, unsigned)
    __attribute__((weak));

#define FUNCTION(name) (any_function)(uintptr_t)(name)

/* The descriptor of mmap is unsigned long to the kernel, which looks at its lower half. */
static const struct call calls[] = {
    {"munmap", FUNCTION(munmap), SYS_munmap, 0, fill_munmap},
    {"mmap", FUNCTION(mmap), SYS_mmap, 0, fill_mmap},
    {"mmap of a file", FUNCTION(mmap), SYS_mmap, 1 << 4, fill_mmap_file},
    {"mremap shrinks", FUNCTION(mremap), SYS_mremap, 0, fill_mremap_shrink},
    {"mremap moves", FUNCTION(mremap), SYS_mremap, 0, fill_mremap_move},
    {"mremap over it", FUNCTION(mremap), SYS_mremap, 0, fill_mremap_over},
    {"madvise", FUNCTION(madvise), SYS_madvise, 1 << 2, fill_madvise},
    {"posix_madvise", FUNCTION(posix_madvise), SYS_madvise, 1 << 2, fill_posix_madvise},
    {"shmat", FUNCTION(shmat), SYS_shmat, 1 << 0 | 1 << 2, fill_shmat},
    {"process_madvise", FUNCTION(process_madvise), 440, 1 << 0 | 1 << 3 | 1 << 4,
     fill_process_madvise},
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))
#define ARGS  6

/* ---- the scene -------------------------------------------------------------------------- */

static void open_scene(void)
{
    size_t page = fixture_page();

    scene.memory = fixture_map(PAGES);
    scene.spare = fixture_map(2);
    memset(scene.memory, 'x', PAGES * page);
    scene.self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    scene.file = memfd_create("calls", MFD_CLOEXEC);
    scene.segment = shmget(IPC_PRIVATE, 2 * page, 0600);
    if (scene.segment >= 0 && shmat(scene.segment, NULL, 0)) /* ends with its last mapping */
        shmctl(scene.segment, IPC_RMID, NULL);
    assert_ok(ftruncate(scene.file, 2 * (off_t)page));
    fixture_open_hooked();
    for (size_t i = 0; i < PAGES; i++)
        fixture_key(scene.memory + i * page, page);
    assert_int_equal(fixture_stats().uncached, 0);
}

static sigjmp_buf faulted;

static void on_fault(int signal)
{
    siglongjmp(faulted, 1);
}

/* Is one of the pages gone, or no more what it was? */
static bool is_changed(void)
{
    struct sigaction action = {.sa_handler = on_fault}, before[2];
    volatile bool changed = false;

    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
    if (sigsetjmp(faulted, 1))
        changed = true;
    for (size_t i = 0; i < PAGES && !changed; i++)
        changed = ((volatile char *)scene.memory)[i * fixture_page()] != 'x';
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
    return changed;
}

/* 0: what was changed was reported. 1: it was not. 77: nothing was changed. */
static int verdict(const char *name, int arg)
{
    uint64_t reported = fixture_stats().invalidations;

    if (is_changed() && !reported)
        print_message("%s, argument %d: changed, and not reported\n", name, arg);
    return !is_changed() ? 77 : !reported;
}

/* ---- dirty arguments -------------------------------------------------------------------- */

/* dirty: an argument's index; ARGS: the number's, by syscall(2). */
static int with_dirty(const struct call *call, bool by_number, int dirty)
{
    long args[ARGS] = {0}, number = call->number;

    open_scene();
    call->fill(args);
    if (dirty == ARGS)
        number |= (long)DIRTY;
    else if (dirty >= 0)
        args[dirty] = (long)((uint64_t)(uint32_t)args[dirty] | DIRTY);
    if (by_number)
        syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    else
        call->function(args[0], args[1], args[2], args[3], args[4], args[5]);
    return verdict(call->name, dirty);
}

/* Where the kernel ignores an argument's upper half, the call must have changed the memory, if it
 * does with a clean one. */
static void check_dirty(const struct call *call, bool by_number, int dirty)
{
    bool ignored = dirty == ARGS || call->ints >> dirty & 1;
    pid_t child = test_fork();
    int status;

    if (child == 0)
        _exit(with_dirty(call, by_number, dirty));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 1 || (ignored && WEXITSTATUS(status) != 0))
        fail_msg("%s, argument %d%s: status %#x", call->name, dirty,
                 by_number ? ", by syscall(2)" : "", status);
}

/* With a longer length madvise discards the test's own pages, too. */
static bool is_harmful(const struct call *call, int dirty)
{
    return call->number == SYS_madvise && dirty == 1;
}

static bool works(const struct call *call, bool by_number)
{
    pid_t child = test_fork();
    int status;

    if (child == 0)
        _exit(with_dirty(call, by_number, -1));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != 77))
        fail_msg("%s: status %#x", call->name, status);
    if (WEXITSTATUS(status) == 77)
        print_message("%s: does nothing here\n", call->name);
    return WEXITSTATUS(status) == 0;
}

static void open_or_skip(void)
{
    if (FIXTURE_SANITIZED)
        test_skip("the sanitizer's own functions take other arguments");
    fixture_open_hooked();
    fixture_close();
}

TEST(call__each_argument_with_a_dirty_upper_half__what_changed_is_reported)
{
    unsigned working = 0;

    open_or_skip();
    for (size_t i = 0; i < CALLS; i++)
        for (int by_number = 0; by_number < 2; by_number++) {
            const struct call *call = &calls[i];
            bool any = (by_number || call->function) && works(call, by_number);

            working += any;
            for (int dirty = 0; any && dirty < ARGS + by_number; dirty++)
                if (!is_harmful(call, dirty))
                    check_dirty(call, by_number, dirty);
        }
    assert_true(working >= 2 * 7);
}

/* ---- a call of the hook's own is refused ------------------------------------------------ */

/* Every system call that hooks make of their own. */
static const int inner[] = {SYS_shmctl, SYS_process_vm_readv, SYS_getpid, SYS_futex};

/* A thread of its own makes the call, since libc ends a process of which it cannot wait for a lock
 * (futex). The thread then takes none, and stays. */
struct refused {
    const struct call *call;
    int number, error;
    atomic_int state; /* 1: the call is made; 2: there are no filters */
};

static void *call_refused(void *arg)
{
    struct refused *refused = arg;
    long args[ARGS] = {0};

    refused->call->fill(args);
    if (!code_filter_refuse(refused->number, refused->error)) {
        atomic_store(&refused->state, 2);
    } else {
        syscall(refused->call->number, args[0], args[1], args[2], args[3], args[4], args[5]);
        atomic_store(&refused->state, 1);
    }
    for (;;)
        pause();
    return NULL;
}

static int with_refused(const struct call *call, int number, int error)
{
    struct refused refused = {.call = call, .number = number, .error = error};
    pthread_t thread;

    open_scene();
    if (pthread_create(&thread, NULL, call_refused, &refused))
        return 77;
    while (!atomic_load(&refused.state))
        sched_yield();
    return atomic_load(&refused.state) == 2 ? 77 : verdict(call->name, -1);
}

TEST(call__each_call_of_the_hook_refused__what_changed_is_reported)
{
    static const int errors[] = {EPERM, ENOSYS, EFAULT, EINVAL};

    open_or_skip();
    for (size_t i = 0; i < CALLS; i++) {
        if (!works(&calls[i], true))
            continue;
        for (size_t k = 0; k < sizeof(inner) / sizeof(inner[0]); k++)
            for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
                test_in_child_or_skip(with_refused(&calls[i], inner[k], errors[e]),
                                      "this kernel has no filters of system calls");
    }
}

/* ---- ranges of process_madvise ---------------------------------------------------------- */

/* The kernel reads them as the program would; process_vm_readv(2) does not read all of that. */
static int with_secret_ranges(void)
{
    int secret = (int)syscall(447 /* memfd_secret */, 0);
    struct iovec *ranges = MAP_FAILED;

    open_scene();
    if (secret >= 0 && !ftruncate(secret, (off_t)fixture_page()))
        ranges = mmap(NULL, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED, secret, 0);
    if (ranges == MAP_FAILED)
        return 77;
    ranges[0] = (struct iovec){scene.memory, 2 * fixture_page()};
    if (syscall(440, scene.self, ranges, 1, MADV_DONTNEED, 0) < 0)
        return 77;
    return verdict("process_madvise of ranges in secret memory", -1);
}

TEST(process_madvise__of_ranges_in_memory_that_the_kernel_reads_for_no_other__reported)
{
    open_or_skip();
    test_in_child_or_skip(with_secret_ranges(),
                          "this kernel has no secret memory, or throws no pages away so");
}

static int with_many_ranges(void)
{
    struct iovec ranges[20];
    uint64_t before;

    open_scene();
    for (int i = 0; i < 20; i++)
        ranges[i] = (struct iovec){scene.spare, fixture_page()};
    ranges[19].iov_base = scene.memory + fixture_page();
    before = fixture_key(scene.memory, fixture_page());
    if (syscall(440, scene.self, ranges, 20, MADV_DONTNEED, 0) < 0)
        return 77;
    if (fixture_key(scene.memory, fixture_page()) != before)
        return 2; /* only the last is of cached memory */
    return verdict("process_madvise of many ranges", -1);
}

TEST(process_madvise__of_many_ranges__reported_and_no_others)
{
    open_or_skip();
    test_in_child_or_skip(with_many_ranges(), "this kernel throws no pages away so");
}

/* More than the kernel takes: the hook reads none of them. */
static int with_too_many_ranges(void)
{
    uint64_t before;

    open_scene();
    fill_process_madvise((long[ARGS]){0});
    before = fixture_key(scene.memory + 3 * fixture_page(), fixture_page());
    if (syscall(440, scene.self, scene.ranges, UINT64_MAX, MADV_DONTNEED, 0) != -1)
        return 2;
    return is_changed() || fixture_key(scene.memory + 3 * fixture_page(), fixture_page()) == before;
}

TEST(process_madvise__of_more_ranges_than_the_kernel_takes__all_reported)
{
    open_or_skip();
    test_in_child_or_skip(with_too_many_ranges(), "");
}

#if defined(__x86_64__)
/* Whether this kernel takes such calls or not. */
static int with_x32_number(void)
{
    uint64_t before;

    open_scene();
    fill_process_madvise((long[ARGS]){0});
    before = fixture_key(scene.memory + 3 * fixture_page(), fixture_page());
    syscall(0x40000000L | 440, scene.self, scene.ranges, 1, MADV_DONTNEED, 0);
    return fixture_key(scene.memory + 3 * fixture_page(), fixture_page()) == before;
}

TEST(syscall__of_the_x32_abi__all_reported)
{
    open_or_skip();
    test_in_child_or_skip(with_x32_number(), "");
}
#endif

/* ---- what watches where calls come from -------------------------------------------------- */

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON           1
#endif

static struct {
    volatile char selector;  /* SYSCALL_DISPATCH_FILTER_ALLOW 0, _BLOCK 1 */
    volatile uintptr_t from; /* of munmap */
    volatile int others;     /* of the library's own calls: it wakes its thread */
} dispatched;

static void on_dispatch(int signal, siginfo_t *info, void *context)
{
    if (info->si_syscall == SYS_munmap)
        dispatched.from = (uintptr_t)info->si_call_addr;
    else
        dispatched.others++;
}

static int find_libcs_text(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct iovec *text = arg;

    for (int i = 0; i < file->dlpi_phnum && strstr(file->dlpi_name, "/libc.so"); i++)
        if (file->dlpi_phdr[i].p_flags & PF_X && file->dlpi_phdr[i].p_type == PT_LOAD)
            *text = (struct iovec){(void *)(file->dlpi_addr + file->dlpi_phdr[i].p_vaddr),
                                   file->dlpi_phdr[i].p_memsz};
    return 0;
}

/* docs/memhooks.md says so: a hooked call comes from a stub, for whatever looks at its address. */
static int with_libc_allowed(void)
{
    struct sigaction action = {.sa_sigaction = on_dispatch, .sa_flags = SA_SIGINFO};
    struct iovec text = {NULL, 0};

    open_scene();
    dl_iterate_phdr(find_libcs_text, &text);
    sigaction(SIGSYS, &action, NULL);
    if (!text.iov_len || prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, text.iov_base,
                               text.iov_len, &dispatched.selector))
        return 77;
    dispatched.selector = 1;
    getppid();
    if (dispatched.others)
        return 2; /* libc's own calls pass */
    munmap(scene.memory, fixture_page());
    dispatched.selector = 0;
    return dispatched.from && dispatched.from - (uintptr_t)text.iov_base >= text.iov_len ? 0 : 3;
}

TEST(munmap__where_calls_of_libc_alone_are_allowed__comes_from_a_stub)
{
    open_or_skip();
    test_in_child_or_skip(with_libc_allowed(),
                          "this kernel dispatches no system calls to the program");
}

TEST_MAIN()
