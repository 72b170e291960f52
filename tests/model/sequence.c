/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache beside a model of it (oracle.h), step by step: random sequences of gets, puts by other
 * threads, changes of memory, failures, forks, from several threads that take turns, so that a
 * sequence is the same at each replay. An episode is a library with random settings and PLAN_STEPS
 * steps. concurrent.c runs the threads at the same time.
 *
 * A failure names its seed and episode, and the fewest steps found that still fail:
 *
 *     HMREG_TEST_SEED=7 HMREG_TEST_EPISODE=3 HMREG_TEST_STEPS=17,30-32 model_sequence watched
 *
 * replays those. HMREG_TEST_OPS=10000000: the number of steps in each case.
 */
#include "tests/model/runner.h"
#include "tests/support/kernel_monitor.h"
#include "tests/support/pinning.h"
#include "tests/support/replay.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Seconds. An episode takes milliseconds. A limit of the whole program could not name the one that
 * hangs, which is then replayed; if a replay hangs, that counts only if the episode did. */
#define HANGS        1200
#define REPLAY_HANGS 60

#if TEST_TSAN
#define PART 20 /* of the usual number of steps */
#elif TEST_ASAN
#define PART 10
#else
#define PART 1
#endif

static struct plan plan;
static struct runner_record *record;

/* ---- one episode, in a child ------------------------------------------------------------ */

/* Without io_uring, the test checks by tags only. */
static void open_ring(void)
{
    if (!pinning.ring && ring_open(&pinning.ring))
        pinning.ring = NULL;
}

static void runner_here(const struct plan_kind *kind, unsigned long seed, uint64_t steps)
{
    unsigned long episode = replay_setting("HMREG_TEST_EPISODE", 0);
    const char *list = getenv("HMREG_TEST_STEPS");

    do {
        plan_make(&plan, kind, seed, episode++);
        if (list)
            replay_keep(plan.keep, plan.count, list);
        alarm(HANGS);
        play(&plan, record);
    } while (atomic_load(&record->steps) < steps && !getenv("HMREG_TEST_EPISODE"));
}

/* cmocka's handlers must not catch the child's crashes. */
static pid_t start_child(void)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    pid_t child;

    fflush(NULL);
    child = test_fork();
    if (child == 0) {
        for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
            signal(deadly[i], SIG_DFL);
        open_ring();
    }
    return child;
}

/* ---- replays ---------------------------------------------------------------------------- */

static bool has_hung(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}

static bool episode_hung;

/* Does the plan fail with the steps that are kept now? Hides its output on stderr. */
static bool still_fails(void)
{
    int status = 0;
    pid_t child = start_child();

    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(0);
        alarm(REPLAY_HANGS);
        play(&plan, record);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && status && has_hung(status) == episode_hung;
}

static void print_replay(const char *test)
{
    fprintf(stderr,
            "replay: HMREG_TEST_SEED=%lu HMREG_TEST_EPISODE=%lu HMREG_TEST_STEPS=", plan.seed,
            plan.episode);
    replay_print_kept(plan.keep, plan.count, stderr);
    fprintf(stderr, " model_sequence %s\n", test);
}

/* Prints the error, and the command that replays it. */
static void report(const struct plan_kind *kind, unsigned long seed, int status)
{
    unsigned step = atomic_load(&record->step);
    char wrong[sizeof(record->wrong)];

    memcpy(wrong, record->wrong, sizeof(wrong));
    plan_make(&plan, kind, seed, atomic_load(&record->episode));
    fprintf(stderr, "%s: seed %lu, episode %lu, step %u, after %llu steps: %s (status %#x)\n",
            kind->name, seed, plan.episode, step, atomic_load(&record->steps),
            *wrong ? wrong : "it died", (unsigned)status);
    for (unsigned i = step + 1; i < plan.count; i++)
        plan.keep[i] = false;
    if (getenv("HMREG_TEST_STEPS"))
        replay_keep(plan.keep, plan.count, getenv("HMREG_TEST_STEPS"));
    episode_hung = has_hung(status);
    if (still_fails()) {
        replay_shorten(plan.keep, plan.count, still_fails);
        print_replay(kind->name);
        plan_print(&plan, stderr);
    } else {
        fprintf(stderr, "played alone, that episode does not fail\n");
    }
    fail_msg("%s", *wrong ? wrong : "it died");
}

