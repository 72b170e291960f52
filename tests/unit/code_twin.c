/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Code that is changed while threads execute it, and is never writable; and code that is changed
 * where that is not possible. Each case changes this program's own code, in a child.
 */

/* How code is changed is what this is about: hooks change libc's, in one way on each machine. */
#include "core/patch/code.h"
#include "core/base/process.h"

#include "tests/support/code_filters.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Returns a number that its first instruction has. On x86-64 the instruction lies in two pages. */
unsigned changed_function(void);

#if defined(__x86_64__)
#define BYTES 5
#define STEP  1 /* bytes between two places that an instruction may have */
__asm__(".pushsection .text\n.balign 4096\n.skip 4093, 0x90\n"
        ".globl changed_function\n.type changed_function, @function\n"
        "changed_function: movl $0x01010101, %eax\nret\n"
        ".size changed_function, . - changed_function\n.balign 4096, 0x90\n.popsection\n");
static const uint8_t one[BYTES] = {0xb8, 1, 1, 1, 1}, two[BYTES] = {0xb8, 2, 2, 2, 2};
#define ONE 0x01010101u
#define TWO 0x02020202u
#elif defined(__aarch64__)
#define BYTES 4
#define STEP  4
__asm__(".pushsection .text\n.balign 65536\n"
        ".globl changed_function\n.type changed_function, @function\n"
        "changed_function: mov w0, #1\nret\n"
        ".size changed_function, . - changed_function\n.balign 65536\n.popsection\n");
static const uint8_t one[BYTES] = {0x20, 0, 0x80, 0x52}, two[BYTES] = {0x40, 0, 0x80, 0x52};
#define ONE   1u
#define TWO   2u
#endif

#ifdef BYTES

static uint8_t *address(void)
{
    /* gcc 12 counts the bytes of an array that it takes the function for, and fails in its own
     * warning. */
    unsigned (*volatile hidden)(void) = changed_function;
    unsigned (*function)(void) = hidden;
    uint8_t *at;

    memcpy(&at, &function, sizeof(at));
    return at;
}

/* The statuses of children. */
enum { PASSED, NOT_HERE = 77 };

static void in_a_child(void (*part)(void))
{
    pid_t child = test_fork();

    if (child == 0) {
        if (code_refusal() || !code_start())
            _exit(NOT_HERE);
        part();
        _exit(PASSED);
    }
    test_await_or_skip(child, "code cannot be changed so here");
}

static long change(const uint8_t *bytes)
{
    struct code_text text = {0};

    return code_write(&text, &(struct code_change){address(), bytes, BYTES}, 1);
}

static bool change_by_twin(const uint8_t *bytes)
{
    struct code_text text = {0};

    return code_find(&text, address()) &&
           code_replace_by_twin(&text, &(struct code_change){address(), bytes, BYTES}, 1);
}

static void must_change_by_twin(const uint8_t *bytes)
{
    if (!code_moves())
        _exit(NOT_HERE);
    assert_true(change_by_twin(bytes));
}

/* ---- room for code ---------------------------------------------------------------------- */

static atomic_uint mapped_at_0;

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    atomic_fetch_add(&mapped_at_0, !at && flags & MAP_FIXED_NOREPLACE);
    return __real_mmap(at, size, protection, flags, fd, offset);
}

/* A page at the address 0 would hide errors of the program. */
TEST(take_room__near_the_lowest_addresses__none_at_0)
{
    struct code_islands islands = {.island = {{.start = NULL}}};
    uintptr_t near_by = (UINT64_C(1) << 20) + 5;
    uint8_t *room = code_take_room(&islands, (const uint8_t *)near_by, 64);

    assert_int_equal(atomic_load(&mapped_at_0), 0);
    if (!room)
        test_skip("the lowest addresses are not for programs here");
    assert_in_range((uintptr_t)room, near_by, near_by + CODE_REACH);
    memset(room, 0, 64);
    munmap(islands.island[0].start, 16384);
}

#if defined(__x86_64__)
/* Within a word, by two bytes that are, and otherwise. */
TEST(replace__at_each_place__these_bytes_only)
{
    const uint8_t with[4] = {1, 2, 3, 4}, none[16] = {0};

    for (size_t at = 1; at < 8; at++) {
        uint8_t bytes[16] __attribute__((aligned(8))) = {0};

        code_replace(bytes + at, with, 3);
        assert_memory_equal(bytes, none, at);
        assert_memory_equal(bytes + at, with, 3);
        assert_memory_equal(bytes + at + 3, none, 16 - at - 3);
    }
}
#endif

/* ---- finding code ----------------------------------------------------------------------- */

