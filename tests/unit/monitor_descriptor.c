/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The monitor's userfaultfd as a descriptor: how it is opened if filters forbid the system call,
 * and what happens if the program closes it, or if a child made without fork handlers inherits it.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"
#include "tests/support/inside.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS (1 << 11)
#endif

static void open_fixture(const struct hmreg_domain_config *config)
{
    fixture_open(HMREG_MONITOR_USERFAULTFD, config);
}

/* A domain whose hits make no system call. */
static void open_trusting(void)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .check = {HMREG_CHECK_NOTICE}};

    open_fixture(&config);
}

/* ---- how it is opened ------------------------------------------------------------------- */

TEST(exact__by_what_the_kernel_says)
{
    assert_true(inside_uffd_is_exact(UFFD_FEATURE_EXACT_ADDRESS, "5.14.0-362.el9.x86_64"));
    assert_true(inside_uffd_is_exact(0, "5.15.0-91-generic"));
    assert_true(inside_uffd_is_exact(0, "6.1.0"));
    assert_false(inside_uffd_is_exact(0, "5.14.21"));
    assert_false(inside_uffd_is_exact(0, "5.4.0"));
    assert_false(inside_uffd_is_exact(0, "4.20"));
    assert_false(inside_uffd_is_exact(0, "unknown"));
}

#define OPENED 100 /* an exit status, and no error */

static bool has_file(void)
{
    int fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Opens it under a filter, in a child. OPENED, or an error number. */
static int open_filtered(uint32_t call, uint32_t file, bool by_name)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        int fd;

        if (!code_filter_userfaultfd(call, file))
            _exit(77);
        _exit(inside_uffd_open(by_name, &fd) ? -hmreg_last_error()->code : OPENED);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        test_skip("this kernel has no seccomp filters");
    return WEXITSTATUS(status) == OPENED ? OPENED : -WEXITSTATUS(status);
}

/* Docker's default profile. */
TEST(open__call_refused__by_the_device_file)
{
    if (!has_file())
        test_skip("/dev/userfaultfd is not to be opened");
    assert_int_equal(open_filtered(SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW, false), OPENED);
    assert_int_equal(open_filtered(SECCOMP_RET_ERRNO | ENOSYS, SECCOMP_RET_ALLOW, true), OPENED);
}

/* By the call where that is permitted; where the file can be opened as well it is not, or one of
 * two descriptors would be lost. */
TEST(open__unfiltered__one_descriptor)
{
    int before = test_count_fds();
    int fd;

    if (inside_uffd_open(true, &fd))
        test_skip("%s", hmreg_last_error()->text);
    assert_int_equal(test_count_fds(), before + 1);
    close(fd);
    assert_int_equal(test_count_fds(), before);
}

TEST(open__filter_kills__not_called_unless_by_name)
{
    int permitted = has_file() ? OPENED : -EPERM;

    assert_int_equal(open_filtered(SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW, false), permitted);
    assert_int_equal(open_filtered(SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM, false),
                     -EPERM);
    /* A filter that permits the call looks like one that kills, so the result is the same. */
    assert_int_equal(open_filtered(SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM, false), -EPERM);
}

TEST(open__both_refused__eperm)
{
    assert_int_equal(open_filtered(SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | EPERM, true),
                     -EPERM);
}

TEST(open__filtered_and_by_name__called)
{
    int fd;

    if (inside_uffd_open(true, &fd))
        test_skip("%s", hmreg_last_error()->text);
    close(fd);
    assert_int_equal(open_filtered(SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM, true), OPENED);
}

TEST(open__no_descriptor_left__the_text_says_so)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_USERFAULTFD};
    struct rlimit before, none = {0};
    struct hmreg *lib;
    int rc;

    if (hmreg_open(&config, &lib))
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(hmreg_close(lib));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    rc = hmreg_open(&config, &lib);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, -EMFILE);
    assert_non_null(strstr(hmreg_last_error()->text, "no descriptor is left"));
    assert_null(strstr(hmreg_last_error()->text, "/dev/userfaultfd"));
}

