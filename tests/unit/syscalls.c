/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg-syscalls(7) is true: a process that a filter ends for every call that the page does not
 * list lives, one that is ended for the special ones too lives with HMREG_SYSCALLS=plain, and each
 * call that is refused has the effect that the page says.
 */
#include "tests/support/code_filters.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <hmreg/plan.h>
#include <sys/wait.h>

#define LEN   ((size_t)64 << 10)
#define SKIPS 77

/* ---- the page --------------------------------------------------------------------------- */

enum listed { NOT, BASIC = 1, PLAIN = 2, SPECIAL = 4 };

/* What a refused call does to a program that uses the default monitor, memhooks. */
enum effect {
    UNTRIED,  /* the page takes the call for granted */
    NONE,     /* all works */
    UNHOOKED, /* memhooks are not used, and the reason has `words` */
    FAILS,    /* a call fails, and its error has `words` */
};

#define TAKEN(call)                                                                                \
    {                                                                                              \
        .name = #call, .number = SYS_##call                                                        \
    }
#define OTHER(call)                                                                                \
    {                                                                                              \
        .name = #call, .number = SYS_##call, .effect = NONE                                        \
    }
#define CALL(call, what, why)                                                                      \
    {                                                                                              \
        .name = #call, .number = SYS_##call, .effect = what, .words = why                          \
    }

static struct call {
    const char *name;
    int number;
    enum effect effect;
    const char *words;
    unsigned listed; /* a set of enum listed */
} calls[] = {
    TAKEN(mmap),
    TAKEN(munmap),
    TAKEN(brk),
    TAKEN(close),
    TAKEN(read),
    TAKEN(write),
    TAKEN(clone3),
    TAKEN(clone),
    TAKEN(futex),
    TAKEN(exit),
    TAKEN(set_robust_list),
    TAKEN(rseq),
    TAKEN(rt_sigprocmask),
    TAKEN(rt_sigaction),
    TAKEN(nanosleep),
    TAKEN(clock_nanosleep),
    TAKEN(clock_gettime),
    TAKEN(sched_yield),
    TAKEN(sched_getaffinity),
    TAKEN(restart_syscall),
    TAKEN(rt_sigreturn),
    TAKEN(exit_group),
#ifdef SYS_poll
    TAKEN(poll),
#else
    {.name = "poll", .number = -1},
#endif
    TAKEN(ppoll),
    TAKEN(fstat),
    TAKEN(newfstatat),
    TAKEN(fstatfs),
    CALL(madvise, UNHOOKED, "MADV_WIPEONFORK"),
    CALL(mprotect, FAILS, "mprotect"),
    CALL(openat, FAILS, "/proc/thread-self/maps"),
    OTHER(fcntl),
    CALL(getrandom, FAILS, "getrandom"),
    OTHER(sysinfo),
    OTHER(prctl),
    OTHER(sched_setaffinity),
    OTHER(sched_setscheduler),
    OTHER(sched_get_priority_min),
    OTHER(sched_get_priority_max),
    TAKEN(getpid),
    TAKEN(gettid),
    TAKEN(getuid),
    TAKEN(geteuid),
    OTHER(prlimit64),
    OTHER(capget),
    OTHER(getdents64),
    OTHER(lseek),
    CALL(pipe2, FAILS, "pipe"),
    CALL(membarrier, UNHOOKED, "membarrier"),
    OTHER(mremap),
    OTHER(msync),
    OTHER(pwrite64),
    OTHER(pread64),
    OTHER(mincore),
    OTHER(process_vm_readv),
    OTHER(ioctl),
    OTHER(memfd_create),
    OTHER(fallocate),
    OTHER(userfaultfd),
    OTHER(uname),
    OTHER(close_range),
#ifdef SYS_readlink
    OTHER(readlink),
#else
    {.name = "readlink", .number = SYS_readlinkat, .effect = NONE},
#endif
#ifdef SYS_access
    OTHER(access),
#else
    {.name = "access", .number = SYS_faccessat, .effect = NONE},
#endif
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static struct call *call_named(const char *name, size_t len)
{
    for (size_t i = 0; i < CALLS; i++)
        if (strlen(calls[i].name) == len && !memcmp(calls[i].name, name, len))
            return &calls[i];
    fail_msg("the page lists %.*s, which this test does not know", (int)len, name);
    return NULL;
}

/* A line such as "**mremap**, **msync**". */
static void read_names(const char *line, enum listed section)
{
    for (const char *at = line; (at = strstr(at, "**")); at += 2) {
        const char *end = strstr(at + 2, "**");

        assert_non_null(end);
        call_named(at + 2, (size_t)(end - at) - 2)->listed |= section;
        at = end;
    }
}

static void read_page(void)
{
    FILE *page = fopen(TEST_PAGE, "re");
    enum listed section = NOT;
    char line[1024];

    assert_non_null(page);
    while (fgets(line, sizeof(line), page)) {
        if (!strncmp(line, "# ", 2))
            section = !strcmp(line, "# BASIC CALLS\n")     ? BASIC
                      : !strcmp(line, "# PLAIN CALLS\n")   ? PLAIN
                      : !strcmp(line, "# SPECIAL CALLS\n") ? SPECIAL
                                                           : NOT;
        else if (section && !strncmp(line, "**", 2))
            read_names(line, section);
    }
    fclose(page);
    for (size_t i = 0; i < CALLS; i++)
        if (!calls[i].listed)
            fail_msg("the page does not list %s", calls[i].name);
}

/* ---- filters ---------------------------------------------------------------------------- */

#define STATEMENT(...)  (struct sock_filter) BPF_STMT(__VA_ARGS__)
#define JUMP(...)       (struct sock_filter) BPF_JUMP(__VA_ARGS__)
#define LOAD(field)     STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define EXECUTABLE_ONLY (-2)

/* mprotect(2) is permitted, but not for code. */
static struct sock_filter *add_mprotect(struct sock_filter *at, uint32_t code)
{
    *at++ = JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4);
    *at++ = LOAD(args[2]);
    *at++ = JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
    *at++ = STATEMENT(BPF_RET | BPF_K, code);
    *at++ = STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return at;
}

