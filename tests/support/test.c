/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See test.h. Each case runs as a cmocka group of its own, so that its result is known exactly:
 * failed (cmocka counted it), passed (it returned), skipped (neither). cmocka leaves a failed case
 * by longjmp(3), with its libraries open, its locks held and its listeners on a stack that the next
 * case overwrites: later cases would crash, or hang. So the program replaces itself after a failure
 * (exec) and continues with the next case; the environment passes the counts on.
 */
#include "tests/support/test.h"

#include <dirent.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define RESUME "HMREG_TEST_RESUME" /* the next case, and the earlier cases' results */

extern char **environ;

enum outcome { PASSED, FAILED, SKIPPED };

static const struct test_case *current;
static pthread_t current_thread;
static int returned;

static void (*afterwards[8])(void);
static size_t afterwards_count;

/* What the case's variables were before; value NULL: not set. */
static struct {
    char *name, *value;
} variables[16];
static size_t variables_count;

static bool only_dmabufs;

void test_count_dmabufs_only(void)
{
    only_dmabufs = true;
}

static bool is_dmabuf(int dir, const char *name)
{
    char target[64] = "";

    return readlinkat(dir, name, target, sizeof(target) - 1) > 0 && strstr(target, "dmabuf");
}

static int count_fds(bool dmabufs)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0;

    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        count += !dmabufs || is_dmabuf(dirfd(dir), entry->d_name);
    closedir(dir);
    return count;
}

int test_count_fds(void)
{
    return count_fds(only_dmabufs);
}

bool test_ended_well(pid_t child)
{
    int status = -1;

    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        return true;
    fprintf(stderr, "a child ended with wait status %#x\n", (unsigned)status);
    return false;
}

int test_perf_ring(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof(attr),
                                   .config = PERF_COUNT_SW_DUMMY,
                                   .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0)
        test_skip("perf_event_open(2) is not permitted: %s", strerror(errno));
    return fd;
}

unsigned long test_mapped_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages;
}

void test_after(void (*function)(void))
{
    for (size_t i = 0; i < afterwards_count; i++)
        if (afterwards[i] == function)
            return;
    assert_true(afterwards_count < sizeof(afterwards) / sizeof(afterwards[0]));
    afterwards[afterwards_count++] = function;
}

static void set_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

void test_setenv(const char *name, const char *value)
{
    const char *before = getenv(name);

    assert_true(variables_count < sizeof(variables) / sizeof(variables[0]));
    variables[variables_count].name = strdup(name);
    variables[variables_count++].value = before ? strdup(before) : NULL;
    set_variable(name, value);
}

static void restore_variables(void)
{
    while (variables_count) {
        variables_count--;
        set_variable(variables[variables_count].name, variables[variables_count].value);
        free(variables[variables_count].name);
        free(variables[variables_count].value);
    }
}

void test_finish(void)
{
    while (afterwards_count)
        afterwards[--afterwards_count]();
    restore_variables();
}

void test_skip(const char *format, ...)
{
    char why[512];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    if (getenv("HMREG_TEST_NO_SKIP") && !strcmp(getenv("HMREG_TEST_NO_SKIP"), "1"))
        fail_msg("%s would be skipped, and skips are failures here: %s", current->name, why);
    print_message("SKIPPED because: %s\n", why);
    skip();
    abort(); /* skip() does not return */
}

void test_forks_with_threads(void)
{
#if TEST_TSAN
    test_skip("ThreadSanitizer does not follow forks of a process with threads");
#endif
}

void test_forks_while_threads_allocate(void)
{
    test_forks_with_threads();
#if TEST_ASAN
    test_skip("AddressSanitizer's allocator does not bear forks while other threads allocate");
#endif
}

