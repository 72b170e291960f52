/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The recorder: what it counts, forks, threads, files that cannot be made, full tables. Each case
 * is a child, since a process has one trace file; the test reads it as `hmreg run` does.
 */
#include "preload/record.h"
#include "preload/mode.h"
#include "preload/trace_file.h"
#include "tests/support/test.h"
#include "tools/run/trace_view.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PAGE    UINT64_C(4096)
#define THREADS 4

/* ---- children and their files ------------------------------------------------------------ */

static void empty_folder(void)
{
    DIR *list;
    struct dirent *entry;

    if (mkdir(preload_dir(), 0700))
        assert_int_equal(errno, EEXIST);
    list = opendir(preload_dir());
    assert_non_null(list);
    while ((entry = readdir(list)))
        if (strstr(entry->d_name, RECORD_SUFFIX))
            assert_int_equal(unlinkat(dirfd(list), entry->d_name, 0), 0);
    closedir(list);
}

static pid_t run(void (*body)(void))
{
    pid_t child;

    empty_folder();
    child = test_fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    test_await(child);
    return child;
}

/* Of a process with one file; threads that made one at the same time may leave a later name. */
static struct trace_view *view_of(pid_t pid)
{
    struct trace_view *view;
    char path[1024], why[256] = "";
    int fd = -1;

