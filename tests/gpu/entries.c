/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See entries.h. A child reports a failure as a sentence on standard error and status 1.
 */
#include "tests/gpu/entries.h"

#include <pthread.h>
#include <sys/wait.h>

#define THREADS 8
#define TIMES   10

/* ---- expected results of a runtime -------------------------------------------------------- */

static struct hmreg *open_lib(const struct entry *entry, struct hmreg_runtime_info *info)
{
    const struct hmreg_config config = {.size = sizeof(config),
                                        .ifaces = HMREG_IFACE_BIT(entry->iface)};
    struct hmreg *lib = NULL;

    *info = (struct hmreg_runtime_info){.size = sizeof(*info)};
    if (!hmreg_open(&config, &lib) && !hmreg_runtime_query(lib, entry->iface, info))
        return lib;
    fprintf(stderr, "hmreg does not open: %s\n", hmreg_last_error()->text);
    return NULL;
}

/* The runtime does not open, for this reason. */
static bool refused(const struct hmreg_runtime_info *info, const char *why)
{
    if (!info->present && info->devices == 0 && strstr(info->why, why))
        return true;
    fprintf(stderr, "%d devices, \"%s\", without \"%s\"\n", info->devices, info->why, why);
    return false;
}

static bool as_expected(const struct entry *entry, const struct hmreg_runtime_info *info)
{
    if (!entry->devices)
        return refused(info, entry->why);
    if (info->present && info->devices == entry->devices &&
        (!entry->library || strstr(info->library, entry->library)))
        return true;
    fprintf(stderr, "%s: %d devices, not %d: %s\n", info->library, info->devices, entry->devices,
            info->why);
    return false;
}

/* An opened library queries its runtime about memory of the process, which is not the runtime's. */
static bool serves(struct hmreg *lib)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    char byte = 0;

    if (!hmreg_query(lib, &byte, 1, &info) && info.iface == HMREG_IFACE_SYSTEM)
        return true;
    fprintf(stderr, "the stack is of iface %d: %s\n", info.iface, hmreg_last_error()->text);
    return false;
}

static bool close_lib(struct hmreg *lib)
{
    if (!hmreg_close(lib))
        return true;
    fprintf(stderr, "hmreg does not close: %s\n", hmreg_last_error()->text);
    return false;
}

static bool open_and_close(const struct entry *entry)
{
    struct hmreg_runtime_info info;
    struct hmreg *lib = open_lib(entry, &info);

    return lib && as_expected(entry, &info) && serves(lib) && close_lib(lib);
}

/* ---- processes ---------------------------------------------------------------------------- */

/* Ends by _exit(): a child must not run exit handlers of its parent's runtime. */
static pid_t begin(bool (*run)(const struct entry *), const struct entry *entry)
{
    pid_t child = fork();

    if (child == 0)
        _exit(run(entry) ? 0 : 1);
    return child;
}

static void in_a_process(bool (*run)(const struct entry *), const struct entry *entry)
{
    if (entry->need)
        entry->need();
    assert_true(test_ended_well(begin(run, entry)));
}

/* In a process whose parent did not start the runtime; also tried in its exit handlers. */
static void in_a_program(bool (*run)(const struct entry *), const struct entry *entry)
{
    pid_t child;

    if (entry->need)
        entry->need();
    fflush(NULL);
    child = fork();
    if (child == 0)
        exit(run(entry) ? 0 : 1);
    assert_true(test_ended_well(child));
}

static bool application(const struct entry *entry)
{
    const char *wrong = entry->application();

    if (wrong)
        fprintf(stderr, "the application: %s\n", wrong);
    return !wrong;
}

/* ---- ways to open ------------------------------------------------------------------------- */

void entries_open(const struct entry *entry)
{
    in_a_program(open_and_close, entry);
}

static bool open_twice(const struct entry *entry)
{
    struct hmreg_runtime_info info;
    struct hmreg *first = open_lib(entry, &info), *second;

    if (!first || !as_expected(entry, &info))
        return false;
    second = open_lib(entry, &info);
    return second && as_expected(entry, &info) && serves(first) && serves(second) &&
           close_lib(first) && serves(second) && close_lib(second);
}

void entries_open_twice(const struct entry *entry)
{
    in_a_program(open_twice, entry);
}

static bool open_after_failure(const struct entry *entry)
{
    struct hmreg_runtime_info info;
    struct hmreg *lib;

    setenv(entry->fault, entry->fault_value, 1);
    lib = open_lib(entry, &info);
    if (!lib || !refused(&info, entry->fault_why) || !serves(lib) || !close_lib(lib))
        return false;
    unsetenv(entry->fault);
    if (!entry->fault_stays)
        return open_and_close(entry);
    lib = open_lib(entry, &info);
    return lib && refused(&info, entry->fault_why) && close_lib(lib);
}

