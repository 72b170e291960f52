/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds the instructions by which code enters the kernel, and for each the place of a branch to its
 * *stub*. On arm64 it replaces `svc` itself. On x86-64 `syscall` is too short for a branch that
 * reaches a stub: a short jump replaces it and leads to a pad behind the function. Without a pad
 * within reach, the branch replaces the instruction before `syscall`, which the stub executes. It
 * never replaces the first instruction of a function: tracers set their probes (uprobes) on that,
 * and the kernel executes the file's instruction in place of a probed one, and restores the file's
 * byte when the probe goes.
 */
#ifndef HMREG_CORE_PATCH_SYSCALLS_H
#define HMREG_CORE_PATCH_SYSCALLS_H

#include "core/patch/code.h"

/* The steps between instructions, in bytes. */
#if defined(__aarch64__)
#define SYSCALL_STEP 4
#else
#define SYSCALL_STEP 1
#endif

#define SYSCALL_ANY (-1) /* the number is known only when the instruction is reached */

/* An instruction that enters the kernel; `at`, `via` and `way` as in struct patch. */
struct syscall_site {
    uint8_t *at;  /* NULL: not in a form that can be hooked */
    uint8_t *via; /* x86-64: the `syscall` that a jump to `at` replaces; NULL: none */
    long number;  /* number of its system call, or SYSCALL_ANY */
    const uint8_t *way;
};

/* Code that is searched: whole functions. `start` is readable for `size` bytes. */
struct syscall_code {
    uint8_t *start;
    size_t size;
    bool is_function; /* it is one function, from its first byte to its last */
};

/* Finds the first such instruction at *at or behind it, and sets *at to its place. Also finds one
 * that this or another copy of the library has hooked: then `at` is its branch, `via` NULL, and
 * `way` the short jump to it. False: there is none. */
bool syscall_next(const struct syscall_code *code, size_t *at, struct syscall_site *out);

/* ---- of the processor, for syscalls.c --------------------------------------------------- */

/* Does the instruction at code->start + at enter the kernel? `at` is less than the size, and a
 * multiple of SYSCALL_STEP. */
bool syscall_is_at(const struct syscall_code *code, size_t at, struct syscall_site *out);

/* Returns the next place, `at` or behind it, where syscall_is_at() may be true: it skips the many
 * others. code->size: there is none. */
size_t syscall_candidate(const struct syscall_code *code, size_t at);

#if defined(__x86_64__)
/* mov 8(%rsp),%r9: with it syscall(2) loads its last argument, directly before `syscall`. */
extern const uint8_t syscall_fetch_last[CODE_BRANCH];
#endif

#endif