    for (int i = 0; i < THREADS && fd < 0; i++) {
        snprintf(path, sizeof(path), "%s/hmreg-%d-%d%s", preload_dir(), pid, i, RECORD_SUFFIX);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    view = trace_view_read(fd, why);
    close(fd);
    if (!view)
        fail_msg("%s: %s", path, why);
    return view;
}

static unsigned count_files(void)
{
    DIR *list = opendir(preload_dir());
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(list);
    while ((entry = readdir(list)))
        count += strstr(entry->d_name, RECORD_SUFFIX) != NULL;
    closedir(list);
    return count;
}

/* ---- calls ------------------------------------------------------------------------------- */

static char scope;

/* A handle of this number: nothing reads what it points to. */
static const void *handle(uintptr_t number)
{
    return (const void *)(number * 64);
}

static struct record_call host_call(uintptr_t number, uint64_t addr, uint64_t len)
{
    return (struct record_call){.kind = RECORD_REG_MR,
                                .how = RECORD_PASSED,
                                .handle = handle(number),
                                .scope = &scope,
                                .addr = addr,
                                .len = len,
                                .access = 1,
                                .device = -1,
                                .path = 1,
                                .ns = 1000,
                                .nic = "nic0",
                                .caller = __builtin_return_address(0)};
}

static void reg(uintptr_t number, uint64_t addr, uint64_t len)
{
    struct record_call call = host_call(number, addr, len);

    record_registered(&call);
}

static void dereg(uintptr_t number, int failure)
{
    struct record_dereg end;

    record_dereg_begin(handle(number), &end);
    record_dereg_done(&end, failure, 500);
}

/* ---- counts ------------------------------------------------------------------------------ */

static void some_calls(void)
{
    struct record_call call = host_call(0, 0x1000, PAGE);

    errno = EDOM;
    reg(1, 0x10000, PAGE);
    reg(2, 0x20000, PAGE);
    reg(3, 0x30000, 2 * PAGE);
    dereg(1, 0);
    dereg(2, EBUSY);
    call.handle = NULL;
    call.error = EFAULT;
    record_registered(&call);
    record_passed_on("a-reason", "A sentence.");
    record_passed_on("a-reason", "A sentence.");
    assert_true(errno == EDOM);
}

static const struct view_row *row_of(const struct trace_view *view, unsigned size, int error)
{
    for (unsigned i = 0; i < view->row_count; i++)
        if (view->rows[i].key.size == size && view->rows[i].key.error == error)
            return &view->rows[i];
    fail_msg("no row of size class %u and error %d", size, error);
    return NULL;
}

TEST(record__calls__counted_by_size_and_error)
{
    struct trace_view *view = view_of(run(some_calls));
    const struct view_row *pages = row_of(view, 13, 0), *failed = row_of(view, 13, EFAULT);

    assert_int_equal(view->row_count, 3);
    assert_int_equal(pages->count, 2);
    assert_int_equal(pages->bytes, 2 * PAGE);
    assert_int_equal(pages->ns, 2000);
    assert_int_equal(pages->longest_ns, 1000);
    assert_int_equal(pages->ends, 1);
    assert_int_equal(pages->end_failures, 1);
    assert_int_equal(pages->live, 1); /* the one that was busy */
    assert_int_equal(failed->count, 1);
    assert_int_equal(failed->live, 0);
    assert_int_equal(view->live, 2);
    assert_int_equal(view->live_bytes, 3 * PAGE);
    assert_string_equal(view->names[pages->key.nic], "nic0");
    assert_string_equal(view->names[pages->key.module], view->program);
    assert_string_equal(view->rank, "7");
    assert_int_equal(view->mode, RECORD_MODE_GPU);
    assert_int_equal(view->reason_count, 1);
    assert_int_equal(view->reasons[0].count, 2);
    assert_string_equal(view->reasons[0].slug, "a-reason");
    assert_false(view->ended); /* by _exit() */
    free(view);
}

/* A call that the function which has entered makes. */
__attribute__((noinline)) static bool call_enters(void)
{
    bool entered = record_enter();

    __asm__ volatile("" ::: "memory"); /* no tail call */
    return entered;
}

static void nothing(void)
{
    struct record_dereg end;

    assert_true(record_enter());
    assert_true(!call_enters());
    assert_true(record_guard.frame);
    record_leave();
    assert_true(record_enter());
    record_leave();
    assert_true(!record_guard.frame);
    record_dereg_begin(NULL, &end);
    assert_true(!end.known);
}

TEST(record__guard__refuses_a_second_entry)
{
    run(nothing);
}

static void same_range(void)
{
    struct record_call call = host_call(5, 0x40000, PAGE);

    for (int i = 0; i < 5; i++) {
        reg(1, 0x40000, PAGE);
        dereg(1, 0);
    }
    call.access = 3; /* another right: no cache would answer it with the other region */
    record_registered(&call);
    call = host_call(7, 0x40000, PAGE);
    call.kind = RECORD_REREG_MR; /* no cache answers it */
    record_registered(&call);
}

TEST(record__range_again__its_time_counted)
{
    struct trace_view *view = view_of(run(same_range));

    assert_int_equal(view->again, 4);
    assert_int_equal(view->again_ns, 4000);
    assert_int_equal(view->range_count, 1);
    assert_int_equal(view->ranges[0].count, 5);
    assert_int_equal(view->ranges[0].addr, 0x40000);
    free(view);
}

static void freed_memory(void)
{
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *left = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(page != MAP_FAILED && left != MAP_FAILED);
    reg(1, (uintptr_t)page, PAGE);
    reg(2, (uintptr_t)page, PAGE);
    reg(3, (uintptr_t)left, 2 * PAGE);
    dereg(1, 0);
    munmap(page, PAGE);
    dereg(2, 0);
    munmap((char *)left + PAGE, PAGE);
    exit(0);
}

TEST(record__memory_unmapped_while_registered__noticed)
{
    struct trace_view *view = view_of(run(freed_memory));

    assert_int_equal(row_of(view, 13, 0)->freed, 1);
    assert_int_equal(row_of(view, 14, 0)->live_freed, 1); /* at the end of the process */
    assert_true(view->ended);
    free(view);
}

/* The kernel is asked about the first deregistrations of a row and about some of the later ones,
 * and about all once it has found memory unmapped. */
static void freed_late(void)
{
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(page != MAP_FAILED);
    for (int i = 0; i < 2000; i++) {
        reg(1, (uintptr_t)page, PAGE);
        dereg(1, 0);
    }
    munmap(page, PAGE);
    for (int i = 0; i < 1000; i++) {
        reg(1, (uintptr_t)page, PAGE);
        dereg(1, 0);
    }
}

TEST(record__memory_unmapped_after_many_calls__noticed)
{
    struct trace_view *view = view_of(run(freed_late));
    const struct view_row *row = row_of(view, 13, 0);

    assert_int_equal(row->ends, 3000);
    assert_in_range(row->freed, 1000 - 64, 1000);
    assert_in_range(row->looked, row->freed + 256, 1400);
    free(view);
}

static void rereg(void)
{
    struct record_dereg end;

    reg(1, 0x10000, PAGE);
    record_dereg_begin(handle(1), &end);
    assert_true(end.known && end.addr == 0x10000 && end.len == PAGE);
    record_dereg_cancel(&end);
    dereg(9, 0);
}

TEST(record__cancelled_end__the_region_stays)
{
    struct trace_view *view = view_of(run(rereg));

    assert_int_equal(view->live, 1);
    assert_int_equal(row_of(view, 13, 0)->ends, 0);
    assert_int_equal(view->unknown_ends, 1);
    free(view);
}

/* ---- forks and threads ------------------------------------------------------------------- */

static void forking(void)
{
    pid_t child;
    int status;

    reg(1, 0x10000, PAGE);
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        child = by_hand ? _Fork() : fork();
        if (child == 0) {
            dereg(1, 0); /* the parent's */
            reg(2, 0x10000, 8 * PAGE);
            _exit(0);
        }
        assert_true(waitpid(child, &status, 0) == child && status == 0);
    }
    child = fork();
    if (child == 0)
        _exit(0); /* no file */
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    dereg(1, 0);
}

