/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library does not change what the program sees: random sequences of memory calls run twice,
 * once with gets and puts of the library beside them and once without the library. Results, error
 * numbers, contents, huge pages and the kernel's flags of each page must be the same, and there may
 * be at most MORE_MAPPINGS more mappings. Each run is a process of its own, forked from one parent.
 * A difference names its seed and episode, and the fewest steps found that still differ in the same
 * act:
 *
 *     HMREG_TEST_SEED=7 HMREG_TEST_EPISODE=3 HMREG_TEST_STEPS=17,30-32 differential_memory memhooks
 *
 * replays those. HMREG_TEST_OPS: the number of the program's steps in each case.
 * HMREG_TEST_WITHOUT: names of acts to leave out.
 *
 * Huge pages come from memory that the whole machine shares, and the kernel makes some of its own
 * accord: a difference in pages counts only if it recurs when the episode is replayed.
 */
#include "core/monitor/userfaultfd/uffd.h"
#include "tests/differential/space.h"
#include "tests/differential/trace.h"
#include "tests/differential/witness.h"
#include "tests/support/replay.h"
#include "tests/support/test.h"

#include <hmreg/loopback.h>

#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>

#define STEPS 1000000 /* of the program, in each case */
/* Seconds. An episode takes milliseconds. A limit of the whole program could not name the one that
 * hangs, which is then replayed; if a replay hangs, that counts only if the episode did. */
#define HANGS        1200
#define REPLAY_HANGS 60
#define AGAIN        3 /* repetitions to confirm a difference in pages, or after a signal */

/* AddressSanitizer's malloc maps memory for each size class. */
#if TEST_ASAN
#define PART          20 /* of the usual number of steps */
#define MORE_MAPPINGS 100
#else
#define PART          1
#define MORE_MAPPINGS (16 + 2) /* glibc's arena for the reaper, once a fabric frees there */
#endif

/* Of the two runs. */
enum { WITHOUT, WITH };

static struct plan plan;
static struct trace *traces[2];

static struct finding {
    unsigned step; /* PLAN_STEPS: none */
    bool hung;
    char text[1280];
} finding;

/* ---- a run ------------------------------------------------------------------------------ */

/* cmocka's handlers must not catch the child's crashes. */
static pid_t start_child(void)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    pid_t child;

    fflush(NULL);
    child = test_fork();
    if (child == 0) {
        for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
            signal(deadly[i], SIG_DFL);
    }
    return child;
}

/* The status of the process that ran. */
static int play_in_child(int which, unsigned seconds)
{
    struct trace *trace = traces[which];
    int status = -1;
    pid_t child;

    atomic_store(&trace->step, 0);
    memset(trace->outcomes, 0, sizeof(trace->outcomes));
    *trace->wrong = *trace->detail = '\0';
    child = start_child();
    if (child == 0) {
        alarm(seconds);
        play(&plan, which == WITH, trace);
        exit(0); /* runs a sanitizer's exit checks */
    }
    waitpid(child, &status, 0);
    return status;
}

/* ---- differences ------------------------------------------------------------------------ */

static void describe(char *text, size_t room, const struct outcome *outcome)
{
    snprintf(text, room, "%d%s%s, %#" PRIx64 ", %#" PRIx64, outcome->rc, outcome->error ? " " : "",
             outcome->error ? strerrorname_np(outcome->error) : "", outcome->value, outcome->more);
}

static bool is_same(const struct step *step, const struct outcome *with,
                    const struct outcome *without)
{
    if (step->act == ACT_MAPPINGS)
        return with->value <= without->value + MORE_MAPPINGS;
    return memcmp(with, without, sizeof(*with)) == 0;
}

static long more_mappings, more_for_kernel; /* the maxima seen */

static void note_most(long *most, uint64_t with, uint64_t without)
{
    if ((long)with - (long)without > *most)
        *most = (long)with - (long)without;
}

