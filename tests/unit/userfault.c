/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The kernel's events at moments that tests of the cache cannot choose: between a change and its
 * reading, for which the test interposes the monitor thread's read; and after changes were lost.
 * And how the thread begins, ends and rests.
 */

/* The monitor without a cache: what it reports, in which order, which a cache's look-ups hide. */
#include "core/base/maps.h"
#include "core/monitor/change/change_queue.h"
#include "core/monitor/monitor.h"

#include "tests/support/test.h"

#include <hmreg/hmreg.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct userfault *userfault;
/* Watched before the next events are read; start, written last, is 0 until then. */
static _Atomic uint64_t start, end;
static atomic_bool watched;
static _Atomic uint64_t stack; /* an address in the monitor thread's */

static atomic_bool poll_refused; /* by a sandbox that has begun */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int rc;

    stack = (uintptr_t)__builtin_frame_address(0);
    if (poll_refused) {
        errno = EPERM;
        return -1;
    }
    rc = __real_poll(fds, count, timeout);
    if (start && !atomic_exchange(&watched, true))
        userfault_watch(userfault, start, end);
    return rc;
}

/* Memory that moves at the moment at which the monitor's thread asks whether it is watched, or ends
 * its watch without asking. */
static struct {
    _Atomic uint64_t from; /* 0: none */
    atomic_bool asked;
} late_move;

static bool is_mapped(uint64_t addr)
{
    return !msync((void *)(uintptr_t)addr, (size_t)sysconf(_SC_PAGESIZE), MS_ASYNC);
}

static void come_by(uint64_t asked)
{
    uint64_t from = atomic_load(&late_move.from);

    if (!from || asked != from || atomic_exchange(&late_move.asked, true))
        return;
    while (is_mapped(from))
        sched_yield();
}

/* Memory that a thread discards when its watch is about to end. The event is not there to be read
 * until the monitor's thread asks whether any is to come. */
static struct {
    _Atomic uint64_t at; /* 0: none */
    atomic_bool asked, held;
} late_event;

ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
    if (atomic_load(&late_event.held)) {
        errno = EAGAIN;
        return -1;
    }
    return __real_read(fd, buffer, size);
}

static void hold_event(int fd, const struct uffdio_range *ended)
{
    uint64_t at = atomic_load(&late_event.at);

    if (!at || ended->start > at || at >= ended->start + ended->len)
        return;
    atomic_store(&late_event.at, 0);
    atomic_store(&late_event.held, true);
    atomic_store(&late_event.asked, true);
    while (uffd_ask_changing(fd) != -EAGAIN)
        sched_yield();
    atomic_store(&late_event.held, true);
}

static bool begin_fails; /* registering the monitor's own memory does */

static bool all_refused; /* a sandbox has begun */

static uint64_t no_border; /* 0, or where the process has no room for one more mapping to begin */

static bool is_at_limit(const struct uffdio_range *ended)
{
    return no_border && (ended->start == no_border || ended->start + ended->len == no_border);
}

static bool by_text; /* the kernel answers no queries about mappings: it does since Linux 6.11 */

/* Before Linux 6.17 a userfaultfd may unregister what is another's. */
static bool is_lenient(void)
{
    return getenv("HMREG_TEST_LENIENT") != NULL;
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    int rc;

    if (by_text && _IOC_TYPE(request) == 'f') {
        errno = ENOTTY;
        return -1;
    }
    if (request == UFFDIO_COPY)
        come_by(((struct uffdio_copy *)arg)->dst);
    if (request == UFFDIO_UNREGISTER)
        come_by(((struct uffdio_range *)arg)->start);
    if (all_refused) {
        errno = EPERM;
        return -1;
    }
    if (request == UFFDIO_COPY && !((struct uffdio_copy *)arg)->len)
        atomic_store(&late_event.held, false);
    if (request == UFFDIO_UNREGISTER)
        hold_event(fd, arg);
    if ((request == UFFDIO_REGISTER && begin_fails) ||
        (request == UFFDIO_UNREGISTER && is_at_limit(arg))) {
        errno = ENOMEM;
        return -1;
    }
    rc = __real_ioctl(fd, request, arg);
    return rc && request == UFFDIO_UNREGISTER && is_lenient() ? 0 : rc;
}

/* The process forks when the spans have moved to a new place and their owner does not know yet, as
 * another thread may. */
