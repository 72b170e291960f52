/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Counts the cache's system calls: a miss asks the kernel to watch its memory and what is mapped
 * there, and makes no further call if it did not wait; neighbours that end together are unwatched
 * together; a get of many ranges asks once, and takes the caches' lock once. The test interposes
 * ioctl() and pthread_mutex_lock().
 */
#include "tests/support/cache_fixture.h"

#include "core/base/reaper.h"
#include "core/cache/cache_set.h"
#include "core/context/context.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define PAGES 64
#define TURN  16 /* entries unwatched together */

static atomic_uint settles, watches, unwatches;

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    atomic_fetch_add(&settles, request == UFFDIO_COPY);
    atomic_fetch_add(&watches, request == UFFDIO_REGISTER);
    atomic_fetch_add(&unwatches, request == UFFDIO_UNREGISTER);
    return __real_ioctl(fd, request, arg);
}

/* Of one mutex, by one thread. */
static _Thread_local pthread_mutex_t *watched_lock;
static atomic_uint holds;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    atomic_fetch_add(&holds, lock == watched_lock);
    return __real_pthread_mutex_lock(lock);
}

static void open_fixture(void)
{
    reaper_set_idle(INT64_MAX); /* it would unwatch, too */
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
}

static void remember_each(char *memory, size_t pages)
{
    for (size_t i = 0; i < pages; i++)
        fixture_key(memory + i * fixture_page(), fixture_page());
}

TEST(miss__nothing_there_before__only_watches)
{
    char *memory = fixture_map(PAGES);

    open_fixture();
    settles = watches = 0;
    remember_each(memory, PAGES);
    assert_int_equal(watches, PAGES);
    assert_int_equal(settles, 0);
    fixture_close();
    munmap(memory, PAGES * fixture_page());
}

TEST(hit__by_the_tree__settles)
{
    char *memory = fixture_map(1);

    open_fixture();
    fixture_key(memory, fixture_page());
    settles = 0;
    assert_int_equal(fixture_key(memory + 1, 10), 1);
    assert_int_equal(settles, 1);
    fixture_close();
    munmap(memory, fixture_page());
}

/* ---- many ranges in one call -------------------------------------------------------------- */

static struct iovec iov[PAGES];
static struct hmreg_mr *mrs[PAGES];

static void *get_and_put_many(void *unused)
{
    /* Not counted: the growth of the thread's pin slots. */
    fixture_key(iov[PAGES - 1].iov_base, fixture_page());
    watched_lock = &fixture.domain->caches->pool.lock;
    settles = holds = 0;
    assert_ok(hmreg_mr_get_many(fixture.domain, iov, PAGES, HMREG_ACCESS_REMOTE, mrs));
    hmreg_mr_put_many(mrs, PAGES);
    watched_lock = NULL;
    return NULL;
}

static char *open_many(void)
{
    char *memory = fixture_map(PAGES);

    open_fixture();
    for (size_t i = 0; i < PAGES; i++)
        iov[i] = (struct iovec){memory + i * fixture_page(), fixture_page()};
    remember_each(memory, PAGES);
    return memory;
}

TEST(get_many__known_to_the_thread__one_question_and_no_lock)
{
    char *memory = open_many();

    get_and_put_many(&fixture);
    assert_int_equal(settles, 1);
    assert_int_equal(holds, 0);
    assert_int_equal(fixture_stats().hits, PAGES + 1);
    fixture_close();
    munmap(memory, PAGES * fixture_page());
}

TEST(get_many__known_to_another_thread__one_question_and_one_hold_of_the_lock)
{
    char *memory = open_many();
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, get_and_put_many, &fixture), 0);
    pthread_join(thread, NULL);
    assert_int_equal(settles, 1);
    assert_int_equal(holds, 1);
    assert_int_equal(fixture_stats().hits, PAGES + 1);
    assert_int_equal(atomic_load(&counter.regs), PAGES);
    fixture_close();
    munmap(memory, PAGES * fixture_page());
}

TEST(flush__neighbours__unwatched_together)
{
    size_t len = PAGES * fixture_page();
    char *memory = fixture_map(PAGES);
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    open_fixture();
    for (int round = 0; round < 2;
         round++) { /* the second uses the entries in the opposite order */
        remember_each(memory, PAGES);
        unwatches = 0;
        assert_ok(hmreg_domain_flush(fixture.domain));
        assert_in_range(unwatches, 1, PAGES / TURN + 1);
    }
    munmap(memory, len);
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.events, 0); /* none of it was still watched */
}

/* The kernel walks the pages that it unwatches. A large mapping is not unwatched at once, since the
 * program would pay for that with each region that it invalidates there. */
TEST(flush__large_mapping__unwatched_when_tidied)
{
    size_t pages = (40u << 20) / fixture_page();
    char *memory = fixture_map_at(fixture_reserve(pages), pages);
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    open_fixture();
    unwatches = 0;
    for (int round = 0; round < 10; round++) {
        fixture_key(memory, pages * fixture_page());
        assert_ok(hmreg_domain_flush(fixture.domain));
    }
    assert_int_equal(unwatches, 0);
    assert_true(monitor_tidy(fixture.lib->monitor));
    assert_false(monitor_tidy(fixture.lib->monitor));
    assert_in_range(unwatches, 1, 2); /* 2 where the mapping crosses a multiple of 1 GiB */
    munmap(memory, pages * fixture_page());
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.events, 0);
}

TEST(flush__neighbour_of_another_domain__stays_watched)
{
    char *memory = fixture_map(PAGES), *middle = memory + PAGES / 2 * fixture_page();
    struct fixture other;

    open_fixture();
    other = (struct fixture){fixture.lib, counter_open_more(fixture.lib, NULL)};
    remember_each(memory, PAGES);
    fixture_key_in(&other, middle, fixture_page());
    assert_ok(hmreg_domain_flush(fixture.domain));
    munmap(memory, PAGES * fixture_page());
    assert_int_equal(fixture_stats_in(&other).invalidations, 1);
    assert_ok(hmreg_domain_close(other.domain));
}

TEST_MAIN()
