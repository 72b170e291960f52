/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A new life has a new number: in a forked child, however it was forked, and in a process that has
 * the memory of another one. Such a clone is a child made by clone(2), without fork handlers, that
 * gets back the pages that the kernel wiped or did not copy.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <hmreg/loopback.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08 /* Linux 6.11 */
#endif

/* ---- /proc ------------------------------------------------------------------------------ */

static bool has_other_inode; /* /proc/self, in this process */
static bool is_unreadable;   /* /proc/self/stat */

int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out) __attribute__((visibility("default")));
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) __attribute__((visibility("default")));

int __wrap_stat(const char *path, struct stat *out)
{
    int rc = __real_stat(path, out);

    if (has_other_inode && !strcmp(path, "/proc/self"))
        out->st_ino++;
    return rc;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode;

    if (is_unreadable && !strcmp(path, "/proc/self/stat")) {
        errno = EMFILE;
        return -1;
    }
    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return __real_open(path, flags, mode);
}

/* ---- clones ----------------------------------------------------------------------------- */

#define MOST_SAVED 32

/* Mappings of this process that a child does not get as they are, and copies of them. */
static struct {
    char *at, *copy;
    size_t size;
    bool absent, droppable;
} saved[MOST_SAVED];
static unsigned saved_count;

static void save(char *at, size_t size, const char *flags)
{
    assert_in_range(saved_count, 0, MOST_SAVED - 1);
    saved[saved_count].at = at;
    saved[saved_count].size = size;
    saved[saved_count].absent = strstr(flags, " dc");
    saved[saved_count].droppable = strstr(flags, " dp");
    saved[saved_count].copy = test_map(size);
    memcpy(saved[saved_count++].copy, at, size);
}

static void take_image(void)
{
    FILE *smaps = fopen("/proc/self/smaps", "re");
    unsigned long start = 0, end = 0, from, to;
    char line[1024];

    assert_non_null(smaps);
    saved_count = 0;
    while (fgets(line, sizeof(line), smaps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            start = from;
            end = to;
        }
        if (!strncmp(line, "VmFlags: rd", 11) && (strstr(line, " wf") || strstr(line, " dc")))
            save((char *)start, end - start, line);
    }
    (void)fclose(smaps);
    if (!saved_count)
        test_skip("/proc/self/smaps has no flags of mappings here: an emulator");
}

static void drop_image(void)
{
    while (saved_count--)
        munmap(saved[saved_count].copy, saved[saved_count].size);
}