static void note_mappings(unsigned index)
{
    const struct outcome *with = &traces[WITH]->outcomes[index];
    const struct outcome *without = &traces[WITHOUT]->outcomes[index];

    if (plan.steps[index].act != ACT_MAPPINGS)
        return;
    note_most(&more_mappings, with->value, without->value);
    note_most(&more_for_kernel, with->more, without->more);
}

/* Outcomes that also depend on the machine's memory as a whole. */
static bool is_of_pages(unsigned index)
{
    const struct step *step = &plan.steps[index];

    return step->act == ACT_LAYOUT || step->act == ACT_UNUSED || step->act == ACT_RESIDENT ||
           step->area == AREA_HUGE;
}

static unsigned long busy_count;

static bool find_difference(void)
{
    bool busy = false; /* in one of the runs: its pages are others from then on */

    for (unsigned i = 0; i < plan.count; i++) {
        const struct outcome *with = &traces[WITH]->outcomes[i];
        const struct outcome *without = &traces[WITHOUT]->outcomes[i];
        char texts[2][128];

        note_mappings(i);
        busy |= with->busy || without->busy;
        busy_count += with->busy || without->busy;
        if (i > atomic_load(&traces[WITH]->step) || is_same(&plan.steps[i], with, without) ||
            (busy && is_of_pages(i)))
            continue;
        describe(texts[WITHOUT], sizeof(texts[0]), without);
        describe(texts[WITH], sizeof(texts[0]), with);
        finding.step = i;
        snprintf(finding.text, sizeof(finding.text), "without the library: %s; with it: %s",
                 texts[WITHOUT], texts[WITH]);
        return true;
    }
    return false;
}

static void describe_death(int which, int status)
{
    const char *wrong = traces[which]->wrong;

    finding.hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    finding.step = atomic_load(&traces[which]->step);
    if (finding.step >= plan.count)
        finding.step = plan.count - 1;
    snprintf(finding.text, sizeof(finding.text), "%s the library it died, status %#x (%s)%s%s",
             which == WITH ? "with" : "without", (unsigned)status,
             WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended itself",
             *wrong ? ": " : "", wrong);
}

/* Plays the plan both ways. Stores the first difference in finding. */
static bool differs_in(unsigned seconds)
{
    int status = plan.kind->witness ? 0 : play_in_child(WITHOUT, seconds);

    finding.step = PLAN_STEPS;
    finding.hung = false;
    if (status) {
        describe_death(WITHOUT, status);
        return true;
    }
    status = play_in_child(WITH, seconds);
    if (!plan.kind->witness && find_difference())
        return true;
    if (status)
        describe_death(WITH, status);
    return status != 0;
}

static bool differs(void)
{
    for (int times = 0; times < AGAIN; times++) {
        if (!differs_in(HANGS))
            return false;
        if (finding.step < PLAN_STEPS && !is_of_pages(finding.step))
            return true;
    }
    return true;
}

/* ---- reports ---------------------------------------------------------------------------- */

static unsigned found_act;
static bool found_hung;

/* The seed does not determine when a signal arrives, so such an episode is repeated more often. */
static bool still_differs(void)
{
    for (int times = found_act == ACT_SIGNAL ? AGAIN : 1; times > 0; times--)
        if (differs_in(REPLAY_HANGS) && plan.steps[finding.step].act == found_act &&
            finding.hung == found_hung)
            return true;
    return false;
}

static void keep_until(unsigned last)
{
    for (unsigned i = last + 1; i < plan.count; i++)
        plan.keep[i] = false;
}

static void print_layouts(void)
{
    if (found_act == ACT_LAYOUT || found_act == ACT_UNUSED)
        fprintf(stderr, "layout without the library:\n%swith it:\n%s", traces[WITHOUT]->detail,
                traces[WITH]->detail);
}

static void print_replay(void)
{
    fprintf(stderr,
            "replay: HMREG_TEST_SEED=%lu HMREG_TEST_EPISODE=%lu HMREG_TEST_STEPS=", plan.seed,
            plan.episode);
    replay_print_kept(plan.keep, plan.count, stderr);
    fprintf(stderr, " differential_memory %s\n", plan.kind->name);
    for (unsigned i = 0; i < plan.count; i++)
        if (plan.keep[i])
            plan_print_step(&plan, i, stderr);
}

