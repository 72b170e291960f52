/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * All that memhooks needs to know of the processor: how code enters the kernel, what a stub looks
 * like; code.h has how an instruction is replaced while other threads execute it. hook_x86_64.c,
 * hook_arm64.c and, for any other processor, hook_none.c implement this contract; hook_sites.c and
 * hook_stubs.c use it and depend on no processor.
 *
 * A *site* is the instruction of HOOK_SITE_SIZE bytes that a branch to a stub replaces. On arm64 it
 * is `svc` itself. On x86-64 `syscall` is too short for a branch that reaches a stub: a jump of its
 * two bytes leads to the site, unused bytes behind the function. Where there are none within reach,
 * the site is the instruction before `syscall`, which the stub executes; but never the first of a
 * function, on which tracers set their probes (uprobes): the kernel executes the file's instruction
 * in place of a probed one, and restores the file's byte when the probe goes.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_ARCH_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_ARCH_H

#include "core/base/code.h"
#include "core/monitor/memhooks/hook_state.h"

/* The size of a site and of the steps between instructions, in bytes. */
#define HOOK_SITE_SIZE CODE_BRANCH
#if defined(__aarch64__)
#define HOOK_CODE_STEP 4
#else
#define HOOK_CODE_STEP 1
#endif

/* 1: stubs count the calls that may change mappings (struct hook_state: begun, ended). To know when
 * such a call has ended, the stub makes it itself. */
#if defined(__x86_64__) && defined(__LP64__)
#define HOOK_COUNTS_CALLS 1
#else
#define HOOK_COUNTS_CALLS 0
#endif

#define HOOK_ANY_CALL (-1) /* the number is known only when the site is reached */

/* An instruction that enters the kernel. */
struct hook_entry {
    uint8_t *site;  /* NULL: not in a form that can be hooked */
    uint8_t *enter; /* x86-64: the `syscall` that a jump to `site` replaces; NULL: none */
    long number;    /* number of its system call, or HOOK_ANY_CALL */
};

/* ---- reading code ----------------------------------------------------------------------- */

/* Code that is searched: whole functions. `start` is readable for `size` bytes. */
struct hook_code {
    uint8_t *start;
    size_t size;
    bool is_function; /* it is one function, from its first byte to its last */
};

/* Does the instruction at code->start + at enter the kernel? `at` is less than the size, and a
 * multiple of HOOK_CODE_STEP. True also for a site that is hooked already, by this copy of the
 * library or another: then enter is NULL. */
bool hook_arch_enters(const struct hook_code *code, size_t at, struct hook_entry *out);

/* Returns the next place, `at` or behind it, where an instruction may enter the kernel: for all
 * others hook_arch_enters() answers false, and there are many. code->size: there is none. */
size_t hook_arch_next(const struct hook_code *code, size_t at);

/* The bytes with which a jump to the site replaces those at `enter`, and those that were there. */
#define HOOK_ENTER_SIZE 2
void hook_arch_enter_bytes(const uint8_t *enter, const uint8_t *site, uint8_t jump[HOOK_ENTER_SIZE],
                           uint8_t before[HOOK_ENTER_SIZE]);

/* Returns the target of a branch at a site. NULL: there is no branch. */
const uint8_t *hook_arch_target(const uint8_t *site);

/* Does the function begin with a jump, in one of the forms that other libraries write? */
bool hook_arch_begins_with_jump(const uint8_t *function, uintptr_t *target);

/* The address that the kernel uses for a mapping call's argument: without the tag in its top byte.
 */
static inline uint64_t hook_arch_untagged(uint64_t address)
{
#if defined(__aarch64__)
    return address & UINT64_MAX >> 8;
#else /* Linear Address Masking of x86-64, Linux 6.4: bits 57 to 62 */
    return address >> 63 ? address : address & UINT64_MAX >> 7;
#endif
}

/* The system call that the kernel makes for a number in a register: it looks at the lower half. On
 * x86-64 one bit asks for the x32 ABI, where all hooked calls have the same numbers. */
static inline uint32_t hook_arch_number(uint64_t number)
{
#if defined(__x86_64__)
    return (uint32_t)number & ~UINT32_C(0x40000000);
#else
    return (uint32_t)number;
#endif
}

/* Is it a call of the x32 ABI, whose structures in memory are others? */
static inline bool hook_arch_is_x32(uint64_t number)
{
#if defined(__x86_64__)
    return number >> 30 & 1;
#else
    return false;
#endif
}

/* ---- writing code ----------------------------------------------------------------------- */

/* Writes a stub with its header, hook_arch_stub_size() bytes, to writable memory. Returns NULL, or
 * the reason why it cannot. */
size_t hook_arch_stub_size(long number);
const char *hook_arch_make_stub(uint8_t *to, const struct hook_entry *entry,
                                struct hook_state *state);

#endif
