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

#if defined(__x86_64__) && defined(__LP64__)

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#define JUMP       0xe9 /* followed by four bytes, the distance from the instruction's end */
#define SHORT_JUMP 0xeb /* followed by one byte */

static const uint8_t system_call[HOOK_ENTER_SIZE] = {0x0f, 0x05};

/* ---- reading code ----------------------------------------------------------------------- */

#define JUMP_IF      6 /* bytes of a conditional jump: 0x0f, 0x80 to 0x8f, and the distance */
#define JUMP_IF_CODE 2

/* Are the bytes a conditional jump's distance, which leads to this code? A `syscall` is
 * nothing of the kind: what follows it would have to be the distance's upper bytes. */
static bool is_distance(const struct hook_code *code, size_t at)
{
    for (size_t back = JUMP_IF_CODE; back < JUMP_IF - 1 && back <= at; back++) {
        const uint8_t *jump = code->start + at - back;
        int32_t distance;

        if (at - back + JUMP_IF > code->size || jump[0] != 0x0f || (jump[1] & 0xf0) != 0x80)
            continue;
        memcpy(&distance, jump + JUMP_IF_CODE, sizeof(distance));
        if ((size_t)((ptrdiff_t)(at - back + JUMP_IF) + distance) < code->size)
            return true;
    }
    return false;
}

static bool has_syscall(const struct hook_code *code, size_t at)
{
    return code->start[at] == 0x0f && code->start[at + 1] == 0x05 && !is_distance(code, at);
}

const uint8_t *hook_arch_target(const uint8_t *site)
{
    int32_t distance;

    memcpy(&distance, site + 1, sizeof(distance));
    return site[0] == JUMP ? site + HOOK_SITE_SIZE + distance : NULL;
}

static bool is_stub_jump(const uint8_t *site, long *number)
{
    const uint8_t *target = hook_arch_target(site);

    return target && hook_stub_number(target, number);
}

/* mov 8(%rsp),%r9: syscall(2) loads its last argument. */
static const uint8_t fetch_last[HOOK_SITE_SIZE] = {0x4c, 0x8b, 0x4c, 0x24, 0x08};

/* Is the instruction before `syscall` one that a stub can execute, or a jump to a stub? *number is
 * set in any case. first: no byte precedes it. After a byte 0x40 to 0x4f it would be part of
 * another instruction: mov $x,%r8d. */
static bool is_before_site(const uint8_t *site, bool first, long *number)
{
    uint32_t value;

    *number = HOOK_ANY_CALL;
    if (site[0] == JUMP)
        return is_stub_jump(site, number);
    if (!first && (site[-1] & 0xf0) == 0x40)
        return false;
    memcpy(&value, site + 1, sizeof(value));
    if (site[0] == 0xb8)
        *number = (long)value;
    return site[0] == 0xb8 || memcmp(site, fetch_last, HOOK_SITE_SIZE) == 0;
}

/* The size of an instruction that does nothing, as assemblers and linkers put them between
 * functions. 0: it is none. */
static size_t filler_size(const uint8_t *at, const uint8_t *end)
{
    static const uint8_t forms[][8] = {{0x0f, 0x1f, 0x84, 0},
                                       {0x0f, 0x1f, 0x80, 0},
                                       {0x0f, 0x1f, 0x44, 0},
                                       {0x0f, 0x1f, 0x40, 0},
                                       {0x0f, 0x1f, 0x00},
                                       {0x90},
                                       {0xcc}};
    static const uint8_t sizes[] = {8, 7, 5, 4, 3, 1, 1};
    size_t prefixes = 0;

    while (at + prefixes < end && (at[prefixes] == 0x66 || at[prefixes] == 0x2e))
        prefixes++;
    at += prefixes;
    for (size_t i = 0; i < sizeof(sizes); i++)
        if (sizes[i] <= end - at && memcmp(at, forms[i], sizes[i]) == 0)
            return prefixes + sizes[i];
    return 0;
}

static bool is_filler(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        size_t size = filler_size(at, end);

        if (!size)
            return false;
        at += size;
    }
    return true;
}

#define FUNCTIONS_ALIGN 16

static uint8_t *next_function(const uint8_t *end)
{
    return (uint8_t *)(((uintptr_t)end + FUNCTIONS_ALIGN - 1) & ~(uintptr_t)(FUNCTIONS_ALIGN - 1));
}

