/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The processor's form of a stub; core/patch has the rest of what memhooks needs. hook_x86_64.c and
 * hook_arm64.c implement this contract. On any other processor code_refusal() refuses, and no stub
 * is made.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_ARCH_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_ARCH_H

#include "core/monitor/memhooks/hook_state.h"
#include "core/patch/syscalls.h"

/* 1: stubs count the calls that may change mappings (struct hook_state: begun, ended). To know when
 * such a call has ended, the stub makes it itself. */
#if defined(__x86_64__) && defined(__LP64__)
#define HOOK_COUNTS_CALLS 1
#else
#define HOOK_COUNTS_CALLS 0
#endif

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

/* Writes a stub with its header, hook_arch_stub_size() bytes, to writable memory. Returns NULL, or
 * the reason why it cannot. */
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__)
size_t hook_arch_stub_size(long number);
const char *hook_arch_make_stub(uint8_t *to, const struct syscall_site *site,
                                struct hook_state *state);
#else
static inline size_t hook_arch_stub_size(long number)
{
    return 0;
}

static inline const char *hook_arch_make_stub(uint8_t *to, const struct syscall_site *site,
                                              struct hook_state *state)
{
    return code_refusal();
}
#endif

#endif
