/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reuse of host memory's addresses, a hundred thousand times, by every way to free and allocate:
 * malloc and free, munmap and mmap, brk, mremap, the stacks of threads that end and start. Each
 * time the test gets a region of the new memory, a peer writes through it and reads, and the bytes
 * are compared. The peer is the kernel, which uses the pages that the region has pinned (ring.h):
 * bytes written through a stale region are lost, as on hardware. Device memory: tests/gpu/reuse.c.
 */
#include "tests/support/kernel_monitor.h"
#include "tests/support/pinning.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#if TEST_TSAN || TEST_ASAN
#define PART 20 /* of the usual number of times */
#else
#define PART 1
#endif

#if TEST_ASAN
#define HOARDS true /* malloc keeps freed memory */
#else
#define HOARDS false
#endif

#if TEST_TSAN
#define FOLLOWS_TO_THE_END false /* libc unmaps after ThreadSanitizer has ended a thread */
#else
#define FOLLOWS_TO_THE_END true
#endif

#define LEN      8192
#define REMEMBER 256 /* recent addresses */

static struct {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    enum hmreg_monitor monitor;
    size_t page;
    void *before[REMEMBER];
    unsigned memories, reused;
    unsigned wrong; /* stale, or another error; counted on any thread */
} t;

/* ---- one memory ------------------------------------------------------------------------- */

static bool was_there_before(const void *memory)
{
    for (unsigned i = 0; i < REMEMBER; i++)
        if (t.before[i] == memory)
            return true;
    return false;
}

static struct hmreg_mr *get(const void *memory, size_t len)
{
    struct hmreg_mr *mr = NULL;

    if (hmreg_mr_get(t.domain, memory, len, HMREG_ACCESS_REMOTE, &mr))
        t.wrong++;
    return mr;
}

static void exchange(struct hmreg_mr *mr, char *place, unsigned number)
{
    const struct pinned *region = pinned_of(mr);
    uint64_t at = (uint64_t)(uintptr_t)place;
    char out[24], in[24] = "";

    snprintf(out, sizeof(out), "memory %u", number);
    if (pinned_write(region, at, out, sizeof(out)) || memcmp(place, out, sizeof(out)))
        t.wrong++;
    snprintf(place, sizeof(out), "answer %u", number);
    if (pinned_read(region, at, in, sizeof(in)) || memcmp(place, in, sizeof(in)))
        t.wrong++;
}

/* Uses memory that was just allocated and is freed afterwards. */
static void use(char *memory, size_t len)
{
    unsigned number = t.memories++;

    t.reused += was_there_before(memory);
    t.before[number % REMEMBER] = memory;
    for (int i = 0; i < 2; i++) { /* the second is a hit if this memory is watched */
        struct hmreg_mr *mr = get(memory, len);

        if (!mr)
            return;
        exchange(mr, memory + number * 40 % (len - 24), number);
        hmreg_mr_put(mr);
    }
}

/* An application that reports changes itself does so before it frees. */
static void report(const void *memory, size_t len)
{
    if (t.monitor == HMREG_MONITOR_IMPORT && hmreg_invalidate(t.lib, memory, len))
        t.wrong++;
}

/* ---- ways to allocate and free, once each ----------------------------------------------- */

static void by_malloc(unsigned round)
{
    size_t len = 64 + round * 97 % LEN;
    char *memory = malloc(len);

    use(memory, len);
    report(memory, len);
    free(memory);
}

static char *place; /* four pages reserved here: two and two more */
static bool place_is_free;