static void report(uint64_t steps)
{
    found_act = plan.steps[finding.step].act;
    found_hung = finding.hung;
    fprintf(stderr, "%s: seed %lu, episode %lu, after %" PRIu64 " steps, in\n  ", plan.kind->name,
            plan.seed, plan.episode, steps);
    plan_print_step(&plan, finding.step, stderr);
    fprintf(stderr, "  %s\n", finding.text);
    keep_until(finding.step);
    if (still_differs()) {
        replay_shorten(plan.keep, plan.count, still_differs);
        still_differs();
        fprintf(stderr, "shortened: %s\n", finding.text);
        print_replay();
        print_layouts();
    } else {
        fprintf(stderr,
                "played again, HMREG_TEST_SEED=%lu HMREG_TEST_EPISODE=%lu does not differ\n",
                plan.seed, plan.episode);
    }
    fail_msg("%s", finding.text);
}

/* ---- cases ------------------------------------------------------------------------------ */

/* The monitor that a default get chooses: nearly always memhooks, or where its module is loaded
 * counter, so the default is compared with that. */
static bool is_kinds(struct hmreg *lib)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    if (hmreg_domain_open_loopback(lib, NULL, NULL, &domain) ||
        hmreg_mr_get(domain, &plan, sizeof(plan), HMREG_REMOTE_READ, &mr) ||
        hmreg_monitor_query(lib, &info))
        return true;
    snprintf(traces[WITH]->wrong, sizeof(traces[WITH]->wrong), "the default is another monitor: %s",
             info.why);
    return plan.kind->monitor != HMREG_MONITOR_DEFAULT || info.active == HMREG_MONITOR_MEMHOOKS ||
           info.active == HMREG_MONITOR_COUNTER;
}

static int try_monitor(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM),
                                  .monitor = plan.kind->monitor};
    struct hmreg *lib;
    int rc = hmreg_open(&config, &lib);

    if (!rc)
        return is_kinds(lib) ? 0 : 77;
    snprintf(traces[WITH]->wrong, sizeof(traces[WITH]->wrong), "%s", hmreg_last_error()->text);
    return rc == -EPERM || rc == -ENOSYS || rc == -EOPNOTSUPP ? 77 : 1;
}

static void need_monitor(void)
{
    int status = -1;
    pid_t child = start_child();

    if (child == 0)
        _exit(try_monitor());
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        test_skip("%s", traces[WITH]->wrong);
    assert_int_equal(status, 0);
}

