/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's events at moments that tests of the cache cannot choose: between a change and its
 * reading, for which the test interposes the monitor thread's read; and after changes were lost.
 */
#include "core/base/maps.h"
#include "core/monitor/change_queue.h"
#include "core/monitor/userfaultfd/userfault.h"

#include "tests/support/test.h"

#include <hmreg/hmreg.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct userfault *userfault;
/* Watched before the next events are read; start, written last, is 0 until then. */
static _Atomic uint64_t start, end;
static atomic_bool watched;
static _Atomic uint64_t stack; /* an address in the monitor thread's */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int rc;

    stack = (uintptr_t)__builtin_frame_address(0);
    rc = __real_poll(fds, count, timeout);
    if (start && !atomic_exchange(&watched, true))
        userfault_watch(userfault, start, end);
    return rc;
}

static bool by_text; /* the kernel answers no queries about mappings: it does since Linux 6.11 */

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    if (by_text && _IOC_TYPE(request) == 'f') {
        errno = ENOTTY;
        return -1;
    }
    return __real_ioctl(fd, request, arg);
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
    /* Pages without access on both sides, or a neighbour might be of the same mapping. */
    char *memory = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc = userfault_open(client, true, &userfault);

    assert_ptr_not_equal(memory, MAP_FAILED);
    memory += page;
    assert_int_equal(mprotect(memory, pages * page, PROT_READ | PROT_WRITE), 0);
    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    assert_int_equal(munmap(memory + len, pages * page - len), 0);
    assert_true(userfault_watch(userfault, (uintptr_t)memory, (uintptr_t)memory + len));
    return memory;
}

/* Another thread registers at the new place before the move is known: it stays watched. */
TEST(move__new_place_watched_before_it_is_read__stays_watched)
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

TEST(move__old_place_stays_mapped__reported_as_changed)
{
    struct userfault_client client = {.needs = need_nothing};
    struct change_reader reader;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 2 * page;
    char *from = open_and_watch(&client, 2, 4);

    changes_start(&reader);
    watched = true; /* nothing is watched while the event is read */
    end = (uintptr_t)from + len;
    start = (uintptr_t)from;
    if (mremap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED | 4, from + len) == MAP_FAILED)
        test_skip("no MREMAP_DONTUNMAP: %s", strerror(errno));
    assert_true(userfault_sync(userfault));
    assert_true(is_reported(&reader));
    userfault_close(userfault, &client);
    munmap(from, 4 * page);
}

static uint64_t events(void)
{
    assert_true(userfault_sync(userfault));
    return userfault_events(userfault);
}

TEST(move__list_of_mappings_read_as_text__new_place_unwatched)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 2 * page;
    char *from, *to;
    uint64_t before;

    by_text = true;
    from = open_and_watch(&client, 2, 4);
    to = from + len;
    assert_ptr_equal(mremap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    before = events();
    while (userfault_tidy(userfault))
        ;
    assert_int_equal(munmap(to, len), 0);
    assert_int_equal(events(), before);
    userfault_close(userfault, &client);
    by_text = false;
}

/* The event has the old length. What the memory has grown by adjoins it no more when the move is
 * unwatched, and the change that divided them is lost. */
TEST(move__grown_and_changes_lost__growth_unwatched)
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

TEST(hole__between_two_regions__each_side_unwatched_alone)
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

/* The child keeps the file open, in which no thread reads events any more. */
TEST(close__memory_watched_and_a_copy_in_a_child__unmaps_at_once)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = open_and_watch(&client, 1, 2);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* no fork handlers */
    int status;

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(child > 0);
    userfault_close(userfault, &client);
    assert_int_equal(munmap(memory, page), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static struct map mapping_at(uint64_t addr)
{
    struct map map = {.start = 0};
    struct maps maps;

    maps_begin(&maps, NULL);
    assert_int_equal(maps_next(&maps, addr, &map), 1);
    maps_end(&maps);
    return map;
}

/* Maps a page below the thread's stack, with the stack's flags. */
static char *map_below_stack(size_t page)
{
    char *below, *memory;

    while (!stack)
        sched_yield();
    below = (char *)(uintptr_t)mapping_at(stack).start - page;
    memory = mmap(below, page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != below) {
        if (memory != MAP_FAILED)
            munmap(memory, page);
        return NULL;
    }
    assert_int_equal(madvise(memory, page, MADV_DONTDUMP), 0);
    return memory;
}

/* The kernel makes one mapping of the two, which is always needed. */
TEST(close__watched_memory_merged_with_the_stack__ends)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *beside, *memory;

    stack = 0;
    beside = open_and_watch(&client, 1, 256); /* leaves room below the thread's stack */
    memory = map_below_stack(page);
    if (!memory) {
        userfault_close(userfault, &client);
        test_skip("another mapping is below the thread's stack");
    }
    assert_true(userfault_watch(userfault, (uintptr_t)memory, (uintptr_t)memory + page));
    assert_true(mapping_at((uintptr_t)memory).end > stack);
    userfault_close(userfault, &client);
    assert_int_equal(munmap(memory, page), 0);
    munmap(beside, page);
}

TEST_MAIN()
