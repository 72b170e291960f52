/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooked calls beside what else lives in the process: a tracer's probes, threads without libc,
 * mappings of huge pages.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/queries.h"

#include <dlfcn.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- a tracer's probes ------------------------------------------------------------------ */

static int uprobe_type(void)
{
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
    int type = -1;

    if (!file || fscanf(file, "%d", &type) != 1)
        test_skip("this kernel has no uprobes");
    fclose(file);
    return type;
}

/* Sets a probe on a function's first byte, for this process. */
static int set_probe(void *function)
{
    struct perf_event_attr attr = {.size = sizeof(attr), .type = (uint32_t)uprobe_type()};
    Dl_info info;
    int probe;

    assert_int_not_equal(dladdr(function, &info), 0);
    attr.config1 = (uint64_t)(uintptr_t)info.dli_fname;
    attr.config2 = (uint64_t)((char *)function - (char *)info.dli_fbase);
    probe = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (probe < 0)
        test_skip("no uprobe on %s: %s", info.dli_fname, strerror(errno));
    return probe;
}

static uint64_t probe_hits(int probe)
{
    uint64_t hits = 0;

    assert_int_equal(read(probe, &hits, sizeof(hits)), sizeof(hits));
    return hits;
}

static char *cached(uint64_t *key)
{
    char *memory = fixture_map(1);

    *key = fixture_key(memory, 10);
    assert_int_equal(fixture_key(memory, 10), *key);
    return memory;
}

/* Both lose their memory by probed functions, and return what the kernel returns. */
static void lose_both(void)
{
    uint64_t first, second;
    char *freed = cached(&first), *dropped = cached(&second);

    assert_int_equal(madvise(dropped, fixture_page(), MADV_DONTNEED), 0);
    assert_int_equal(munmap(freed, fixture_page()), 0);
    assert_non_null(fixture_map_at(freed, 1));
    assert_int_not_equal(fixture_key(freed, 10), first);
    assert_int_not_equal(fixture_key(dropped, 10), second);
    munmap(freed, fixture_page());
    munmap(dropped, fixture_page());
}

static void check_program(void)
{
    char *memory = fixture_map(1);

    assert_int_equal(madvise(memory, fixture_page(), MADV_DONTNEED), 0);
    assert_int_equal(memory[0], 0);
    assert_int_equal(munmap(memory, fixture_page()), 0);
    assert_int_equal(munmap(memory + 1, 1), -1);
    assert_int_equal(errno, EINVAL);
}

TEST(probe__after_the_first_get__every_change_is_noticed)
{
    uint64_t first, second;
    char *freed, *dropped;
    int probes[2];

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    fixture_open_hooked();
    freed = cached(&first);
    dropped = cached(&second);
    probes[0] = set_probe((void *)(uintptr_t)munmap);
    probes[1] = set_probe((void *)(uintptr_t)madvise);
    assert_int_equal(munmap(freed, fixture_page()), 0);
    assert_int_equal(madvise(dropped, fixture_page(), MADV_DONTNEED), 0);
    assert_in_range(probe_hits(probes[0]), 1, UINT64_MAX);
    assert_in_range(probe_hits(probes[1]), 1, UINT64_MAX);
    assert_non_null(fixture_map_at(freed, 1));
    assert_int_not_equal(fixture_key(freed, 10), first);
    assert_int_not_equal(fixture_key(dropped, 10), second);
    lose_both();
    close(probes[0]);
    close(probes[1]);
    check_program();
    lose_both();
    munmap(freed, fixture_page());
    munmap(dropped, fixture_page());
    fixture_close();
    check_program();
}

TEST(probe__set_before_and_removed_after__program_goes_on)
{
    int probes[2];

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    probes[0] = set_probe((void *)(uintptr_t)munmap);
    probes[1] = set_probe((void *)(uintptr_t)madvise);
    fixture_open_hooked();
    lose_both();
    fixture_close();
    check_program();
    assert_in_range(probe_hits(probes[0]), 1, UINT64_MAX);
    close(probes[0]);
    close(probes[1]);
    check_program();
}

#if defined(__x86_64__)
static char *syscall_of(void *function)
{
    char *at = function;

    while (memcmp(at, "\x0f\x05", 2) != 0)
        if (++at == (char *)function + 64)
            test_skip("libc's function enters the kernel elsewhere");
    return at;
}

/* Opens a library, and sets probes on instructions that its hooks have replaced. */
static void probe_what_is_hooked(int probes[2])
{
    char *at[2] = {syscall_of((void *)(uintptr_t)munmap), syscall_of((void *)(uintptr_t)madvise)};
    uint64_t key;

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    close(set_probe((void *)(uintptr_t)munmap)); /* or skips */
    fixture_open_hooked();
    cached(&key);
    assert_memory_not_equal(at[0], "\x0f\x05", 2);
    probes[0] = set_probe(at[0]);
    probes[1] = set_probe(at[1]);
}