/* Finds the end of the function around `syscall`: known, or behind the instructions with which
 * libc's wrappers fail: or $-1,%eax or mov $-1,%eax; ret. NULL: not found. */
static const uint8_t *end_of_function(const struct hook_code *code, size_t at)
{
    static const uint8_t fails[][4] = {{0x83, 0xc8, 0xff, 0xc3}, {0xff, 0xff, 0xff, 0xc3}};

    if (code->is_function)
        return code->start + code->size;
    for (size_t i = at + 2; i + sizeof(fails[0]) <= code->size && i < at + 64; i++)
        if (memcmp(code->start + i, fails[0], sizeof(fails[0])) == 0 ||
            memcmp(code->start + i, fails[1], sizeof(fails[1])) == 0)
            return code->start + i + sizeof(fails[0]);
    return NULL;
}

static bool is_near(const uint8_t *enter, const uint8_t *site)
{
    return site - enter - HOOK_ENTER_SIZE <= INT8_MAX && site > enter;
}

/* Finds the last bytes before the next function, if no code executes them. A jump to a stub is
 * there from the last time that the function was hooked. The bytes behind the code are on a page of
 * the code, since functions are aligned. */
static uint8_t *find_room(const struct hook_code *code, size_t at)
{
    const uint8_t *end = end_of_function(code, at), *enter = code->start + at;
    uint8_t *next, *site;
    long number;

    if (!end)
        return NULL;
    next = next_function(end);
    site = next - HOOK_SITE_SIZE;
    if (site < end || !is_near(enter, site) || !code_can_replace(enter, HOOK_ENTER_SIZE) ||
        (!code->is_function && next > code->start + code->size))
        return NULL;
    return is_filler(end, next) || is_stub_jump(site, &number) ? site : NULL;
}

/* Is this a short jump to a jump to a stub? */
static bool is_hooked(const struct hook_code *code, size_t at, struct hook_entry *out)
{
    uint8_t *enter = code->start + at, *site = enter + HOOK_ENTER_SIZE + (int8_t)enter[1];
    uint8_t *end = code->start + code->size;

    if (enter[0] != SHORT_JUMP || site < enter ||
        site + HOOK_SITE_SIZE > (code->is_function ? next_function(end) : end))
        return false;
    *out = (struct hook_entry){.site = site};
    return is_stub_jump(site, &out->number);
}

bool hook_arch_enters(const struct hook_code *code, size_t at, struct hook_entry *out)
{
    uint8_t *enter = code->start + at, *before = enter - HOOK_SITE_SIZE;
    bool fits = false;

    if (at + HOOK_ENTER_SIZE > code->size)
        return false;
    if (is_hooked(code, at, out))
        return true;
    if (!has_syscall(code, at))
        return false;
    *out = (struct hook_entry){.number = HOOK_ANY_CALL};
    if (at >= HOOK_SITE_SIZE)
        fits = is_before_site(before, at == HOOK_SITE_SIZE, &out->number);
    if (at >= HOOK_SITE_SIZE && before[0] == JUMP) { /* a stub's: or an unknown hook's */
        out->site = fits ? before : NULL;
        return true;
    }
    out->site = find_room(code, at);
    if (out->site)
        out->enter = enter;
    else if (fits && at != HOOK_SITE_SIZE)
        out->site = before;
    return true;
}

static size_t find_byte(const struct hook_code *code, size_t from, size_t end, uint8_t byte)
{
    const uint8_t *found = from < end ? memchr(code->start + from, byte, end - from) : NULL;

    return found ? (size_t)(found - code->start) : end;
}

/* Of `syscall` the second byte is the rarer one. */
size_t hook_arch_next(const struct hook_code *code, size_t at)
{
    size_t second = find_byte(code, at + 1, code->size, system_call[1]);

    return find_byte(code, at, second < code->size ? second - 1 : code->size, SHORT_JUMP);
}

