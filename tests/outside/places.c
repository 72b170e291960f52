/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One program, compiled once (program.c), in many environments: in a container, without privileges,
 * beside other hooks, with another allocator, in Python, as a plugin. In each the library's default
 * must cache host memory, and never return a stale region.
 */
#include "tests/outside/confine.h"
#include "tests/support/test.h"

#include <sys/wait.h>

#define SKIPS    77  /* the environment is not available; the output says why */
#define UNUSABLE 126 /* the program cannot be executed there */

typedef const char *confinement(void);

/* A program in an environment. */
struct place {
    confinement *confine[4];
    const char *preload, *load;
    const char *argv[4]; /* none: the program */
    bool waits;          /* until its input ends */
};

struct running {
    pid_t pid;
    int in, out;
    char output[32768];
};

/* ---- running ---------------------------------------------------------------------------- */

static void set_environment(const struct place *place)
{
    static const char *const ours[] = {"FI_MR_CACHE_MONITOR", "HMREG_LOG", "HMREG_CACHE_CHECK",
                                       "LD_PRELOAD", "OUTSIDE_LOAD"};

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        unsetenv(ours[i]);
    if (getenv("HMREG_TEST_MONITOR")) /* instead of the default */
        setenv("FI_MR_CACHE_MONITOR", getenv("HMREG_TEST_MONITOR"), 1);
    setenv("HMREG_IFACES", "system", 1);
    if (place->preload)
        setenv("LD_PRELOAD", place->preload, 1);
    if (place->load)
        setenv("OUTSIDE_LOAD", place->load, 1);
    if (place->waits)
        setenv("OUTSIDE_WAIT", "1", 1);
}

static void become(const struct place *place)
{
    static const char *const usual[] = {TEST_PROGRAM, NULL};
    const char *const *argv = place->argv[0] ? place->argv : usual;

    set_environment(place);
    for (int i = 0; place->confine[i]; i++) {
        const char *why = place->confine[i]();

        if (why) {
            dprintf(1, "%s: %s\n", why, strerror(errno));
            _exit(SKIPS);
        }
    }
    execvp(argv[0], (char *const *)argv);
    dprintf(1, "%s: %s\n", argv[0], strerror(errno));
    _exit(UNUSABLE);
}

static void start(struct running *running, const struct place *place)
{
    int in[2], out[2];

    fflush(NULL);
    assert_int_equal(pipe(in) | pipe(out), 0);
    running->pid = test_fork();
    if (running->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(out[1], 2);
        close(in[0]);
        close(in[1]);
        close(out[0]);
        close(out[1]);
        become(place);
    }
    assert_true(running->pid > 0);
    close(in[0]);
    close(out[1]);
    running->in = in[1];
    running->out = out[0];
    *running->output = '\0';
}

/* Reads to the end of a line, or of all output. Discards what does not fit. */
static void read_output(struct running *running, bool line)
{
    size_t len = strlen(running->output);
    char piece[1024];
    ssize_t got = 1;

    while (got > 0 && !(line && strchr(running->output, '\n'))) {
        size_t room = sizeof(running->output) - 1 - len, part;

        got = read(running->out, piece, sizeof(piece));
        part = got < 0 ? 0 : (size_t)got < room ? (size_t)got : room;
        memcpy(running->output + len, piece, part);
        len += part;
        running->output[len] = '\0';
    }
}

static int end(struct running *running)
{
    int status = -1;

    close(running->in);
    read_output(running, false);
    close(running->out);
    waitpid(running->pid, &status, 0);
    return status;
}

static void judge(const struct running *running, int status)
{
    if (WIFEXITED(status) && (WEXITSTATUS(status) == SKIPS || WEXITSTATUS(status) == UNUSABLE))
        test_skip("%s", running->output);
    if (status)
        fail_msg("status %#x: %s", (unsigned)status, running->output);
    print_message("%s", running->output);
}

static void run_in(const struct place *place)
{
    struct running running;

    start(&running, place);
    judge(&running, end(&running));
}

/* ---- containers ------------------------------------------------------------------------- */