static int64_t tick(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void await_next_tick(void)
{
    int64_t from = tick();

    while (tick() == from)
        continue;
}

static pid_t clone_raw(void)
{
    pid_t parent = getpid(), child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

    if (child == 0)
        test_end_with(parent);
    return child;
}

/* Does the image leave out memory that the kernel may drop, as CRIU's since 4.2? */
static bool leaves_droppable;

/* In a child: now it has all memory of its parent. No image is restored in the tick in which it was
 * taken. */
static void become_clone(void)
{
    for (unsigned i = 0; i < saved_count; i++) {
        if (saved[i].absent &&
            mmap(saved[i].at, saved[i].size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != saved[i].at)
            _exit(1);
        if (!saved[i].droppable || !leaves_droppable)
            memcpy(saved[i].at, saved[i].copy, saved[i].size);
    }
    await_next_tick();
}

/* Runs it in a clone of this process, and returns what it returned. */
static uint64_t in_clone(uint64_t (*run)(void))
{
    uint64_t *result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0),
             value;
    pid_t child;

    assert_ptr_not_equal(result, MAP_FAILED);
    test_wait_until_others_sleep(); /* the clone would wait for a lock that one holds */
    take_image();
    child = clone_raw();
    if (child == 0) {
        become_clone();
        *result = run();
        _exit(0);
    }
    drop_image();
    test_await(child);
    value = *result;
    munmap(result, sizeof(*result));
    return value;
}

/* ---- the number ------------------------------------------------------------------------- */

TEST(number__later_and_with_another_inode__the_same)
{
    uint64_t number = inside_life();

    assert_int_not_equal(number, 0);
    assert_int_equal(inside_life(), number);
    await_next_tick();
    assert_int_equal(inside_life(), number);
    has_other_inode = true; /* the kernel had dropped the first one */
    await_next_tick();
    assert_int_equal(inside_life(), number);
    has_other_inode = false;
}

/* 0: the child's number is of another process. */
static int forked_check(uint64_t parents)
{
    uint64_t own = inside_life();

    await_next_tick();
    if (!own || inside_life() != own)
        return 1;
    return inside_is_same_process(own, parents) ? 2 : 0;
}

TEST(number__in_a_forked_child__of_another_process)
{
    uint64_t number = inside_life();
    pid_t child;

    test_in_child(forked_check(number));
    child = clone_raw();
    if (child == 0)
        _exit(forked_check(number));
    test_await(child);
    assert_int_equal(inside_life(), number);
}

static uint64_t number_twice(void)
{
    uint64_t number = inside_life();

    await_next_tick();
    return inside_life() == number ? number : 0;
}

TEST(number__in_two_clones__other_lives_of_the_process)
{
    uint64_t number = inside_life(), one = in_clone(number_twice), other = in_clone(number_twice);

    assert_int_not_equal(one, number);
    assert_int_not_equal(other, number);
    assert_int_not_equal(one, other);
    assert_true(inside_is_same_process(one, number) && inside_is_same_process(other, number));
    await_next_tick();
    assert_int_equal(inside_life(), number);
}

static uint64_t number_of_clone_of_clone(void)
{
    (void)inside_life();
    return in_clone(number_twice);
}

TEST(number__clone_of_a_clone__of_the_same_process)
{
    uint64_t number = inside_life(), second = in_clone(number_of_clone_of_clone);

    assert_int_not_equal(second, number);
    assert_true(inside_is_same_process(second, number));
}

/* The numbers while /proc is not readable, and once it is: 1: both are as they must be. */
static uint64_t read_late(void)
{
    uint64_t unread, later;

    is_unreadable = true;
    unread = inside_life();
    is_unreadable = false;
    await_next_tick();
    later = inside_life();
    return later != unread && inside_is_same_process(later, unread);
}

TEST(number__no_descriptor_in_a_clone__another_once_there_is_one)
{
    (void)inside_life();
    assert_int_equal(in_clone(read_late), 1);
}

/* CRIU before 4.2 does not restore the advice to wipe. */
static uint64_t fork_is_noticed(void)
{
    uint64_t epoch = inside_epoch();
    pid_t child;

    for (unsigned i = 0; i < saved_count; i++)
        (void)madvise(saved[i].at, saved[i].size, MADV_KEEPONFORK);
    (void)inside_life();
    child = clone_raw();
    if (child == 0)
        _exit(inside_is_epoch(epoch));
    test_await(child);
    return 1;
}

TEST(fork__of_a_clone_without_advice_to_wipe__noticed)
{
    (void)inside_epoch();
    (void)inside_life();
    assert_int_equal(in_clone(fork_is_noticed), 1);
}

/* ---- tokens ----------------------------------------------------------------------------- */

static struct hmreg_domain *domain;
static struct hmreg_remote *remote;
static struct hmreg_mr *mr;
static char bytes[64];
static uint8_t first[512];
static size_t first_size = sizeof(first);

static void open_owner(struct hmreg **lib)
{
    assert_ok(hmreg_open(NULL, lib));
    assert_ok(hmreg_domain_open_loopback(*lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_reg(domain, bytes, sizeof(bytes), HMREG_ACCESS_REMOTE, 0, HMREG_KEY_ANY, 0,
                           &mr, NULL));
    first_size = sizeof(first);
    assert_ok(hmreg_mr_pack(mr, first, &first_size));
    assert_ok(hmreg_remote_open(domain, first, first_size, &remote));
}

static void close_owner(struct hmreg *lib)
{
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

static int state_by(const uint8_t *token, size_t size)
{
    enum hmreg_remote_state state = (enum hmreg_remote_state)9;

    assert_ok(hmreg_remote_check(remote, token, size, &state));
    return (int)state;
}

/* By each call that packs, the same life, of which a token of the life before is not. */
static uint64_t pack_in_clone(void)
{
    uint8_t tokens[3][512];
    size_t sizes[3] = {512, 512, 512};
    struct hmreg_remote *opened = NULL;

    assert_ok(hmreg_mr_pack(mr, tokens[0], &sizes[0]));
    assert_ok(hmreg_mr_pack_range(mr, bytes, sizeof(bytes), tokens[1], &sizes[1]));
    assert_ok(hmreg_mr_pack_many(&mr, 1, tokens[2], &sizes[2]));
    assert_memory_equal(tokens[0], tokens[1], sizes[0]);
    assert_memory_equal(tokens[0], tokens[2], sizes[0]);
    assert_int_equal(state_by(tokens[0], sizes[0]), HMREG_REMOTE_OTHER_LIFE);
    assert_fails(hmreg_remote_renew(remote, tokens[0], sizes[0]), -EOWNERDEAD,
                 "another incarnation");
    assert_fails(hmreg_remote_open(domain, first, first_size, &opened), -EHOSTUNREACH,
                 "this process was restored since");
    assert_ok(hmreg_remote_open(domain, tokens[0], sizes[0], &opened));
    return inside_life();
}

/* Where no token was packed, a token of the life before is refused all the same. */
static uint64_t open_in_clone(void)
{
    struct hmreg_remote *opened = NULL;

    assert_fails(hmreg_remote_open(domain, first, first_size, &opened), -EHOSTUNREACH,
                 "this process was restored since");
    return 1;
}

TEST(token__of_two_clones__of_another_life_each)
{
    uint8_t again[512];
    size_t size = sizeof(again);
    uint64_t one, other;
    struct hmreg *lib;

    open_owner(&lib);
    one = in_clone(pack_in_clone);
    other = in_clone(pack_in_clone);
    assert_int_not_equal(one, other);
    assert_int_equal(in_clone(open_in_clone), 1);
    await_next_tick();
    assert_ok(hmreg_mr_pack(mr, again, &size));
    assert_memory_equal(again, first, first_size);
    assert_int_equal(state_by(again, size), HMREG_REMOTE_CURRENT);
    close_owner(lib);
}

/* ---- cached regions ---------------------------------------------------------------------- */

static char *memory;
static uint64_t key;

static uint64_t hits_after_a_miss(void)
{
    (void)fixture_key(memory + fixture_page(), fixture_page());
    return fixture_key(memory, fixture_page()) == key;
}

static uint64_t hits_after_a_token(void)
{
    uint8_t token[512];
    size_t size = sizeof(token);
    struct hmreg_mr *held = fixture_get(memory, fixture_page());

    assert_ok(hmreg_mr_pack(held, token, &size));
    hmreg_mr_put(held);
    return fixture_key(memory, fixture_page()) == key;
}

/* Memhooks notices changes in the 2 MiB of a registered range. */
static char *map_three_pages_of_one_granule(void)
{
    size_t len = 3 * fixture_page();
    char *pages = fixture_map(6);

    return ((uintptr_t)pages ^ ((uintptr_t)pages + len - 1)) >> 21 ? pages + len : pages;
}

/* Of other memory. */
static uint64_t hits_after_a_change(void)
{
    munmap(memory + 2 * fixture_page(), fixture_page());
    return fixture_key(memory, fixture_page()) == key;
}

/* The reaper runs beside. */
static void open_cache(void)
{
    if (TEST_TSAN)
        test_skip("its parent's threads count as the clone's");
    fixture_open_hooked();
}

static uint64_t hits(void)
{
    return fixture_key(memory, fixture_page()) == key;
}

static uint64_t hits_in_part(void)
{
    return fixture_key(memory + fixture_page(), fixture_page()) == key;
}

static bool has_droppable(void)
{
    void *made = mmap(NULL, fixture_page(), PROT_READ, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);

    return made != MAP_FAILED && !munmap(made, fixture_page());
}

/* Where the image has no droppable memory a thread finds its table empty. An entry that served a
 * part of its range is remembered elsewhere too. */
TEST(get__first_call_of_a_clone_without_droppable_memory__no_hit)
{
    if (!has_droppable())
        test_skip("the kernel has no MAP_DROPPABLE");
    open_cache();
    memory = fixture_map(2);
    key = fixture_key(memory, 2 * fixture_page());
    leaves_droppable = true;
    assert_int_equal(in_clone(hits), 0);
    assert_int_equal(fixture_key(memory + fixture_page(), fixture_page()), key);
    assert_int_equal(in_clone(hits_in_part), 0);
    leaves_droppable = false;
    munmap(memory, 2 * fixture_page());
}

TEST(get__kernel_has_dropped_the_table__a_hit)
{
    open_cache();
    memory = fixture_map(1);
    key = fixture_key(memory, fixture_page());
    take_image();
    for (unsigned i = 0; i < saved_count; i++)
        if (saved[i].droppable)
            assert_int_equal(madvise(saved[i].at, saved[i].size, MADV_DONTNEED), 0);
    drop_image();
    assert_int_equal(hits(), 1);
    assert_int_equal(hits(), 1);
    munmap(memory, fixture_page());
}

TEST(get__in_a_clone_after_a_miss_a_token_or_a_change__no_hit)
{
    open_cache();
    memory = map_three_pages_of_one_granule();
    key = fixture_key(memory, fixture_page());
    assert_int_equal(fixture_key(memory, fixture_page()), key);
    assert_int_equal(in_clone(hits_after_a_miss), 0);
    assert_int_equal(in_clone(hits_after_a_token), 0);
    assert_int_equal(in_clone(hits_after_a_change), 0);
    await_next_tick();
    assert_int_equal(hits_after_a_miss(), 1);
    munmap(memory, 3 * fixture_page());
}

TEST_MAIN()