static bool forks;
static pid_t forked;

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_realloc(void *memory, size_t size)
{
    void *moved = __real_realloc(memory, size);

    if (!forks || !memory || moved == memory)
        return moved;
    forks = false;
    forked = fork();
    if (!forked)
        _exit(0);
    return moved;
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
static int watch(uint64_t start_addr, uint64_t end_addr)
{
    int rc = userfault_have_thread(userfault);

    return rc ? rc : userfault_watch(userfault, start_addr, end_addr);
}

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
    assert_int_equal(watch((uintptr_t)memory, (uintptr_t)memory + len), 0);
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

/* ---- the thread's own memory ------------------------------------------------------------ */

static struct map mapping_at(uint64_t addr)
{
    struct map map = {.start = 0};
    struct maps maps;

    maps_begin(&maps, NULL);
    assert_int_equal(maps_next(&maps, addr, &map), 1);
    maps_end(&maps);
    return map;
}

/* Maps a page below the thread's stack, with the stack's flags. It never is one mapping with pages
 * below, whose struct anon_vma would keep the kernel from joining it with the stack. */
static char *map_below_stack(size_t page)
{
    char *below, *memory;

    while (!stack)
        sched_yield();
    below = (char *)(uintptr_t)mapping_at(stack).start - page;
    memory = mmap(below, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != below) {
        if (memory != MAP_FAILED)
            munmap(memory, page);
        return NULL;
    }
    assert_int_equal(madvise(memory, page, MADV_DONTDUMP), 0);
    assert_int_equal(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
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
    assert_int_equal(watch((uintptr_t)memory, (uintptr_t)memory + page), 0);
    assert_true(mapping_at((uintptr_t)memory).end > stack);
    userfault_close(userfault, &client);
    assert_int_equal(munmap(memory, page), 0);
    munmap(beside, page);
}

/* ---- the thread's end ------------------------------------------------------------------- */

/* A child that is made without fork handlers keeps the file open, in which no thread reads events
 * any more: memory that is still watched could not be unmapped. */
TEST(close__memory_watched_and_a_copy_in_a_child__unmaps_at_once)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = open_and_watch(&client, 1, 2);
    pid_t child = test_waiting_child(NULL);

    userfault_close(userfault, &client);
    assert_int_equal(munmap(memory, page), 0);
    test_end_child(child);
}

static void *move_when_asked(void *arg)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    while (!atomic_load(&late_move.asked))
        sched_yield();
    assert_ptr_equal(
        mremap((char *)(uintptr_t)late_move.from, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, arg),
        arg);
    return NULL;
}

/* The thread has moved what it watches away from where the monitor's thread is about to look, to
 * where that has looked. */
TEST(close__memory_moves_to_where_was_looked__unwatched_too)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = open_and_watch(&client, 1, 6), *from = memory + 4 * page;
    pthread_t thread;
    pid_t child;

    assert_ptr_equal(mremap(memory, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, from), from);
    child = test_waiting_child(NULL);
    atomic_store(&late_move.asked, false);
    atomic_store(&late_move.from, (uintptr_t)from); /* a move, which no span records */
    assert_int_equal(pthread_create(&thread, NULL, move_when_asked, memory + 2 * page), 0);
    userfault_close(userfault, &client);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(munmap(memory + 2 * page, page), 0);
    test_end_child(child);
}

static void *discard_once(void *memory)
{
    while (!atomic_load(&late_event.asked))
        sched_yield();
    assert_int_equal(madvise(memory, (size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED), 0);
    return NULL;
}

/* A thread has begun to change memory when its watch ends, and its event comes last of all. */
TEST(close__event_comes_when_nothing_is_watched_any_more__is_read)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = open_and_watch(&client, 1, 2);
    pid_t child = test_waiting_child(NULL);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, discard_once, memory), 0);
    atomic_store(&late_event.at, (uintptr_t)memory);
    userfault_close(userfault, &client);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(atomic_load(&late_event.held));
    assert_int_equal(munmap(memory, page), 0);
    test_end_child(child);
}

static atomic_bool discards;

static void *discard(void *memory)
{
    while (atomic_load(&discards))
        madvise(memory, (size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED);
    return NULL;
}

/* Nearly always a change is under way: the kernel does not say what is watched. */
TEST(close__while_watched_memory_changes_all_the_time__ends)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    atomic_store(&discards, true);
    for (int moved = 0; moved < 2; moved++) {
        struct userfault_client client = {.needs = need_nothing};
        char *memory = open_and_watch(&client, 1, 4), *at = memory + 2 * page * (size_t)moved;
        pthread_t threads[3];
        pid_t child = test_waiting_child(NULL);

        if (moved)
            assert_ptr_equal(mremap(memory, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at), at);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, discard, at), 0);
        while (userfault_events(userfault) < 100)
            sched_yield();
        userfault_close(userfault, &client);
        atomic_store(&discards, false);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        atomic_store(&discards, true);
        assert_int_equal(munmap(at, page), 0);
        test_end_child(child);
    }
}