/* ---- the program closes it -------------------------------------------------------------- */

static int find_descriptor(const char *name)
{
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, name))
            return fd;
    }
    return -1;
}

static int find_userfaultfd(void)
{
    return find_descriptor("userfaultfd");
}

/* As closefrom(3) and an open(2) after it do. */
static void put_another_file_there(int fd)
{
    int other = open("/dev/null", O_RDWR | O_CLOEXEC);

    assert_true(other >= 0);
    assert_int_equal(dup3(other, fd, O_CLOEXEC), fd);
    close(other);
}

/* Closing what a thread polls is a race, and ThreadSanitizer does not survive its own report. */
static void need_races(void)
{
    if (TEST_TSAN)
        test_skip("the program closes what the library polls: a race, on purpose");
}

TEST(descriptor__closed_by_the_program__noticed_at_the_next_miss)
{
    size_t page = fixture_page();
    char *memory = fixture_map(1), *other = fixture_map(1);
    struct hmreg_mr *mr;
    int fd;

    need_races();
    open_trusting();
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(memory, page), 1);
    fd = find_userfaultfd();
    assert_true(fd >= 0);
    put_another_file_there(fd);
    mr = fixture_get(other, page);
    assert_false(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    assert_int_equal(fixture_key(memory, page), 3);
    assert_int_equal(fixture_key(memory, page), 4);
    munmap(memory, page);
    munmap(other, page);
    fixture_close();
    assert_int_equal(close(fd), 0); /* the library has not closed it */
}

/* Where the monitor's thread has the program's descriptors, it sees at the next change that its own
 * is gone. No call of the library follows until then. */
static int close_while_shared(void)
{
    size_t page = fixture_page();
    char *memory = fixture_map(1), *changed = fixture_map(1);
    struct hmreg_stats stats = {.size = sizeof(stats)};

    if (!code_filter_refuse(SYS_close_range, EPERM))
        return 77;
    open_trusting();
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(changed, page), 2);
    assert_int_equal(close(find_userfaultfd()), 0);
    munmap(changed, page);
    do { /* the thread reports it when it runs */
        fixture_key(memory, page);
        assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    } while (stats.regions);
    munmap(memory, page);
    fixture_close();
    return 0;
}

TEST(descriptor__closed_and_close_range_refused__noticed_at_the_next_change)
{
    need_races();
    test_in_child_or_skip(close_while_shared(), "this kernel has no seccomp filters");
}

/* What happens as the monitor's thread begins, before it has descriptors of its own. */
static struct {
    int replaced, by; /* descriptors; 0: none */
    sem_t *until;     /* it waits; NULL: it does not */
} at_begin;

struct thread_stack;
struct hook_sites;

bool __real_thread_keep_only(int fd, int other);
bool __wrap_thread_keep_only(int fd, int other);
bool __wrap_thread_keep_only(int fd, int other)
{
    if (at_begin.replaced)
        assert_int_equal(dup2(at_begin.by, at_begin.replaced), at_begin.replaced);
    if (at_begin.until)
        sem_wait(at_begin.until);
    return __real_thread_keep_only(fd, other);
}

TEST(descriptor__replaced_as_the_thread_begins__uncached_and_close_returns)
{
    char *memory = fixture_map(1);
    int ends[2];

    need_races();
    open_fixture(NULL);
    assert_int_equal(pipe(ends), 0);
    at_begin.replaced = find_userfaultfd();
    at_begin.by = ends[0];
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(fixture_key(memory, 10), 2);
    munmap(memory, fixture_page());
    fixture_close();
    assert_int_equal(close(at_begin.replaced), 0);
    at_begin.replaced = 0;
    close(ends[0]);
    close(ends[1]);
}

