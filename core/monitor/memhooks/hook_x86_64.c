/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_arch.h. On x86-64 a site is the five-byte instruction directly before `syscall`:
 * `mov $number,%eax`, or in syscall(2), whose number is an argument, the instruction that loads the
 * last argument. A jump to a stub replaces it. The stub ends by executing the replaced instruction
 * and jumping back to the site's `syscall`. For calls that may change mappings, it makes the system
 * call itself after that instruction, and jumps back behind the site's `syscall`, having counted
 * the beginning and the end of the call.
 *
 * At a site the registers %rax, %rcx, %r11 are free: the system call overwrites them. (In
 * syscall(2) %rax has the number.) There may be a red zone below the stack pointer. A compiler may
 * keep values in all other registers across a system call, vector registers included: the stub
 * saves them, except the tiles of AMX, which a hook does not touch.
 */
#include "core/monitor/memhooks/hook_arch.h"

#if defined(__x86_64__) && defined(__LP64__)

#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#define JUMP 0xe9 /* followed by four bytes, the distance from the instruction's end */

/* ---- reading code ----------------------------------------------------------------------- */

static bool has_syscall(const uint8_t *at)
{
    return at[0] == 0x0f && at[1] == 0x05;
}

const uint8_t *hook_arch_target(const uint8_t *site)
{
    int32_t distance;

    memcpy(&distance, site + 1, sizeof(distance));
    return site[0] == JUMP && has_syscall(site + HOOK_SITE_SIZE) ? site + HOOK_SITE_SIZE + distance
                                                                 : NULL;
}

/* Is this a site? first: no byte precedes it. After a byte 0x40 to 0x4f it would be part of another
 * instruction: mov $x,%r8d. */
static bool is_site(const uint8_t *site, bool first, long *number)
{
    static const uint8_t fetch_last[HOOK_SITE_SIZE] = {0x4c, 0x8b, 0x4c, 0x24, 0x08};
    uint32_t value;

    memcpy(&value, site + 1, sizeof(value));
    if (site[0] == JUMP)
        return hook_stub_number(hook_arch_target(site), number);
    if (!first && (site[-1] & 0xf0) == 0x40)
        return false;
    *number = site[0] == 0xb8 ? (long)value : HOOK_ANY_CALL;
    return site[0] == 0xb8 || memcmp(site, fetch_last, HOOK_SITE_SIZE) == 0;
}

bool hook_arch_enters(uint8_t *code, size_t size, size_t at, struct hook_entry *out)
{
    if (at + 2 > size || !has_syscall(code + at))
        return false;
    *out = (struct hook_entry){.site = NULL};
    if (at >= HOOK_SITE_SIZE &&
        is_site(code + at - HOOK_SITE_SIZE, at == HOOK_SITE_SIZE, &out->number))
        out->site = code + at - HOOK_SITE_SIZE;
    return true;
}

/* A near jump or, as other libraries write it if the target is far, one through %r11 (libfabric) or
 * %rax (UCX). */
bool hook_arch_begins_with_jump(const uint8_t *function, uintptr_t *target)
{
    static const uint8_t by_r11[3] = {0x41, 0xff, 0xe3}, by_rax[2] = {0xff, 0xe0};
    int32_t distance;

    memcpy(&distance, function + 1, sizeof(distance));
    *target = (uintptr_t)function + HOOK_SITE_SIZE + (uintptr_t)(intptr_t)distance;
    if ((function[0] == 0x49 && function[1] == 0xbb && !memcmp(function + 10, by_r11, 3)) ||
        (function[0] == 0x48 && function[1] == 0xb8 && !memcmp(function + 10, by_rax, 2)))
        memcpy(target, function + 2, sizeof(*target));
    else if (function[0] != JUMP)
        return false;
    return true;
}

/* ---- templates -------------------------------------------------------------------------- */

_Static_assert(offsetof(struct hook_state, hook) == 0, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, inside) == 8, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, watched) == 16, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, begun) == 24, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, ended) == 32, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, granules) == 64, "the stubs' offset");
_Static_assert(HOOK_GRANULE_SHIFT == 21 && HOOK_GRANULES == 65536, "the stubs' numbers");

_Static_assert(sizeof(struct hook_stub_header) == 24, "the stubs' offset");
_Static_assert(offsetof(struct hook_stub_header, number) == 8, "the stubs' offset");
_Static_assert(offsetof(struct hook_stub_header, arch) == 12, "the stubs' offset");

/*
 * hook_begin: the header, and at the entry %r11 = the state.
 * hook_changes: counts a call that may change mappings.
 * hook_if_any: continues at 8 if anything is watched, else at 7.
 * hook_if_range: continues at 8 if [%rdi, %rdi + %rsi) may be watched, by its granules, else at 7;
 *   as hook_if_any if the granules are more than 512 or the range is empty.
 * hook_end: 8 calls the hook. 7 and 5 leave: 5 by the replaced instruction and a jump back; 7 by
 *   the same or, in the stub of a call that may change mappings (changes), by the replaced
 *   instruction, the system call, the count of its end, and a jump back behind the site's
 * `syscall`. The skipped bytes are written later. Each filter jumps to 7 where there is nothing to
 * report, and to 8 to call the hook; before hook_changes it jumps to 5.
 */