void test_forks_wipe(void)
{
    size_t len = (size_t)sysconf(_SC_PAGESIZE);
    char *page = test_map(len);
    int status = 0;
    pid_t child;

    page[0] = 1;
    if (madvise(page, len, MADV_WIPEONFORK))
        page[0] = 0;
    child = fork();
    if (child == 0)
        _exit(page[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    munmap(page, len);
    if (status)
        test_skip("forks do not wipe memory here: an emulator");
}

unsigned long test_times(unsigned long usual)
{
    const char *value = getenv("HMREG_TEST_PART");
    unsigned long part = value ? strtoul(value, NULL, 0) : 1;

    if (part == 0)
        fail_msg("HMREG_TEST_PART is %s, not 1 or more", value);
    return usual < part ? 1 : usual / part;
}

/* ---- waiting ---------------------------------------------------------------------------- */

static int64_t seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

int64_t test_patience(void)
{
    return seconds_now() + TEST_PATIENCE_SECONDS;
}

/* Not by nanosleep(2) or poll(2), which some tests interpose. */
static void rest(void)
{
    static const struct timespec moment = {.tv_nsec = 1000000};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
}

/* cmocka leaves a failed case by longjmp(3), which only the case's own thread can do. */
void test_pause(int64_t until, const char *file, int line, const char *condition)
{
    rest();
    if (seconds_now() < until)
        return;
    print_error("%s:%d: not within %d s: %s\n", file, line, TEST_PATIENCE_SECONDS, condition);
    if (!pthread_equal(pthread_self(), current_thread))
        _exit(1);
    fail();
}

/* A thread whose file cannot be read has ended. */
static bool is_awake(const char *thread)
{
    char path[64], text[256] = "", *state;
    FILE *stat;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", thread);
    stat = fopen(path, "re");
    if (!stat)
        return false;
    if (!fgets(text, sizeof(text), stat))
        text[0] = '\0';
    fclose(stat);
    state = strrchr(text, ')'); /* ends the name */
    return state && state[1] && strchr("RD", state[2]);
}

/* Of the other threads. */
static int count_threads(bool awake_only)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int count = 0;

    while (tasks && (task = readdir(tasks)))
        if (task->d_name[0] != '.' && atoi(task->d_name) != gettid())
            count += !awake_only || is_awake(task->d_name);
    if (tasks)
        closedir(tasks);
    return count;
}

void test_wait_until_others_sleep(void)
{
    test_wait_until(!count_threads(true));
}

void *test_on_a_thread(void *(*body)(void *), void *arg)
{
    void *result = NULL;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, body, arg), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

void test_on_threads(unsigned count, void *(*body)(void *), void *args, size_t size)
{
    pthread_t threads[256];

    assert_in_range(count, 1, sizeof(threads) / sizeof(threads[0]));
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, body, args ? (char *)args + i * size : NULL), 0);
    for (unsigned i = 0; i < count; i++) {
        void *result = NULL;

        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
}

void *test_map(size_t len)
{
    void *made = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(made, MAP_FAILED);
    return made;
}

/* ---- children --------------------------------------------------------------------------- */

void test_end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

pid_t test_waiting_child(pid_t (*make)(void))
{
    pid_t parent = getpid(), child = make ? make() : by_clone();

    if (child == 0) {
        test_end_with(parent);
        for (;;)
            pause();
    }
    assert_true(child > 0);
    return child;
}

void test_end_child(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

unsigned test_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned count = 0;

    for (struct dirent *task; folder && (task = readdir(folder));)
        count += task->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

#if TEST_ASAN && defined(__clang__) && __clang_major__ < 16
/* AddressSanitizer's own, by their C++ names: a child of a fork beside another thread's start or
 * malloc would wait for their locks for ever. Later versions take them at a fork. */
void lock_threads(void) __asm__("_ZN6__lsan18LockThreadRegistryEv");
void unlock_threads(void) __asm__("_ZN6__lsan20UnlockThreadRegistryEv");
void lock_allocator(void) __asm__("_ZN6__lsan13LockAllocatorEv");
void unlock_allocator(void) __asm__("_ZN6__lsan15UnlockAllocatorEv");

static void before_fork(void)
{
    lock_threads();
    lock_allocator();
}

static void after_fork(void)
{
    unlock_allocator();
    unlock_threads();
}

__attribute__((constructor)) static void fork_whole(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}
#endif

#if TEST_ASAN && !defined(__clang__) && __GNUC__ < 14
static int64_t time_of(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* gcc's library before 14 neither takes them nor tells their names. A thread that sleeps has none,
 * so a fork waits for new threads to sleep. A case's own threads may run until it ends: so all
 * forks of the program together wait until the others have run for a few seconds, on a processor,
 * however long that takes on a busy machine. */
static void wait_for_locks(void)
{
    static int64_t patience = INT64_C(4000000000);

    while (patience > 0 && count_threads(true)) {
        int64_t all = time_of(CLOCK_PROCESS_CPUTIME_ID), own = time_of(CLOCK_THREAD_CPUTIME_ID);

        rest();
        patience -= time_of(CLOCK_PROCESS_CPUTIME_ID) - all;
        patience += time_of(CLOCK_THREAD_CPUTIME_ID) - own;
    }
}
#else
static void wait_for_locks(void)
{
}
#endif

pid_t test_fork(void)
{
    pid_t parent = getpid(), child;

    wait_for_locks();
    child = fork();
    if (child == 0)
        test_end_with(parent);
    return child;
}

void test_await_or_skip(pid_t child, const char *why)
{
    int status = -1;

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (why && WIFEXITED(status) && WEXITSTATUS(status) == 77)
        test_skip("%s", why);
    assert_int_equal(status, 0);
}

void test_await(pid_t child)
{
    test_await_or_skip(child, NULL);
}

/* ---- one case --------------------------------------------------------------------------- */

/* Counts again while there are more descriptors than before. Threads of a server or of a fabric may
 * close a connection a moment after the other side did; a leak stays. */
static int settled_fds(int before)
{
    int64_t until = test_patience();
    int count = test_count_fds();

    while (count > before && count_threads(false) > TEST_TSAN && seconds_now() < until) {
        rest();
        count = test_count_fds();
    }
    return count;
}

static void print_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char target[256] = "";

        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0)
            print_message("descriptor %s is %s\n", entry->d_name, target);
    }
    if (dir)
        closedir(dir);
}