/* ---- the thread's own ------------------------------------------------------------------- */

/* A pipe whose last writer is closed: the reader finds the end, unless the thread has it open. */
static void check_ends(int reader)
{
    char byte;

    alarm(TEST_PATIENCE_SECONDS);
    assert_int_equal(read(reader, &byte, 1), 0);
    alarm(0);
    close(reader);
}

TEST(thread__begins__keeps_no_file_of_the_programs)
{
    char *memory = fixture_map(1);
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    open_fixture(NULL);
    fixture_key(memory, 10);
    close(ends[1]);
    check_ends(ends[0]);
    munmap(memory, fixture_page());
}

/* The program has closed the list of mappings, which the thread keeps, too. */
TEST(thread__another_file_has_the_lists_number__is_not_kept)
{
    for (int late = 0; late < 2; late++) {
        char *memory = fixture_map(1);
        int ends[2], list;

        open_fixture(NULL);
        list = find_descriptor("/maps");
        if (list < 0)
            test_skip("this kernel's list of mappings is read as text (no PROCMAP_QUERY)");
        assert_int_equal(pipe(ends), 0);
        at_begin.replaced = late ? list : 0;
        at_begin.by = ends[1];
        assert_int_equal(late ? list : dup2(ends[1], list), list);
        fixture_key(memory, 10);
        at_begin.replaced = 0;
        close(ends[1]);
        close(list);
        check_ends(ends[0]);
        munmap(memory, fixture_page());
        fixture_close();
    }
}

/* What happens when the library starts a thread, or finds the functions to hook. */
static int start_fails;           /* the result of starting the monitor's; 0: it starts */
static sem_t *start_waits;        /* NULL: it does not wait */
static atomic_bool finding_waits; /* the next time */
static sem_t start_is_tried;

int __real_thread_start(pthread_t *out, const struct thread_stack *stack, void *(*run)(void *),
                        void *arg, const char *what);
int __wrap_thread_start(pthread_t *out, const struct thread_stack *stack, void *(*run)(void *),
                        void *arg, const char *what);
static void wait_to_start(void)
{
    if (!start_waits)
        return;
    sem_post(&start_is_tried);
    sem_wait(start_waits);
}

int __wrap_thread_start(pthread_t *out, const struct thread_stack *stack, void *(*run)(void *),
                        void *arg, const char *what)
{
    if (start_fails && strstr(what, "to monitor"))
        return inside_fail(start_fails, "the test's failure to monitor");
    wait_to_start();
    return __real_thread_start(out, stack, run, arg, what);
}

int __real_hook_sites_find(struct hook_sites *out);
int __wrap_hook_sites_find(struct hook_sites *out);
int __wrap_hook_sites_find(struct hook_sites *out)
{
    if (atomic_exchange(&finding_waits, false))
        wait_to_start();
    return __real_hook_sites_find(out);
}

TEST(thread__cannot_be_started_now__uncached_until_it_can)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    char *memory = fixture_map(1);

    open_fixture(NULL);
    start_fails = -EAGAIN;
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(fixture_key(memory, 10), 2);
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.active, HMREG_MONITOR_USERFAULTFD);
    assert_non_null(strstr(info.why, "the test's failure"));
    start_fails = 0;
    assert_int_equal(fixture_key(memory, 10), 3);
    assert_int_equal(fixture_key(memory, 10), 3);
    munmap(memory, fixture_page());
    assert_int_equal(fixture_stats().invalidations, 1);
}

TEST(thread__is_forbidden__the_monitor_is_lost)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    char *memory = fixture_map(1);

    open_fixture(NULL);
    start_fails = -EPERM;
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(fixture_key(memory, 10), 2);
    start_fails = 0;
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.active, HMREG_MONITOR_DISABLED);
    assert_non_null(strstr(info.why, "the test's failure"));
    munmap(memory, fixture_page());
}

/* ---- a start that takes long -------------------------------------------------------------- */