TEST(find__mapping_of_each_protection__as_it_is)
{
    static const int protections[] = {PROT_EXEC, PROT_EXEC | PROT_READ,
                                      PROT_EXEC | PROT_READ | PROT_WRITE, PROT_READ};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct code_text text;

    for (int i = 0; i < 4; i++) {
        uint8_t *at = mmap(NULL, page, protections[i], MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        bool executable = protections[i] & PROT_EXEC;

        if (at == MAP_FAILED)
            test_skip("no memory is writable and executable here");
        text = (struct code_text){0};
        assert_int_equal(code_find(&text, at + 5), executable);
        munmap(at, page);
        if (!executable)
            continue;
        assert_true(text.start <= (uintptr_t)at && (uintptr_t)at + page <= text.end);
        assert_int_equal(text.protection, protections[i]);
        assert_false(text.of_file);
    }
    assert_true(code_find(&text, address()));
    assert_int_equal(text.protection, PROT_EXEC | PROT_READ);
    assert_true(text.of_file);
}

/* ---- threads in the code ---------------------------------------------------------------- */

#define CHANGES 400

static atomic_bool ended;
static atomic_uint mixed, seen[2];

static void *call_it(void *arg)
{
    while (!atomic_load(&ended)) {
        unsigned value = changed_function();

        if (value == ONE || value == TWO)
            atomic_fetch_add(&seen[value == TWO], 1);
        else
            atomic_fetch_add(&mixed, 1);
    }
    return NULL;
}

static void change_under_threads(void)
{
    pthread_t threads[3];

    must_change_by_twin(two);
    for (int i = 0; i < 3; i++)
        assert_true(!pthread_create(&threads[i], NULL, call_it, NULL));
    for (int i = 0; i < CHANGES; i++) {
        unsigned before = atomic_load(&seen[i % 2]);

        assert_true(change_by_twin(i % 2 ? two : one));
        assert_true(changed_function() == (i % 2 ? TWO : ONE));
        while (atomic_load(&seen[i % 2]) == before)
            sched_yield();
    }
    atomic_store(&ended, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(!atomic_load(&mixed));
}

TEST(write__threads_execute_it__each_the_old_or_the_new)
{
    in_a_child(change_under_threads);
}

/* ---- what remains ----------------------------------------------------------------------- */

static unsigned count_mappings(char flags[256])
{
    struct code_text text = {0};
    char line[512], head[64];
    FILE *smaps = fopen("/proc/self/smaps", "re");
    unsigned count = 0;
    bool in = false;

    assert_true(smaps && code_find(&text, address()));
    snprintf(head, sizeof(head), "%lx-%lx ", (unsigned long)text.start, (unsigned long)text.end);
    while (fgets(line, sizeof(line), smaps)) {
        unsigned long start, end;

        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            in = !strncmp(line, head, strlen(head));
            count++;
        } else if (in && !strncmp(line, "VmFlags:", 8)) {
            snprintf(flags, 256, "%.255s", line);
        }
    }
    fclose(smaps);
    return count;
}

static void change_under_a_policy(void)
{
    struct code_text before = {0}, after = {0};
    char flags[2][256] = {"", ""};
    unsigned count;

    assert_true(code_find(&before, address()));
    count_mappings(flags[0]);
    if (!code_filter_writable())
        _exit(NOT_HERE);
    must_change_by_twin(two);
    count = count_mappings(flags[1]);
    for (int i = 0; i < 10; i++)
        assert_true(change(i % 2 ? two : one) == 0 && changed_function() == (i % 2 ? TWO : ONE));
    assert_true(count_mappings(flags[1]) == count || TEST_TSAN); /* which maps memory meanwhile */
    assert_true(code_find(&after, address()));
    assert_true(after.start == before.start && after.end == before.end);
    assert_true(after.protection == before.protection && !strcmp(flags[0], flags[1]));
}

TEST(write__where_writable_code_ends_the_process__one_mapping_as_before)
{
    in_a_child(change_under_a_policy);
}

/* Two on one page, one that lies in two pages on x86-64, and one on the second. */
static void change_several_under_a_policy(void)
{
    uint8_t *at[] = {address() - 64, address() - 32, address(), address() + 64};
    struct code_change changes[4], back[4];
    struct code_text text = {0};
    uint8_t before[4][BYTES];

    if (!code_filter_writable())
        _exit(NOT_HERE);
    must_change_by_twin(one);
    for (int i = 0; i < 4; i++) {
        memcpy(before[i], at[i], BYTES);
        changes[i] = (struct code_change){at[i], two, BYTES};
        back[i] = (struct code_change){at[i], before[i], BYTES};
    }
    assert_true(code_write(&text, changes, 4) == 0 && changed_function() == TWO);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(at[i], two, BYTES);
    assert_true(code_write(&text, back, 4) == 0 && changed_function() == ONE);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(at[i], before[i], BYTES);
}

TEST(write__several_where_writable_code_ends_the_process__all)
{
    in_a_child(change_several_under_a_policy);
}

/* ---- where it is not possible ----------------------------------------------------------- */

static void must_change_as_writable(void)
{
    assert_true(!change_by_twin(two));
    assert_true(changed_function() == ONE);
    assert_true(change(two) == 0 && changed_function() == TWO);
    assert_true(change(one) == 0 && changed_function() == ONE);
}

static void change_without_moves(void)
{
    if (!code_filter_moves())
        _exit(NOT_HERE);
    must_change_as_writable();
}

static void change_without_forced_writes(void)
{
    if (!code_filter_refuse(SYS_pwrite64, EIO))
        _exit(NOT_HERE);
    must_change_as_writable();
}

static void change_without_memory(void)
{
    if (!process_epoch_start() || !code_filter_refuse(SYS_mmap, ENOMEM))
        _exit(NOT_HERE);
    must_change_as_writable();
}

static void change_without_proc(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || mount("none", "/proc", "tmpfs", 0, NULL))
        _exit(NOT_HERE);
    must_change_as_writable();
}

