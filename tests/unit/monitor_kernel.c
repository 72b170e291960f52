/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Consequences of the kernel's events: the time between a change and its event, and the cost of
 * watching for others. For userfaultfd only; monitor.c tests what every monitor must notice.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"

#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

static void open_fixture(void)
{
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
}

/* ---- between a change and its event ----------------------------------------------------- */

/* Where the test holds the thread that reads the kernel's events. */
enum place { NOWHERE, BEFORE_READING, AFTER_READING };

static struct {
    _Atomic enum place place;
    sem_t reached, go_on;
} obstacle;

static bool is_monitors_thread(void)
{
    char name[16] = "";

    pthread_getname_np(pthread_self(), name, sizeof(name));
    return !strcmp(name, "hmreg-monitor");
}

static void come_by(enum place place)
{
    if (atomic_load(&obstacle.place) != place || !is_monitors_thread())
        return;
    sem_post(&obstacle.reached);
    while (sem_wait(&obstacle.go_on))
        ;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int rc = __real_poll(fds, count, timeout);

    if (rc > 0 && fds[0].revents)
        come_by(BEFORE_READING);
    return rc;
}

/* Puts events behind those read: an end of all memory, which would leave nothing cached. */
static void fill_behind(char *buffer, size_t used, size_t size)
{
    static const struct uffd_msg end = {.event = UFFD_EVENT_UNMAP,
                                        .arg.remove = {.end = UINT64_MAX}};

    for (; used + sizeof(end) <= size; used += sizeof(end))
        memcpy(buffer + used, &end, sizeof(end));
}

ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
    ssize_t rc = __real_read(fd, buffer, size);

    if (rc > 0 && rc % sizeof(struct uffd_msg) == 0 && is_monitors_thread())
        fill_behind(buffer, (size_t)rc, size);
    come_by(AFTER_READING);
    return rc;
}

static void raise_obstacle(enum place place)
{
    sem_init(&obstacle.reached, 0, 0);
    sem_init(&obstacle.go_on, 0, 0);
    atomic_store(&obstacle.place, place);
}

static void await_obstacle(void)
{
    while (sem_wait(&obstacle.reached))
        ;
}

static void remove_obstacle(void)
{
    atomic_store(&obstacle.place, NOWHERE);
    sem_post(&obstacle.go_on);
}

static atomic_uint questions; /* to the kernel, whether it has settled */

struct userfault;

bool __real_userfault_sync(const struct userfault *userfault);
bool __wrap_userfault_sync(const struct userfault *userfault);

bool __wrap_userfault_sync(const struct userfault *userfault)
{
    atomic_fetch_add(&questions, 1);
    return __real_userfault_sync(userfault);
}

struct unmapping {
    char *addr;
    size_t len;
};

static void *unmap_it(void *arg)
{
    struct unmapping *unmapping = arg;

    munmap(unmapping->addr, unmapping->len);
    return NULL;
}

/* A thread whose thread cache has the region that it gets again. */
struct getting {
    char *addr;
    size_t len;
    sem_t remembers, go_on;
    pthread_t thread;
    _Atomic uint64_t key;
};

static void *get_it(void *arg)
{
    struct getting *getting = arg;

    fixture_key(getting->addr, getting->len);
    fixture_key(getting->addr, getting->len);
    sem_post(&getting->remembers);
    sem_wait(&getting->go_on);
    getting->key = fixture_key(getting->addr, getting->len);
    return NULL;
}

/* Lets it get again, until it waits for the kernel, or has got. */
static void let_get(struct getting *getting)
{
    unsigned before = atomic_load(&questions);

    sem_post(&getting->go_on);
    test_wait_until(atomic_load(&questions) != before || getting->key);
}

static void remember(struct getting *getting, char *addr, size_t len)
{
    *getting = (struct getting){.addr = addr, .len = len};
    sem_init(&getting->remembers, 0, 0);
    sem_init(&getting->go_on, 0, 0);
    assert_int_equal(pthread_create(&getting->thread, NULL, get_it, getting), 0);
    sem_wait(&getting->remembers);
}

