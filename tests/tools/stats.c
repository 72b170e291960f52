/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * hmreg stats of real processes: idle, under load, killed during the read, of other users, without
 * statistics. */
#include "core/stats/stats_layout.h"
#include "tests/tools/tool.h"

#include <fcntl.h>
#include <hmreg/loopback.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LEN 4096

static char memory[64][LEN];

/* ---- target processes ------------------------------------------------------------------- */

struct target {
    pid_t pid;
    int ready; /* a pipe: a byte arrives when the target is ready */
};

/* In the target. */
static struct hmreg *lib;
static struct hmreg_domain *domain;
static int ready_pipe;

static void require(int rc)
{
    if (rc)
        _exit(1);
}

static void report_ready(void)
{
    require(write(ready_pipe, "r", 1) != 1);
}

static void open_domain(enum hmreg_monitor monitor, uint64_t max_regions)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    struct hmreg_domain_config limits = {.size = sizeof(limits), .max_regions = max_regions};

    require(hmreg_open(&config, &lib));
    require(hmreg_domain_open_loopback(lib, NULL, &limits, &domain));
}

static void get(unsigned index)
{
    struct hmreg_mr *mr;

    require(hmreg_mr_get(domain, memory[index], LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
}

/* run() is called in the target, which then waits until the test kills it. */
static void launch(struct target *target, void (*run)(void))
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    target->pid = fork();
    assert_true(target->pid >= 0);
    if (target->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
        ready_pipe = ends[1];
        run();
        for (;;)
            pause();
    }
    close(ends[1]);
    target->ready = ends[0];
}

static void start(struct target *target, void (*run)(void))
{
    char byte;

    launch(target, run);
    assert_int_equal(read(target->ready, &byte, 1), 1);
}

static void end(struct target *target)
{
    kill(target->pid, SIGKILL);
    assert_int_equal(waitpid(target->pid, NULL, 0), target->pid);
    close(target->ready);
}

/* 6 gets of 2 regions, of them 4 hits; 5 more for a limit of 4; one invalidated; one not cached. */
static void work_a_little(void)
{
    struct hmreg_mr *mr;

    open_domain(HMREG_MONITOR_IMPORT, 4);
    for (unsigned i = 0; i < 6; i++)
        get(i % 2);
    for (unsigned i = 10; i < 15; i++)
        get(i);
    require(hmreg_invalidate(lib, memory[14], 1));
    for (unsigned i = 20; i < 24; i++)
        require(hmreg_mr_get(domain, memory[i], LEN, HMREG_SEND, &mr)); /* kept */
    get(30);
    report_ready();
}

static void work_without_end(void)
{
    open_domain(HMREG_MONITOR_IMPORT, 16);
    report_ready();
    for (unsigned i = 0;; i++)
        get(i * 7 % 24);
}

static void *worker(void *arg)
{
    for (unsigned i = 0;; i++)
        get((i / 8 * 7) % 24);
    return NULL;
}

static void work_on_three_threads(void)
{
    pthread_t thread;

    open_domain(HMREG_MONITOR_IMPORT, 16);
    for (int i = 0; i < 3; i++)
        require(pthread_create(&thread, NULL, worker, NULL));
    report_ready();
}

static pthread_barrier_t done;

static void *work_and_stay(void *arg)
{
    for (unsigned i = 0; i < 1000; i++)
        get(i % 12);
    pthread_barrier_wait(&done);
    for (;;)
        pause();
    return NULL;
}

/* Hits by four threads that stay alive; then what hmreg_domain_stats() returns there. */
static void work_and_report(void)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    pthread_t thread;

    open_domain(HMREG_MONITOR_IMPORT, 16);
    pthread_barrier_init(&done, NULL, 5);
    for (int i = 0; i < 4; i++)
        require(pthread_create(&thread, NULL, work_and_stay, NULL));
    pthread_barrier_wait(&done);
    require(hmreg_domain_stats(domain, &stats));
    report_ready();
    require(write(ready_pipe, &stats, sizeof(stats)) != sizeof(stats));
}

/* ---- documents --------------------------------------------------------------------------- */

static const char *pid_text(pid_t pid)
{
    static char number[16];

    snprintf(number, sizeof(number), "%d", (int)pid);
    return number;
}

static json_t *document_of(pid_t pid)
{
    return tool_document(0, "stats", pid_text(pid), "--json");
}

#define FIRST_DOMAIN "processes/0/libraries/0/domains/0"

static json_t *host_cache(const json_t *document)
{
    return with(list_at(document, FIRST_DOMAIN "/caches"), "iface", "system");
}