static bool is_cached(char *memory)
{
    return fixture_key(memory, 10) == fixture_key(memory, 10);
}

static sem_t may_begin;

/* A get that finds the thread not begun, as where a file system does not answer a close. */
static char *get_before_it_begins(void)
{
    char *memory = fixture_map(1);

    sem_init(&may_begin, 0, 0);
    open_fixture(NULL);
    at_begin.until = &may_begin;
    assert_int_equal(fixture_key(memory, 10), 1);
    return memory;
}

static void let_it_begin(void)
{
    at_begin.until = NULL;
    sem_post(&may_begin);
}

TEST(thread__begins_late__gets_do_without)
{
    char *memory = get_before_it_begins();

    assert_int_equal(fixture_key(memory, 10), 2);
    let_it_begin();
    test_wait_until(is_cached(memory));
    munmap(memory, fixture_page());
}

TEST(thread__begins_late_and_the_domain_is_flushed__returns)
{
    char *memory = get_before_it_begins();

    assert_ok(hmreg_domain_flush(fixture.domain)); /* would hang */
    assert_int_equal(fixture_key(memory, 10), 2);
    let_it_begin();
    munmap(memory, fixture_page());
}

TEST(thread__begins_late_and_the_library_is_closed__waits)
{
    char *memory = get_before_it_begins();

    let_it_begin();
    fixture_close();
    munmap(memory, fixture_page());
}

static void *get_some(void *memory)
{
    hmreg_mr_put(fixture_get(memory, 10));
    return NULL;
}

/* As in an IFUNC's resolver, which holds the dynamic linker's locks that a start in another thread
 * waits for. */
static void start_beside(enum hmreg_monitor monitor)
{
    char *memory = fixture_map(2);
    pthread_t other;
    sem_t until;

    fixture_open(monitor, NULL);
    sem_init(&until, 0, 0);
    sem_init(&start_is_tried, 0, 0);
    start_waits = &until;
    atomic_store(&finding_waits, monitor == HMREG_MONITOR_DEFAULT);
    assert_int_equal(pthread_create(&other, NULL, get_some, memory), 0);
    sem_wait(&start_is_tried);
    for (int page = 0; page < 2; page++) /* would hang; page 0 is the other thread's too */
        hmreg_mr_put(fixture_get(memory + page * fixture_page(), 10));
    start_waits = NULL;
    atomic_store(&finding_waits, false);
    sem_post(&until);
    pthread_join(other, NULL);
    munmap(memory, 2 * fixture_page());
    fixture_close();
}

TEST(get__another_thread_is_starting_ours__returns)
{
    start_beside(HMREG_MONITOR_USERFAULTFD);
}

TEST(get__another_thread_is_starting_the_reaper__returns)
{
    start_beside(HMREG_MONITOR_MEMHOOKS);
}

TEST(get__another_thread_is_choosing_the_monitor__returns)
{
    start_beside(HMREG_MONITOR_DEFAULT);
}

/* The kernel accepts one at a time. */
static bool is_notified(mqd_t queue)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};

    return mq_notify(queue, &event) && errno == EBUSY;
}

/* Any close of the queue in the process ends its notification. */
TEST(thread__begins_and_ends_beside_a_message_queue__its_notification_stays)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 1};
    char *memory = fixture_map(1);
    char name[32];
    mqd_t queue;

    snprintf(name, sizeof(name), "/hmreg-%d", (int)getpid());
    queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
    if (queue < 0)
        test_skip("no message queues: %s", strerror(errno));
    mq_unlink(name);
    errno = 0;
    assert_false(is_notified(queue)); /* from now on it is */
    if (errno == ENOSYS)
        test_skip("message queues give no notifications here: an emulator");
    assert_true(is_notified(queue));
    open_fixture(NULL);
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_true(is_notified(queue));
    munmap(memory, fixture_page());
    fixture_close();
    assert_true(is_notified(queue));
    mq_close(queue);
}

