/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Other libraries that hook libc in the same process: UCX, if it is installed, and a library of the
 * tests that writes its jumps over the same bytes. Loaded before hmreg is opened, after it, and
 * still there when it is closed. Their changes of libc stay, so each test has a process of its own.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/patch.h"

#include <dlfcn.h>
#include <sys/wait.h>

#if defined(__x86_64__) || defined(__aarch64__)

#define LEN (16 * (size_t)4096)

static const char *const theirs = TEST_PATCHER, *const ucx = "libucs.so.0";

/* ---- in a process of its own ------------------------------------------------------------ */

enum { ABSENT = 77, NO_HOOKS = 78 };

/* Our pages that are writable and executable at once; other threads execute libc's, so those are
 * changed past libc. */
static unsigned writable_code;

int __real_mprotect(void *addr, size_t len, int protection);
int __wrap_mprotect(void *addr, size_t len, int protection);

int __wrap_mprotect(void *addr, size_t len, int protection)
{
    writable_code += (protection & (PROT_WRITE | PROT_EXEC)) == (PROT_WRITE | PROT_EXEC);
    return __real_mprotect(addr, len, protection);
}

static void in_a_process(void (*part)(const char *file), const char *file)
{
    int status = 0;
    pid_t child;

    fixture_monitor(); /* may forbid userfaultfd */
    fflush(NULL);
    child = test_fork();
    if (child == 0) {
        part(file);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == ABSENT)
        test_skip("%s is not installed, or does not hook libc here", file);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_HOOKS)
        test_skip("libc cannot be hooked here");
    assert_int_equal(status, 0);
}

static void load(const char *file)
{
    uint8_t before[PATCH_SIZE];

    memcpy(before, (void *)munmap, sizeof(before));
    /* Global, since UCX's parts find each other by that. */
    if (!dlopen(file, RTLD_NOW | RTLD_GLOBAL) || !memcmp(before, (void *)munmap, sizeof(before)))
        _exit(ABSENT);
}

static void opened(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    int rc = hmreg_open(&config, &fixture.lib);

    assert_true(rc == 0);
    fixture.domain = counter_open(fixture.lib, NULL);
}

static void closed(void)
{
    assert_true(inside_counts_agree());
    assert_true(hmreg_domain_close(fixture.domain) == 0);
    assert_true(hmreg_close(fixture.lib) == 0);
}

/* If hooks are impossible here there is nothing to test. */
static void opened_first(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};

    if (hmreg_open(&config, &fixture.lib) == -EOPNOTSUPP)
        _exit(NO_HOOKS);
    fixture.domain = counter_open(fixture.lib, NULL);
}

/* ---- ways to lose memory ---------------------------------------------------------------- */

static void lose_by_munmap(char *memory)
{
    assert_true(munmap(memory, LEN) == 0);
}

static void lose_by_madvise(char *memory)
{
    assert_true(madvise(memory, LEN, MADV_DONTNEED) == 0);
}

