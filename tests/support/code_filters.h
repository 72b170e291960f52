/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Seccomp filters, for forked children: a process cannot take them off. False: seccomp
 * filters are not possible here.
 */
#ifndef TESTS_CODE_FILTERS_H
#define TESTS_CODE_FILTERS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CODE_FILTER(code) code_filter(&(struct sock_fprog){sizeof(code) / sizeof((code)[0]), code})

static inline bool code_filter(const struct sock_fprog *program)
{
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}

/* Does this kernel let code be changed that is not writable? Since Linux 5.13 pages of a file's
 * private mapping move away and the mapping stays; and the kernel writes to memory against its
 * protection, unless an operator forbids that. */
static inline bool code_moves(void)
{
    const int dontunmap = 4;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    char *map = mmap(NULL, page, PROT_READ, MAP_PRIVATE, file, 0);
    char *moved =
        map == MAP_FAILED ? map : mremap(map, page, page, MREMAP_MAYMOVE | dontunmap, NULL);
    bool moves = moved != MAP_FAILED && pwrite(mem, "x", 1, (off_t)map) == 1;

    if (moved != MAP_FAILED)
        munmap(moved, page);
    if (map != MAP_FAILED)
        munmap(map, page);
    close(file);
    close(mem);
    return moves;
}

/* Ends the process when it asks for memory that is writable and executable. */
static inline bool code_filter_writable(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pkey_mprotect, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return CODE_FILTER(code);
}

/* Lets no pages move away from a mapping that stays, as before Linux 5.13: code is then made
 * writable to be changed. */
static inline bool code_filter_moves(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1), /* MREMAP_DONTUNMAP */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return CODE_FILTER(code);
}

/* Lets a system call fail with this error. */
static inline bool code_filter_refuse(int call, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return CODE_FILTER(code);
}

/* The same for all threads of the process, those that run already included. */
static inline bool code_filter_refuse_all(int call, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* With these results (SECCOMP_RET_*) for userfaultfd(2) and for the ioctl of /dev/userfaultfd. */
static inline bool code_filter_userfaultfd(uint32_t call, uint32_t file)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, call),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xaa00, 0, 1), /* USERFAULTFD_IOC_NEW */
        BPF_STMT(BPF_RET | BPF_K, file),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return CODE_FILTER(code);
}

#endif