/* ---- a child made without fork handlers ------------------------------------------------- */

static int childs_part(void)
{
    size_t page = fixture_page();
    char *memory;

    open_trusting();
    memory = fixture_map(1);
    if (fixture_key(memory, page) != 1 || fixture_key(memory, page) != 1)
        return 1;
    munmap(memory, page);
    if (fixture_map_at(memory, 1) != memory || fixture_key(memory, page) != 2)
        return 2;
    fixture_close();
    return 0;
}

TEST(child__without_handlers__watches_for_itself)
{
    char *memory = fixture_map(1);
    pid_t child;

    if (FIXTURE_SANITIZED) /* ThreadSanitizer forbids threads; AddressSanitizer has a lock of its
                              allocator, if a thread of the parent's is just starting */
        test_skip("no thread starts in a child of _Fork(3) beside a sanitizer");
    open_fixture(NULL);
    assert_int_equal(fixture_key(memory, 10), 1);
    child = _Fork();
    if (child == 0)
        _exit(childs_part());
    test_await(child);
    munmap(memory, fixture_page()); /* would hang without the thread that reads */
    assert_int_equal(fixture_stats().invalidations, 1);
}

/* ---- a child keeps a copy --------------------------------------------------------------- */

/* A child's descriptor keeps the userfaultfd open for as long as it lives. */
TEST(child__has_the_descriptor__parents_memory_is_its_own_after_closing)
{
    size_t page = fixture_page(), pages = ((size_t)4 << 20) / page;
    char *memory = fixture_reserve(9), *target = fixture_reserve(8), *large = fixture_map(pages);
    pid_t child;

    assert_non_null(fixture_map_at(memory, 4));
    open_fixture(NULL);
    fixture_key(memory, 10);
    fixture_key(large, 10);
    child = test_waiting_child(_Fork);
    assert_ptr_equal(mremap(memory, 4 * page, 8 * page, 0), memory);
    assert_ptr_equal(mremap(memory, 8 * page, 8 * page, MREMAP_MAYMOVE | MREMAP_FIXED, target),
                     target);
    fixture_close();
    munmap(target, 8 * page);
    munmap(large, pages * page);
    test_end_child(child);
}

/* How the program closes the library's descriptor. The last puts another userfaultfd in its place.
 */
enum closing { BY_CLOSE, BY_CLOSEFROM, BY_DUP2, CLOSINGS };

/* How the program then changes memory, of which the library knows. */
enum changing { BY_MUNMAP, BY_MREMAP, BY_MADVISE, BY_MUNMAP_AFTER_CLOSE, CHANGINGS };

static void close_descriptor(enum closing closing, int fd, int other)
{
    if (closing == BY_CLOSE)
        assert_int_equal(close(fd), 0);
    else if (closing == BY_CLOSEFROM)
        closefrom(fd);
    else
        assert_int_equal(dup2(other, fd), fd);
}

/* Leaves new memory at the address. */
static void change_memory(enum changing changing, char *memory)
{
    size_t page = fixture_page();
    char *target = fixture_reserve(1);

    if (changing == BY_MADVISE) {
        assert_int_equal(madvise(memory, page, MADV_DONTNEED), 0);
        return;
    }
    if (changing == BY_MREMAP)
        assert_ptr_equal(mremap(memory, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, target), target);
    else
        assert_int_equal(munmap(memory, page), 0);
    assert_ptr_equal(fixture_map_at(memory, 1), memory);
}

/* The program's own userfaultfd has a page. */
static uint64_t watch_own_page(int own)
{
    uint64_t at = (uintptr_t)fixture_map(1);

    assert_int_equal(inside_uffd_watch(own, at, at + fixture_page()), 0);
    return at;
}

/* The change returns, and is noticed before the descriptor's end is. The get that deals with it
 * notices that, too, unless it asks the program's own userfaultfd by the number: then the next miss
 * does. */