/* ---- cases ------------------------------------------------------------------------------ */

/* Without the vendors: a child cannot open a runtime that its parent has opened. */
static void need_monitor(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {
        .size = sizeof(config), .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM), .monitor = monitor};
    struct hmreg *lib;
    int rc = hmreg_open(&config, &lib);

    if (rc == -EPERM || rc == -ENOSYS || rc == -EOPNOTSUPP)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    assert_ok(hmreg_close(lib));
}

static void run(const struct plan_kind *kind, uint64_t steps)
{
    unsigned long seed = replay_setting("HMREG_TEST_SEED", 1);
    int status = -1;
    pid_t child;

    need_monitor(kind->monitor);
    record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(record, MAP_FAILED);
    child = start_child();
    if (child == 0) {
        runner_here(kind, seed, replay_setting("HMREG_TEST_OPS", test_times(steps / PART)));
        exit(0); /* runs a sanitizer's exit checks */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status)
        report(kind, seed, status);
    print_message("%s: %llu steps, %llu gets, %llu hits, %llu at once, %llu forks\n", kind->name,
                  atomic_load(&record->steps), atomic_load(&record->gets),
                  atomic_load(&record->hits), atomic_load(&record->at_once),
                  atomic_load(&record->forks));
    assert_true(atomic_load(&record->gets) > atomic_load(&record->hits));
    assert_true(atomic_load(&record->hits) > 0);
    munmap(record, sizeof(*record));
}

TEST(watched__by_the_kernel__as_the_model_says)
{
    const struct plan_kind kind = {.name = "watched",
                                   .monitor = kernel_monitor(),
                                   .host = true,
                                   .devices = true,
                                   .changes = 15};

    run(&kind, 2000000);
}

TEST(noticed__hits_rely_on_notices__as_the_model_says)
{
    static const struct plan_kind kind = {.name = "noticed",
                                          .monitor = HMREG_MONITOR_USERFAULTFD,
                                          .host = true,
                                          .devices = true,
                                          .notice = true,
                                          .changes = 15};

    run(&kind, 1000000);
}

TEST(hooked__into_libc__as_the_model_says)
{
    static const struct plan_kind kind = {.name = "hooked",
                                          .monitor = HMREG_MONITOR_MEMHOOKS,
                                          .host = true,
                                          .devices = true,
                                          .changes = 60};

    run(&kind, 1000000);
}

TEST(reported__by_the_application__as_the_model_says)
{
    static const struct plan_kind kind = {.name = "reported",
                                          .monitor = HMREG_MONITOR_IMPORT,
                                          .host = true,
                                          .devices = true,
                                          .changes = 60};

    run(&kind, 2000000);
}

TEST(unmonitored__host_memory__never_cached)
{
    static const struct plan_kind kind = {.name = "unmonitored",
                                          .monitor = HMREG_MONITOR_DISABLED,
                                          .host = true,
                                          .devices = true,
                                          .changes = 30};

    run(&kind, 500000);
}

TEST(devices__alone__as_the_model_says)
{
    static const struct plan_kind kind = {
        .name = "devices", .monitor = HMREG_MONITOR_DISABLED, .devices = true};

    run(&kind, 2500000);
}

TEST(loopback__and_its_peers__as_the_model_says)
{
    static const struct plan_kind kind = {.name = "loopback",
                                          .monitor = HMREG_MONITOR_IMPORT,
                                          .fabric = PLAN_LOOPBACK,
                                          .host = true,
                                          .devices = true,
                                          .changes = 60};

    run(&kind, 1000000);
}

TEST_MAIN()