__asm__(".pushsection .rodata\n"
        ".macro hook_begin name\n"
        "  .balign 8\n"
        "  hook_\\name:\n"
        "  .quad 0\n"
        "  .long 0, 0, 0, 0\n"
        "  movq hook_\\name(%rip), %r11\n"
        ".endm\n"
        ".macro hook_changes\n"
        "  lock incq 24(%r11)\n"
        ".endm\n"
        ".macro hook_if_any\n"
        "  cmpl $0, 16(%r11)\n"
        "  je 7f\n"
        "  jmp 8f\n"
        ".endm\n"
        ".macro hook_if_range\n"
        "  leaq -1(%rdi,%rsi), %rax\n"
        "  movq %rdi, %rcx\n"
        "  shrq $21, %rcx\n"
        "  shrq $21, %rax\n"
        "  subq %rcx, %rax\n"
        "  cmpq $512, %rax\n"
        "  ja 2f\n"
        "  movzwl %cx, %ecx\n"
        "1: cmpl $0, 64(%r11,%rcx,4)\n"
        "  jne 8f\n"
        "  incw %cx\n"
        "  decq %rax\n"
        "  jns 1b\n"
        "  jmp 7f\n"
        "2: hook_if_any\n"
        ".endm\n"
        ".macro hook_end name, number_in_rax, changes\n"
        "8: leaq -128(%rsp), %rsp\n"
        "  pushq %rbp\n"
        "  movq %rsp, %rbp\n"
        "  pushq %r9\n"
        "  pushq %r8\n"
        "  pushq %r10\n"
        "  pushq %rdx\n"
        "  pushq %rsi\n"
        "  pushq %rdi\n"
        "  .if \\number_in_rax == 0\n"
        "  movl 8+hook_\\name(%rip), %eax\n"
        "  .endif\n"
        "  pushq %rax\n"
        "  movq %rsp, %rdi\n"
        "  movl 16+hook_\\name(%rip), %ecx\n"
        "  subq %rcx, %rsp\n"
        "  andq $-64, %rsp\n"
        "  xorl %eax, %eax\n"
        "  .irp at, 512, 520, 528, 536, 544, 552, 560, 568\n"
        "  movq %rax, \\at(%rsp)\n"
        "  .endr\n"
        "  movl 12+hook_\\name(%rip), %eax\n"
        "  xorl %edx, %edx\n"
        "  xsave64 (%rsp)\n"
        "  lock incq 8(%r11)\n"
        "  movq (%r11), %rax\n"
        "  testq %rax, %rax\n"
        "  jz 9f\n"
        "  cld\n"
        "  call *%rax\n"
        "9: movq hook_\\name(%rip), %r11\n"
        "  lock decq 8(%r11)\n"
        "  movl 12+hook_\\name(%rip), %eax\n"
        "  xorl %edx, %edx\n"
        "  xrstor64 (%rsp)\n"
        "  leaq -56(%rbp), %rsp\n"
        "  popq %rax\n"
        "  popq %rdi\n"
        "  popq %rsi\n"
        "  popq %rdx\n"
        "  popq %r10\n"
        "  popq %r8\n"
        "  popq %r9\n"
        "  popq %rbp\n"
        "  leaq 128(%rsp), %rsp\n"
        "7:\n"
        "  .if \\changes\n"
        "  .skip 5\n"
        "  syscall\n"
        "  movq hook_\\name(%rip), %r11\n"
        "  lock incq 32(%r11)\n"
        "  .skip 5\n"
        "  .endif\n"
        "5: .skip 10\n"
        "  hook_\\name\\()_end:\n"
        ".endm\n"

        "hook_begin munmap\n"
        "hook_changes\n"
        "hook_if_range\n"
        "hook_end munmap, 0, 1\n"

        "hook_begin mmap\n" /* MAP_FIXED */
        "testb $0x10, %r10b\n"
        "jz 5f\n"
        "hook_changes\n"
        "hook_if_range\n"
        "hook_end mmap, 0, 1\n"

        "hook_begin mremap\n" /* MREMAP_FIXED, MREMAP_DONTUNMAP */
        "hook_changes\n"
        "testb $6, %r10b\n"
        "jnz 3f\n"
        "hook_if_range\n"
        "3: hook_if_any\n"
        "hook_end mremap, 0, 1\n"

        "hook_begin madvise\n" /* 4 DONTNEED, 8 FREE, 9 REMOVE, 24 DONTNEED_LOCKED, 102 GUARD */
        "movl $0x01000310, %ecx\n"
        "cmpl $31, %edx\n"
        "ja 3f\n"
        "btl %edx, %ecx\n"
        "jc 4f\n"
        "jmp 7f\n"
        "3: cmpl $102, %edx\n"
        "jne 7f\n"
        "4: hook_if_range\n"
        "hook_end madvise, 0, 0\n"

        "hook_begin shmat\n" /* SHM_REMAP */
        "testl $0x4000, %edx\n"
        "jz 5f\n"
        "hook_changes\n"
        "hook_if_any\n"
        "hook_end shmat, 0, 1\n"

        "hook_begin other\n"
        "hook_changes\n"
        "hook_if_any\n"
        "hook_end other, 0, 1\n"

        "hook_begin syscall\n" /* 9, 11, 12, 25, 28, 30; 67; 440 */
        "cmpq $63, %rax\n"
        "ja 3f\n"
        "movl $0x52001a00, %ecx\n"
        "btq %rax, %rcx\n"
        "jc 4f\n"
        "jmp 5f\n"
        "3: cmpq $67, %rax\n"
        "je 4f\n"
        "cmpq $440, %rax\n"
        "jne 5f\n"
        "4: hook_changes\n"
        "hook_if_any\n"
        "hook_end syscall, 1, 1\n"
        ".popsection\n");

