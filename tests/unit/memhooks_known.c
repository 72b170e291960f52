/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a thread remembers of mappings, so that its misses need no system call: how long it stays
 * valid. A change past libc shows whether the library asked the kernel.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/hook_holder.h"
#include "tests/support/inside.h"
#include "tests/support/walks.h"

/* What hooks count while a call is under way, and their table of calls when it is full: no call of
 * the library returns in between. */
#include "core/monitor/memhooks/hook_arch.h"
#include "core/monitor/memhooks/memhooks.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#define PAGES 8

static struct known {
    struct fixture fixture;
    char *memory; /* PAGES, of which the first is cached */
    int file;
} known;

static void close_known(void)
{
    munmap(known.memory, PAGES * fixture_page());
    close(known.file);
    fixture_close_in(&known.fixture);
}

static void open_known(void)
{
    if (!HOOK_COUNTS_CALLS)
        test_skip("this processor's stubs do not count calls");
    known.memory = fixture_map(PAGES);
    known.file = memfd_create("known", MFD_CLOEXEC);
    assert_true(known.file >= 0);
    assert_ok(ftruncate(known.file, PAGES * (off_t)fixture_page()));
    fixture_open_hooked_in(&known.fixture);
    test_after(close_known);
    fixture_key_in(&known.fixture, known.memory, fixture_page());
}

static char *page_of(unsigned number)
{
    return known.memory + number * fixture_page();
}

/* Replaces a page by memory that is not private. */
static void map_file(unsigned number)
{
    void *at = page_of(number);

    assert_ptr_equal(
        mmap(at, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, known.file, 0),
        at);
}

/* The same past the hooks. */
static void map_file_past_libc(unsigned number)
{
#if HOOK_COUNTS_CALLS
    char *at = page_of(number); /* before the registers are assigned: a call changes them */
    size_t bytes = fixture_page();
    register long flags __asm__("r10") = MAP_SHARED | MAP_FIXED;
    register long file __asm__("r8") = known.file;
    register long offset __asm__("r9") = 0;
    long result = SYS_mmap;

    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(at), "S"(bytes), "d"((long)PROT_READ | PROT_WRITE), "r"(flags),
                       "r"(file), "r"(offset)
                     : "rcx", "r11", "memory");
    assert_int_equal(result, (long)(uintptr_t)at);
#endif
}

static bool is_cached(unsigned number)
{
    uint64_t key = fixture_key_in(&known.fixture, page_of(number), fixture_page());

    return fixture_key_in(&known.fixture, page_of(number), fixture_page()) == key;
}

TEST(get__where_a_file_was_mapped_since__not_cached)
{
    open_known();
    map_file(3);
    assert_false(is_cached(3));
    assert_true(is_cached(2));
    assert_true(is_cached(4));
}

/* ---- a hole that was made past libc ------------------------------------------------------ */

/* As liburing unmaps memory of its own. */
static void unmap_past_libc(unsigned number)
{
#if HOOK_COUNTS_CALLS
    char *at = page_of(number);
    size_t bytes = fixture_page();
    long result = SYS_munmap;

    __asm__ volatile("syscall" : "+a"(result) : "D"(at), "S"(bytes) : "rcx", "r11", "memory");
    assert_int_equal(result, 0);
#endif
}

static void fill_by_mmap(char *at)
{
    assert_ptr_equal(mmap(at, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED, known.file, 0),
                     at);
}

static void fill_by_private_mmap(char *at)
{
    assert_ptr_equal(mmap(at, fixture_page(), PROT_READ | PROT_WRITE, MAP_PRIVATE, known.file, 0),
                     at);
}

static void fill_by_shared_memory(char *at)
{
    assert_ptr_equal(
        mmap(at, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), at);
}

static void fill_by_mmap_through_syscall(char *at)
{
    assert_int_equal(
        syscall(SYS_mmap, at, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED, known.file, 0L),
        (long)at);
}

static void fill_by_executable_mmap(char *at)
{
    assert_ptr_equal(mmap(at, fixture_page(), PROT_READ | PROT_EXEC, MAP_SHARED, known.file, 0),
                     at);
}

