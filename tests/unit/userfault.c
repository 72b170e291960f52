/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's events as a client hears them, at the moments that no test of the cache can choose:
 * between a change and its being read.
 */
#include "core/userfault.h"

#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/hmreg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct userfault *userfault;
/* Watched by the client before the next events are read; start, written last, is 0 until then. */
static _Atomic uint64_t start, end;
static atomic_bool told; /* that it changed */
static atomic_bool watched;

static void watch_now(struct userfault_client *client)
{
    if (start && !atomic_exchange(&watched, true))
        userfault_watch(userfault, start, end);
}

static void hear(struct userfault_client *client, const struct change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (changes[i].start <= start && end <= changes[i].end)
            atomic_store(&told, true);
}

static bool need_nothing(struct userfault_client *client, uint64_t from, uint64_t to,
                         struct span *out)
{
    return false;
}

/* Another thread registers at the new place before the move is known: its watch is not kept. */
static void move__new_place_watched_before_it_is_read__told_of_it(void **state)
{
    struct userfault_client client = {.expect = watch_now, .changed = hear, .needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *from = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *to = from + 2 * page;
    int rc = userfault_open(&client, &userfault);

    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    assert_int_equal(munmap(to, page), 0); /* nothing is there: no event of its going */
    assert_true(userfault_watch(userfault, (uintptr_t)from, (uintptr_t)from + page));
    end = (uintptr_t)to + page;
    start = (uintptr_t)to;
    assert_ptr_equal(mremap(from, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    assert_true(userfault_settle(userfault));
    assert_true(atomic_load(&watched));
    assert_true(atomic_load(&told));
    userfault_close(userfault, &client);
    munmap(from, 3 * page);
}

TEST_MAIN(TEST(move__new_place_watched_before_it_is_read__told_of_it))