static bool lists(const json_t *document, pid_t pid)
{
    const json_t *process;
    size_t i;

    json_array_foreach(list_at(document, "processes"), i, process)
        if (number_at(process, "pid") == pid)
            return true;
    return false;
}

static struct tool text_of(pid_t pid)
{
    return tool_run("stats", pid_text(pid));
}

/* ---- counters --------------------------------------------------------------------------- */

TEST(document__of_a_process__its_counters)
{
    json_t *document, *cache;
    struct target target;

    start(&target, work_a_little);
    document = document_of(target.pid);
    assert_string_equal(words_at(document, "command"), "stats");
    assert_int_equal(json_array_size(list_at(document, "processes")), 1);
    assert_true(lists(document, target.pid));
    assert_string_equal(words_at(document, FIRST_DOMAIN "/provider"), "loopback");
    assert_true(json_is_true(at(document, FIRST_DOMAIN "/caching")));
    cache = host_cache(document);
    assert_int_equal(number_at(cache, "hits"), 4);
    assert_int_equal(number_at(cache, "misses"), 11);
    assert_int_equal(number_at(cache, "uncached"), 1);
    assert_int_equal(number_at(cache, "uncached_by_cause/full"), 1);
    assert_int_equal(number_at(cache, "invalidations"), 1);
    assert_int_equal(number_at(cache, "evictions"), 6);
    assert_int_equal(number_at(cache, "evictions_by_cause/limit"), 6);
    assert_int_equal(number_at(cache, "regions"), 4);
    assert_int_equal(number_at(cache, "bytes"), 4 * LEN);
    assert_int_equal(number_at(cache, "limit_regions"), 4);
    assert_int_equal(number_at(cache, "failures"), 0);
    assert_true(json_is_true(json_object_get(cache, "steady")));
    assert_in_range(number_at(cache, "registrations/timed"), 1, 12);
    end(&target);
}

TEST(openmetrics__of_a_process__its_counters)
{
    struct target target;
    char pid[16], of[160], line[256];
    const char *text;
    static const struct {
        const char *name, *label, *value;
    } samples[] = {{"hmreg_hits_total", "", "4"},
                   {"hmreg_uncached_total", " cause=full", "1"},
                   {"hmreg_evictions_total", " cause=limit", "6"},
                   {"hmreg_regions_limit", "", "4"},
                   {"hmreg_registration_seconds_count", "", "12"}};

    start(&target, work_a_little);
    snprintf(pid, sizeof(pid), "%d", (int)target.pid);
    text = tool_metrics("stats", pid);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        snprintf(of, sizeof(of),
                 " domain=1 fabric=loopback iface=system library=0 pid=%s process=tool_stats "
                 "provider=loopback",
                 pid);
        snprintf(line, sizeof(line), "%s%s%s = %s\n", samples[i].name, samples[i].label, of,
                 samples[i].value);
        assert_says(text, line);
    }
    assert_says(text, " le=+Inf ");
    end(&target);
    assert_int_equal(tool_run("stats", "--openmetrics", "--watch", "1").status, 2);
}

static void work_unwatched(void)
{
    open_domain(HMREG_MONITOR_DISABLED, 4);
    get(0);
    get(0);
    report_ready();
}

TEST(document__without_a_monitor__uncached_as_unwatched)
{
    json_t *cache;
    struct target target;

    start(&target, work_unwatched);
    cache = host_cache(document_of(target.pid));
    assert_int_equal(number_at(cache, "uncached"), 2);
    assert_int_equal(number_at(cache, "uncached_by_cause/unwatched"), 2);
    assert_int_equal(number_at(cache, "uncached_by_cause/full"), 0);
    end(&target);
}

TEST(text__of_a_process__rows_of_its_caches)
{
    struct target target;
    struct tool tool;

    start(&target, work_a_little);
    tool = text_of(target.pid);
    assert_int_equal(tool.status, 0);
    assert_string_equal(tool.err, "");
    assert_says(tool.out, "Process ");
    assert_says(tool.out, "domain 1: loopback");
    assert_says(tool.out, "4 of 4");
    assert_says(tool.out, "16 KiB");
    assert_says(tool.out, "25.0%"); /* 4 hits of 16 gets */
    assert_says(tool.out, "evicted: limit");
    assert_says(tool.out, "99% below");
    assert_says(tool.out, "invalidated");
    assert_silent(tool.out, "failed"); /* nothing did */
    assert_silent(tool.out, "cuda");
    assert_silent(tool.out, "hits/s");
    end(&target);
}

