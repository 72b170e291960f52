/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's events at moments that tests of the cache cannot choose: between a change and its
 * reading, for which the test interposes the monitor thread's read; and after changes were lost.
 */
#include "core/base/maps.h"
#include "core/monitor/change_queue.h"
#include "core/monitor/userfaultfd/userfault.h"

#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/hmreg.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct userfault *userfault;
/* Watched before the next events are read; start, written last, is 0 until then. */
static _Atomic uint64_t start, end;
static atomic_bool watched;

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int rc = __real_poll(fds, count, timeout);

    if (start && !atomic_exchange(&watched, true))
        userfault_watch(userfault, start, end);
    return rc;
}

static bool is_reported(struct change_reader *reader)
{
    struct change change;
    bool found = false;

    while (changes_next(reader, &change))
        found |= change.start <= start && end <= change.end;
    return found;
}

static bool need_nothing(struct userfault_client *client, uint64_t from, uint64_t to,
                         struct span *out)
{
    return false;
}

/* Maps `pages` and watches the first ones, which are `watched_pages`; the others are free again. */
static char *open_and_watch(struct userfault_client *client, size_t watched_pages, size_t pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = watched_pages * page;
    char *memory =
        mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc = userfault_open(client, true, &userfault);

    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    assert_int_equal(munmap(memory + len, pages * page - len), 0);
    assert_true(userfault_watch(userfault, (uintptr_t)memory, (uintptr_t)memory + len));
    return memory;
}

/* Another thread registers at the new place before the move is known: it stays watched. */
static void move__new_place_watched_before_it_is_read__stays_watched(void **state)
{
    struct userfault_client client = {.needs = need_nothing};
    struct change_reader reader;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *from = open_and_watch(&client, 2, 3);
    char *to = from + 2 * page;

    changes_start(&reader);
    end = (uintptr_t)to + page;
    start = (uintptr_t)to;
    assert_ptr_equal(mremap(from, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    assert_true(userfault_sync(userfault));
    assert_true(atomic_load(&watched));
    assert_false(is_reported(&reader));
    assert_int_equal(madvise(to, page, MADV_DONTNEED), 0);
    assert_true(userfault_sync(userfault));
    assert_true(is_reported(&reader));
    userfault_close(userfault, &client);
    munmap(from, 3 * page);
}

static uint64_t events(void)
{
    assert_true(userfault_sync(userfault));
    return userfault_events(userfault);
}

/* The event has the old length. What the memory has grown by adjoins it no more when the move is
 * unwatched, and the change that divided them is lost. */
static void move__grown_and_changes_lost__growth_unwatched(void **state)
{
    static const struct change elsewhere = {.start = 1, .end = 2, .source = CHANGE_KERNEL};
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct owned_fd list = maps_keep();
    char *from, *to;
    uint64_t before;

    if (list.fd < 0)
        test_skip("this kernel's list of mappings is read as text (no PROCMAP_QUERY)");
    owned_fd_close(&list);
    from = open_and_watch(&client, 1, 6);
    to = from + 2 * page;
    assert_ptr_equal(mremap(from, page, 3 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    before = events();
    assert_int_equal(munmap(to + page, page), 0);
    assert_int_equal(events(), before + 1);
    for (unsigned i = 0; i <= CHANGES_SIZE; i++)
        changes_push(&elsewhere);
    while (userfault_tidy(userfault))
        ;
    before = events();
    assert_int_equal(munmap(to, 3 * page), 0);
    assert_int_equal(events(), before);
    userfault_close(userfault, &client);
}

/* The client of the case below has a region there. */
static struct span needed;

static bool need_it(struct userfault_client *client, uint64_t from, uint64_t to, struct span *out)
{
    *out = needed;
    return from < needed.end && needed.start < to;
}

static void hole__between_two_regions__each_side_unwatched_alone(void **state)
{
    struct userfault_client client = {.needs = need_it};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = open_and_watch(&client, 5, 6), *last = memory + 4 * page;
    uint64_t before = events();

    needed = (struct span){(uintptr_t)last, (uintptr_t)last + page};
    assert_int_equal(munmap(memory + 2 * page, page), 0);
    assert_int_equal(events(), before + 1);
    userfault_unwatch(userfault, (uintptr_t)memory, (uintptr_t)memory + page, false);
    assert_int_equal(munmap(memory, 2 * page), 0);
    assert_int_equal(events(), before + 1);
    assert_int_equal(munmap(last, page), 0);
    assert_int_equal(events(), before + 2);
    userfault_close(userfault, &client);
    munmap(memory, 5 * page);
}

TEST_MAIN(TEST(move__new_place_watched_before_it_is_read__stays_watched),
          TEST(move__grown_and_changes_lost__growth_unwatched),
          TEST(hole__between_two_regions__each_side_unwatched_alone))