TEST(fork__while_the_spans_get_a_larger_place__child_lives)
{
    enum { SPANS = 600 };
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory, *block = NULL;

    test_forks_with_threads();
    memory = open_and_watch(&client, 1, 2 * SPANS);
    forks = true;
    for (size_t i = 2; i < 2 * SPANS && forks; i += 2) {
        char *at = memory + i * page;

        free(block); /* what is behind the spans is in use, so that they move */
        assert_ptr_equal(mmap(at, page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                         at);
        assert_int_equal(watch((uintptr_t)at, (uintptr_t)at + page), 0);
        block = malloc(4000);
    }
    assert_false(forks);
    test_await(forked);
    free(block);
    userfault_close(userfault, &client);
    assert_int_equal(munmap(memory, 2 * SPANS * page), 0);
}

/* ---- the thread's rest ------------------------------------------------------------------ */

struct user {
    struct monitor *monitor;
    struct gate *gate;
    struct listener listener;
    char *memory;
    size_t page;
};

static bool need_users(struct listener *listener, uint64_t from, uint64_t to, struct span *out)
{
    *out = needed;
    return from < needed.end && needed.start < to;
}

static void open_user(struct user *user)
{
    int rc = monitor_open(HMREG_MONITOR_USERFAULTFD, false, &user->monitor);

    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    user->page = (size_t)sysconf(_SC_PAGESIZE);
    user->memory = test_map(user->page);
    needed = (struct span){0, 0};
    user->gate = gate_open();
    user->listener = (struct listener){.gate = user->gate, .needs = need_users};
    monitor_attach(user->monitor, &user->listener);
}

static void close_user(struct user *user)
{
    monitor_detach(user->monitor, &user->listener);
    gate_close(user->gate);
    monitor_close(user->monitor);
    munmap(user->memory, user->page);
}

static uint64_t begin_of(const struct user *user)
{
    return (uintptr_t)user->memory;
}

static void watch_users(const struct user *user)
{
    needed = (struct span){begin_of(user), begin_of(user) + user->page};
    monitor_have_thread(user->monitor);
    assert_true(monitor_watch(user->monitor, needed.start, needed.end));
}

static void unwatch_users(const struct user *user)
{
    needed = (struct span){0, 0};
    monitor_unwatch(user->monitor, begin_of(user), begin_of(user) + user->page, false);
}

TEST(rest__nothing_is_watched__no_thread_until_the_next_watch)
{
    int before = (int)test_threads();
    struct change_reader reader;
    struct user user;

    open_user(&user);
    monitor_rest(user.monitor);
    assert_int_equal((int)test_threads(), before);
    for (int i = 0; i < 3; i++) {
        watch_users(&user);
        assert_int_equal((int)test_threads(), before + 1);
        monitor_rest(user.monitor); /* the range is needed */
        assert_int_equal((int)test_threads(), before + 1);
        changes_start(&reader);
        start = begin_of(&user);
        end = start + user.page;
        assert_int_equal(madvise(user.memory, user.page, MADV_DONTNEED), 0);
        assert_true(monitor_sync(user.monitor));
        assert_true(is_reported(&reader));
        unwatch_users(&user);
        monitor_rest(user.monitor);
        assert_int_equal((int)test_threads(), before);
    }
    close_user(&user);
    assert_int_equal((int)test_threads(), before);
}

/* A large mapping stays watched for a while when its last region has gone. */
TEST(rest__large_mapping_is_still_watched__unwatched_and_a_late_unwatch_does_nothing)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = WATCHING_LARGE / page;
    char *memory = open_and_watch(&client, pages, pages + 1);
    uint64_t from = (uintptr_t)memory, to = from + pages * page, before;
    pid_t child;

    userfault_unwatch(userfault, from, to, false);
    before = events();
    assert_int_equal(madvise(memory, page, MADV_DONTNEED), 0);
    assert_int_equal(events(), before + 1);
    child = test_waiting_child(NULL);
    assert_true(userfault_rest(userfault));
    userfault_unwatch(userfault, from, to, false);
    assert_false(userfault_tidy(userfault));
    assert_int_equal(munmap(memory, pages * page), 0);
    userfault_close(userfault, &client);
    test_end_child(child);
}