static void change_and_check(enum changing changing, char *memory, char *other)
{
    size_t page = fixture_page();

    assert_int_equal(fixture_key(other, page), 2);
    change_memory(changing, memory);
    assert_int_equal(fixture_key(memory, page), 3);
    assert_int_equal(fixture_key(memory, page), 4);
    assert_int_equal(fixture_key(other, page), 5);
}

static int close_and_change(enum closing closing, enum changing changing, pid_t (*make)(void))
{
    size_t page = fixture_page();
    char *memory = fixture_map(1), *other = fixture_map(1);
    uint64_t owns;
    pid_t child;
    int fd, own;

    alarm(TEST_PATIENCE_SECONDS);
    open_trusting();
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(other, page), 2);
    fd = find_userfaultfd();
    child = test_waiting_child(make);
    assert_ok(inside_uffd_open(true, &own));
    owns = watch_own_page(own);
    close_descriptor(closing, fd, own);
    if (changing != BY_MUNMAP_AFTER_CLOSE)
        change_and_check(changing, memory, other);
    fixture_close();
    assert_int_equal(munmap(memory, page), 0);
    assert_int_equal(munmap(other, page), 0);
    if (closing == BY_DUP2)
        assert_int_equal(inside_uffd_ask(fd, owns), 0);
    test_end_child(child);
    return 0;
}

TEST(child__has_the_descriptor_and_the_parent_closes_its_own__changes_return_and_are_noticed)
{
    pid_t (*const makes[])(void) = {_Fork, NULL};

    need_races();
    open_fixture(NULL); /* skips without userfaultfd */
    fixture_close();
    for (int i = 0; i < 2 * CLOSINGS * CHANGINGS; i++)
        test_in_child(close_and_change((enum closing)(i / 2 % CLOSINGS),
                                       (enum changing)(i / 2 / CLOSINGS), makes[i % 2]));
}

/* ---- the monitor's own memory --------------------------------------------------------------- */

/* The monitor's own mapping: the only watched one without a region. */
static char *monitors_own(char **out_end)
{
    uint64_t start = 0, end = 0;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    bool found = false;
    char line[512];

    assert_non_null(smaps);
    while (!found && fgets(line, sizeof(line), smaps)) {
        uint64_t from, to;

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
            start = from;
            end = to;
        }
        found = !strncmp(line, "VmFlags:", 8) && strstr(line, " uw");
    }
    fclose(smaps);
    assert_true(found);
    *out_end = (char *)(uintptr_t)end;
    return (char *)(uintptr_t)start;
}

/* Makes a hole that just fits the monitor's own memory, the highest one, below a page that can be
 * mapped again: the kernel places that memory there. */
static char *make_hole(size_t size)
{
    char *area = mmap(NULL, size + fixture_page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(area, MAP_FAILED);
    munmap(area, size);
    return area + size;
}

/* The monitor's page is adjacent to a region's memory. Were it unwatched with it, the library could
 * not stop the thread. */
TEST(close__after_memory_beside_the_monitors_was_watched_and_left__returns)
{
    char *memory = make_hole(INSIDE_STACK_BYTES + fixture_page());
    char *first = fixture_map(1), *start, *end, *again;

    open_fixture(NULL);
    fixture_key(first, 10); /* starts the thread */
    munmap(first, fixture_page());
    fixture_stats();
    start = monitors_own(&end);
    munmap(memory, fixture_page());
    if (end != memory || !fixture_map_at(memory, 1)) {
        fixture_close();
        test_skip("the kernel has the monitor's own memory elsewhere");
    }
    fixture_key(memory, fixture_page());
    assert_int_equal(inside_flush(fixture.domain), 0); /* the thread stays */
    assert_ptr_equal(monitors_own(&again), start);
    assert_ptr_equal(again, end);
    munmap(memory, fixture_page());
}

TEST_MAIN()