static bool open_often(const struct entry *entry)
{
    for (int i = 0; i < TIMES; i++)
        if (!open_and_close(entry))
            return false;
    return true;
}

/* A runtime whose every start fails counts as failed before. */
void entries_open_after_failure(const struct entry *entry)
{
    if (entry->devices)
        assert_non_null(entry->fault);
    in_a_program(entry->fault ? open_after_failure : open_often, entry);
}

void entries_open_after_close(const struct entry *entry)
{
    in_a_program(open_often, entry);
}

static bool is_refused(const struct entry *entry)
{
    struct hmreg_runtime_info info;
    struct hmreg *lib = open_lib(entry, &info);

    return lib && refused(&info, "a parent of this process used") && serves(lib) && close_lib(lib);
}

static bool open_in_child_of_user(const struct entry *entry)
{
    struct hmreg_runtime_info info;
    struct hmreg *lib = open_lib(entry, &info);

    return lib && as_expected(entry, &info) && test_ended_well(begin(is_refused, entry)) &&
           serves(lib) && close_lib(lib) && test_ended_well(begin(is_refused, entry)) &&
           open_and_close(entry);
}

/* The monitor's thread runs, and some runtimes' own. */
void entries_open_in_child_of_user(const struct entry *entry)
{
    test_forks_with_threads();
    in_a_program(open_in_child_of_user, entry);
}

/* The parent's library is open and has answered. It needs the runtime once the application has
 * loaded it. */
static bool start_at_first_need(const struct entry *entry)
{
    struct hmreg *lib = NULL;

    if (hmreg_open(NULL, &lib) || !serves(lib) || !test_ended_well(begin(open_often, entry)))
        return false;
    return application(entry) && serves(lib) && test_ended_well(begin(is_refused, entry)) &&
           close_lib(lib);
}

void entries_start_at_first_need(const struct entry *entry)
{
    test_forks_with_threads();
    in_a_program(start_at_first_need, entry);
}

/* Its parent opens it afterwards, too, while a second child has it open. */
static bool open_in_child_only(const struct entry *entry)
{
    pid_t second;
    bool well = test_ended_well(begin(open_often, entry));

    second = begin(open_often, entry);
    well = open_often(entry) && well;
    return test_ended_well(second) && well;
}

void entries_open_in_child_only(const struct entry *entry)
{
    in_a_process(open_in_child_only, entry);
}

/* ---- threads ------------------------------------------------------------------------------ */

static void *opener(void *entry)
{
    return open_often(entry) ? NULL : "failed";
}

static bool begin_threads(pthread_t *threads, const struct entry *entry)
{
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, opener, (void *)(uintptr_t)entry))
            return false;
    return true;
}

static bool end_threads(const pthread_t *threads)
{
    bool well = true;

    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;

        well = !pthread_join(threads[i], &failed) && !failed && well;
    }
    return well;
}

static bool open_on_threads(const struct entry *entry)
{
    pthread_t threads[THREADS];

    return begin_threads(threads, entry) && end_threads(threads);
}

void entries_open_on_threads(const struct entry *entry)
{
    in_a_program(open_on_threads, entry);
}

/* A child of these was forked before the first start, or is refused because its parent used the
 * runtime or was loading it at the fork. */
static bool answers_or_is_refused(const struct entry *entry)
{
    struct hmreg_runtime_info info;
    struct hmreg *lib = open_lib(entry, &info);
    bool refused = lib && strstr(info.why, " parent");

    return lib && (refused || as_expected(entry, &info)) && serves(lib) && close_lib(lib);
}

static bool fork_while_threads_open(const struct entry *entry)
{
    pthread_t threads[THREADS];
    bool well = begin_threads(threads, entry);

    for (int i = 0; well && i < TIMES; i++)
        well = test_ended_well(begin(answers_or_is_refused, entry));
    return end_threads(threads) && well;
}

void entries_fork_while_threads_open(const struct entry *entry)
{
    test_forks_while_threads_allocate();
    in_a_program(fork_while_threads_open, entry);
}

/* ---- the application ---------------------------------------------------------------------- */

static bool open_beside_application(const struct entry *entry)
{
    return application(entry) && open_and_close(entry) && open_and_close(entry) &&
           application(entry);
}

static bool open_before_application(const struct entry *entry)
{
    return open_and_close(entry) && application(entry) && open_and_close(entry) &&
           application(entry);
}

void entries_open_beside_application(const struct entry *entry)
{
    in_a_program(open_beside_application, entry);
    in_a_program(open_before_application, entry);
}