static int new_segment(void)
{
    int id = shmget(IPC_PRIVATE, fixture_page(), 0600);

    if (id < 0)
        test_skip("no shared memory segments: %s", strerror(errno));
    return id;
}

static void fill_by_shmat(char *at)
{
    int id = new_segment();

    assert_ptr_equal(shmat(id, at, 0), at);
    shmctl(id, IPC_RMID, NULL);
}

static void fill_by_shmat_through_syscall(char *at)
{
    int id = new_segment();

    assert_int_equal(syscall(SYS_shmat, id, at, 0), (long)at);
    shmctl(id, IPC_RMID, NULL);
}

static void fill_by_mremap(char *at)
{
    char *other = mmap(NULL, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED, known.file, 0);

    assert_ptr_equal(
        mremap(other, fixture_page(), fixture_page(), MREMAP_MAYMOVE | MREMAP_FIXED, at), at);
}

/* What threads know of a mapping ends with each call that may put other memory into it, also where
 * no hook knows that there is room. */
TEST(get__of_other_memory_in_a_hole_of_a_known_mapping__not_cached)
{
    static void (*const fill[])(char *at) = {
        fill_by_mmap,
        fill_by_private_mmap,
        fill_by_shared_memory,
        fill_by_mmap_through_syscall,
        fill_by_executable_mmap,
        fill_by_shmat,
        fill_by_shmat_through_syscall,
        fill_by_mremap,
    };

    for (size_t i = 0; i < sizeof(fill) / sizeof(fill[0]); i++) {
        print_message("way %zu\n", i);
        open_known();
        assert_true(is_cached(2)); /* the mapping is known */
        unmap_past_libc(3);
        fill[i](page_of(3));
        assert_false(is_cached(3));
        test_finish();
    }
}