#define TEMPLATE(name)                                                                             \
    extern const uint8_t hook_##name[] __attribute__((visibility("hidden")));                      \
    extern const uint8_t hook_##name##_end[] __attribute__((visibility("hidden")))

TEMPLATE(munmap);
TEMPLATE(mmap);
TEMPLATE(mremap);
TEMPLATE(madvise);
TEMPLATE(shmat);
TEMPLATE(other);
TEMPLATE(syscall);

struct stub_template {
    long number;
    const uint8_t *start, *end;
    bool stays; /* changes no mapping, so its stub does not make the call */
};

static const struct stub_template *template_of(long number)
{
    static const struct stub_template templates[] = {
        {SYS_munmap, hook_munmap, hook_munmap_end, false},
        {SYS_mmap, hook_mmap, hook_mmap_end, false},
        {SYS_mremap, hook_mremap, hook_mremap_end, false},
        {SYS_madvise, hook_madvise, hook_madvise_end, true},
        {SYS_shmat, hook_shmat, hook_shmat_end, false},
        {HOOK_ANY_CALL, hook_syscall, hook_syscall_end, false},
    };
    static const struct stub_template other = {0, hook_other, hook_other_end, false};

    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (templates[i].number == number)
            return &templates[i];
    return &other;
}

/* ---- saved registers -------------------------------------------------------------------- */

#define XSAVED 0xe7u /* x87, SSE, AVX, and AVX-512's three components */

/* Measures the save area of those components that this machine has. False: it cannot save them this
 * way. */
static bool measure_xsave(uint32_t *mask, uint32_t *size)
{
    uint32_t a, b, c, d, high;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    __asm__("xgetbv" : "=a"(*mask), "=d"(high) : "c"(0));
    *mask &= XSAVED;
    *size = 512 + 64; /* x87 and SSE; the header */
    for (uint32_t part = 2; part < 8; part++) {
        if (!(*mask >> part & 1))
            continue;
        __cpuid_count(0xd, part, a, b, c, d);
        *size = b + a > *size ? b + a : *size;
    }
    return true;
}

/* ---- writing stubs ---------------------------------------------------------------------- */

size_t hook_arch_stub_size(long number)
{
    const struct stub_template *template = template_of(number);

    return (size_t)(template->end - template->start);
}

/* Copies a site's instruction to another address; another copy's jump keeps its target. */
static bool move_instruction(uint8_t *to, const uint8_t *from)
{
    const uint8_t *target = hook_arch_target(from);

    if (target)
        return code_branch(to, to, target);
    memcpy(to, from, HOOK_SITE_SIZE);
    return true;
}

/* Writes the site's instruction and, `apart` bytes after it, a jump back to `behind` bytes after
 * the site. */
static bool write_leave(uint8_t *leave, size_t apart, const uint8_t *site, size_t behind)
{
    uint8_t *back = leave + HOOK_SITE_SIZE + apart;

    return move_instruction(leave, site) && code_branch(back, back, site + HOOK_SITE_SIZE + behind);
}

/* Sizes in bytes: of the code behind label 5 in a stub; of `syscall`; of the call and the count
 * after it, behind label 7; of all code from label 7. */
#define LEAVE   (2 * HOOK_SITE_SIZE)
#define SYSCALL 2
#define APART   (SYSCALL + 7 + 5)
#define CALL    (LEAVE + APART)

const char *hook_arch_make_stub(uint8_t *to, const uint8_t *site, long number,
                                struct hook_state *state)
{
    size_t size = hook_arch_stub_size(number);
    uint8_t *leave = to + size - LEAVE;
    struct hook_stub_header header = {
        .state = state, .number = (uint32_t)number, .magic = HOOK_STUB_MAGIC};

    if (!measure_xsave(&header.arch[0], &header.arch[1]))
        return "this processor does not save its registers (XSAVE)";
    memcpy(to, template_of(number)->start, size);
    memcpy(to, &header, sizeof(header));
    if (!write_leave(leave, 0, site, 0) ||
        (!template_of(number)->stays && !write_leave(leave - CALL, APART, site, SYSCALL)))
        return "another hook of it is too far away";
    return NULL;
}

#endif