/* A miss finds that the hooks are bypassed. By name no other monitor takes over. */
static void check_bypassed(void)
{
    char *memory = fixture_map(1);
    uint64_t key = fixture_key(memory, 10);

    assert_int_not_equal(fixture_key(memory, 10), key);
    assert_int_equal(test_monitor_info(fixture.lib).active, HMREG_MONITOR_DISABLED);
    assert_non_null(strstr(test_monitor_info(fixture.lib).why, "munmap"));
    munmap(memory, fixture_page());
}

TEST(probe__on_the_syscall_instruction__noticed_at_a_miss_and_program_goes_on)
{
    int probes[2];

    probe_what_is_hooked(probes);
    check_bypassed();
    check_program();
    assert_in_range(probe_hits(probes[0]), 1, UINT64_MAX);
    close(probes[0]);
    close(probes[1]);
    check_program();
    fixture_close();
    fixture_open_hooked();
    lose_both();
    fixture_close();
    check_program();
}

TEST(probe__on_the_syscall_instruction_until_after_the_last_close__program_goes_on)
{
    int probes[2];

    probe_what_is_hooked(probes);
    fixture_close();
    check_program();
    close(probes[0]);
    close(probes[1]);
    check_program();
}

TEST(probe__on_the_syscall_instruction_between_two_misses__mended_by_the_second)
{
    char *memory = fixture_map(1);
    int probes[2];

    probe_what_is_hooked(probes);
    close(probes[0]);
    close(probes[1]);
    fixture_key(memory, 10);
    lose_both();
    munmap(memory, fixture_page());
    fixture_close();
    check_program();
}

/* Half an instruction is left of mremap(2) until it is mended, which moves pages. */
TEST(probe__on_mremaps_instruction_between_two_misses__mended_by_the_second)
{
    char *at = syscall_of((void *)(uintptr_t)mremap), *memory = fixture_map(1);
    int probe;

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    close(set_probe((void *)(uintptr_t)munmap)); /* or skips */
    fixture_open_hooked();
    fixture_key(memory, 10);
    if (!memcmp(at, "\x0f\x05", 2))
        test_skip("libc's function is hooked before it");
    probe = set_probe(at);
    close(probe);
    assert_memory_not_equal(at, "\x0f\x05", 2);
    fixture_key(memory, 10);
    lose_both();
    munmap(memory, fixture_page());
    fixture_close();
    assert_memory_equal(at, "\x0f\x05", 2);
    check_program();
}

TEST(probe__on_the_syscall_instruction_before_the_first_get__not_hooked)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;
    int probe;

    if (FIXTURE_SANITIZED)
        test_skip("what the linker finds is the sanitizer's");
    fixture_open_hooked(); /* or skips */
    fixture_close();
    probe = set_probe(syscall_of((void *)(uintptr_t)munmap));
    assert_int_equal(hmreg_open(&config, &lib), -EOPNOTSUPP);
    check_program();
    close(probe);
    check_program();
    fixture_open_hooked();
    lose_both();
}
#endif

/* ---- a thread without libc -------------------------------------------------------------- */

#if defined(__x86_64__)

#define STACK 65536

static struct {
    char *memory;
    int (*munmap)(void *addr, size_t len); /* the linker needs thread-local data to find it */
    size_t page;
    int result;
} raw;

