/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_arch.h. A stub ends by leaving to where it came from. From a site behind a function, it
 * makes the system call and continues behind the function's `syscall`. From a site before
 * `syscall`, it executes the replaced instruction (`mov $number,%eax`, or in syscall(2), whose
 * number is an argument, the one that loads the last argument) and jumps back to `syscall`; or, for
 * calls that may change mappings, makes the call itself, to count the beginning and the end of it.
 *
 * At a site the registers %rax, %rcx, %r11 are free: the system call overwrites them. (Where the
 * number is not known from the code, %rax has it.) There may be a red zone below the stack pointer.
 * A compiler may keep values in all other registers across a system call, vector registers
 * included: the stub saves those that a function may change, and hook_call() changes no vector
 * register.
 */
#include "core/monitor/memhooks/hook_arch.h"
#include "core/patch/stub.h"

#if defined(__x86_64__) && defined(__LP64__)

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

static const uint8_t system_call[CODE_SHORT] = {0x0f, 0x05};

/* ---- templates -------------------------------------------------------------------------- */

_Static_assert(offsetof(struct hook_state, hook) == 0, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, inside) == 8, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, watched) == 16, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, begun) == 24, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, ended) == 32, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, granules) == 64, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, frames) == 262208, "the stubs' offset");
_Static_assert(HOOK_GRANULE_SHIFT == 21 && HOOK_GRANULES == 65536, "the stubs' numbers");
_Static_assert(HOOK_FRAMES == 1024 && HOOK_PROBES == 8, "the stubs' numbers");
_Static_assert(sizeof(struct hook_frame) == 16, "the stubs' numbers");
_Static_assert(offsetof(struct hook_frame, number) == 8, "the stubs' offset");
_Static_assert(HOOK_FRAME_MARKED == 24 && HOOK_FRAME_UNMARKED == UINT64_C(1) << 63 &&
                   HOOK_COUNT_BITS == 40,
               "the stubs' numbers");

_Static_assert(sizeof(struct stub_header) == 24, "the stubs' offset");
_Static_assert(offsetof(struct stub_header, number) == 8, "the stubs' offset");
_Static_assert(offsetof(struct stub_header, next) == 12, "the stubs' offset");

/*
 * hook_begin: the header, and at the entry %r11 = the state.
 * hook_first_frame: %r11 = the first frame (struct hook_frame) that a call with this stack pointer
 *   may have, %ecx = HOOK_PROBES.
 * hook_changes: counts a call that may change mappings. It takes one of HOOK_PROBES frames, by the
 *   stack pointer, or, if none is free, counts the call as one that never ends. A frame with the
 *   same stack pointer is of a call that will never end: its end is counted, and the frame taken.
 *   The mark on the stack is written only if it is on a page that the call itself needs, that of
 *   its return address, or if the call is known to change no page but those of [%rdi, %rdi + %rsi)
 *   (in_range), where the mark is not.
 * hook_if_any: continues at 8 if anything is watched, else at 7.
 * hook_if_range: continues at 8 if [%rdi, %rdi + %rsi) may be watched, by its granules, else at 7;
 *   as hook_if_any if the granules are more than 512 or the range is empty.
 * hook_end: 8 calls the hook. 7 and 5 leave: 5 by 12 bytes, 7 by the same or, in the stub of a call
 *   that may change mappings (changes), by 8 bytes, the system call, the count of its end, and 5
 *   bytes. These are written later. Each filter jumps to 7 where there is nothing to report, and to
 *   8 to call the hook; before hook_changes it jumps to 5.
 *
 * Behind the system call the stub reads nothing from the stack: the program may have discarded or
 * unmapped whole pages below its stack pointer by this very call. Who takes a frame's number
 * (`xchg`) counts an end; a frame without number is being freed by hook_call_end_abandoned(), for
 * an earlier call with the same stack pointer.
 *
 * A call that ends in another process than it began in (a signal handler forked) finds no frame
 * there, where the table was wiped: it counts as one that began and ended.
 */