/* Cuts the last cell off a row, of which two spaces or more divide the cells. */
static const char *cut_cell(char *row)
{
    char *end = strchr(row, '\0');

    while (end[-1] == ' ')
        *--end = '\0';
    while (end[-1] != ' ' || end[-2] != ' ')
        end--;
    end[-1] = '\0';
    return end;
}

TEST(text__few_registrations__no_percentile_above_the_longest)
{
    struct target target;
    struct tool tool;
    char row[256];
    const char *table, *longest;

    start(&target, work_a_little);
    tool = text_of(target.pid);
    table = strstr(tool.out, "99% below ");
    assert_non_null(table);
    assert_int_equal(sscanf(strchr(table, '\n'), "\n%255[^\n]", row), 1);
    longest = cut_cell(row);
    assert_string_equal(cut_cell(row), longest);
    end(&target);
}

static void work_within_the_limit(void)
{
    open_domain(HMREG_MONITOR_IMPORT, 4096);
    for (unsigned i = 0; i < 1000; i++)
        get(i % 64);
    report_ready();
}

TEST(text__only_hits_and_misses__fits_80_columns)
{
    struct target target;
    struct tool tool;

    start(&target, work_within_the_limit);
    tool = tool_run_on(80, "stats", pid_text(target.pid));
    end(&target);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "64 of 4096");
    assert_says(tool.out, "domain  cache"); /* columns, not one block per row */
    assert_true(longest_line(tool.out) <= 80);
}

TEST(all__a_process_that_works__is_among_them)
{
    struct target target;
    json_t *document;

    start(&target, work_a_little);
    document = tool_document(0, "stats", "--json");
    assert_true(lists(document, target.pid));
    assert_false(lists(document, getpid()));
    end(&target);
}

/* bash offers the numbers of the processes that show counters. */
TEST(completion__pid__those_that_show_counters)
{
    static const char command[] = "bash -c '. \"$COMPLETION\"; COMP_WORDS=(\"$HMREG_TOOL\" stats "
                                  "\"\"); COMP_CWORD=2; _hmreg; "
                                  "printf \"%s\\n\" \"${COMPREPLY[@]}\"'";
    struct target target;
    bool offered = false;
    char line[32];
    FILE *out;

    start(&target, work_a_little);
    out = popen(command, "r");
    assert_non_null(out);
    while (fgets(line, sizeof(line), out))
        offered |= atoi(line) == target.pid;
    assert_int_equal(pclose(out), 0);
    end(&target);
    assert_true(offered);
}

TEST(load__numbers_only_grow)
{
    int64_t before = 0;
    struct target target;

    start(&target, work_on_three_threads);
    for (int i = 0; i < 10; i++) {
        json_t *document = document_of(target.pid);
        const json_t *cache = host_cache(document);
        int64_t now = number_at(cache, "hits") + number_at(cache, "misses");

        assert_true(now >= before);
        assert_true(json_is_true(json_object_get(cache, "steady")));
        assert_in_range(number_at(cache, "regions"), 0, 16);
        before = now;
    }
    end(&target);
}

TEST(threads__inside_and_outside__the_same_numbers)
{
    struct hmreg_stats stats;
    struct target target;
    json_t *document;
    const json_t *cache;

    start(&target, work_and_report);
    assert_int_equal(read(target.ready, &stats, sizeof(stats)), sizeof(stats));
    document = document_of(target.pid);
    cache = host_cache(document);
    assert_int_equal(stats.hits + stats.misses + stats.uncached, 4000);
    assert_int_equal(number_at(cache, "hits"), stats.hits);
    assert_int_equal(number_at(cache, "misses"), stats.misses);
    assert_int_equal(number_at(cache, "waits"), stats.waits);
    assert_int_equal(number_at(cache, "regions"), 12);
    end(&target);
}

/* ---- processes that end ----------------------------------------------------------------- */

TEST(killed_while_it_is_read__no_crash)
{
    for (unsigned i = 0; i < 10; i++) {
        struct target target;
        struct tool tool;
        pid_t killer;

        start(&target, work_without_end);
        killer = fork();
        if (killer == 0) {
            usleep(i * 600); /* a different part of the read each time, or before it */
            kill(target.pid, SIGKILL);
            _exit(0);
        }
        tool = tool_run("stats", "--json");
        assert_int_equal(tool.status, 0);
        assert_string_equal(tool.err, "");
        assert_int_equal(waitpid(killer, NULL, 0), killer);
        end(&target);
    }
}

static void open_and_close_without_end(void)
{
    report_ready();
    for (;;) {
        open_domain(HMREG_MONITOR_IMPORT, 4);
        get(0);
        require(hmreg_domain_close(domain));
        require(hmreg_close(lib));
    }
}