/* Has no thread-local data: code that reads errno or a stack protector's canary would fault. */
static int unmap_without_libc(void *arg)
{
    raw.result = -1;
    __asm__ volatile("syscall" ::"a"(SYS_arch_prctl), "D"(0x1002 /* ARCH_SET_FS */), "S"(0)
                     : "rcx", "r11", "memory");
    raw.result = raw.munmap(raw.memory, raw.page);
    __asm__ volatile("syscall" ::"a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
    return 0;
}

/* Returns how many bytes of its stack the thread has touched. */
static size_t run_without_libc(void)
{
    static _Alignas(16) uint8_t stack[STACK];
    size_t untouched = 0;
    pid_t thread;

    memset(stack, 0xa5, sizeof(stack));
    thread = clone(unmap_without_libc, stack + sizeof(stack),
                   CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD, NULL);
    assert_true(thread > 0);
    assert_int_equal(waitpid(thread, &raw.result, __WALL), thread);
    while (untouched < sizeof(stack) && stack[untouched] == 0xa5)
        untouched++;
    return sizeof(stack) - untouched;
}

TEST(munmap__on_a_thread_without_libc__reported_on_a_small_stack)
{
    uint64_t key;
    size_t most;

    if (FIXTURE_SANITIZED)
        test_skip("a sanitizer's munmap needs thread-local data");
    raw.munmap = munmap;
    raw.page = fixture_page();
    fixture_open_hooked();
    raw.memory = cached(&key);
    most = run_without_libc();
    print_message("a hooked munmap: %zu bytes of stack\n", most);
    assert_int_equal(raw.result, 0);
    assert_non_null(fixture_map_at(raw.memory, 1));
    assert_int_not_equal(fixture_key(raw.memory, 10), key);
    assert_in_range(most, 1, 1000);
    munmap(raw.memory, fixture_page());
}
#else
TEST(munmap__on_a_thread_without_libc__reported_on_a_small_stack)
{
    test_skip("the thread is written for x86-64");
}
#endif

/* ---- huge pages ------------------------------------------------------------------------- */

#define HUGE (UINT64_C(2) << 20)

static char *map_huge(char *at, int flags)
{
    char *memory = mmap(at, HUGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | flags, -1, 0);

    if (memory == MAP_FAILED)
        test_skip("no huge page is free: %s", strerror(errno));
    memset(memory, 1, HUGE);
    return memory;
}

/* Reserves addresses for two huge pages. */
static char *reserve_huge(void)
{
    char *reserved =
        mmap(NULL, 4 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_ptr_not_equal(reserved, MAP_FAILED);
    return (char *)(((uintptr_t)reserved + HUGE - 1) & ~(HUGE - 1));
}

/* Small pages, the last of which the call of one page's length replaces, too. */
static char *map_small(char *at)
{
    char *memory =
        mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    assert_ptr_equal(memory, at);
    return memory + HUGE - fixture_page();
}

TEST(mremap__of_a_part_of_a_huge_page__all_of_it_registered_anew)
{
    char *place = reserve_huge(), *memory = map_huge(place, MAP_FIXED);
    char *middle = memory + HUGE / 2, *over = map_small(place + HUGE);
    size_t page = fixture_page();
    uint64_t keys[3];

    fixture_open(fixture_monitor(), NULL);
    keys[0] = fixture_key(memory, page);
    keys[1] = fixture_key(middle, page);
    keys[2] = fixture_key(over, page);
    if (mremap(memory, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, place + HUGE) == MAP_FAILED) {
        fixture_close();
        test_skip("this kernel moves no huge pages: %s", strerror(errno));
    }
    assert_ptr_equal(map_huge(place, MAP_FIXED), memory);
    assert_int_not_equal(fixture_key(memory, page), keys[0]);
    assert_int_not_equal(fixture_key(middle, page), keys[1]);
    assert_int_not_equal(fixture_key(over, page), keys[2]);
    munmap(place, 2 * HUGE);
}

TEST(mmap__of_a_huge_page_over_small_ones__all_registered_anew)
{
    char *place = reserve_huge(), *last = map_small(place);
    size_t page = fixture_page();
    int file = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
    uint64_t key;

    munmap(map_huge(NULL, 0), HUGE); /* or skips */
    if (file < 0 || ftruncate(file, (off_t)HUGE))
        test_skip("no files of huge pages: %s", strerror(errno));
    fixture_open(fixture_monitor(), NULL);
    key = fixture_key(last, page);
    assert_ptr_equal(mmap(place, page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED, -1, 0),
                     place);
    assert_int_not_equal(fixture_key(last, page), key);
    munmap(place, HUGE);
    last = map_small(place);
    key = fixture_key(last, page);
    assert_ptr_equal(mmap(place, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0),
                     place);
    assert_int_not_equal(fixture_key(last, page), key);
    munmap(place, HUGE);
    close(file);
}

TEST(shmat__of_a_huge_segment_over_small_pages__all_registered_anew)
{
    char *place = reserve_huge(), *last = map_small(place);
    size_t page = fixture_page();
    int id = shmget(IPC_PRIVATE, page, 0600 | SHM_HUGETLB);
    uint64_t key;
    void *there;

    if (id < 0)
        test_skip("no huge segments of shared memory: %s", strerror(errno));
    fixture_open_hooked();
    key = fixture_key(last, page);
    there = shmat(id, place, SHM_REMAP);
    shmctl(id, IPC_RMID, NULL);
    assert_ptr_equal(there, place);
    assert_int_not_equal(fixture_key(last, page), key);
    assert_int_equal(shmdt(place), 0);
}

/* ---- other calls that concern no cached memory ------------------------------------------ */

TEST(shmdt__that_fails__ends_nothing)
{
    uint64_t key;
    char *memory;

    fixture_open_hooked();
    memory = cached(&key);
    assert_int_equal(shmdt(memory - fixture_page()), -1);
    assert_int_equal(fixture_key(memory, 10), key);
    munmap(memory, fixture_page());
}

TEST_MAIN()
