/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library that hooks libc when it is loaded, as UCX's does: it writes a jump over the beginning
 * of each function that changes mappings, and then enters the kernel by syscall(2), except for brk,
 * for which it has a system call instruction of its own, with -DPATCHER_UNUSUAL in a form that
 * cannot be hooked. patcher_undo() restores the code.
 */
#include "tests/support/patch.h"

#include <errno.h>
#include <stddef.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#if defined(__x86_64__) || defined(__aarch64__)

#define PUBLIC __attribute__((visibility("default")))
#ifdef PATCHER_UNUSUAL
#define UNUSUAL(form, usual) form
#else
#define UNUSUAL(form, usual) usual
#endif

extern void *__curbrk; /* libc's */

PUBLIC unsigned patcher_calls;
PUBLIC bool patcher_works;
PUBLIC void patcher_undo(void);

static int our_munmap(void *addr, size_t len)
{
    patcher_calls++;
    return (int)syscall(SYS_munmap, addr, len);
}

static void *our_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    patcher_calls++;
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

static void *our_mremap(void *addr, size_t before, size_t after, int flags, void *to)
{
    patcher_calls++;
    return (void *)syscall(SYS_mremap, addr, before, after, flags, to);
}

static int our_madvise(void *addr, size_t len, int advice)
{
    patcher_calls++;
    return (int)syscall(SYS_madvise, addr, len, advice);
}

static void *our_shmat(int id, const void *addr, int flags)
{
    patcher_calls++;
    return (void *)syscall(SYS_shmat, id, addr, flags);
}

static int our_shmdt(const void *addr)
{
    patcher_calls++;
    return (int)syscall(SYS_shmdt, addr);
}

static int our_brk(void *addr)
{
    void *now;

    patcher_calls++;
#if defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_brk;
    register void *x0 __asm__("x0") = addr;

    __asm__ volatile("svc " UNUSUAL("#1", "#0") : "+r"(x0) : "r"(x8) : "memory");
    now = x0;
#else
    __asm__ volatile(".balign 8\n\tmovl $12, %%eax\n\t" UNUSUAL("nop\n\t", "") "syscall"
                     : "=&a"(now)
                     : "D"(addr)
                     : "rcx", "r11", "memory");
#endif
    __curbrk = now;
    if (now >= addr)
        return 0;
    errno = ENOMEM;
    return -1;
}

static struct {
    void *function, *ours;
    uint8_t before[PATCH_SIZE];
} patches[] = {
    {(void *)munmap, (void *)our_munmap, {0}}, {(void *)mmap, (void *)our_mmap, {0}},
    {(void *)mremap, (void *)our_mremap, {0}}, {(void *)madvise, (void *)our_madvise, {0}},
    {(void *)shmat, (void *)our_shmat, {0}},   {(void *)shmdt, (void *)our_shmdt, {0}},
    {(void *)brk, (void *)our_brk, {0}},
};

static __attribute__((constructor)) void patch_all(void)
{
    patcher_works = true;
    for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++) {
        memcpy(patches[i].before, patches[i].function, PATCH_SIZE);
        patcher_works &= patch_jump(patches[i].function, patches[i].ours);
    }
}

void patcher_undo(void)
{
    for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++)
        patch_bytes(patches[i].function, patches[i].before);
}
#endif
