/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the library creates once per process (fork handlers, threads' keys, the epoch's page,
 * membarrier registration, the monitor) when its creation fails: each call of a process's first use
 * of the library fails in turn, in a process of its own. The error is right, nothing leaks, and the
 * next attempt has everything, including hits and the reasons of refusals.
 */
#include "tests/fault/faults.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/loopback.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LEN 4096

static char *memory;  /* of the host's, anonymous */
static char *refused; /* of cuda's, which no path reaches */
static enum hmreg_monitor monitor;

/* ---- calls under test ------------------------------------------------------------------- */

struct way {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg_remote *remote;
    bool found_out; /* hmreg_mr_explain() reported why there is no path */
};

static int open_way(struct way *way)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    struct hmreg_domain_config mapped = {.size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}};
    int rc = hmreg_open(&config, &way->lib);

    return rc ? rc : hmreg_domain_open_loopback(way->lib, NULL, &mapped, &way->domain);
}

/* Twice: a miss, then a hit if the memory is monitored. */
static int get_way(struct way *way)
{
    struct hmreg_mr *mr = NULL;
    int rc = 0;

    for (int i = 0; i < 2 && !rc; i++) {
        rc = hmreg_mr_get(way->domain, memory, LEN, HMREG_ACCESS_REMOTE, &mr);
        if (!rc)
            hmreg_mr_put(mr);
    }
    return rc;
}

/* A token makes its domain serve peers, on a thread. */
static int token_way(struct way *way)
{
    char token[4096];
    size_t size = sizeof(token);
    int rc = hmreg_mr_reg(way->domain, memory, LEN, HMREG_ACCESS_REMOTE, 0, 0, 0, &way->mr, NULL);

    rc = rc ? rc : hmreg_mr_pack(way->mr, token, &size);
    return rc ? rc : hmreg_remote_open(way->domain, token, size, &way->remote);
}

static int refused_way(struct way *way)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg(way->domain, refused, LEN, HMREG_ACCESS_REMOTE, 0, 1, 0, &mr, NULL);

    if (rc != -EOPNOTSUPP)
        return rc;
    way->found_out = !hmreg_mr_explain(NULL, &why) && why.refused == 1;
    return 0;
}

static int go(struct way *way)
{
    int rc = open_way(way);

    rc = rc ? rc : get_way(way);
    rc = rc ? rc : token_way(way);
    return rc ? rc : refused_way(way);
}

static int close_way(struct way *way)
{
    hmreg_remote_close(way->remote);
    return hmreg_mr_close(way->mr) | hmreg_domain_close(way->domain) | hmreg_close(way->lib);
}

/* ---- in a process of its own ------------------------------------------------------------ */

struct scales {
    long blocks, mappings;
    int fds;
};

/* What a process reports to the test. */
static struct report {
    char fired[64]; /* the call that failed; empty: there are fewer */
    char wrong[1024];
    bool opened; /* despite that */
    struct scales left;
} * report;

static void wrong(const char *what, int rc)
{
    if (!report->wrong[0])
        snprintf(report->wrong, sizeof(report->wrong), "%s: %d, %s", what, rc,
                 hmreg_last_error()->text);
}

static bool is_want(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -EAGAIN || rc == -EADDRINUSE || rc == -ENOSYS ||
           rc == -EOPNOTSUPP;
}

static void fail_first(unsigned nth)
{
    struct way way = {.lib = NULL};
    int rc;

    faults_arm(nth);
    rc = go(&way);
    snprintf(report->fired, sizeof(report->fired), "%s", faults_fired() ? faults_fired() : "");
    faults_arm(0);
    report->opened = !rc;
    if (rc && (!report->fired[0] || !is_want(rc) || hmreg_last_error()->code != rc ||
               !hmreg_last_error()->text[0]))
        wrong("not an error of want", rc);
    rc = close_way(&way);
    if (rc)
        wrong("closing what was open", rc);
}

/* One miss and one hit; without a monitor of host memory two registrations. */
static int look_at_stats(const struct way *way)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    int rc = hmreg_monitor_query(way->lib, &info);

    rc = rc ? rc : hmreg_domain_stats(way->domain, &stats);
    if (info.active == HMREG_MONITOR_DISABLED)
        return rc || stats.uncached != 2;
    return rc || stats.misses != 1 || stats.hits != 1;
}