TEST(record__forked_children__write_files_of_their_own)
{
    struct trace_view *view;

    test_forks_wipe();
    view = view_of(run(forking));
    assert_int_equal(count_files(), 3);
    assert_int_equal(view->row_count, 1);
    assert_int_equal(row_of(view, 13, 0)->ends, 1);
    assert_int_equal(view->live, 0);
    free(view);
}

#define ROUNDS 2000

static void *work(void *arg)
{
    uintptr_t base = 1000 + (uintptr_t)arg * 1000;

    for (uintptr_t i = 0; i < ROUNDS; i++) {
        reg(base + i % 7, 0x100000 + (i % 50) * PAGE, PAGE);
        dereg(base + i % 7, 0);
    }
    return NULL;
}

static void threaded(void)
{
    pthread_t made[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_true(!pthread_create(&made[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++)
        pthread_join(made[i], NULL);
}

/* No call is lost, whichever thread made the file and whichever claimed the row. */
TEST(record__threads__every_call_counted)
{
    struct trace_view *view;

    view = view_of(run(threaded));
    assert_int_equal(count_files(), 1);
    assert_int_equal(view->row_count, 1);
    assert_int_equal(view->rows[0].count, THREADS * ROUNDS);
    assert_int_equal(view->rows[0].ends, THREADS * ROUNDS);
    assert_int_equal(view->live, 0);
    free(view);
}

/* Two threads may add a name at the same time: it has two indices, and its rows are one. */
static void twice_named(void)
{
    struct record_layout *file;

    reg(1, 0x10000, PAGE);
    file = (struct record_layout *)(uintptr_t)record_file();
    for (unsigned i = 1; i < RECORD_NAMES; i++)
        if (!strcmp(file->names[i].text, "nic0"))
            atomic_store(&file->names[i].state, RECORD_BUSY);
    reg(2, 0x20000, PAGE);
    for (unsigned i = 1; i < RECORD_NAMES; i++)
        if (!strcmp(file->names[i].text, "nic0"))
            atomic_store(&file->names[i].state, RECORD_READY);
    record_passed_on("a-reason", "A sentence.");
    atomic_store(&file->reasons[0].state, RECORD_BUSY);
    record_passed_on("a-reason", "A sentence.");
    atomic_store(&file->reasons[0].state, RECORD_READY);
}

TEST(record__name_added_by_two_threads__one_row)
{
    struct trace_view *view = view_of(run(twice_named));

    assert_int_equal(view->row_count, 1);
    assert_int_equal(view->rows[0].count, 2);
    assert_int_equal(view->rows[0].live, 2);
    assert_int_equal(view->reason_count, 1);
    assert_int_equal(view->reasons[0].count, 2);
    free(view);
}

/* ---- limits ------------------------------------------------------------------------------ */

static void many(void)
{
    char name[32];

    for (uintptr_t i = 1; i <= RECORD_LIVE + 5000; i++) {
        struct record_call call = host_call(i, i * PAGE, PAGE);

        snprintf(name, sizeof(name), "nic%d", (int)(i % 400));
        call.nic = name;
        call.error = 0;
        record_registered(&call);
    }
    for (int i = 0; i < 2000; i++) {
        struct record_call call = host_call(0, 0, PAGE);

        call.handle = NULL;
        call.error = 1 + i;
        record_registered(&call);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "reason-%d", i);
        record_passed_on(name, "A sentence.");
    }
}

TEST(record__more_than_fits__counted_as_lost)
{
    struct trace_view *view = view_of(run(many));
    uint64_t count = 0;

    for (unsigned i = 0; i < view->row_count; i++)
        count += view->rows[i].count;
    assert_true(view->row_count <= RECORD_ROWS);
    assert_int_equal(count + view->dropped_rows, RECORD_LIVE + 5000 + 2000);
    assert_int_equal(view->live + view->dropped_live, RECORD_LIVE + 5000);
    assert_true(view->live > RECORD_LIVE / 2);
    assert_true(view->dropped_names > 0 && view->dropped_ranges > 0 && view->dropped_rows > 0);
    assert_int_equal(view->reason_count, RECORD_REASONS);
    assert_int_equal(view->dropped_reasons, 100 - RECORD_REASONS);
    free(view);
}

/* A range that comes again and again is found among many that come once. */
static void mixed(void)
{
    for (uintptr_t i = 1; i <= 50000; i++) {
        reg(1, 0x100000000 + i * PAGE, PAGE);
        dereg(1, 0);
        if (i % 5)
            continue;
        reg(1, 0x40000, PAGE);
        dereg(1, 0);
    }
}

TEST(record__one_range_among_many__found_again)
{
    struct trace_view *view = view_of(run(mixed));

    assert_in_range(view->again, 9000, 9999);
    free(view);
}

/* ---- no file ----------------------------------------------------------------------------- */

static void without_a_file(void)
{
    reg(1, 0x10000, PAGE);
    dereg(1, 0);
    record_passed_on("a-reason", "A sentence.");
    assert_true(!record_file());
}

static void with_a_limit(void)
{
    const struct rlimit limit = {.rlim_cur = PAGE, .rlim_max = PAGE};

    assert_true(!setrlimit(RLIMIT_FSIZE, &limit));
    without_a_file();
}

/* A longer file than the process may write would be a signal for it. */
TEST(record__limit_of_file_sizes__no_file)
{
    run(with_a_limit);
    assert_int_equal(count_files(), 0);
}

static void without_descriptors(void)
{
    const struct rlimit limit = {0, 0};

    assert_true(!setrlimit(RLIMIT_NOFILE, &limit));
    without_a_file();
}

TEST(record__no_descriptor__no_file)
{
    run(without_descriptors);
    assert_int_equal(count_files(), 0);
}

static void twice(void)
{
    char path[1024];

    /* A file of an earlier program of this process, and a link that another user has put there. */
    snprintf(path, sizeof(path), "%s/hmreg-%d-0%s", preload_dir(), getpid(), RECORD_SUFFIX);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    snprintf(path, sizeof(path), "%s/hmreg-%d-1%s", preload_dir(), getpid(), RECORD_SUFFIX);
    assert_true(!symlink("/nowhere/file", path));
    reg(1, 0x10000, PAGE);
    assert_true(record_file());
    snprintf(path, sizeof(path), "%s/hmreg-%d-2%s", preload_dir(), getpid(), RECORD_SUFFIX);
    assert_true(!access(path, F_OK));
}

TEST(record__name_taken__the_next_one)
{
    run(twice);
}

TEST_MAIN()