static struct trace *share_trace(void)
{
    void *trace =
        mmap(NULL, sizeof(struct trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(trace, MAP_FAILED);
    return trace;
}

static unsigned programs_steps(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < plan.count; i++)
        count += plan.keep[i] && plan_is_programs(&plan.steps[i]);
    return count;
}

/* Before Linux 6.17 the end of userfaultfd's thread may keep two neighbours from being one mapping
 * (docs/userfaultfd.md), which huge pages and the program's own userfaultfd show. */
static const char *left_out(const struct plan_kind *kind)
{
    const char *names = getenv("HMREG_TEST_WITHOUT");
    struct owned_fd file;

    if (names || kind->monitor != HMREG_MONITOR_USERFAULTFD || uffd_open(true, &file))
        return names;
    names = uffd_is_strict(file.fd, true) ? NULL : "flush";
    owned_fd_close(&file);
    return names;
}

static uint64_t play_all(const struct plan_kind *kind, uint64_t steps)
{
    unsigned long seed = replay_setting("HMREG_TEST_SEED", 1);
    unsigned long episode = replay_setting("HMREG_TEST_EPISODE", 0);
    const char *list = getenv("HMREG_TEST_STEPS");
    const char *names = left_out(kind);
    uint64_t played = 0;

    do {
        plan_make(&plan, kind, seed, episode++, names);
        if (list && !replay_keep(plan.keep, plan.count, list))
            fail_msg("HMREG_TEST_STEPS is %s", list);
        played += programs_steps();
        if (differs())
            report(played);
    } while (played < steps && !getenv("HMREG_TEST_EPISODE"));
    return played;
}

static void run(const struct plan_kind *kind)
{
    /* The default is one of the other monitors, which run all their steps. */
    uint64_t steps = STEPS / PART / (kind->monitor == HMREG_MONITOR_DEFAULT ? 10 : 1), played;
    const struct trace *with;

    if (kind->witness && !witness_is_possible())
        test_skip("the kernel permits no io_uring here");
    if (!space_find())
        test_skip("something is mapped where the program's areas would be");
    plan.kind = kind;
    traces[WITHOUT] = share_trace();
    with = traces[WITH] = share_trace();
    need_monitor();
    played = play_all(kind, replay_setting("HMREG_TEST_OPS", test_times(steps)));
    print_message("%s: %" PRIu64
                  " steps of the program, %ld more mappings at the most (%ld as the kernel "
                  "counts), %lu gets, of which %lu failed, %lu hits; huge pages not compared after "
                  "%lu steps, for which the kernel was busy\n",
                  kind->name, played, more_mappings, more_for_kernel, with->gets, with->failed_gets,
                  with->hits, busy_count);
    assert_true(getenv("HMREG_TEST_STEPS") || with->gets > with->failed_gets);
    assert_true(getenv("HMREG_TEST_STEPS") || (with->hits > 0) == kind->caches);
    munmap(traces[WITHOUT], sizeof(struct trace));
    munmap(traces[WITH], sizeof(struct trace));
}

TEST(userfaultfd__beside_gets_and_puts__the_program_sees_no_difference)
{
    static const struct plan_kind kind = {.name = "userfaultfd",
                                          .monitor = HMREG_MONITOR_USERFAULTFD,
                                          .caches = true,
                                          .watched = true,
                                          .spares = true};

    run(&kind);
}

TEST(memhooks__beside_gets_and_puts__the_program_sees_no_difference)
{
    static const struct plan_kind kind = {
        .name = "memhooks", .monitor = HMREG_MONITOR_MEMHOOKS, .caches = true};

    run(&kind);
}

TEST(default__beside_gets_and_puts__the_program_sees_no_difference)
{
    static const struct plan_kind kind = {.name = "default", .caches = true};

    run(&kind);
}

TEST(import__beside_gets_and_puts__the_program_sees_no_difference)
{
    static const struct plan_kind kind = {
        .name = "import", .monitor = HMREG_MONITOR_IMPORT, .caches = true, .reports = true};

    run(&kind);
}

TEST(disabled__beside_gets_and_puts__the_program_sees_no_difference)
{
    static const struct plan_kind kind = {.name = "disabled", .monitor = HMREG_MONITOR_DISABLED};

    run(&kind);
}

TEST(witness_hooks__programs_with_calls_past_libc__no_region_is_stale)
{
    static const struct plan_kind kind = {.name = "witness_hooks",
                                          .monitor = HMREG_MONITOR_MEMHOOKS,
                                          .caches = true,
                                          .witness = true};

    run(&kind);
}

TEST(witness_events__programs_with_calls_past_libc__no_region_is_stale)
{
    static const struct plan_kind kind = {.name = "witness_events",
                                          .monitor = HMREG_MONITOR_USERFAULTFD,
                                          .caches = true,
                                          .watched = true,
                                          .spares = true,
                                          .witness = true};

    run(&kind);
}

TEST(witness_any__programs_with_calls_past_libc__no_region_is_stale)
{
    static const struct plan_kind kind = {
        .name = "witness_any", .caches = true, .spares = true, .witness = true};

    run(&kind);
}

/* Disables address randomization, if permitted, so that a seed always yields the same addresses. */
static void fix_addresses(char **argv)
{
    int now = personality(0xffffffff);

    if (now == -1 || now & ADDR_NO_RANDOMIZE ||
        personality((unsigned)now | ADDR_NO_RANDOMIZE) == -1)
        return;
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    fix_addresses(argv);
    return test_main(argc, argv);
}