static void succeed(void)
{
    struct way way = {.lib = NULL};
    int rc = go(&way);

    if (rc || !way.found_out)
        wrong("the next time", rc);
    if (look_at_stats(&way))
        wrong("no hit the next time", rc);
    rc = close_way(&way);
    if (rc)
        wrong("closing the next time", rc);
}

static void live(unsigned nth)
{
    fail_first(nth);
    for (int i = 0; i < 2; i++)
        succeed();
    report->left = (struct scales){faults_blocks(), faults_mappings(), test_count_fds()};
}

static void run(unsigned nth)
{
    int status = -1;
    pid_t child;

    *report = (struct report){.opened = false};
    fflush(NULL);
    child = test_fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler must not catch a crash */
        live(nth);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status)
        fail_msg("with call %u failing (%s) the process died", nth, report->fired);
}

/* ---- cases ------------------------------------------------------------------------------ */

static void *map(size_t len)
{
    void *made = test_map(len);

    return made;
}

static void start(enum hmreg_monitor choice)
{
    vendors_reset();
    if (choice != HMREG_MONITOR_MEMHOOKS) /* if userfaultfd fails, the default is hooks */
        faults_hook_libc();
    vendors[HMREG_IFACE_CUDA].export_code = -EIO;
    monitor = choice;
    memory = map(LEN);
    refused = map(LEN);
    vendor_claim(HMREG_IFACE_CUDA, refused, LEN, HMREG_MEM_DEVICE, 0);
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(report, MAP_FAILED);
}

static void end(void)
{
    munmap(memory, LEN);
    munmap(refused, LEN);
    munmap(report, sizeof(*report));
}

/* A run without failures: can this machine run it? */
static struct scales run_undisturbed(void)
{
    run(0);
    if (!report->opened)
        test_skip("there is no such monitor here: %s", report->wrong);
    assert_string_equal(report->wrong, "");
    return report->left;
}

static void each_fails(enum hmreg_monitor choice, const char *const *expected)
{
    unsigned seen = 0, count = 0, nth;
    bool together = choice == HMREG_MONITOR_MEMHOOKS;
    struct scales left;

    start(choice);
    left = run_undisturbed();
    while (expected[count])
        count++;
    for (nth = 1; run(nth), report->fired[0]; nth++) {
        long alone;

        for (unsigned i = 0; i < count; i++)
            seen |= (unsigned)!strcmp(report->fired, expected[i]) << i;
        /* The first mmap() and madvise() are of all wiped pages together (process.c). Where one
         * fails, the page that was needed stays a mapping of its own. The other cases' processes
         * have that mapping before. */
        alone = together && (!strcmp(report->fired, "mmap") || !strcmp(report->fired, "madvise"));
        together = together && strcmp(report->fired, "madvise");
        if (report->wrong[0])
            fail_msg("call %u (%s) failed: %s", nth, report->fired, report->wrong);
        /* Fewer blocks if a thread could not allocate its last error. */
        if (report->left.blocks > left.blocks || report->left.mappings < left.mappings ||
            report->left.mappings > left.mappings + alone || report->left.fds != left.fds)
            fail_msg("call %u (%s) failed, and left %ld blocks, %ld mappings, %d descriptors more",
                     nth, report->fired, report->left.blocks - left.blocks,
                     report->left.mappings - left.mappings, report->left.fds - left.fds);
    }
    print_message("%u calls\n", nth - 1);
    for (unsigned i = 0; i < count; i++)
        if (!(seen & 1u << i))
            fail_msg("%s was not among the calls", expected[i]);
    end();
}

static const char *const with_kernel[] = {"pthread_atfork",
                                          "pthread_key_create",
                                          "pthread_setspecific",
                                          "pthread_create",
                                          "memfd_create",
                                          "syscall(userfaultfd)",
                                          "syscall(membarrier)",
                                          "ioctl",
                                          NULL};
static const char *const with_any[] = {"pthread_key_create", "pthread_create", "mmap",
                                       "syscall(membarrier)", NULL};
static const char *const with_hooks[] = {"pthread_key_create", "mmap", NULL};

TEST(first__userfaultfd__each_call_fails_once)
{
    each_fails(HMREG_MONITOR_USERFAULTFD, with_kernel);
}

TEST(first__whatever_there_is__each_call_fails_once)
{
    each_fails(HMREG_MONITOR_DEFAULT, with_any);
}

TEST(first__memhooks__each_call_fails_once)
{
    each_fails(HMREG_MONITOR_MEMHOOKS, with_hooks);
}

TEST_MAIN()