/* Ends the process for each call that the page does not list in these sections. */
static bool permit(unsigned sections)
{
    struct sock_filter code[2 * CALLS + 8], *at = code;

    *at++ = LOAD(nr);
    if (!(sections & SPECIAL))
        at = add_mprotect(at, SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < CALLS; i++) {
        if (!(calls[i].listed & sections) || calls[i].number < 0)
            continue;
        *at++ = JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0, 1);
        *at++ = STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    *at++ = STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    return code_filter(&(struct sock_fprog){(unsigned short)(at - code), code});
}

static bool refuse(int number)
{
    struct sock_filter code[8], *at = code;

    *at++ = LOAD(nr);
    if (number == EXECUTABLE_ONLY) {
        at = add_mprotect(at, SECCOMP_RET_ERRNO | EPERM);
    } else {
        *at++ = JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
        *at++ = STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    *at++ = STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return code_filter(&(struct sock_fprog){(unsigned short)(at - code), code});
}

/* ---- a program -------------------------------------------------------------------------- */

/* In memory that the children share with the test. */
static struct outcome {
    int rc;
    char text[768]; /* of the call that failed */
    struct hmreg_monitor_info monitor;
    uint64_t hits;
} * outcome;

/* What a provider asks when a registration fails with EFAULT: of memory and of a file. */
static void look_for_causes(char *memory)
{
    struct iovec iov[2] = {{memory, LEN}, {calls, 1}};
    char text[INSIDE_CAUSE_BYTES];

    inside_find_cause(iov, 2, false, text);
}

static int use_domain(struct hmreg *lib, struct hmreg_domain *domain, char *memory)
{
    struct hmreg_plan plan = {.size = sizeof(plan)};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    uint8_t token[4096];
    size_t size = sizeof(token);
    struct hmreg_mr *mr;
    int rc = 0;

    for (int i = 0; i < 3 && !rc; i++) {
        rc = hmreg_mr_get(domain, memory, LEN, HMREG_ACCESS_REMOTE, &mr);
        if (!rc)
            hmreg_mr_put(mr);
    }
    hmreg_domain_stats(domain, &stats);
    hmreg_monitor_query(lib, &outcome->monitor);
    outcome->hits = stats.hits;
    memory =
        mmap(memory, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    rc = rc ? rc : hmreg_copy(lib, memory, memory + LEN / 2, LEN / 2);
    rc = rc ? rc : hmreg_domain_plan(domain, HMREG_IFACE_SYSTEM, 0, LEN, &plan);
    if (rc || (rc = hmreg_mr_reg(domain, memory, LEN, HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL)))
        return rc;
    rc = hmreg_mr_pack(mr, token, &size);
    hmreg_mr_close(mr);
    look_for_causes(memory);
    return rc;
}

static int use(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {
        .size = sizeof(config), .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM), .monitor = monitor};
    char *memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib = NULL;
    int rc = hmreg_open(&config, &lib);

    if (!rc && !(rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domain)))
        rc = use_domain(lib, domain, memory);
    snprintf(outcome->text, sizeof(outcome->text), "%s", rc ? hmreg_last_error()->text : "");
    outcome->rc = rc;
    hmreg_domain_close(domain);
    return hmreg_close(lib);
}