void hook_arch_enter_bytes(const uint8_t *enter, const uint8_t *site, uint8_t jump[HOOK_ENTER_SIZE],
                           uint8_t before[HOOK_ENTER_SIZE])
{
    memcpy(before, system_call, HOOK_ENTER_SIZE);
    jump[0] = SHORT_JUMP;
    jump[1] = (uint8_t)(site - enter - HOOK_ENTER_SIZE);
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
_Static_assert(offsetof(struct hook_state, frames) == 262208, "the stubs' offset");
_Static_assert(HOOK_GRANULE_SHIFT == 21 && HOOK_GRANULES == 65536, "the stubs' numbers");
_Static_assert(HOOK_FRAMES == 1024 && HOOK_PROBES == 8, "the stubs' numbers");
_Static_assert(sizeof(struct hook_frame) == 16, "the stubs' numbers");
_Static_assert(offsetof(struct hook_frame, number) == 8, "the stubs' offset");
_Static_assert(HOOK_FRAME_MARKED == 24 && HOOK_FRAME_UNMARKED == UINT64_C(1) << 63 &&
                   HOOK_COUNT_BITS == 40,
               "the stubs' numbers");

_Static_assert(sizeof(struct hook_stub_header) == 24, "the stubs' offset");
_Static_assert(offsetof(struct hook_stub_header, number) == 8, "the stubs' offset");
_Static_assert(offsetof(struct hook_stub_header, next) == 12, "the stubs' offset");

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

        /* Private anonymous memory where the kernel puts it leaves what threads know of mappings
         * true. The hook reports code from a file in any case, and what the dynamic linker maps.
         * Only what is neither of a file nor MAP_HUGETLB is as long as it says. */
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
        CHANGING(HOOK_ANY_CALL, syscall),
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
static void write_instruction(uint8_t *to, const struct hook_entry *entry)
{
    static const uint8_t nothing[HOOK_SITE_SIZE] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    uint32_t number = (uint32_t)entry->number;

    if (!entry->enter) {
        memcpy(to, entry->site, HOOK_SITE_SIZE);
    } else if (entry->number == HOOK_ANY_CALL) {
        memcpy(to, nothing, HOOK_SITE_SIZE);
    } else {
        to[0] = 0xb8; /* mov $number,%eax */
        memcpy(to + 1, &number, sizeof(number));
    }
}

/* The same where the stub has moved the stack pointer, in eight bytes. */
static void write_in_frame(uint8_t *to, const struct hook_entry *entry)
{
    static const uint8_t fetch[8] = {0x4c, 0x8b, 0x8c, 0x24, 8 + 160}; /* mov 168(%rsp),%r9 */
    static const uint8_t nothing[3] = {0x0f, 0x1f, 0x00};

    write_instruction(to, entry);
    memcpy(to + HOOK_SITE_SIZE, nothing, sizeof(nothing));
    if (memcmp(to, fetch_last, HOOK_SITE_SIZE) == 0)
        memcpy(to, fetch, sizeof(fetch));
}

/* Where a stub continues: behind the `syscall`, or at it. */
static const uint8_t *address_behind(const struct hook_entry *entry)
{
    return entry->enter ? entry->enter + HOOK_ENTER_SIZE
                        : entry->site + HOOK_SITE_SIZE + HOOK_ENTER_SIZE;
}

#define LEAVE 12 /* bytes behind label 5 */

/* For a call that is not counted. */
static bool write_leave(uint8_t *to, const struct hook_entry *entry)
{
    uint8_t *back = to + HOOK_SITE_SIZE;

    write_instruction(to, entry);
    if (!entry->enter)
        return code_branch(back, back, address_behind(entry) - HOOK_ENTER_SIZE);
    memcpy(back, system_call, HOOK_ENTER_SIZE);
    back += HOOK_ENTER_SIZE;
    return code_branch(back, back, address_behind(entry));
}

static bool write_ends(uint8_t *to, const struct stub_template *template,
                       const struct hook_entry *entry)
{
    uint8_t *leave = to + (template->end - template->start) - LEAVE, *back;

    if (!template->call)
        return write_leave(leave, entry);
    back = to + (template->back - template->start);
    write_in_frame(to + (template->call - template->start), entry);
    return code_branch(back, back, address_behind(entry)) && write_leave(leave, entry);
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

const char *hook_arch_make_stub(uint8_t *to, const struct hook_entry *entry,
                                struct hook_state *state)
{
    const struct stub_template *template = template_of(entry->number);
    const uint8_t *another = entry->enter ? NULL : hook_arch_target(entry->site);
    struct hook_stub_header header = {
        .state = state,
        .number = (uint32_t)entry->number,
        .next = another ? (int32_t)(another - to - (ptrdiff_t)sizeof(header)) : 0,
        .magic = HOOK_STUB_MAGIC,
    };

    memcpy(to, template->start, hook_arch_stub_size(entry->number));
    memcpy(to, &header, sizeof(header));
    if (!(another ? write_chain(to, template, another) : write_ends(to, template, entry)))
        return "another hook of it is too far away";
    return NULL;
}

#endif