static void run_current(void **state)
{
    int all = count_fds(false), dmabufs = count_fds(true);
    int before, after;

    afterwards_count = variables_count = 0;
    current->run(state);
    test_finish();
    before = only_dmabufs ? dmabufs : all;
    after = settled_fds(before);
    if (before != after) {
        print_fds();
        fail_msg("%s: %d descriptors open before, %d after", current->name, before, after);
    }
    returned = 1;
}

static enum outcome run_case(const struct test_case *test)
{
    const struct CMUnitTest unit[] = {{test->name, run_current, NULL, NULL, NULL}};

    current = test;
    current_thread = pthread_self();
    returned = 0;
    if (cmocka_run_group_tests_name(test->name, unit, NULL, NULL))
        return FAILED;
    restore_variables(); /* of a case that was skipped */
    return returned ? PASSED : SKIPPED;
}

/* ---- all cases -------------------------------------------------------------------------- */

/* The initial environment and arguments: a case may have changed them. */
static struct {
    char arguments[65536];
    char *argv[256];
    char *env[4096];
} started;

static void remember_start(void)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t size = file ? fread(started.arguments, 1, sizeof(started.arguments) - 1, file) : 0;
    size_t count = 0;

    if (file)
        fclose(file);
    for (size_t at = 0; at < size && count < 255; at += strlen(started.arguments + at) + 1)
        started.argv[count++] = started.arguments + at;
    count = 1; /* the first is RESUME */
    for (char **variable = environ; *variable && count < 4095; variable++)
        if (strncmp(*variable, RESUME "=", sizeof(RESUME)) != 0)
            started.env[count++] = *variable;
}

/* Continues with the case `next` in a fresh program. */
static void restart(size_t next, const unsigned results[3])
{
    static char resume[128];

    snprintf(resume, sizeof(resume), RESUME "=%zu %u %u %u", next, results[PASSED], results[FAILED],
             results[SKIPPED]);
    started.env[0] = resume;
    fflush(NULL);
    execve("/proc/self/exe", started.argv, started.env);
    print_message("cases after a failed one are not run: exec: %s\n", strerror(errno));
    exit(1);
}

/* The first case to run, and results of those before it. */
static size_t first_case(unsigned results[3])
{
    const char *resume = getenv(RESUME);
    size_t first = 0;

    if (resume && sscanf(resume, "%zu %u %u %u", &first, &results[PASSED], &results[FAILED],
                         &results[SKIPPED]) != 4)
        first = 0;
    unsetenv(RESUME); /* or test programs that a case starts would resume too */
    return first;
}

static struct test_case *cases, **last_first = &cases, **last = &cases;

void test_add(struct test_case *test, bool first)
{
    struct test_case ***after = first ? &last_first : &last;

    test->next = **after;
    **after = test;
    if (last == *after)
        last = &test->next;
    *after = &test->next;
}

/* Runs a case, of number i, in this process; after a failure, the cases after it in the next
 * process. */
static void run_counted(const struct test_case *test, size_t i, unsigned results[3])
{
    pid_t self = getpid();
    enum outcome outcome = run_case(test);

    /* A case's child that has failed or was skipped: the case continues in its parent. */
    if (getpid() != self)
        _exit(outcome == SKIPPED ? 77 : 1);
    results[outcome]++;
    if (outcome == FAILED && test->next)
        restart(i + 1, results);
}

static void run_all(const char *which, unsigned results[3])
{
    size_t first = first_case(results), i = 0;

    for (const struct test_case *test = cases; test; test = test->next, i++)
        if (i >= first && (!which || strstr(test->name, which)))
            run_counted(test, i, results);
}

/* In programs that clang linked with ThreadSanitizer. */
void __sanitizer_symbolize_pc(void *pc, const char *format, char *text, size_t size)
    __attribute__((weak));

/* Opens the descriptors that libc and sanitizers open on first use, before the first count: for a
 * race, suppressed or not, ThreadSanitizer starts a program that names functions. */
static void open_descriptors(void)
{
    char text[64];

    if (TEST_TSAN && __sanitizer_symbolize_pc)
        __sanitizer_symbolize_pc(__builtin_return_address(0), "%f", text, sizeof(text));
    (void)test_count_fds();
}

/* In programs linked with hmreg_internal: see userfault.h. */
void userfault_set_tries(unsigned tries) __attribute__((weak));

int test_main(int argc, char **argv)
{
    unsigned results[3] = {0};

    setvbuf(stdout, NULL, _IOLBF, 0); /* of a program that is ended: which case it ran */
    remember_start();
    if (userfault_set_tries)
        userfault_set_tries(UINT_MAX);
    open_descriptors();
    run_all(argc > 1 ? argv[1] : NULL, results);
    printf("%u passed, %u failed, %u skipped\n", results[PASSED], results[FAILED],
           results[SKIPPED]);
    if (results[FAILED])
        return 1;
    if (results[PASSED])
        return 0;
    return results[SKIPPED] ? 77 : 1;
}
