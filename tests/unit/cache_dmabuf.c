/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a get of the caller's dmabuf asks the kernel while the region is held: the inode.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"
#include "tests/support/vendors.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define LEN 4096

static struct stat told; /* about the descriptor */
static volatile sig_atomic_t looks, others;

/* Answers fstat(2), and counts it and all other system calls of the thread. */
static void on_call(int sig, siginfo_t *info, void *context)
{
    mcontext_t *at = &((ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
    unsigned long long args[] = {(unsigned long long)at->gregs[REG_RSI],
                                 (unsigned long long)at->gregs[REG_RDX]};
    long long *result = &at->gregs[REG_RAX];
#elif defined(__aarch64__)
    unsigned long long args[] = {at->regs[1], at->regs[2]};
    unsigned long long *result = &at->regs[0];
#endif
    bool by_path = info->si_syscall == SYS_newfstatat;

    if (by_path || info->si_syscall == SYS_fstat) {
        looks++;
        memcpy((void *)(uintptr_t)args[by_path], &told, sizeof(told));
        *result = 0;
    } else {
        others++;
        *result = -ENOSYS;
    }
}

/* From now on the thread makes no system call but these. */
static bool trap_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};

    sigaction(SIGSYS, &action, NULL);
    return CODE_FILTER(code);
}

/* In a process of its own, which cannot do anything else afterwards. Its exit status: 0
 * after three calls of fstat(2), 100 if there were others, 200 if a get failed, 77 without seccomp.
 */
static void get_trapped(enum hmreg_policy policy)
{
    struct hmreg_mr_dmabuf dmabuf = {.fd = memfd_create("hmreg-test", MFD_CLOEXEC), .len = LEN};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_REMOTE, .dmabuf = &dmabuf, .policy = policy};
    struct hmreg_mr *held, *mr = NULL;

    assert_int_equal(ftruncate(dmabuf.fd, LEN), 0);
    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, NULL);
    assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, HMREG_REG_DMABUF, &held));
    assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, HMREG_REG_DMABUF, &mr));
    fstat(dmabuf.fd, &told);
    if (!trap_calls())
        _exit(77);
    for (int i = 0; i < 3; i++) {
        if (hmreg_mr_get_attr(fixture.domain, &attr, HMREG_REG_DMABUF, &mr) || mr != held)
            _exit(200);
        hmreg_mr_put(mr);
    }
    _exit(others ? 100 : looks != 3);
}

TEST(dmabuf__got_while_held__one_fstat)
{
    if (FIXTURE_SANITIZED)
        test_skip("the sanitizer makes system calls of its own");
    for (enum hmreg_policy policy = HMREG_POLICY_KEEP; policy <= HMREG_POLICY_LAST_PUT; policy++) {
        pid_t child = test_fork();

        if (!child)
            get_trapped(policy);
        test_await_or_skip(child, "seccomp(2) is refused here");
    }
}

TEST_MAIN()