static void find_place(void)
{
    place = mmap(NULL, 4 * LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(place, MAP_FAILED);
    place_is_free = false;
}

/* A thread of a sanitizer or of the library may have mapped something at a free place, which must
 * not be replaced. Then the test uses another place. */
static bool map_at(char *at, int protection, bool is_free)
{
    int fixed = is_free ? MAP_FIXED_NOREPLACE : MAP_FIXED;
    char *memory = mmap(at, LEN, protection, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

    t.wrong += memory != at && errno != EEXIST;
    if (memory != at)
        find_place();
    return memory == at;
}

static void by_mmap(unsigned round)
{
    if (!map_at(place, PROT_READ | PROT_WRITE, place_is_free))
        return;
    use(place, LEN);
    report(place, LEN);
    if (round % 3 == 0)
        madvise(place, LEN, MADV_DONTNEED);
    place_is_free = round % 3 == 1;
    if (place_is_free)
        munmap(place, LEN);
    /* else the next round maps over it */
}

/* Back and forth, with new pages at the old address. */
static void by_mremap(unsigned round)
{
    char *other = place + 2 * LEN;
    char *to = round % 2 ? place : other, *from = round % 2 ? other : place;

    if (!map_at(from, PROT_READ | PROT_WRITE, place_is_free && from == place))
        return;
    place_is_free = false;
    use(from, LEN);
    report(from, LEN);
    report(to, LEN);
    if (mremap(from, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
        t.wrong++;
    use(to, LEN);
    report(to, LEN);
    map_at(from, PROT_NONE, true); /* the next round moves or maps over it */
}

/* malloc uses no brk on this thread, since it is not the main thread. */
static void by_brk(unsigned round)
{
    char *memory = sbrk(4 * LEN);
    char *inside = memory + ((uintptr_t) - (uintptr_t)memory & (t.page - 1));

    use(inside, LEN);
    report(memory, 4 * LEN);
    if (sbrk(-4 * LEN) == (void *)-1)
        t.wrong++;
}

static void *live_shortly(void *arg)
{
    char memory[8 * LEN]; /* libc discards the far end's pages */

    memset(memory, 0, LEN);
    use(memory, LEN);
    report(memory, LEN);
    return NULL;
}

/* libc gives the stack of an ended thread to the next one, without its pages. */
static void by_stack(unsigned round)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, live_shortly, NULL))
        t.wrong++;
    else
        pthread_join(thread, NULL);
}

/* ---- cases ------------------------------------------------------------------------------ */

static void open_ring(void)
{
    int rc = ring_open(&pinning.ring);

    if (rc)
        test_skip("the kernel permits no io_uring: %s", strerror(-rc));
}

static void open_all(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    int rc;

    memset(&t, 0, sizeof(t));
    pinning_reset();
    t.monitor = monitor;
    t.page = (size_t)sysconf(_SC_PAGESIZE);
    rc = hmreg_open(&config, &t.lib);
    if (rc == -EPERM || rc == -ENOSYS || rc == -EOPNOTSUPP)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    open_ring();
    assert_ok(pinning_open(t.lib, NULL, &t.domain));
    find_place();
}

static void close_all(void)
{
    munmap(place + (place_is_free ? LEN : 0), (place_is_free ? 3 : 4) * LEN);
    assert_ok(hmreg_domain_close(t.domain));
    assert_ok(hmreg_close(t.lib));
    ring_close(pinning.ring);
    pinning.ring = NULL;
    assert_string_equal(pinning_complaint(), "");
}

static struct {
    void (*once)(unsigned round);
    unsigned times;
} work;

static void *do_it(void *arg)
{
    for (unsigned round = 0; round < 100 * work.times && t.reused < work.times && !t.wrong; round++)
        work.once(round);
    return NULL;
}

/* On a thread that is not the main one, until so many addresses were reused. */
static void reuse(enum hmreg_monitor monitor, void (*once)(unsigned round), unsigned times)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct timespec from, to;

    open_all(monitor);
    work.once = once;
    work.times = (unsigned)test_times(times / PART);
    clock_gettime(CLOCK_MONOTONIC, &from);
    test_on_a_thread(do_it, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_int_equal(t.wrong, 0);
    assert_true(t.reused >= work.times);
    assert_ok(hmreg_domain_stats(t.domain, &stats));
    assert_int_equal(stats.hits + stats.misses + stats.uncached, 2 * t.memories);
    assert_true(stats.hits >= t.memories / 2);
    print_message("%u addresses reused in %.1f s: %llu hits, %llu misses, none stale\n", t.reused,
                  (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9,
                  (unsigned long long)stats.hits, (unsigned long long)stats.misses);
    close_all();
}

TEST(reuse__malloc__never_stale)
{
    if (HOARDS)
        test_skip("AddressSanitizer does not give out again what was freed");
    reuse(kernel_monitor(), by_malloc, 100000);
}

TEST(reuse__mmap__never_stale)
{
    reuse(kernel_monitor(), by_mmap, 100000);
}

TEST(reuse__mremap__never_stale)
{
    reuse(kernel_monitor(), by_mremap, 50000);
}

TEST(reuse__brk__never_stale)
{
    reuse(kernel_monitor(), by_brk, 50000);
}

TEST(reuse__stacks_of_threads__never_stale)
{
    reuse(kernel_monitor(), by_stack, 30000);
}

static void hooked(void (*once)(unsigned round), unsigned times)
{
    reuse(HMREG_MONITOR_MEMHOOKS, once, times);
}

TEST(hooks__every_way__never_stale)
{
    if (!HOARDS)
        hooked(by_malloc, 30000);
    hooked(by_mmap, 30000);
    hooked(by_mremap, 30000);
    hooked(by_brk, 30000);
    if (FOLLOWS_TO_THE_END)
        hooked(by_stack, 10000);
}

TEST(reuse__mmap_reported_by_the_application__never_stale)
{
    reuse(HMREG_MONITOR_IMPORT, by_mmap, 100000);
}

TEST_MAIN()
