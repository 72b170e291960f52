/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_arch.h. On arm64 a site is `svc #0` itself; a branch to a stub replaces it, and the stub
 * makes the system call. So a thread may be in the kernel, and return, inside a stub: stubs stay
 * mapped. At its `svc` a stub has restored the stack pointer and every register: vfork(2), clone(2)
 * and signals by syscall(2) see what they would see without it. One stub serves every system call:
 * it reads the number from w8, whatever the code before the site is.
 *
 * Order of stores and instruction fetches. One aligned store exchanges SVC and B, and these are
 * among the instructions that the Arm Architecture Reference Manual ("Concurrent modification and
 * execution of instructions": B, B.cond, BL, BRK, CBZ, CBNZ, HVC, ISB, NOP, SMC, SVC, TBZ, TBNZ)
 * allows one processor to replace by one another while others execute them: each executes the old
 * or the new one. No other instruction is ever replaced. A branch is written only after its target:
 *
 *   1. stores of the stub, to a page that has never been executable: no processor may have fetched
 *      from it;
 *   2. DC CVAU, DSB, IC IVAU, DSB (__builtin___clear_cache, seal_islands()): the stores are at the
 *      point of unification, and no instruction cache has older contents of these lines, as it may
 *      have by the page's physical address;
 *   3. mprotect(2) makes the page executable, and membarrier(2) with SYNC_CORE makes every
 *      processor that runs a thread of this process take a context synchronization event (an
 *      exception return; for this processor the call itself): from now on each fetches the stub;
 *   4. the store of the branch, which step 2's barriers and the system calls order after the stub;
 *   5. the same maintenance for the site, and membarrier(2): when code_fetch_anew() has returned,
 *      no thread executes the old `svc`. An earlier call through it did not have to be noticed.
 *
 * Restoring a site repeats steps 4 and 5. A thread between the branch and the stub's end continues
 * there.
 *
 * The kernel preserves across a system call every register but x0, the flags included. The stub
 * preserves the same.
 * There is no red zone below the stack pointer.
 */
#include "core/monitor/memhooks/hook_arch.h"
#include "core/patch/stub.h"

#if defined(__aarch64__) && defined(__LP64__)

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#define SVC 0xd4000001u /* svc #0 */

/* ---- the stub --------------------------------------------------------------------------- */

_Static_assert(offsetof(struct hook_state, hook) == 0, "the stub's offset");
_Static_assert(offsetof(struct hook_state, inside) == 8, "the stub's offset");
_Static_assert(offsetof(struct hook_state, watched) == 16, "the stub's offset");
_Static_assert(offsetof(struct hook_state, granules) == 64, "the stub's offset");
_Static_assert(HOOK_GRANULE_SHIFT == 21 && HOOK_GRANULES == 65536, "the stub's numbers");
_Static_assert(sizeof(struct stub_header) == 24, "the stub's header");
_Static_assert(SYS_shmat == 196 && SYS_brk == 214 && SYS_munmap == 215 && SYS_mremap == 216 &&
                   SYS_mmap == 222 && SYS_madvise == 233,
               "the stub's numbers");

/*
 * x16 = the state. 1: checks the granules that [x0, x0 + x1) touches; if they are more than 512, or
 * the range is empty, 2: checks whether anything is watched. 8: calls the hook. 7: leaves, by two
 * words that are written later: the system call, or another copy's branch in its place; and a
 * branch back.
 *
 * The frame of 8: x29, x30; the struct hook_call (x8, x0 to x5); the other registers that a
 * function may use, but for vector registers, which hook_call() leaves alone. The stub first counts
 * itself as inside and then reads whether there is a hook, with a full barrier in between;
 * hook_stubs_remove() does it in the reverse order.
 */
__asm__(".pushsection .rodata\n"
        "  .balign 8\n"
        "hook_stub:\n"
        "  .quad 0\n"
        "  .long 0, 0, 0, 0\n"
        "  stp x16, x17, [sp, #-48]!\n"
        "  stp x9, x10, [sp, #16]\n"
        "  mrs x17, nzcv\n"
        "  str x17, [sp, #32]\n"
        "  ldr x16, hook_stub\n"
        "  sub w9, w8, #196\n"
        "  cmp w9, #37\n"
        "  b.hi 3f\n"
        "  mov x10, #0x0001\n"           /* shmat */
        "  movk x10, #0x041c, lsl #16\n" /* brk, munmap, mremap; mmap */
        "  movk x10, #0x0020, lsl #32\n" /* madvise */
        "  lsr x10, x10, x9\n"
        "  tbz x10, #0, 7f\n"
        "  cmp w8, #215\n"
        "  b.eq 1f\n"
        "  cmp w8, #222\n"
        "  b.eq 4f\n"
        "  cmp w8, #233\n"
        "  b.eq 5f\n"
        "  cmp w8, #196\n"
        "  b.ne 2f\n"
        "  tbz w2, #14, 7f\n" /* SHM_REMAP */
        "  b 2f\n"
        "3: cmp w8, #440\n" /* process_madvise */
        "  b.ne 7f\n"
        "  b 2f\n"
        "4: tbnz w3, #5, 6f\n" /* of a file: */
        "  tbnz w2, #2, 8f\n"  /* the hook reports code in any case (PROT_EXEC), */
        "  tbnz w3, #11, 8f\n" /* and what the dynamic linker maps (MAP_DENYWRITE) */
        "6: tbz w3, #4, 7f\n"  /* MAP_FIXED */
        "  tbz w3, #5, 2f\n"   /* of a file, */
        "  tbnz w3, #18, 2f\n" /* or MAP_HUGETLB: longer than `length` */
        "  b 1f\n"
        "5: cmp w2, #102\n" /* 4 DONTNEED, 8 FREE, 9 REMOVE, 24 DONTNEED_LOCKED, 102 GUARD */
        "  b.eq 1f\n"
        "  cmp w2, #31\n"
        "  b.hi 7f\n"
        "  mov w10, #0x0310\n"
        "  movk w10, #0x0100, lsl #16\n"
        "  lsr w10, w10, w2\n"
        "  tbz w10, #0, 7f\n"
        "1: add x9, x0, x1\n"
        "  sub x9, x9, #1\n"
        "  lsr x10, x0, #21\n"
        "  lsr x9, x9, #21\n"
        "  sub x9, x9, x10\n"
        "  cmp x9, #512\n"
        "  b.hi 2f\n"
        "  add x16, x16, #64\n"
        "3: and x10, x10, #0xffff\n"
        "  ldr w17, [x16, x10, lsl #2]\n"
        "  cbnz w17, 8f\n"
        "  add x10, x10, #1\n"
        "  subs x9, x9, #1\n"
        "  b.pl 3b\n"
        "  b 7f\n"
        "2: ldr w17, [x16, #16]\n"
        "  cbz w17, 7f\n"

        "8: stp x29, x30, [sp, #-144]!\n"
        "  mov x29, sp\n"
        "  stp x8, x0, [sp, #16]\n"
        "  stp x1, x2, [sp, #32]\n"
        "  stp x3, x4, [sp, #48]\n"
        "  stp x5, x6, [sp, #64]\n"
        "  stp x7, x11, [sp, #80]\n"
        "  stp x12, x13, [sp, #96]\n"
        "  stp x14, x15, [sp, #112]\n"
        "  str x18, [sp, #128]\n"
        "  ldr x16, hook_stub\n"
        "  add x9, x16, #8\n"
        "1: ldaxr x10, [x9]\n"
        "  add x10, x10, #1\n"
        "  stlxr w11, x10, [x9]\n"
        "  cbnz w11, 1b\n"
        "  dmb ish\n"
        "  ldar x10, [x16]\n"
        "  cbz x10, 9f\n"
        "  add x0, x29, #16\n"
        "  blr x10\n"
        "9: ldr x16, hook_stub\n"
        "  add x9, x16, #8\n"
        "1: ldaxr x10, [x9]\n"
        "  sub x10, x10, #1\n"
        "  stlxr w11, x10, [x9]\n"
        "  cbnz w11, 1b\n"
        "  ldr x18, [sp, #128]\n"
        "  ldp x14, x15, [sp, #112]\n"
        "  ldp x12, x13, [sp, #96]\n"
        "  ldp x7, x11, [sp, #80]\n"
        "  ldp x5, x6, [sp, #64]\n"
        "  ldp x3, x4, [sp, #48]\n"
        "  ldp x1, x2, [sp, #32]\n"
        "  ldp x8, x0, [sp, #16]\n"
        "  ldp x29, x30, [sp], #144\n"

        "7: ldr x17, [sp, #32]\n"
        "  msr nzcv, x17\n"
        "  ldp x9, x10, [sp, #16]\n"
        "  ldp x16, x17, [sp], #48\n"
        "  .long 0, 0\n"
        "hook_stub_end:\n"
        ".popsection\n");

extern const uint8_t hook_stub[] __attribute__((visibility("hidden")));
extern const uint8_t hook_stub_end[] __attribute__((visibility("hidden")));

size_t hook_arch_stub_size(long number)
{
    return (size_t)(hook_stub_end - hook_stub);
}

const char *hook_arch_make_stub(uint8_t *to, const struct syscall_site *site,
                                struct hook_state *state)
{
    size_t size = hook_arch_stub_size(site->number);
    uint8_t *leave = to + size - 2 * CODE_BRANCH, *back = leave + CODE_BRANCH;
    const uint8_t *another = code_target(site->at); /* copy's stub */
    struct stub_header header = {
        .state = state,
        .number = (uint32_t)site->number,
        .next = another ? (int32_t)(another - to - (ptrdiff_t)sizeof(header)) : 0,
        .magic = STUB_MAGIC,
    };

    memcpy(to, hook_stub, size);
    memcpy(to, &header, sizeof(header));
    memcpy(leave, &(uint32_t){SVC}, sizeof(uint32_t));
    if ((another && !code_branch(leave, leave, another)) ||
        !code_branch(back, back, site->at + CODE_BRANCH))
        return "another hook of this function is out of reach of a jump";
    return NULL;
}

#endif