__asm__(".pushsection .rodata\n"
        ".macro hook_begin name\n"
        "  .balign 8\n"
        "  hook_\\name:\n"
        "  .quad 0\n"
        "  .long 0, 0, 0, 0\n"
        "  movq hook_\\name(%rip), %r11\n"
        ".endm\n"
        ".macro hook_first_frame name\n"
        "  imulq $0x1e3779b1, %rsp, %rcx\n"
        "  movq hook_\\name(%rip), %r11\n"
        "  shrq $28, %rcx\n"
        "  andl $1023, %ecx\n"
        "  shll $4, %ecx\n"
        "  leaq 262208(%r11,%rcx), %r11\n"
        "  movl $8, %ecx\n"
        ".endm\n"
        ".macro hook_changes name, number_in_rax, in_range\n"
        "  leaq -160(%rsp), %rsp\n"
        "  .if \\number_in_rax\n"
        "  movq %rax, 16(%rsp)\n"
        "  .endif\n"
        "  hook_first_frame \\name\n"
        ".Lprobe\\@:\n"
        "  xorl %eax, %eax\n"
        "  cmpq %rsp, (%r11)\n"
        "  je .Lagain\\@\n"
        "  cmpq %rax, (%r11)\n"
        "  jne .Ltaken\\@\n"
        "  lock cmpxchgq %rsp, (%r11)\n"
        "  je .Lfound\\@\n"
        ".Ltaken\\@:\n"
        "  addq $16, %r11\n"
        "  decl %ecx\n"
        "  jnz .Lprobe\\@\n"
        "  movq hook_\\name(%rip), %r11\n"
        "  lock incq 24(%r11)\n"
        "  jmp .Lcounted\\@\n"
        ".Lagain\\@:\n"
        "  xchgq %rax, 8(%r11)\n"
        "  testq %rax, %rax\n"
        "  jz .Ltaken\\@\n"
        "  movq hook_\\name(%rip), %rax\n"
        "  lock incq 32(%rax)\n"
        ".Lfound\\@:\n"
        "  movq hook_\\name(%rip), %rax\n"
        "  movl $1, %ecx\n"
        "  lock xaddq %rcx, 24(%rax)\n"
        "  incq %rcx\n"
        "  leaq 160(%rsp), %rax\n"
        "  xorq %rsp, %rax\n"
        "  shrq $12, %rax\n"
        "  jz .Lmark\\@\n"
        "  .if \\in_range\n"
        "  leaq 24(%rsp), %rax\n"
        "  subq %rdi, %rax\n"
        "  andq $-4096, %rax\n"
        "  cmpq %rsi, %rax\n"
        "  jae .Lmark\\@\n"
        "  .endif\n"
        "  btsq $63, %rcx\n"
        "  jmp .Lnumber\\@\n"
        ".Lmark\\@:\n"
        "  movq %rcx, 24(%rsp)\n"
        ".Lnumber\\@:\n"
        "  movq %rcx, 8(%r11)\n"
        "  movq hook_\\name(%rip), %r11\n"
        ".Lcounted\\@:\n"
        "  .if \\number_in_rax\n"
        "  movq 16(%rsp), %rax\n"
        "  .endif\n"
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
        "  andq $-16, %rsp\n"
        "  lock incq 8(%r11)\n"
        "  movq (%r11), %rax\n"
        "  testq %rax, %rax\n"
        "  jz 9f\n"
        "  cld\n"
        "  call *%rax\n"
        "9: movq hook_\\name(%rip), %r11\n"
        "  lock decq 8(%r11)\n"
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
        "  hook_\\name\\()_call: .skip 8\n"
        "  syscall\n"
        "  hook_first_frame \\name\n"
        "1: cmpq %rsp, (%r11)\n"
        "  je 2f\n"
        "  addq $16, %r11\n"
        "  decl %ecx\n"
        "  jnz 1b\n"
        "  movq hook_\\name(%rip), %r11\n"
        "  lock incq 24(%r11)\n"
        "  lock incq 32(%r11)\n"
        "  jmp 3f\n"
        "2: xorl %ecx, %ecx\n"
        "  xchgq %rcx, 8(%r11)\n"
        "  testq %rcx, %rcx\n"
        "  jz 3f\n"
        "  movq $0, (%r11)\n"
        "  movq hook_\\name(%rip), %r11\n"
        "  hook_\\name\\()_ended: lock incq 32(%r11)\n"
        "3: leaq 160(%rsp), %rsp\n"
        "  hook_\\name\\()_back: .skip 5\n"
        "  .endif\n"
        "5: .skip 12\n"
        "  hook_\\name\\()_end:\n"
        ".endm\n"

        "hook_begin munmap\n"
        "hook_changes munmap, 0, 1\n"
        "hook_if_range\n"
        "hook_end munmap, 0, 1\n"

        /* A mapping of private anonymous memory at an address that the kernel chooses changes no
         * existing mapping. The hook reports code from a file, and mappings of the dynamic linker,
         * in any case. Only the length of mappings without a file and without MAP_HUGETLB is
         * exact. */
        "hook_begin mmap\n"
        "testb $4, %dl\n" /* PROT_EXEC */
        "jnz 4f\n"
        "movl %r10d, %ecx\n"
        "andl $0x3f, %ecx\n" /* MAP_TYPE, MAP_FIXED, MAP_ANONYMOUS */
        "cmpl $0x22, %ecx\n"
        "je 5f\n"
        "4: hook_changes mmap, 0, 0\n"
        "testb $0x20, %r10b\n"
        "jnz 3f\n"
        "testb $4, %dl\n"
        "jnz 8f\n"
        "testl $0x800, %r10d\n" /* MAP_DENYWRITE */
        "jnz 8f\n"
        "3: testb $0x10, %r10b\n" /* MAP_FIXED */
        "jz 7f\n"
        "testb $0x20, %r10b\n"
        "jz 3f\n"
        "testl $0x40000, %r10d\n"
        "jnz 3f\n"
        "hook_if_range\n"
        "3: hook_if_any\n"
        "hook_end mmap, 0, 1\n"

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

        "hook_begin shmat\n"
        "hook_changes shmat, 0, 0\n"
        "testl $0x4000, %edx\n" /* SHM_REMAP */
        "jz 7f\n"
        "hook_if_any\n"
        "hook_end shmat, 0, 1\n"

        "hook_begin other\n"
        "hook_changes other, 0, 0\n"
        "hook_if_any\n"
        "hook_end other, 0, 1\n"

        /* 9, 11, 12, 25, 28, 30; 440. The kernel looks at 32 bits of the number, of which one may
         * ask for the x32 ABI, where these calls have the same numbers. */
        "hook_begin syscall\n"
        "movl %eax, %ecx\n"
        "btrl $30, %ecx\n"
        "cmpl $31, %ecx\n"
        "ja 3f\n"
        "movl $0x52001a00, %r11d\n"
        "btl %ecx, %r11d\n"
        "jc 4f\n"
        "jmp 5f\n"
        "3: cmpl $440, %ecx\n"
        "jne 5f\n"
        "4: hook_changes syscall, 1, 0\n"
        "cmpb $9, %al\n" /* mmap: perhaps of code */
        "je 8f\n"
        "hook_if_any\n"
        "hook_end syscall, 1, 1\n"
        ".popsection\n");