static void lose_by_mmap(char *memory)
{
    assert_true(mmap(memory, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                memory);
}

/* Moves to where the kernel chooses: UCX's mremap does not pass a requested address on. */
static void lose_by_mremap(char *memory)
{
    char *in_the_way = fixture_map(1);
    char *to = mremap(memory, LEN, 2 * LEN, MREMAP_MAYMOVE);

    assert_true(to != MAP_FAILED && to != memory);
    assert_true(munmap(to, 2 * LEN) == 0 && munmap(in_the_way, fixture_page()) == 0);
}

static uint64_t invalidations(void)
{
    return fixture_stats().invalidations;
}

static void lose(void (*how)(char *))
{
    char *memory = fixture_map(LEN / fixture_page());
    uint64_t before = invalidations();

    fixture_key(memory, LEN);
    assert_true(fixture_stats().uncached == 0);
    how(memory);
    assert_true(invalidations() == before + 1);
}

/* The heap's end, as free(3) moves it. */
static void lose_heap(void)
{
    uint64_t before = invalidations();
    char *top;

    free(malloc(100000)); /* trims now, so that no other call does meanwhile */
    top = sbrk((intptr_t)LEN);
    if (top == (char *)-1) {
        fprintf(stderr, "the heap cannot grow here (%s): brk is not tried\n", strerror(errno));
        return;
    }
    memset(top, 1, LEN);
    fixture_key(top, LEN);
    assert_true(sbrk(-(intptr_t)LEN) == top + LEN);
    assert_true(invalidations() == before + 1);
}

static void lose_in_every_way(void)
{
    lose(lose_by_munmap);
    lose(lose_by_madvise);
    lose(lose_by_mmap);
    lose(lose_by_mremap);
    lose_heap();
}

/* ---- hooks before ours, after ours, kept longer than ours ------------------------------- */

static void load_then_open(const char *file)
{
    uint8_t before[PATCH_SIZE];

    load(file);
    memcpy(before, (void *)munmap, sizeof(before));
    opened();
    lose_in_every_way();
    closed();
    assert_true(memcmp(before, (void *)munmap, sizeof(before)) == 0);
    opened();
    lose_in_every_way();
    closed();
}

static void open_then_load(const char *file)
{
    char *memory = fixture_map(LEN / fixture_page());
    uint64_t key, before;

    opened_first();
    assert_true(fixture_key(memory, LEN) == 1);
    load(file);
    key = fixture_key(memory, LEN);
    assert_true(key != 1); /* what their code did unnoticed may concern it */
    assert_true(fixture_key(memory, LEN) == key);
    before = invalidations();
    munmap(memory, LEN); /* their hook, which calls ours by syscall(2) */
    assert_true(invalidations() == before + 1);
    assert_true(fixture_map_at(memory, LEN / fixture_page()) == memory);
    assert_true(fixture_key(memory, LEN) != key);
    lose_in_every_way();
    closed();
    assert_true(writable_code == 0);
}

/* Their jumps are over ours: the library must not restore the code. */
static void close_under_theirs(const char *file)
{
    uint8_t during[PATCH_SIZE];
    char *memory;

    opened_first();
    load(file);
    memcpy(during, (void *)munmap, sizeof(during));
    closed();
    assert_true(memcmp(during, (void *)munmap, sizeof(during)) == 0);
    memory = fixture_map(1);
    assert_true(munmap(memory, fixture_page()) == 0);
    free(malloc(64 << 20));
    opened();
    lose_in_every_way();
    closed();
}

/* They restore the code that they found. */
static void theirs_go(const char *file)
{
    void (*undo)(void);

    load(file);
    opened();
    lose_in_every_way();
    undo = (void (*)(void))dlsym(RTLD_DEFAULT, "patcher_undo");
    assert_true(undo);
    undo();
    lose_in_every_way();
    closed();
}

static void ours_come_back(const char *file)
{
    void (*undo)(void);

    opened_first();
    load(file);
    lose_in_every_way();
    undo = (void (*)(void))dlsym(RTLD_DEFAULT, "patcher_undo");
    assert_true(undo);
    undo();
    lose_in_every_way();
    closed();
    lose_by_munmap(fixture_map(LEN / fixture_page()));
}

/* A jump to code that is in no file, and may enter the kernel in any way. */
static void jump_to_nowhere(const char *file)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib = NULL;
    uint8_t *page = mmap(NULL, fixture_page(), PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        _exit(ABSENT);
    if (!patch_jump((void *)munmap, page))
        _exit(ABSENT);
    assert_true(hmreg_open(&config, &lib) == -EOPNOTSUPP && !lib);
    assert_true(strstr(hmreg_last_error()->text, "munmap()"));
    assert_true(strstr(hmreg_last_error()->text, "no loaded file"));
}

/* The query, an explanation and the stats page say that nothing is cached, and why. */
static void check_told(const char *memory)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    struct hmreg_explanation explanation = {.size = sizeof(explanation)};
    struct hmreg_mr *mr = fixture_get(memory, 10);

    assert_true(hmreg_monitor_query(fixture.lib, &info) == 0);
    assert_true(info.active == HMREG_MONITOR_DISABLED && strstr(info.why, "munmap()"));
    assert_true(hmreg_mr_explain(mr, &explanation) == 0);
    assert_true(strcmp(explanation.uncached_why, info.why) == 0);
    assert_true(inside_shown_monitor(fixture.lib) == HMREG_MONITOR_DISABLED);
    assert_true(strcmp(inside_shown_why(fixture.lib), info.why) == 0);
    hmreg_mr_put(mr);
}