/* Of private memory without a file nothing that is known becomes wrong. */
TEST(get__after_a_plain_mmap_of_private_memory__kernel_not_asked)
{
    char *made;

    open_known();
    assert_true(is_cached(2));
    made = mmap(NULL, fixture_page(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(made != MAP_FAILED);
    map_file_past_libc(3);
    assert_true(is_cached(3)); /* from what is known */
    munmap(made, fixture_page());
}

/* The program reports calls that no hook hears. */
TEST(get__of_other_memory_after_a_notice__not_cached)
{
    open_known();
    assert_true(is_cached(2));
    assert_int_equal(hmreg_invalidate(known.fixture.lib, page_of(3), fixture_page()), 0);
    map_file_past_libc(3);
    assert_false(HOOK_COUNTS_CALLS && is_cached(3));
}

/* ---- what a miss asks ------------------------------------------------------------------- */

static unsigned walks_of_a_miss(struct hmreg_domain *domain, unsigned number)
{
    struct hmreg_mr *mr;

    walks = 0;
    assert_ok(hmreg_mr_get(domain, page_of(number), fixture_page(), HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    return walks;
}

/* Such a fabric's regions are mapped as their access needs, which mprotect(2) may change. */
TEST(get__miss_with_mr_allocated__kernel_asked_once)
{
    struct hmreg_domain *domain;

    open_known();
    domain = counter_open_allocated(known.fixture.lib);
    for (unsigned i = 2; i < 5; i++)
        assert_int_equal(walks_of_a_miss(domain, i), 1);
    map_file(7);
    assert_int_equal(walks_of_a_miss(domain, 5), 1);
    assert_ok(hmreg_domain_close(domain));
}

static unsigned walks_with(struct hmreg_domain *domain, unsigned number, struct hmreg_mr_attr attr)
{
    const struct iovec range = {page_of(number), fixture_page()};
    struct hmreg_mr *mr;

    attr.size = sizeof(attr);
    attr.access = HMREG_RECV;
    attr.iov = &range;
    attr.iov_count = 1;
    walks = 0;
    assert_ok(hmreg_mr_get_attr(domain, &attr, 0, &mr));
    hmreg_mr_put(mr);
    return walks;
}

/* A fabric that pins refuses what the process may not write, unless it pages it on demand. */
TEST(get_attr__misses_where_the_fabric_pins__kernel_asked_only_where_it_must_be)
{
    struct hmreg_domain *domain;

    open_known();
    domain = counter_open_allocated(known.fixture.lib);
    inside_set_pinning(domain, true);
    inside_set_options(domain);
    assert_int_equal(walks_of_a_miss(domain, 1), 1);
    assert_int_equal(walks_with(domain, 2, (struct hmreg_mr_attr){0}), 0);
    assert_int_equal(
        walks_with(domain, 2, (struct hmreg_mr_attr){.ordering = HMREG_ORDERING_STRICT}), 0);
    inside_ask_vendors(known.fixture.lib); /* are asked; the kernel is not */
    assert_int_equal(walks_with(domain, 3, (struct hmreg_mr_attr){0}), 0);
    assert_int_equal(walks_with(domain, 2, (struct hmreg_mr_attr){.set_iova = 1}), 0);
    assert_int_equal(walks_with(domain, 2, (struct hmreg_mr_attr){.on_demand = HMREG_CHOICE_ON}),
                     1);
    assert_ok(hmreg_domain_close(domain));
}

/* The kernel says that the limit of locked memory is reached before it looks at the memory. */
TEST(get__no_room_for_what_cannot_be_accessed__evicts_nothing)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    open_known();
    domain = counter_open_allocated(known.fixture.lib);
    inside_set_pinning(domain, true);
    walks_with(domain, 1, (struct hmreg_mr_attr){0});
    counter.room = counter.regions;
    assert_int_equal(mprotect(page_of(2), fixture_page(), PROT_NONE), 0);
    assert_fails(hmreg_mr_get(domain, page_of(2), fixture_page(), HMREG_RECV, &mr), -EFAULT,
                 "not mapped for reading");
    assert_int_equal(counter.deregs, 0);
    assert_int_equal(mprotect(page_of(2), fixture_page(), PROT_READ | PROT_WRITE), 0);
    walks_with(domain, 2, (struct hmreg_mr_attr){0});
    assert_int_equal(counter.deregs, 1);
    assert_ok(hmreg_domain_close(domain));
}

/* How often the thread knows this mapping of two pages. */
static int times_known(const char *memory)
{
    uint64_t start = (uint64_t)(uintptr_t)memory;

    return (int)inside_mapped(known.fixture.domain, start, start + 2 * fixture_page());
}

TEST(get__in_one_mapping_more_than_a_thread_knows__replaces_the_oldest)
{
    char *memory[INSIDE_MAPPED + 2];

    for (int i = 0; i < INSIDE_MAPPED + 2; i++)
        memory[i] = fixture_map(2);
    open_known();
    for (int i = 0; i <= INSIDE_MAPPED; i++)
        fixture_key_in(&known.fixture, memory[i], fixture_page());
    for (int i = 0; i <= INSIDE_MAPPED; i++)
        assert_int_equal(times_known(memory[i]), i > 0);
    munmap(memory[INSIDE_MAPPED + 1], 2 * fixture_page());
    fixture_key_in(&known.fixture, memory[3] + fixture_page(), fixture_page()); /* asks again */
    for (int i = 0; i <= INSIDE_MAPPED; i++)
        assert_int_equal(times_known(memory[i]), i > 0);
    test_finish();
    for (int i = 0; i <= INSIDE_MAPPED; i++)
        munmap(memory[i], 2 * fixture_page());
}

TEST(calls__each_kind__counted_when_they_begin_and_are_over)
{
    char *memory = fixture_map(4);
    size_t page = fixture_page();
    struct hook_state *hooks;
    uint64_t before;

    open_known();
    hooks = hook_state_get();
    before = atomic_load(&hooks->begun);
    assert_int_equal(atomic_load(&hooks->ended), before);
    assert_ptr_equal(mremap(memory, 4 * page, 3 * page, 0), memory);
    assert_int_equal(atomic_load(&hooks->ended), before + 1);
    assert_ptr_equal(mmap(memory, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     memory);
    assert_int_equal(atomic_load(&hooks->ended), before + 2);
    assert_int_equal(syscall(SYS_munmap, memory, page), 0);
    assert_int_equal(atomic_load(&hooks->ended), before + 3);
    assert_int_equal(munmap(memory + page, 2 * page), 0);
    assert_int_equal(atomic_load(&hooks->ended), before + 4);
    assert_int_equal(munmap(memory + 1, page), -1); /* a failed one ends too */
    assert_int_equal(atomic_load(&hooks->ended), before + 5);
    assert_int_equal(atomic_load(&hooks->begun), before + 5);
}

/* ---- a handler that does not return ----------------------------------------------------- */

static sigjmp_buf before;

static void jump_inside(void)
{
    hook_inside = NULL;
    siglongjmp(before, 1);
}

/* Leaves a munmap before it has reached the kernel, at some depth of the stack. */
static __attribute__((noinline)) void leave_a_munmap(void *memory, unsigned depth)
{
    volatile char space[64];

    space[0] = 0;
    if (depth) {
        leave_a_munmap(memory, depth - 1);
        space[0] += 1; /* not a tail call */
        return;
    }
    hook_inside = jump_inside;
    munmap(memory, fixture_page());
}

/* Calls of other functions use the same stack again: the thread's own, not one that
 * AddressSanitizer gives to locals. */
static __attribute__((noinline, no_sanitize_address)) void use_the_stack(void)
{
    volatile char space[16384];

    for (size_t i = 0; i < sizeof(space); i++)
        space[i] = (char)i;
}

/* Asks as often as misses do before the library looks for calls that never end. */
static bool becomes_quiet(void)
{
    uint64_t when;

    for (int i = 0; i < 16; i++)
        memhooks_is_quiet(&when);
    return memhooks_is_quiet(&when);
}

TEST(get__after_handlers_that_jumped_out_of_munmaps__kernel_not_asked)
{
    if (FIXTURE_SANITIZED)
        test_skip("the sanitizer's locals leave the marks on the stack as they are");
    open_known();
    for (volatile unsigned i = 0; i < 1000; i++)
        if (!sigsetjmp(before, 1))
            leave_a_munmap(known.memory, i % 7);
    use_the_stack();
    test_wait_until(becomes_quiet()); /* other threads may be in a call */
    test_wait_until(atomic_load(&hook_state_get()->ended) == atomic_load(&hook_state_get()->begun));
    assert_true(is_cached(2)); /* asks: calls have begun */
    map_file_past_libc(3);
    assert_true(is_cached(3));
}

static void *unmap_at_the_end(void *memory)
{
    use_the_stack();
    munmap(memory, fixture_page());
    return NULL;
}

static void *use_a_stack(void *unused)
{
    use_the_stack();
    return NULL;
}

static void exit_inside(void)
{
    hook_inside = NULL;
    pthread_exit(NULL);
}

TEST(get__after_a_thread_ended_in_a_munmap__kernel_not_asked_when_its_stack_is_used)
{
    open_known();
    hook_inside = exit_inside;
    test_on_a_thread(unmap_at_the_end, known.memory);
    test_on_a_thread(use_a_stack, NULL);
    test_wait_until(becomes_quiet()); /* other threads may be in a call */
}

/* ---- a handler in a call that is still under way ---------------------------------------- */

static bool quiet_in_handler;

static void ask_in_handler(int signal)
{
    use_the_stack();
    quiet_in_handler = becomes_quiet();
}

static void raise_inside(void)
{
    hook_inside = NULL;
    raise(SIGUSR1);
}

/* The handler's stack lies above the frame of the call that it interrupts. */
TEST(get__in_a_handler_on_a_stack_of_its_own__call_is_still_under_way)
{
    static char space[65536];
    struct sigaction action = {.sa_handler = ask_in_handler, .sa_flags = SA_ONSTACK};
    stack_t alternate = {.ss_sp = space, .ss_size = sizeof(space)};

    open_known();
    assert_ok(sigaction(SIGUSR1, &action, NULL));
    for (int own = 0; own < 2; own++) {
        hook_inside = raise_inside;
        quiet_in_handler = true;
        munmap(page_of(0), fixture_page());
        assert_false(quiet_in_handler);
        test_wait_until(becomes_quiet()); /* other threads may be in a call */
        assert_ptr_equal(fixture_map_at(page_of(0), 1), page_of(0));
        fixture_key_in(&known.fixture, known.memory, fixture_page());
        assert_ok(sigaltstack(&alternate, NULL));
    }
    alternate.ss_flags = SS_DISABLE;
    assert_ok(sigaltstack(&alternate, NULL));
}

TEST(get__while_an_old_call_is_under_way__nothing_known_of_it)
{
    struct hook_holder holder;

    open_known();
    hook_holder_start(&holder, known.memory);
    for (int i = 0; i < 600; i++)
        munmap(known.memory + 1, 1);
    assert_false(becomes_quiet());
    hook_holder_go_on(&holder);
    hook_holder_end(&holder);
    test_wait_until(becomes_quiet()); /* other threads may be in a call */
}

/* A call that finds no place in the table counts as one that never ends: the kernel is asked. */
TEST(get__after_a_call_that_found_the_table_full__kernel_asked)
{
    struct hook_state *hooks;
    uint64_t when;

    open_known();
    hooks = hook_state_get();
    for (size_t i = 0; i < HOOK_FRAMES + HOOK_PROBES; i++) {
        atomic_store(&hooks->frames[i].number, HOOK_FRAME_UNMARKED);
        atomic_store(&hooks->frames[i].stack, 8 * (i + 1));
    }
    assert_int_equal(munmap(page_of(7), fixture_page()), 0);
    for (size_t i = 0; i < HOOK_FRAMES + HOOK_PROBES; i++) {
        assert_int_equal(atomic_load(&hooks->frames[i].stack), 8 * (i + 1));
        atomic_store(&hooks->frames[i].stack, 0);
        atomic_store(&hooks->frames[i].number, 0);
    }
    assert_false(becomes_quiet());
    assert_true(is_cached(2));
    map_file_past_libc(3);
    assert_false(is_cached(3));
    atomic_fetch_add(&hooks->ended, 1);
    assert_true(memhooks_is_quiet(&when));
    assert_non_null(fixture_map_at(page_of(7), 1));
}

/* ---- a handler that forks --------------------------------------------------------------- */

static struct {
    pid_t child; /* 0: this is the child */
    uint64_t when;
    bool quiet;
} forked;

static void fork_inside(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;

    hook_inside = NULL;
    forked.child = test_fork();
    if (forked.child)
        return;
    if (hmreg_open(&config, &lib))
        _exit(2);
    forked.quiet = memhooks_is_quiet(&forked.when);
}

static void ask_inside(void)
{
    hook_inside = NULL;
    forked.quiet = memhooks_is_quiet(&forked.when);
}

/* In the child, whose own library was opened inside the munmap that the fork interrupted. */
static int after_the_call(void)
{
    char *memory = fixture_map(1);
    uint64_t now;

    if (forked.quiet && memhooks_none_since(forked.when))
        return 3; /* that munmap has ended, and changed mappings since */
    if (!memhooks_is_quiet(&now))
        return 4;
    if (memhooks_watch((uintptr_t)memory, (uintptr_t)memory + fixture_page()))
        return 5;
    hook_inside = ask_inside;
    munmap(memory, fixture_page());
    return hook_inside || forked.quiet ? 6 : 0;
}

TEST(fork__in_a_handler_inside_a_munmap__childs_counts_are_right)
{
    char *memory = fixture_map(1);

    if (!HOOK_COUNTS_CALLS)
        test_skip("this processor's stubs do not count calls");
    fixture_open_hooked();
    fixture_key(memory, 10);
    hook_inside = fork_inside;
    munmap(memory, fixture_page());
    if (forked.child == 0)
        _exit(after_the_call());
    test_await(forked.child);
}

/* ---- a child that opens its library while a thread is in a call --------------------------- */

#if HOOK_COUNTS_CALLS
static struct {
    sem_t ready;
    int listener;
    char *at;
} caller;

/* The kernel stops the thread inside its mmap. */
static void *replace_when_continued(void *unused)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    caller.listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                   SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    sem_post(&caller.ready);
    if (caller.listener >= 0)
        (void)mmap(caller.at, fixture_page(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0);
    return NULL;
}

static int open_while_a_thread_is_inside(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct seccomp_notif asked = {0};
    struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    struct hook_state *hooks = hook_state_get();
    pthread_t thread;
    struct hmreg *lib;
    uint64_t when;

    sem_init(&caller.ready, 0, 0);
    if (pthread_create(&thread, NULL, replace_when_continued, NULL))
        return 2;
    while (sem_wait(&caller.ready))
        ;
    if (caller.listener < 0 || ioctl(caller.listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
        return 77;
    if (hmreg_open(&config, &lib))
        return 3;
    if (memhooks_is_quiet(&when)) /* then an answer would be kept that the call falsifies */
        return 4;
    answer.id = asked.id;
    if (ioctl(caller.listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) || pthread_join(thread, NULL))
        return 5;
    return atomic_load(&hooks->ended) == atomic_load(&hooks->begun) ? 0 : 6;
}

TEST(fork__a_thread_of_the_child_is_in_a_call_when_it_opens__counts_agree)
{
    if (FIXTURE_SANITIZED)
        test_skip("the sanitizer's own mmap would be notified, too");
    open_known();
    caller.at = page_of(5);
    test_in_child_or_skip(open_while_a_thread_is_inside(),
                          "this kernel does not notify of system calls (seccomp)");
}
#endif

/* ---- a fabric that pins, where the list of mappings would be read ------------------------- */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static int get_page(struct hmreg_domain *domain, unsigned number, size_t pages, uint64_t access)
{
    struct hmreg_mr *mr = NULL;
    int rc;

    walks = 0;
    rc = hmreg_mr_get(domain, page_of(number), pages * fixture_page(), access, &mr);
    hmreg_mr_put(mr);
    return rc;
}

static bool is_resident(void *page)
{
    unsigned char resident = 0;

    assert_int_equal(mincore(page, 1, &resident), 0);
    return resident & 1;
}

/* Last, since this process makes no ioctl from here on. */
TEST(get__miss_where_the_list_is_read__pages_populated_or_left_to_the_fabric)
{
    struct hmreg_domain *domain;

    inside_read_list_as_text();
    open_known();
    if (madvise(page_of(0), fixture_page(), MADV_POPULATE_READ))
        test_skip("this kernel does not populate memory (MADV_POPULATE_READ)");
    domain = counter_open_allocated(known.fixture.lib);
    inside_set_pinning(domain, true);
    map_file(7);
    assert_ok(get_page(domain, 1, 1, HMREG_SEND));
    assert_int_equal(walks, 1);
    assert_ok(get_page(domain, 2, 1, HMREG_SEND));
    assert_int_equal(walks, 0);
    assert_int_equal(madvise(page_of(3), 2 * fixture_page(), MADV_DONTNEED), 0);
    assert_ok(get_page(domain, 3, 1, HMREG_SEND));
    assert_true(is_resident(page_of(3)));
    assert_ok(get_page(domain, 4, 1, HMREG_RECV));
    assert_false(is_resident(page_of(4))); /* as this fabric pins nothing */
    assert_int_equal(walks, 0);
    assert_int_equal(mprotect(page_of(5), fixture_page(), PROT_READ), 0);
    assert_ok(get_page(domain, 5, 1, HMREG_SEND));
    assert_int_equal(walks, 0);
    counter.reg_code = -EFAULT; /* of a kernel that would pin it */
    counter.reg_times = 1;
    assert_fails(get_page(domain, 5, 1, HMREG_RECV), -EFAULT, "mapped read-only");
    assert_true(walks > 0);
    counter.reg_times = 1; /* and of another reason */
    assert_int_equal(get_page(domain, 4, 1, HMREG_RECV | HMREG_SEND), -EFAULT);
    assert_null(strstr(hmreg_last_error()->text, "mapped"));
    assert_int_equal(mprotect(page_of(6), fixture_page(), PROT_NONE), 0);
    assert_fails(get_page(domain, 6, 1, HMREG_SEND), -EFAULT, "not mapped for reading");
    assert_int_equal(mprotect(page_of(6), fixture_page(), PROT_READ), 0);
    inside_set_pinning(domain, false); /* such a fabric's memory is not populated */
    assert_ok(get_page(domain, 6, 1, HMREG_SEND));
    assert_int_equal(walks, 1);
    assert_ok(hmreg_domain_close(domain));
}

TEST_MAIN()
