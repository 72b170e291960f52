/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program without stdin, stdout and stderr: nothing of the library takes their numbers, and it
 * uses no descriptor by such a number, not even for the moment between an opening and a close. And
 * how many descriptors an opened library keeps.
 */
#include "tests/support/code_filters.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <hmreg/loopback.h>
#include <hmreg/plan.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#define LEN       ((size_t)64 << 10)
#define SKIPS     77
#define FIRST_OWN 3

/* ---- who uses a low number -------------------------------------------------------------- */

static volatile sig_atomic_t used; /* the number of a system call that did; 0: none */

static void on_use(int sig, siginfo_t *info, void *context)
{
    used = info->si_syscall;
#if defined(__x86_64__)
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EBADF;
#elif defined(__aarch64__)
    ((ucontext_t *)context)->uc_mcontext.regs[0] = (unsigned long long)-EBADF;
#endif
}

/* Calls on descriptors 0 to 2 fail and are noticed, but for fcntl(2) and close(2), which move what
 * was just opened; those of the same call on others are made. */
static bool watch_low_numbers(void)
{
    static const int calls[] = {
        SYS_read,    SYS_write,   SYS_pread64,  SYS_pwrite64,   SYS_readv,      SYS_writev,
        SYS_ioctl,   SYS_lseek,   SYS_fstat,    SYS_ftruncate,  SYS_fallocate,  SYS_getdents64,
        SYS_bind,    SYS_listen,  SYS_accept4,  SYS_connect,    SYS_sendto,     SYS_recvfrom,
        SYS_sendmsg, SYS_recvmsg, SYS_shutdown, SYS_setsockopt, SYS_getsockopt, SYS_newfstatat,
    };
    enum { COUNT = sizeof(calls) / sizeof(calls[0]) };
    struct sock_filter code[COUNT + 8], *at = code;
    struct sigaction action = {.sa_sigaction = on_use, .sa_flags = SA_SIGINFO};

    *at++ =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++)
        *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
                                             (unsigned char)(COUNT - i), 0);
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    *at++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                         offsetof(struct seccomp_data, args[0]));
    *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_OWN, 1, 0);
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    *at++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    sigaction(SIGSYS, &action, NULL);
    return code_filter(&(struct sock_fprog){(unsigned short)(at - code), code});
}

/* ---- a program that uses everything ----------------------------------------------------- */

static bool are_closed(void)
{
    for (int fd = 0; fd < FIRST_OWN; fd++)
        if (fcntl(fd, F_GETFD) != -1)
            return false;
    return !used;
}

static int output; /* a duplicate of stderr */

static void step(bool done, int line, const char *what)
{
    if (done && are_closed())
        return;
    dprintf(output, "line %d: %s: system call %d on a low number; %s\n", line, what, (int)used,
            hmreg_last_error()->text);
    _exit(1);
}

#define STEP(call) step(call, __LINE__, #call)

static void *memory(void *at)
{
    return mmap(at, LEN, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (at ? MAP_FIXED : 0), -1, 0);
}

static void get_twice(struct hmreg_domain *domain, void *at)
{
    struct hmreg_mr *mr;

    for (int i = 0; i < 2; i++) {
        STEP(!hmreg_mr_get(domain, at, LEN, HMREG_ACCESS_REMOTE, &mr));
        hmreg_mr_put(mr);
    }
}

static void use_all(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {
        .size = sizeof(config), .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM), .monitor = monitor};
    struct hmreg_plan plan = {.size = sizeof(plan)};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_domain *domain;
    struct hmreg *lib;
    char *at = memory(NULL);

    if (hmreg_open(&config, &lib))
        _exit(SKIPS); /* no such monitor here */
    STEP(!hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    get_twice(domain, at);
    STEP(memory(at) == at);
    get_twice(domain, at);
    STEP(!hmreg_copy(lib, at, at + 4096, 4096));
    STEP(!hmreg_domain_plan(domain, HMREG_IFACE_SYSTEM, 0, LEN, &plan));
    STEP(!hmreg_domain_stats(domain, &stats));
    STEP(!hmreg_domain_close(domain));
    STEP(!hmreg_close(lib));
    _exit(0);
}

static int run_without(enum hmreg_monitor monitor)
{
    int status = -1;
    pid_t child = test_fork();

    if (!child) {
        output = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, FIRST_OWN);
        for (int fd = 0; fd < FIRST_OWN; fd++)
            close(fd);
        if (!watch_low_numbers())
            _exit(SKIPS);
        use_all(monitor);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(low_numbers__closed_by_the_program__stay_closed)
{
    static const enum hmreg_monitor monitors[] = {HMREG_MONITOR_DEFAULT, HMREG_MONITOR_USERFAULTFD,
                                                  HMREG_MONITOR_MEMHOOKS, HMREG_MONITOR_IMPORT,
                                                  HMREG_MONITOR_DISABLED};
    int used_here = 0;

    test_forks_with_threads();
    for (size_t i = 0; i < sizeof(monitors) / sizeof(monitors[0]); i++) {
        int status = run_without(monitors[i]);

        if (status && status != SKIPS)
            fail_msg("with %s; see above", hmreg_monitor_name(monitors[i]));
        used_here += !status;
    }
    if (!used_here)
        test_skip("this kernel has no seccomp filters");
}

/* ---- how many --------------------------------------------------------------------------- */

/* As docs/operating.md says. */
TEST(opened__descriptors_kept__as_documented)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    int before = test_count_fds(), one = 1 + inside_keeps_list();
    struct hmreg *lib[2];

    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_open(&config, &lib[i]));
        assert_int_equal(test_count_fds(), before + (i + 1) * one);
    }
    assert_ok(hmreg_close(lib[1]));
    test_setenv("HMREG_STATS", "off");
    assert_ok(hmreg_open(&config, &lib[1]));
    assert_int_equal(test_count_fds(), before + one + one - 1);
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_close(lib[i]));
}

TEST_MAIN()