/* munmap() has returned; the monitor has read the event, and not pushed it yet. */
TEST(get__change_read_but_not_pushed__waits_for_it)
{
    size_t len = fixture_page();
    char *memory = fixture_map(1);
    struct getting getting;

    open_fixture();
    fixture_key(memory, len);
    remember(&getting, memory, len);
    raise_obstacle(AFTER_READING);
    munmap(memory, len);
    await_obstacle();
    fixture_map_again(memory, len);
    let_get(&getting);
    remove_obstacle();
    pthread_join(getting.thread, NULL);
    assert_int_equal(getting.key, 2);
    munmap(memory, len);
}

/* The getter's memory is unmapped and mapped again while the reading thread is held: munmap() has
 * not returned, but the address is free. No gate is marked; only the kernel knows. */
TEST(get__change_not_even_read__asks_the_kernel)
{
    size_t len = fixture_page();
    char *memory = fixture_map(1);
    struct unmapping unmapping = {memory, len};
    struct getting getting;
    pthread_t unmapper;

    open_fixture();
    fixture_key(memory, len);
    remember(&getting, memory, len);
    raise_obstacle(BEFORE_READING);
    assert_int_equal(pthread_create(&unmapper, NULL, unmap_it, &unmapping), 0);
    await_obstacle();
    fixture_map_again(memory, len);
    let_get(&getting);
    remove_obstacle();
    pthread_join(unmapper, NULL);
    pthread_join(getting.thread, NULL);
    assert_int_equal(getting.key, 2);
    munmap(memory, len);
}

/* A domain opened while events are being read has an unmarked gate; what it registers then is
 * watched after the reading. */
static void *open_and_get(void *arg)
{
    struct getting *getting = arg;
    struct fixture later = {fixture.lib, counter_open_more(fixture.lib, NULL)};

    getting->key = fixture_key_in(&later, getting->addr, getting->len);
    assert_ok(hmreg_domain_close(later.domain));
    return NULL;
}

TEST(domain_open__while_events_are_read__waits_for_the_reading)
{
    size_t len = fixture_page();
    char *first = fixture_map(1), *memory = fixture_map(1);
    struct getting getting = {.addr = memory, .len = len};

    open_fixture();
    fixture_key(first, len);
    raise_obstacle(AFTER_READING);
    munmap(first, len);
    await_obstacle();
    assert_int_equal(pthread_create(&getting.thread, NULL, open_and_get, &getting), 0);
    test_wait_until_others_sleep();
    assert_int_equal(atomic_load(&counter.regs), 1);
    remove_obstacle();
    pthread_join(getting.thread, NULL);
    assert_int_equal(getting.key, 2);
    munmap(memory, len);
}

static sem_t in_fabric, leave_fabric;

/* Holds the second registration. */
static void wait_in_fabric(const struct provider_request *request)
{
    if (atomic_load(&counter.regs) != 2)
        return;
    sem_post(&in_fabric);
    sem_wait(&leave_fabric);
}

static void *get_pending(void *arg)
{
    struct getting *getting = arg;

    getting->key = fixture_key(getting->addr, getting->len);
    return NULL;
}

/* Does another thread wait for the kernel, or for another's registration? */
static bool one_waits(unsigned before)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    return stats.waiting || atomic_load(&questions) != before;
}

/* One thread registers memory that another unmaps meanwhile, and the reading thread is held. A get
 * of the new memory finds no cached region to validate, but one being registered: it must ask the
 * kernel before it uses that. */
TEST(get__registered_meanwhile_and_its_change_not_read__asks_the_kernel)
{
    size_t len = fixture_page();
    char *first = fixture_map(1), *memory = fixture_map(1);
    struct unmapping unmapping = {memory, len};
    struct getting early, late;
    pthread_t unmapper;
    unsigned before;

    open_fixture();
    early = late = (struct getting){.addr = memory, .len = len};
    sem_init(&in_fabric, 0, 0);
    sem_init(&leave_fabric, 0, 0);
    assert_int_equal(fixture_key(first, len), 1);
    counter.reg_hook = wait_in_fabric;
    assert_int_equal(pthread_create(&early.thread, NULL, get_pending, &early), 0);
    sem_wait(&in_fabric);
    raise_obstacle(BEFORE_READING);
    assert_int_equal(pthread_create(&unmapper, NULL, unmap_it, &unmapping), 0);
    await_obstacle();
    fixture_map_again(memory, len);
    before = atomic_load(&questions);
    assert_int_equal(pthread_create(&late.thread, NULL, get_pending, &late), 0);
    test_wait_until(one_waits(before));
    sem_post(&leave_fabric);
    pthread_join(early.thread, NULL);
    remove_obstacle();
    pthread_join(unmapper, NULL);
    pthread_join(late.thread, NULL);
    assert_int_equal(early.key, 2); /* its own mistake: it was unmapped during the get */
    assert_int_equal(late.key, 3);
    counter.reg_hook = NULL;
    munmap(memory, len);
    munmap(first, len);
}

