/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Host memory that changes under the cache: every way to lose a page, and memory that is not cached
 * because its changes would go unnoticed. A stale hit would return the key of the earlier
 * registration. Run with each monitor that notices by itself: see fixture_monitor().
 */
#include "tests/support/cache_fixture.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static void open_fixture(void)
{
    fixture_open(fixture_monitor(), NULL);
}

/* ---- every way to lose a page ----------------------------------------------------------- */

TEST(munmap__mapped_anew__registered_anew)
{
    size_t len = 4 * fixture_page();
    char *memory = fixture_map(4);

    open_fixture();
    assert_int_equal(fixture_key(memory, len), 1);
    assert_int_equal(fixture_key(memory, len), 1);
    munmap(memory, len);
    assert_int_equal(fixture_stats().regions, 0);
    assert_int_equal(fixture_stats().invalidations, 1);
    fixture_map_again(memory, len);
    assert_int_equal(fixture_key(memory, len), 2);
    munmap(memory, len);
}

static long past_libc(long number, void *addr, size_t len)
{
    long result;

#if defined(__x86_64__)
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(addr), "S"(len)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = (long)addr;
    register long x1 __asm__("x1") = (long)len;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
    result = x0;
#else
    test_skip("no system call past libc on this processor");
#endif
    return result;
}

TEST(munmap__past_libc__registered_anew)
{
    size_t len = 4 * fixture_page();
    char *memory = fixture_map(4);

    open_fixture();
    if (!fixture_has_kernel_events()) {
        fixture_close();
        test_skip("only the kernel tells of this, and it may not");
    }
    fixture_key(memory, len);
    assert_int_equal(past_libc(SYS_munmap, memory, len), 0);
    fixture_map_again(memory, len);
    assert_int_equal(fixture_key(memory, len), 2);
    munmap(memory, len);
}

/* The kernel rounds the length up to whole pages. */
TEST(call__ends_within_a_page__whole_page_is_reported)
{
    size_t page = fixture_page();
    char *memory = fixture_map(2),
         *end = memory + 2 * page - 64; /* the end of the registered range */

    open_fixture();
    assert_int_equal(fixture_key(end, 64), 1);
    assert_int_equal(madvise(memory, page + 1, MADV_DONTNEED), 0);
    assert_int_equal(fixture_key(end, 64), 2);
    assert_ptr_equal(mmap(memory, page + 1, PROT_READ | PROT_WRITE, MAP_FIXED | ANONYMOUS, -1, 0),
                     memory);
    assert_int_equal(fixture_key(end, 64), 3);
    assert_ptr_equal(mremap(memory, page + 1, 1, 0), memory);
    fixture_map_again(memory + page, page);
    assert_int_equal(fixture_key(end, 64), 4);
    munmap(memory, page + 1);
    fixture_map_again(memory, 2 * page);
    assert_int_equal(fixture_key(end, 64), 5);
    munmap(memory, 2 * page);
}

TEST(munmap__a_page_in_the_middle__only_what_touches_it_goes)
{
    size_t page = fixture_page();
    char *memory = fixture_map(5);

    open_fixture();
    assert_int_equal(fixture_key(memory, 2 * page), 1);
    assert_int_equal(fixture_key(memory + 2 * page, 10), 2);
    assert_int_equal(fixture_key(memory + 3 * page, 2 * page), 3);
    munmap(memory + 2 * page, page);
    assert_int_equal(fixture_stats().invalidations, 1);
    assert_int_equal(fixture_key(memory, 2 * page), 1);
    assert_int_equal(fixture_key(memory + 3 * page, 2 * page), 3);
    fixture_map_again(memory + 2 * page, page);
    assert_int_equal(fixture_key(memory + 2 * page, 10), 4);
    munmap(memory, 5 * page);
}

static void advice_throws_away(int advice)
{
    size_t page = fixture_page();
    char *memory = fixture_map(3);

    open_fixture();
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(memory + page, page), 2);
    assert_int_equal(madvise(memory + page, page, advice), 0);
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(memory + page, page), 3);
    /* The same mapping is still watched, for the new region. */
    assert_int_equal(madvise(memory + page, page, advice), 0);
    assert_int_equal(fixture_key(memory + page, page), 4);
    munmap(memory, 3 * page);
    fixture_close();
}

TEST(madvise__dontneed__registered_anew)
{
    advice_throws_away(MADV_DONTNEED);
}