/* The same while the library is open: it does not cache memory whose changes it cannot detect. */
static void jump_to_nowhere_later(const char *file)
{
    char *memory = fixture_map(1), *other = fixture_map(1);
    uint8_t *page = mmap(NULL, fixture_page(), PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    opened_first();
    if (page == MAP_FAILED)
        _exit(ABSENT);
    assert_true(fixture_key(memory, 10) == 1);
    if (!patch_jump((void *)munmap, page))
        _exit(ABSENT);
    fixture_key(other, 10);
    assert_true(fixture_stats().uncached == 1);
    assert_true(fixture_key(memory, 10) != 1);
    assert_true(fixture_stats().uncached == 2);
    check_told(memory);
}

/* Another library comes after hits, and enters the kernel in a form that cannot be hooked. */
static void load_unusual_later(const char *file)
{
    char *memory = fixture_map(1);

    opened_first();
    assert_true(fixture_key(memory, 10) == 1 && fixture_key(memory, 10) == 1);
    load(file);
    assert_true(fixture_key(memory, 10) != 1);
    assert_true(fixture_stats().uncached == 1);
    check_told(memory);
}

/* Of our jump in munmap() only the last byte: it leads elsewhere, which is noticed as well. */
static void change_last_byte(const char *file)
{
    const uint8_t *code = (const uint8_t *)(uintptr_t)munmap;
    uint8_t before[64], bytes[PATCH_SIZE];
    size_t at = sizeof(before) - 1;

    memcpy(before, code, sizeof(before));
    opened_first();
    while (at && code[at] == before[at])
        at--;
    at += 1 - PATCH_BRANCH;
    at -= at % PATCH_STEP;
    assert_true(at < sizeof(before));
    assert_true(fixture_key(fixture_map(1), 10) == 1);
    assert_true(fixture_stats().uncached == 0);
    memcpy(bytes, code + at, sizeof(bytes));
    bytes[PATCH_BRANCH - 1] ^= 0x40;
    if (!patch_bytes((void *)(uintptr_t)(code + at), bytes))
        _exit(ABSENT);
    fixture_key(fixture_map(1), 10);
    assert_true(fixture_stats().uncached == 1);
}

/* The same of theirs, which the library relies on since it was opened. */
static void change_their_last_byte(const char *file)
{
    uint8_t bytes[PATCH_SIZE];

    load(file);
    opened_first();
    assert_true(fixture_key(fixture_map(1), 10) == 1);
    assert_true(fixture_stats().uncached == 0);
    memcpy(bytes, (void *)munmap, sizeof(bytes));
    bytes[PATCH_BRANCH - 1] ^= 0x40;
    if (!patch_bytes((void *)munmap, bytes))
        _exit(ABSENT);
    fixture_key(fixture_map(1), 10);
    assert_true(fixture_stats().uncached == 1);
}

TEST(load__before_open__every_change_is_noticed)
{
    in_a_process(load_then_open, theirs);
}

TEST(load__after_open__every_change_is_noticed)
{
    in_a_process(open_then_load, theirs);
}

TEST(close__under_their_jumps__leaves_them)
{
    in_a_process(close_under_theirs, theirs);
}

TEST(load__before_open_and_undone__every_change_is_noticed)
{
    in_a_process(theirs_go, theirs);
}

TEST(load__after_open_and_undone__every_change_is_noticed)
{
    in_a_process(ours_come_back, theirs);
}

TEST(load__ucx_before_open__every_change_is_noticed)
{
    in_a_process(load_then_open, ucx);
}

TEST(load__ucx_after_open__every_change_is_noticed)
{
    in_a_process(open_then_load, ucx);
}

TEST(close__under_ucx__leaves_its_jumps)
{
    in_a_process(close_under_theirs, ucx);
}

TEST(open__where_a_jump_leads_nowhere__opnotsupp)
{
    in_a_process(jump_to_nowhere, "a jump");
}

TEST(get__where_a_jump_leads_nowhere_since__uncached)
{
    in_a_process(jump_to_nowhere_later, "a jump");
}

TEST(load__after_hits_and_cannot_be_hooked__uncached_and_why)
{
    in_a_process(load_unusual_later, TEST_PATCHER_UNUSUAL);
}

TEST(get__where_a_byte_of_our_jump_changed__uncached)
{
    in_a_process(change_last_byte, "a changed byte");
}

TEST(get__where_a_byte_of_their_jump_changed__uncached)
{
    in_a_process(change_their_last_byte, theirs);
}

TEST_MAIN()
#else
TEST(open__no_hooks_on_this_processor)
{
    test_skip("no hooks on this processor");
}

TEST_MAIN()
#endif