TEST(container__nowhere_special__hits)
{
    run_in(&(struct place){0});
}

TEST(container__dockers_filter__hits)
{
    run_in(&(struct place){.confine = {confine_filter}});
}

TEST(container__filter_that_kills__hits)
{
    run_in(&(struct place){.confine = {confine_kill}});
}

TEST(container__read_only__hits)
{
    run_in(&(struct place){.confine = {confine_read_only}});
}

TEST(container__as_nobody__hits)
{
    run_in(&(struct place){.confine = {confine_nobody}});
}

TEST(container__read_only_filtered_as_nobody__hits)
{
    run_in(&(struct place){.confine = {confine_read_only, confine_nobody, confine_filter}});
}

/* An operator's view from outside. */
TEST(container__dockers_filter__stats_show_hits)
{
    struct place inside = {.confine = {confine_filter}, .waits = true};
    struct running program, stats;
    const char *hits;
    char pid[16];
    int status;

    if (!*TEST_TOOL)
        test_skip("the command is not built");
    start(&program, &inside);
    read_output(&program, true);
    snprintf(pid, sizeof(pid), "%d", (int)program.pid);
    start(&stats, &(struct place){.argv = {TEST_TOOL, "stats", pid, "--json"}});
    status = end(&stats);
    judge(&program, end(&program));
    assert_int_equal(status, 0);
    hits = strstr(stats.output, "\"hits\": ");
    assert_non_null(hits);
    assert_true(atoi(hits + strlen("\"hits\": ")) > 0);
}

/* ---- other libraries -------------------------------------------------------------------- */

static void preload(const char *file)
{
    if (!*file)
        test_skip("it is not installed");
    run_in(&(struct place){.preload = file});
}

static void load(const char *file)
{
    if (!*file)
        test_skip("it is not installed");
    run_in(&(struct place){.load = file});
}

TEST(hooks__ucx_loaded_before__hits)
{
    preload(TEST_UCS);
}

TEST(hooks__ucx_loaded_after__hits)
{
    load(TEST_UCS);
}

/* As libfabric's memhooks do, which only hardware providers install. */
TEST(hooks__jumps_over_libc_before__hits)
{
    preload(TEST_PATCHER);
}

TEST(hooks__jumps_over_libc_after__hits)
{
    load(TEST_PATCHER);
}

/* Its UCX component's hooks replace ours. */
TEST(hooks__open_mpi_starts_after__hits_or_says_why)
{
    if (!*TEST_OPENMPI)
        test_skip("it is not installed");
    setenv("OUTSIDE_MAY_LOSE", "1", 1);
    run_in(&(struct place){.load = TEST_OPENMPI});
    unsetenv("OUTSIDE_MAY_LOSE");
}

TEST(allocator__jemalloc__hits)
{
    preload(TEST_JEMALLOC);
}

TEST(allocator__tcmalloc__hits)
{
    preload(TEST_TCMALLOC);
}

TEST(allocator__tcmalloc_minimal__hits)
{
    preload(TEST_TCMALLOC_MINIMAL);
}

/* ---- other programs --------------------------------------------------------------------- */

TEST(python__by_ctypes__hits)
{
    if (!*TEST_PYTHON)
        test_skip("there is no python3");
    run_in(&(struct place){.argv = {TEST_PYTHON, TEST_SCRIPT, TEST_HMREG}});
}

TEST(python__by_ctypes_in_dockers_filter__hits)
{
    if (!*TEST_PYTHON)
        test_skip("there is no python3");
    run_in(&(struct place){.confine = {confine_filter},
                           .argv = {TEST_PYTHON, TEST_SCRIPT, TEST_HMREG}});
}

TEST(plugin__unloaded_and_loaded_again__hits)
{
    run_in(&(struct place){.argv = {TEST_HOST, TEST_MODULE}});
}

TEST(plugin__in_dockers_filter__hits)
{
    run_in(&(struct place){.confine = {confine_filter}, .argv = {TEST_HOST, TEST_MODULE}});
}

TEST_MAIN()