TEST(mremap__moved_away__neither_place_is_served)
{
    size_t len = 2 * fixture_page();
    char *memory = fixture_map(2), *target = fixture_map(2), *moved;

    open_fixture();
    fixture_key(memory, len);
    moved = mremap(memory, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    assert_ptr_equal(moved, target);
    assert_int_equal(fixture_key(moved, len), 2);
    fixture_map_again(memory, len);
    assert_int_equal(fixture_key(memory, len), 3);
    assert_int_equal(fixture_key(moved, len), 2);
    munmap(memory, len);
    munmap(moved, len);
}

/* malloc returns the heap's top to the kernel with its own lock held: a monitor that allocates
 * would deadlock. */
TEST(malloc_trim__watched_heap__no_deadlock)
{
    char *blocks[64];

    open_fixture();
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    for (int i = 0; i < 64; i++) {
        blocks[i] = malloc(100000);
        fixture_key(blocks[i], 100000);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    malloc_trim(0);
    for (int i = 0; i < 64; i++) {
        blocks[i] = malloc(100000);
        fixture_key(blocks[i], 100000);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
}

struct on_stack {
    struct fixture *fixture;
    char *addr;
    uint64_t key;
};

static void *get_on_stack(void *arg)
{
    struct on_stack *on_stack = arg;
    char buffer[65536];

    memset(buffer, 's', sizeof(buffer));
    on_stack->addr = buffer;
    on_stack->key = fixture_key_in(on_stack->fixture, buffer, sizeof(buffer));
    return NULL;
}

TEST(thread_stack__of_a_dead_thread_reused__registered_anew)
{
    size_t len = 1 << 20;
    char *stack = fixture_map(len / fixture_page());
    struct on_stack seen[2];
    pthread_attr_t attr;

    open_fixture();
    pthread_attr_init(&attr);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;

        seen[i].fixture = &fixture;
        assert_int_equal(pthread_attr_setstack(&attr, stack, len), 0);
        assert_int_equal(pthread_create(&thread, &attr, get_on_stack, &seen[i]), 0);
        pthread_join(thread, NULL);
        munmap(stack, len);
        if (i == 0)
            fixture_map_again(stack, len);
    }
    pthread_attr_destroy(&attr);
    assert_int_equal(fixture_stats().uncached, 0);
    assert_ptr_equal(seen[0].addr, seen[1].addr);
    assert_int_not_equal(seen[0].key, seen[1].key);
}

TEST(munmap__region_in_use__ends_with_its_last_put)
{
    size_t len = fixture_page();
    char *memory = fixture_map(1);
    struct hmreg_mr *held;

    open_fixture();
    held = fixture_get(memory, len);
    munmap(memory, len);
    assert_int_equal(fixture_stats().retired, 1);
    fixture_map_again(memory, len);
    assert_int_equal(fixture_key(memory, len), 2);
    assert_int_equal(hmreg_mr_key(held), 1);
    hmreg_mr_put(held);
    assert_int_equal(fixture_stats().retired, 0);
    munmap(memory, len);
}

/* ---- memory that is not cached ---------------------------------------------------------- */

static void assert_cached(const void *addr, size_t len, bool cached)
{
    struct hmreg_mr *mr = fixture_get(addr, len);

    if (fixture_is_cached(mr) != cached)
        fail_msg("memory at %p is%s cached", addr, cached ? " not" : "");
    hmreg_mr_put(mr);
}

/* The kernel module's counts are of any memory. */
static bool notices_all(void)
{
    return fixture_monitor() == HMREG_MONITOR_COUNTER;
}

/* Of a file that another mapping or process may change. */
static void assert_cached_as_noticed(int fd, int flags)
{
    size_t len = 2 * fixture_page();
    char *memory;

    open_fixture();
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    memory = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, len);
    assert_cached(memory, len, notices_all());
    if (notices_all()) {
        uint64_t key = fixture_key(memory, len);

        assert_int_equal(fixture_key(memory, len), key);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        assert_int_equal(fixture_key(memory, len), key + 1);
    } else {
        assert_int_equal(fixture_stats().uncached, 1);
    }
    munmap(memory, len);
    assert_int_equal(fixture_events(), notices_all() ? 2 : 0);
    fixture_close();
}

TEST(get__memfd__cached_if_each_change_is_noticed)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_cached_as_noticed(fd, MAP_SHARED);
    assert_cached_as_noticed(fd, MAP_PRIVATE);
    close(fd);
}

TEST_MAIN()