/* Memory is unmapped, and the event is not read: a get neither waits for ever nor returns a cached
 * region. */
TEST(get__the_kernel_does_not_settle__served_uncached)
{
    size_t len = fixture_page();
    char *second = fixture_map(1), *memory = fixture_map(1);
    struct unmapping unmapping = {second, len};
    pthread_t unmapper;
    struct hmreg_mr *mr;

    open_fixture();
    fixture_key(second, len);
    assert_int_equal(fixture_key(memory, len), 2);
    raise_obstacle(BEFORE_READING);
    assert_int_equal(pthread_create(&unmapper, NULL, unmap_it, &unmapping), 0);
    await_obstacle();
    fixture_map_again(second, len);
    inside_set_tries(10);
    mr = fixture_get(memory, len);
    inside_set_tries(UINT_MAX);
    assert_false(fixture_is_cached(mr));
    assert_int_equal(hmreg_mr_key(mr), 3);
    hmreg_mr_put(mr);
    assert_int_equal(atomic_load(&counter.regions), 2);
    remove_obstacle();
    pthread_join(unmapper, NULL);
    assert_int_equal(fixture_key(memory, len), 2);
    munmap(second, len);
    munmap(memory, len);
}

/* ---- cost of watching ------------------------------------------------------------------- */

TEST(munmap__of_what_no_region_covers_any_more__no_event)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 1};
    size_t len = 4 * fixture_page();
    char *evicted = fixture_map(4), *flushed = fixture_map(4), *invalidated = fixture_map(4);

    fixture_open(HMREG_MONITOR_USERFAULTFD, &config);
    fixture_key(evicted, len);
    fixture_key(flushed, len);
    munmap(evicted, len);
    assert_ok(hmreg_domain_flush(fixture.domain));
    munmap(flushed, len);
    fixture_key(invalidated, len);
    assert_ok(hmreg_invalidate(fixture.lib, invalidated, len));
    assert_ok(hmreg_domain_flush(fixture.domain));
    munmap(invalidated, len);
    assert_int_equal(fixture_events(), 0);
}

TEST(munmap__of_memory_that_had_moved__no_event)
{
    size_t len = 4 * fixture_page();
    char *memory = fixture_map(4), *target = fixture_map(4);
    uint64_t before;

    open_fixture();
    fixture_key(memory, len);
    assert_ptr_equal(mremap(memory, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, target), target);
    assert_ok(hmreg_domain_flush(fixture.domain)); /* ends its region and the watch */
    before = fixture_events();
    munmap(target, len);
    assert_int_equal(fixture_events(), before);
}

/* A mapping is watched as long as it contains a region, and no longer. */
TEST(unwatch__mapping_of_another_region__stays_watched)
{
    char *memory = fixture_map(4);
    size_t page = fixture_page();

    open_fixture();
    assert_int_equal(fixture_key(memory, page + 100), 1);
    assert_int_equal(fixture_key(memory + page + 200, page), 2);
    assert_ok(hmreg_invalidate(fixture.lib, memory, 1));
    assert_int_equal(fixture_key(memory + page + 200, page), 2);
    assert_int_equal(atomic_load(&counter.deregs), 1);
    assert_int_equal(fixture_events(), 0);
    madvise(memory + page, page, MADV_DONTNEED);
    assert_int_equal(fixture_events(), 1);
    assert_int_equal(fixture_key(memory + page + 200, page), 3);
    assert_ok(hmreg_invalidate(fixture.lib, memory + page + 200, 1));
    assert_ok(hmreg_domain_flush(fixture.domain));
    munmap(memory, 4 * page);
    assert_int_equal(fixture_events(), 1);
}

TEST_MAIN()
