/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What memhooks must know of the processor, and all of it: how code enters the kernel, what a stub
 * looks like, how an instruction is replaced while other threads run it. hook_x86_64.c,
 * hook_arm64.c and, for any other processor, hook_none.c implement this contract; hook_sites.c and
 * hook_stubs.c use it and know no processor.
 *
 * A *site* is the instruction of HOOK_SITE_SIZE bytes that a branch to a stub replaces. On x86-64
 * it is the one before `syscall`, which leaves the register that it loads to the stub; on arm64 it
 * is `svc` itself, the one instruction there that the architecture lets a branch replace at any
 * time.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_ARCH_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_ARCH_H

#include "core/monitor/memhooks/hook_state.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>

/* A site's bytes, the distance between instructions, and how far a branch reaches with a stub to
 * spare. */
#if defined(__aarch64__)
#define HOOK_SITE_SIZE 4
#define HOOK_CODE_STEP 4
#define HOOK_REACH     (UINT64_C(126) << 20)
#else
#define HOOK_SITE_SIZE 5
#define HOOK_CODE_STEP 1
#define HOOK_REACH     (UINT64_C(2040) << 20)
#endif

/* Do stubs count the calls that may change what is mapped (struct hook_state: begun, ended)? Then
 * they make those calls themselves, and know when each is over. */
#if defined(__x86_64__) && defined(__LP64__)
#define HOOK_COUNTS_CALLS 1
#else
#define HOOK_COUNTS_CALLS 0
#endif

#define HOOK_ANY_CALL (-1) /* the number is known when the site is reached */

/* A place where code enters the kernel. */
struct hook_entry {
    uint8_t *site; /* NULL: it has no form that can be hooked */
    long number;   /* of its system call; HOOK_ANY_CALL: found out when it is made */
};

/* NULL, or why no code can be hooked here. */
const char *hook_arch_refusal(void);

/* ---- reading code ----------------------------------------------------------------------- */

/* Does the instruction at code + at enter the kernel? `code` is readable for `size` bytes; `at` is
 * below and a multiple of HOOK_CODE_STEP. A hooked site, this copy's or another's, does, too. */
bool hook_arch_enters(uint8_t *code, size_t size, size_t at, struct hook_entry *out);

/* The target of the branch at a site; NULL: there is none. */
const uint8_t *hook_arch_target(const uint8_t *site);

/* Does the function begin with a jump, in one of the forms that other libraries put there? */
bool hook_arch_begins_with_jump(const uint8_t *function, uintptr_t *target);

/* The address that the kernel makes of a mapping call's argument: without the tag in its top byte.
 */
static inline uint64_t hook_arch_untagged(uint64_t address)
{
#if defined(__aarch64__)
    return address & UINT64_MAX >> 8;
#else
    return address;
#endif
}

/* ---- writing code ----------------------------------------------------------------------- */

/* Writes to `to` the branch that leads from `at` to `target`. False: it does not reach. */
bool hook_arch_branch(uint8_t to[HOOK_SITE_SIZE], const uint8_t *at, const uint8_t *target);

/* A stub with its header, of hook_arch_stub_size() bytes, written to writable memory. NULL, or why
 * it cannot be. */
size_t hook_arch_stub_size(long number);
const char *hook_arch_make_stub(uint8_t *to, const uint8_t *site, long number,
                                struct hook_state *state);

/* May the site's instruction be replaced while threads run it? */
bool hook_arch_can_replace(const uint8_t *site);

/* Replaces it; the page is writable. Each thread runs the old instruction or the new one, and after
 * the next hook_fetch_anew() the new one. Calls no function of libc's. */
void hook_arch_replace(uint8_t *site, const uint8_t bytes[HOOK_SITE_SIZE]);

/* A system call that goes through none of libc's functions: they are what is being changed. */
long hook_arch_call_kernel(long number, long a, long b, long c);

/* Returns when every thread of the process has passed a context synchronization: it runs what code
 * says now. False: the kernel cannot. */
static inline bool hook_fetch_anew(void)
{
    return hook_arch_call_kernel(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0,
                                 0) == 0;
}

#endif
