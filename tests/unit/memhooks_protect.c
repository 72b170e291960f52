/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * While memhooks is installed and removed no memory of this process is writable and executable.
 * Where code has to be made writable for that, none is after it, or after it has failed at any
 * step. Seccomp filters make the steps fail, as a security module may; mprotect() of libc, by which
 * stubs become executable, fails here.
 */
#include "tests/support/code_filters.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"

#include <elf.h>
#include <hmreg/hmreg.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

int __real_mprotect(void *addr, size_t len, int protection);
int __wrap_mprotect(void *addr, size_t len, int protection);

static bool stubs_stay;
static int refuse_from_now;   /* how many calls, from the first one on that ends the writing */
static volatile int refusals; /* how many more calls that end the writing of code to refuse */

int __wrap_mprotect(void *addr, size_t len, int protection)
{
    if (stubs_stay && protection & PROT_EXEC) {
        errno = EACCES;
        return -1;
    }
    if (refuse_from_now && protection & PROT_EXEC) { /* the stubs; libc's code is next */
        protection = __real_mprotect(addr, len, protection);
        refusals = refuse_from_now;
        refuse_from_now = 0;
        return protection;
    }
    return __real_mprotect(addr, len, protection);
}

/* The mappings that are writable and executable. */
static int count_wx(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], rights[5];
    int found = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps))
        found += sscanf(line, "%*s %4s", rights) == 1 && rights[1] == 'w' && rights[2] == 'x';
    fclose(maps);
    return found;
}

/* Lets no code in [start, start + len) become writable. */
static bool deny_writable_code(uint64_t start, uint32_t len)
{
    uint32_t low = (uint32_t)start, high = (uint32_t)(start >> 32);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 9),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE | PROT_EXEC, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, low),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, len, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return code_filter_moves() && CODE_FILTER(code);
}

/* ---- code that cannot be protected again, once ------------------------------------------ */

#define ALLOWED 0x686d /* a fourth argument, with which the filter lets the call pass */

#if defined(__x86_64__)
/* The kernel asks us for each mprotect(2) of code. */
static void answer(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

    if (refusals > 0 && registers[REG_RDX] == (PROT_READ | PROT_EXEC)) {
        refusals--;
        registers[REG_RAX] = -EACCES;
    } else {
        registers[REG_RAX] = syscall(SYS_mprotect, registers[REG_RDI], registers[REG_RSI],
                                     registers[REG_RDX], ALLOWED);
    }
}

static bool ask_us(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};

    return !sigaction(SIGSYS, &action, NULL) && code_filter_moves() && CODE_FILTER(code);
}
#else
static bool ask_us(void)
{
    return false;
}
#endif

/* 0: the result was the expected one, and nothing is writable and executable. */
static int install(int expected)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    int before = count_wx(), rc;
    struct hmreg *lib = NULL;

    for (int i = 0; i < 2; i++) { /* the second finds what the first has left */
        rc = hmreg_open(&config, &lib);
        if (rc != expected)
            return 1;
        if (count_wx() != before)
            return 2;
        if (!rc && (hmreg_close(lib) || count_wx() != before))
            return 3;
    }
    return 0;
}

static int status_of_child(int (*run)(void))
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(run());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        test_skip("memhooks or seccomp filters are not possible here");
    return WEXITSTATUS(status);
}

static int when_it_works(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;

    return hmreg_open(&config, &lib) || hmreg_close(lib) ? 77 : install(0);
}

/* A kernel that does not let code be changed otherwise is no failure. */
static int when_writable_code_ends_the_process(void)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(code_filter_writable() ? install(0) : 77);
    if (waitpid(child, &status, 0) != child)
        return 1;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
        return WEXITSTATUS(status);
    fprintf(stderr, "code was made writable\n");
    return code_moves() ? 1 : 77;
}

static int when_code_has_to_be_writable(void)
{
    return code_filter_moves() ? install(0) : 77;
}

static int when_stubs_cannot_be_executed(void)
{
    stubs_stay = true;
    return install(-EOPNOTSUPP);
}

static int when_no_code_can_be_written(void)
{
    uintptr_t libc = (uintptr_t)memcpy & ~UINT64_C(0x7fffffff); /* all within 2 GiB */

    if (!deny_writable_code(libc, 0x7fffffff) || !deny_writable_code(getauxval(AT_BASE), 1 << 24))
        return 77;
    return install(-EOPNOTSUPP);
}

/* The dynamic linker is hooked last: libc's sites are undone. */
static int when_the_last_code_cannot_be_written(void)
{
    if (!getauxval(AT_BASE) || !deny_writable_code(getauxval(AT_BASE), 256 << 10))
        return 77;
    return install(-EOPNOTSUPP);
}

static int unprotected; /* how many calls fail */

/* The first calls that make libc's code unwritable again, after the one that makes the stubs
 * executable, fail. After one the code is written once more, and protected; after more it is
 * restored, and protected then. */
static int when_code_cannot_be_protected(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib = NULL;
    int before = count_wx(), rc;

    if (!ask_us())
        return 77;
    refuse_from_now = unprotected;
    rc = hmreg_open(&config, &lib);
    if (refusals || rc != (unprotected == 1 ? 0 : -EOPNOTSUPP))
        return 1;
    return count_wx() == before ? 0 : 2;
}

TEST(install__works__nothing_writable_and_executable)
{
    assert_int_equal(status_of_child(when_it_works), 0);
}

TEST(install__where_writable_code_ends_the_process__works)
{
    assert_int_equal(status_of_child(when_writable_code_ends_the_process), 0);
}

TEST(install__code_has_to_be_writable__not_after_it)
{
    assert_int_equal(status_of_child(when_it_works), 0); /* or skips */
    assert_int_equal(status_of_child(when_code_has_to_be_writable), 0);
}

TEST(install__fails_before_the_first_site__nothing_writable_and_executable)
{
    assert_int_equal(status_of_child(when_it_works), 0); /* or skips */
    assert_int_equal(status_of_child(when_stubs_cannot_be_executed), 0);
    assert_int_equal(status_of_child(when_no_code_can_be_written), 0);
}

TEST(install__fails_half_way__nothing_writable_and_executable)
{
    assert_int_equal(status_of_child(when_it_works), 0); /* or skips */
    assert_int_equal(status_of_child(when_the_last_code_cannot_be_written), 0);
}

/* At most each place fails, with its batch and on its own: the code of two files stays writable. */
TEST(install__code_stays_writable__protected_or_restored_and_protected)
{
    int sites, most;

    assert_int_equal(status_of_child(when_it_works), 0); /* or skips */
    sites = inside_hook_sites();
    assert_true(sites > 0);
    most = sites + (sites + 15) / 16;
    for (unprotected = 1; unprotected <= most; unprotected++)
        assert_int_equal(status_of_child(when_code_cannot_be_protected), 0);
}

TEST_MAIN()
