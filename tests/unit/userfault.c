/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's events at moments that tests of the cache cannot choose: between a change and its
 * reading. The test interposes the monitor thread's read.
 */
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

/* Another thread registers at the new place before the move is known: it stays watched. */
static void move__new_place_watched_before_it_is_read__stays_watched(void **state)
{
    struct userfault_client client = {.needs = need_nothing};
    struct change_reader reader;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *from = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *to = from + 2 * page;
    int rc = userfault_open(&client, true, &userfault);

    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    assert_int_equal(munmap(to, page), 0); /* unmapped already: no event */
    assert_true(userfault_watch(userfault, (uintptr_t)from, (uintptr_t)from + page));
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

TEST_MAIN(TEST(move__new_place_watched_before_it_is_read__stays_watched))