TEST(closed_while_it_is_read__no_crash)
{
    struct target target;

    start(&target, open_and_close_without_end);
    for (int i = 0; i < 15; i++) {
        struct tool tool = text_of(target.pid);

        assert_in_range(tool.status, 0, 1);
        assert_string_equal(tool.err, "");
        assert_silent(tool.out, "cannot be read");
    }
    end(&target);
}

TEST(no_such_process__says_so)
{
    struct tool tool = text_of(2147483647);

    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "there is no process 2147483647");
}

static void assert_shows_nothing(pid_t pid)
{
    struct tool tool = text_of(pid);

    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "publishes no counters");
    assert_says(tool.out, "HMREG_STATS=off");
}

TEST(process_without_hmreg__says_so)
{
    assert_shows_nothing(getpid());
}

static void work_unseen(void)
{
    setenv("HMREG_STATS", "off", 1);
    open_domain(HMREG_MONITOR_IMPORT, 4);
    get(0);
    report_ready();
}

TEST(switched_off__says_so)
{
    struct target target;

    start(&target, work_unseen);
    assert_shows_nothing(target.pid);
    end(&target);
}

/* The library is the parent's; the child has inherited the descriptor. */
static void work_and_fork(void)
{
    pid_t child;

    open_domain(HMREG_MONITOR_IMPORT, 4);
    get(0);
    child = fork();
    require(child < 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    require(write(ready_pipe, &child, sizeof(child)) != sizeof(child));
}

TEST(child_of_fork__is_not_taken_for_its_parent)
{
    struct target target;
    json_t *document;
    pid_t child;

    launch(&target, work_and_fork);
    assert_int_equal(read(target.ready, &child, sizeof(child)), sizeof(child));
    assert_shows_nothing(child);
    document = document_of(target.pid);
    assert_int_equal(number_at(host_cache(document), "misses"), 1);
    end(&target); /* which ends its child too */
}

/* ---- hostile processes ------------------------------------------------------------------ */

#define FALSE_PAGE "memfd:" STATS_PAGE_NAME " (deleted)"

static int openings; /* an inotify(7) of the test's: an event for each time that it was opened */

/* In the target: waits in open(2) for a process that opens the other end, which so would not wait.
 */
static void *open_other_end(void *arg)
{
    (void)open("/" FALSE_PAGE, O_WRONLY | O_CLOEXEC);
    return NULL;
}

/* Makes a file whose descriptor has a page's name: it is in the root of a mount of its own. */
static void show_a_node(mode_t type)
{
    char folder[] = "/tmp/hmreg-root-XXXXXX", name[64];

    if (!mkdtemp(folder) || unshare(CLONE_NEWNS) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("hmreg", folder, "tmpfs", 0, NULL) || chdir(folder) || mkdir("old", 0700) ||
        syscall(SYS_pivot_root, ".", "old") || chdir("/") ||
        mknod("/" FALSE_PAGE, type | 0600, 0)) {
        rmdir(folder);
        _exit(77);
    }
    snprintf(name, sizeof(name), "old%s", folder);
    rmdir(name);
    require(open("/" FALSE_PAGE, O_PATH | O_CLOEXEC) < 0);
    require(inotify_add_watch(openings, "/" FALSE_PAGE, IN_OPEN) < 0);
}

static void show_a_fifo(void)
{
    pthread_t thread;

    show_a_node(S_IFIFO);
    require(pthread_create(&thread, NULL, open_other_end, NULL));
    report_ready();
}

static void show_a_file(void)
{
    show_a_node(S_IFREG);
    report_ready();
}

static void expect_not_opened(void (*show)(void))
{
    struct inotify_event event;
    struct target target;
    char byte;

    openings = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    launch(&target, show);
    if (read(target.ready, &byte, 1) != 1) {
        end(&target);
        close(openings);
        test_skip("mounting is not permitted here");
    }
    assert_shows_nothing(target.pid);
    assert_int_equal(read(openings, &event, sizeof(event)), -1);
    assert_int_equal(errno, EAGAIN);
    close(openings);
    end(&target);
}

TEST(process_with_a_false_page__not_opened)
{
    expect_not_opened(show_a_fifo);
}

/* Where the file is of a file system that a user wrote (FUSE), the opening may never end. */
TEST(process_with_a_false_page_of_another_file_system__not_opened)
{
    expect_not_opened(show_a_file);
}

/* ---- permission ------------------------------------------------------------------------- */

#define USER_NOBODY 65534

static void stats_as_nobody(void)
{
    if (setgid(USER_NOBODY) == 0 && setuid(USER_NOBODY) == 0)
        execl(getenv("HMREG_TOOL"), "hmreg", "stats", "--json", (char *)NULL);
    printf("cannot be run by user nobody");
}

TEST(other_users_process__counted_and_left_out)
{
    struct target target;
    json_t *document;
    char *out;

    if (geteuid())
        test_skip("only root can become another user");
    start(&target, work_a_little);
    out = output_of(stats_as_nobody, 0);
    end(&target);
    document = tool_keep(json_loads(out, 0, NULL));
    if (!document) {
        test_skip("the command is in a folder that user nobody must not enter");
    }
    assert_false(lists(document, target.pid));
    assert_true(number_at(document, "unreadable") > 0);
}

static pid_t watched_pid;

static void stats_pid_as_nobody(void)
{
    if (setgid(USER_NOBODY) == 0 && setuid(USER_NOBODY) == 0) {
        pid_t child = fork();
        int status = 0;

        if (child == 0) {
            execl(getenv("HMREG_TOOL"), "hmreg", "stats", pid_text(watched_pid), (char *)NULL);
            _exit(127);
        }
        waitpid(child, &status, 0);
        printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
}

TEST(other_users_process_by_number__says_why_not)
{
    struct target target;
    char *out;

    if (geteuid())
        test_skip("only root can become another user");
    start(&target, work_a_little);
    watched_pid = target.pid;
    out = output_of(stats_pid_as_nobody, 0);
    end(&target);
    if (strstr(out, "status 127")) {
        test_skip("the command is in a folder that user nobody must not enter");
    }
    assert_says(out, "may not be inspected");
    assert_says(out, "status 1");
}

/* ---- watching --------------------------------------------------------------------------- */

/* Runs the command in the background; the test reads its output by lines. */
static pid_t start_watch(pid_t pid, const char *option, bool terminal, FILE **out)
{
    int ends[2];
    pid_t tool;

    assert_int_equal(terminal ? openpty(&ends[0], &ends[1], NULL, NULL, NULL) : pipe(ends), 0);
    tool = fork();
    if (tool == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(getenv("HMREG_TOOL"), "hmreg", "stats", pid_text(pid), "--watch", "1", option,
              (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *out = fdopen(ends[0], "r");
    return tool;
}

static json_t *next_reading(FILE *out)
{
    json_t *document = tool_keep(json_loadf(out, JSON_DISABLE_EOF_CHECK, NULL));

    assert_non_null(document);
    return document;
}

TEST(watch__until_the_process_ends__rates_from_the_second_reading)
{
    struct target target;
    json_t *document;
    pid_t tool;
    FILE *out;

    start(&target, work_without_end);
    tool = start_watch(target.pid, "--json", false, &out);
    document = next_reading(out);
    assert_true(json_is_null(json_object_get(host_cache(document), "per_second")));
    document = next_reading(out);
    assert_true(json_is_real(at(host_cache(document), "per_second/hits")));
    end(&target);
    test_await(tool);
    fclose(out);
}

/* Into a pipe: headings, then a line for each look, of one width. */
TEST(watch__no_terminal__a_line_for_each_look)
{
    char headings[256], first[256], second[256];
    struct target target;
    pid_t tool;
    FILE *out;

    start(&target, work_without_end);
    tool = start_watch(target.pid, NULL, false, &out);
    assert_non_null(fgets(headings, sizeof(headings), out));
    assert_non_null(fgets(first, sizeof(first), out));
    assert_non_null(fgets(second, sizeof(second), out));
    assert_says(headings, "hits/s");
    assert_true(first[0] == '2' && second[0] == '2');
    assert_true(strlen(headings) == strlen(first) && strlen(first) == strlen(second));
    end(&target);
    assert_int_equal(waitpid(tool, NULL, 0), tool);
    fclose(out);
}

/* On a terminal: each look begins at the screen's upper end. */
TEST(watch__terminal__redrawn_in_place)
{
    struct target target;
    char line[512];
    int looks = 0;
    pid_t tool;
    FILE *out;

    start(&target, work_without_end);
    setenv("TERM", "xterm", 1);
    tool = start_watch(target.pid, NULL, true, &out);
    while (looks < 2 && fgets(line, sizeof(line), out))
        looks += strstr(line, "\033[H\033[2Jhmreg ") != NULL;
    assert_int_equal(looks, 2);
    end(&target);
    while (fgets(line, sizeof(line), out))
        continue;
    assert_int_equal(waitpid(tool, NULL, 0), tool);
    fclose(out);
}

TEST(watch__nothing_to_watch__fails_at_once)
{
    struct tool tool = tool_run("stats", "2147483647", "--watch", "3600");

    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "there is no process");
}

TEST_MAIN()