/* A long mapping is unregistered in pieces of 1 GiB, each of which is a mapping for a moment. */
TEST(rest__watched_mapping_and_no_room_for_mappings__unwatched)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE), gigabyte = (size_t)1 << 30;
    char *own = open_and_watch(&client, 1, 2), *at;
    char *free_place =
        mmap(NULL, 3 * gigabyte, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t border = ((uintptr_t)free_place / gigabyte + 2) * gigabyte, before;
    pid_t child;

    assert_ptr_not_equal(free_place, MAP_FAILED);
    at = (char *)(uintptr_t)border - page;
    assert_int_equal(mprotect(at, 2 * page, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(watch(border - page, border + page), 0);
    no_border = border;
    child = test_waiting_child(NULL);
    before = events();
    assert_true(userfault_rest(userfault));
    assert_int_equal(munmap(at, 2 * page), 0);
    assert_int_equal(events(), before);
    no_border = 0;
    userfault_close(userfault, &client);
    assert_int_equal(munmap(own, page), 0);
    assert_int_equal(munmap(free_place, 3 * gigabyte), 0);
    test_end_child(child);
}

/* No watch can be ended, but with the file. */
TEST(rest__sandbox_has_begun_that_refuses_ioctl__nothing_stays_watched)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory;
    uint64_t at;

    memory = open_and_watch(&client, 1, 2);
    at = (uintptr_t)memory;
    all_refused = true;
    assert_true(userfault_rest(userfault));
    assert_int_equal(munmap(memory, page), 0);
    all_refused = false;
    assert_false(userfault_is_usable(userfault));
    assert_int_equal(watch(at, at + page), -EBADF);
    userfault_close(userfault, &client);
}

TEST(change__sandbox_has_begun_that_refuses_poll__is_read)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = open_and_watch(&client, 1, 2);
    uint64_t before = events();

    atomic_store(&poll_refused, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(madvise(memory, page, MADV_DONTNEED), 0);
    assert_int_equal(events(), before + 3);
    assert_true(userfault_rest(userfault));
    atomic_store(&poll_refused, false);
    assert_int_equal(munmap(memory, page), 0);
    userfault_close(userfault, &client);
}

/* Before Linux 6.11 the list is opened each time that it is read. */
static int end_without_a_list(void)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory;

    by_text = true;
    memory = open_and_watch(&client, 1, 2);
    if (chroot("/usr"))
        return 77;
    alarm(20); /* what is watched and not read waits for ever */
    assert_true(userfault_rest(userfault));
    assert_int_equal(munmap(memory, page), 0);
    userfault_close(userfault, &client);
    return 0;
}

TEST(rest__program_has_gone_to_where_no_proc_is__unwatched)
{
    test_forks_with_threads();
    test_in_child_or_skip(end_without_a_list(), "this process may not call chroot(2)");
}

/* The stop page is locked, too, and the kernel neither discards it nor maps another. */
static int rest_locked(void)
{
    struct rlimit little = {.rlim_cur = 1, .rlim_max = 1};
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory;

    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        return 77;
    memory = open_and_watch(&client, 1, 2);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &little), 0);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534))
        return 77;
    if (mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return 77; /* sanitizers lock nothing */
    assert_int_equal(uffd_ask_watched(0, (uintptr_t)memory, page), -ENOMEM);
    alarm(20);
    assert_true(userfault_rest(userfault));
    assert_int_equal(munmap(memory, page), 0);
    userfault_close(userfault, &client);
    return 0;
}

TEST(rest__program_has_locked_all_memory_and_may_lock_no_more__ends)
{
    test_forks_with_threads();
    test_in_child_or_skip(rest_locked(), "this process may not lock its memory");
}

TEST(watch__the_threads_own_memory_cannot_be_watched__fails_and_the_next_works)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int before = (int)test_threads();
    char *memory = open_and_watch(&client, 1, 2);
    uint64_t at = (uintptr_t)memory;

    assert_true(userfault_rest(userfault));
    begin_fails = true;
    assert_fails(watch(at, at + page), -ENOMEM, "one of hmreg's own pages");
    begin_fails = false;
    assert_int_equal((int)test_threads(), before);
    assert_int_equal(watch(at, at + page), 0);
    assert_int_equal((int)test_threads(), before + 1);
    userfault_close(userfault, &client);
    assert_int_equal(munmap(memory, page), 0);
}

/* The last case: from then on every walk reads the text. */
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

TEST_MAIN()