/* Moving the pages away would show the file's for a moment. */
static void change_beside_others(void)
{
    int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

    if (mem < 0 || pwrite(mem, address() + BYTES, 1, (off_t)(address() + BYTES)) != 1)
        _exit(NOT_HERE);
    close(mem);
    must_change_as_writable();
}

static void change_of_locked(void)
{
    if (syscall(SYS_mlock, address(), 1)) /* a sanitizer's mlock() does nothing */
        _exit(NOT_HERE);
    must_change_as_writable();
}

TEST(write__no_moves_in_this_kernel__made_writable)
{
    in_a_child(change_without_moves);
}

TEST(write__no_forced_writes__made_writable)
{
    in_a_child(change_without_forced_writes);
}

TEST(write__no_memory_to_try_moves_with__made_writable)
{
    in_a_child(change_without_memory);
}

TEST(write__no_proc__made_writable)
{
    in_a_child(change_without_proc);
}

TEST(write__others_have_modified_the_file__made_writable)
{
    in_a_child(change_beside_others);
}

/* At each place in a word, also where the first two bytes are of two words: such a pad of a hook is
 * written so. */
static void write_everywhere(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *code = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t bytes[BYTES], expected[64];

    assert_true(code != MAP_FAILED);
    for (uint8_t i = 0; i < BYTES; i++)
        bytes[i] = i;
    memset(code, 0x90, sizeof(expected));
    assert_int_equal(mprotect(code, page, PROT_READ | PROT_EXEC), 0);
    for (size_t place = 16; place < 32; place += STEP) {
        struct code_text text = {0};

        memcpy(expected, code, sizeof(expected));
        memcpy(expected + place, bytes, sizeof(bytes));
        assert_int_equal(
            code_write(&text, &(struct code_change){code + place, bytes, sizeof(bytes)}, 1), 0);
        assert_memory_equal(code, expected, sizeof(expected));
        bytes[0]++;
    }
}

TEST(write__anonymous_code__at_each_place_and_nothing_beside)
{
    in_a_child(write_everywhere);
}

TEST(write__locked_memory__made_writable)
{
    in_a_child(change_of_locked);
}

static void lock_later(void)
{
    must_change_by_twin(two);
    if (syscall(SYS_mlock, address(), 1)) /* a sanitizer's mlock() does nothing */
        _exit(NOT_HERE);
    assert_true(!change_by_twin(one));
    assert_true(change(one) == 0 && changed_function() == ONE);
}

TEST(write__memory_locked_since__made_writable)
{
    in_a_child(lock_later);
}

/* The kernel unmaps the code's page before it finds that the process may have no other. */
static void limit_addresses_later(void)
{
    struct rlimit little = {1 << 20, 1 << 20};

    must_change_by_twin(two);
    assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
    assert_true(!change_by_twin(one));
    assert_true(changed_function() == TWO);
    assert_true(change(one) == 0 && changed_function() == ONE);
}

TEST(write__fewer_addresses_permitted_since__made_writable)
{
    in_a_child(limit_addresses_later);
}

TEST_MAIN()

#else

TEST(write__of_code__possible)
{
    test_skip("no hooks on this processor");
}

TEST_MAIN()

#endif