#define TEMPLATE(name)                                                                             \
    extern const uint8_t hook_##name[] __attribute__((visibility("hidden")));                      \
    extern const uint8_t hook_##name##_end[] __attribute__((visibility("hidden")))
#define CHANGING_TEMPLATE(name)                                                                    \
    TEMPLATE(name);                                                                                \
    extern const uint8_t hook_##name##_call[] __attribute__((visibility("hidden")));               \
    extern const uint8_t hook_##name##_ended[] __attribute__((visibility("hidden")));              \
    extern const uint8_t hook_##name##_back[] __attribute__((visibility("hidden")))

CHANGING_TEMPLATE(munmap);
CHANGING_TEMPLATE(mmap);
TEMPLATE(madvise);
CHANGING_TEMPLATE(shmat);
CHANGING_TEMPLATE(other);
CHANGING_TEMPLATE(syscall);

/* call, ended, back: NULL for a call that changes no mapping, whose stub does not count it. */
struct stub_template {
    long number;
    const uint8_t *start, *call, *ended, *back, *end;
};

#define CHANGING(number, name)                                                                     \
    {                                                                                              \
        number, hook_##name, hook_##name##_call, hook_##name##_ended, hook_##name##_back,          \
            hook_##name##_end                                                                      \
    }

static const struct stub_template *template_of(long number)
{
    static const struct stub_template templates[] = {
        CHANGING(SYS_munmap, munmap),
        CHANGING(SYS_mmap, mmap),
        CHANGING(SYS_shmat, shmat),
        {SYS_madvise, hook_madvise, NULL, NULL, NULL, hook_madvise_end},
        CHANGING(SYSCALL_ANY, syscall),
    };
    static const struct stub_template other = CHANGING(0, other);

    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (templates[i].number == number)
            return &templates[i];
    return &other;
}