enum { UNFILTERED = 1 << 10, REFUSED };

/* sections: permitted ones; UNFILTERED; REFUSED: without the call of this number. The monitor is by
 * name, if any. */
static const struct outcome *run(unsigned sections, int number, enum hmreg_monitor monitor)
{
    int status = -1;
    pid_t child;

    memset(outcome, 0, sizeof(*outcome));
    outcome->monitor.size = sizeof(outcome->monitor);
    child = test_fork();
    if (!child) {
        if (sections == REFUSED ? !refuse(number) : sections != UNFILTERED && !permit(sections))
            _exit(SKIPS);
        _exit(use(monitor) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPS)
        test_skip("this kernel has no seccomp filters");
    if (status)
        fail_msg("with %s: status %#x; %s", hmreg_monitor_name(monitor), (unsigned)status,
                 outcome->text);
    return outcome;
}

static void begin(void)
{
    test_forks_with_threads();
#if TEST_ASAN
    test_skip("a sanitizer makes calls of its own");
#endif
    read_page();
    unsetenv("HMREG_SYSCALLS");
    unsetenv("FI_MR_CACHE_MONITOR");
    if (!outcome)
        outcome =
            mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* ---- tests ------------------------------------------------------------------------------ */

TEST(all__killed_for_calls_that_are_not_listed__lives)
{
    begin();
    for (int monitor = HMREG_MONITOR_DEFAULT; monitor <= HMREG_MONITOR_MEMHOOKS; monitor++)
        run(BASIC | PLAIN | SPECIAL, 0, (enum hmreg_monitor)monitor);
}

TEST(plain__killed_for_special_calls_too__lives)
{
    begin();
    test_setenv("HMREG_SYSCALLS", "plain");
    assert_int_equal(run(BASIC | PLAIN, 0, HMREG_MONITOR_DEFAULT)->rc, 0);
    assert_int_equal(outcome->monitor.active, HMREG_MONITOR_DISABLED);
    assert_non_null(strstr(outcome->monitor.why, "HMREG_SYSCALLS=plain"));
    assert_int_equal(run(BASIC | PLAIN, 0, HMREG_MONITOR_IMPORT)->rc, 0);
    assert_int_equal(outcome->hits, 2);
    assert_int_equal(run(BASIC | PLAIN, 0, HMREG_MONITOR_MEMHOOKS)->rc, -EINVAL);
    assert_non_null(strstr(outcome->text, "HMREG_SYSCALLS=plain"));
    assert_int_equal(run(BASIC | PLAIN, 0, HMREG_MONITOR_USERFAULTFD)->rc, -EINVAL);
}

static void check_effect(const char *name, int number, enum effect effect, const char *words)
{
    const struct outcome *seen = run(REFUSED, number, HMREG_MONITOR_DEFAULT);
    bool hooked = seen->monitor.active == HMREG_MONITOR_MEMHOOKS;

    if (effect == FAILS ? !seen->rc || !strstr(seen->text, words) : seen->rc != 0)
        fail_msg("%s refused: %d: %s", name, seen->rc, seen->text);
    if (effect == NONE && !(hooked && seen->hits == 2))
        fail_msg("%s refused: no memhooks: %s", name, seen->monitor.why);
    if (effect == UNHOOKED && (hooked || !strstr(seen->monitor.why, words)))
        fail_msg("%s refused: %s: %s", name, hmreg_monitor_name(seen->monitor.active),
                 seen->monitor.why);
}

TEST(refused__each_call__has_the_effect_that_is_documented)
{
    begin();
    if (run(UNFILTERED, 0, HMREG_MONITOR_DEFAULT)->monitor.active != HMREG_MONITOR_MEMHOOKS)
        test_skip("memhooks are not possible here");
    for (size_t i = 0; i < CALLS; i++)
        if (calls[i].effect)
            check_effect(calls[i].name, calls[i].number, calls[i].effect, calls[i].words);
    check_effect("mprotect with PROT_EXEC", EXECUTABLE_ONLY, UNHOOKED, "mprotect");
}

TEST(refused__of_userfaultfd_by_name__error_names_the_call)
{
    begin();
    if (run(UNFILTERED, 0, HMREG_MONITOR_USERFAULTFD)->rc)
        test_skip("%s", outcome->text);
    assert_true(run(REFUSED, SYS_ioctl, HMREG_MONITOR_USERFAULTFD)->rc < 0);
    assert_non_null(strstr(outcome->text, "ioctl"));
    assert_int_equal(run(REFUSED, SYS_madvise, HMREG_MONITOR_USERFAULTFD)->rc, 0);
    assert_int_equal(outcome->hits, 2);
}

TEST_MAIN()