/* ---- writing stubs ---------------------------------------------------------------------- */

size_t hook_arch_stub_size(long number)
{
    const struct stub_template *template = template_of(number);

    return (size_t)(template->end - template->start);
}

/* Writes the instruction after which `syscall` is executed: the site's, or one that restores what
 * the stub may have changed. */
static void write_instruction(uint8_t *to, const struct syscall_site *site)
{
    static const uint8_t nothing[CODE_BRANCH] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    uint32_t number = (uint32_t)site->number;

    if (!site->via) {
        memcpy(to, site->at, CODE_BRANCH);
    } else if (site->number == SYSCALL_ANY) {
        memcpy(to, nothing, CODE_BRANCH);
    } else {
        to[0] = 0xb8; /* mov $number,%eax */
        memcpy(to + 1, &number, sizeof(number));
    }
}

/* This instruction in eight bytes, for a moved stack pointer. */
static void write_in_frame(uint8_t *to, const struct syscall_site *site)
{
    static const uint8_t fetch[8] = {0x4c, 0x8b, 0x8c, 0x24, 8 + 160}; /* mov 168(%rsp),%r9 */
    static const uint8_t nothing[3] = {0x0f, 0x1f, 0x00};

    write_instruction(to, site);
    memcpy(to + CODE_BRANCH, nothing, sizeof(nothing));
    if (memcmp(to, syscall_fetch_last, CODE_BRANCH) == 0)
        memcpy(to, fetch, sizeof(fetch));
}

/* The address where a stub continues: behind the `syscall`, or at it. */
static const uint8_t *address_behind(const struct syscall_site *site)
{
    return site->via ? site->via + CODE_SHORT : site->at + CODE_BRANCH + CODE_SHORT;
}

#define LEAVE 12 /* bytes behind label 5 */

/* Ends the stub of a call that is not counted. */
static bool write_leave(uint8_t *to, const struct syscall_site *site)
{
    uint8_t *back = to + CODE_BRANCH;

    write_instruction(to, site);
    if (!site->via)
        return code_branch(back, back, address_behind(site) - CODE_SHORT);
    memcpy(back, system_call, CODE_SHORT);
    back += CODE_SHORT;
    return code_branch(back, back, address_behind(site));
}

static bool write_ends(uint8_t *to, const struct stub_template *template,
                       const struct syscall_site *site)
{
    uint8_t *leave = to + (template->end - template->start) - LEAVE, *back;

    if (!template->call)
        return write_leave(leave, site);
    back = to + (template->back - template->start);
    write_in_frame(to + (template->call - template->start), site);
    return code_branch(back, back, address_behind(site)) && write_leave(leave, site);
}

#define CALL 10 /* bytes: an instruction of 8, and `syscall` */

/* Leaves to another copy's stub, which makes the call. So this copy never knows that a call has
 * ended, and asks the kernel at each miss: it frees the frame and counts no end. */
static bool write_chain(uint8_t *to, const struct stub_template *template, const uint8_t *target)
{
    static const uint8_t nothing[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    uint8_t *leave = to + (template->end - template->start) - LEAVE, *back;

    if (!template->call)
        return code_branch(leave, leave, target);
    for (size_t at = 0; at < CALL; at += sizeof(nothing))
        memcpy(to + (template->call - template->start) + at, nothing, sizeof(nothing));
    memcpy(to + (template->ended - template->start), nothing, sizeof(nothing));
    back = to + (template->back - template->start);
    return code_branch(back, back, target) && code_branch(leave, leave, target);
}

const char *hook_arch_make_stub(uint8_t *to, const struct syscall_site *site,
                                struct hook_state *state)
{
    const struct stub_template *template = template_of(site->number);
    const uint8_t *another = site->via ? NULL : code_target(site->at);
    struct stub_header header = {
        .state = state,
        .number = (uint32_t)site->number,
        .next = another ? (int32_t)(another - to - (ptrdiff_t)sizeof(header)) : 0,
        .magic = STUB_MAGIC,
    };

    memcpy(to, template->start, hook_arch_stub_size(site->number));
    memcpy(to, &header, sizeof(header));
    if (!(another ? write_chain(to, template, another) : write_ends(to, template, site)))
        return "another hook of this function is out of reach of a jump";
    return NULL;
}

#endif
