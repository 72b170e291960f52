/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The instructions by which code enters the kernel, and how each can be hooked: where the branch
 * lies that leads to a *stub* for it. On arm64 it replaces `svc` itself. On x86-64 `syscall` is too
 * short for a branch that reaches a stub: a short jump replaces it and leads to a pad behind the
 * function. Where there is none within reach, the branch replaces the instruction before `syscall`,
 * which the stub executes; but never the first of a function, on which tracers set their probes
 * (uprobes): the kernel executes the file's instruction in place of a probed one, and restores the
 * file's byte when the probe goes.
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
    long number;  /* of its system call, or SYSCALL_ANY */
    const uint8_t *way;
};

/* Code that is searched: whole functions. `start` is readable for `size` bytes. */
struct syscall_code {
    uint8_t *start;
    size_t size;
    bool is_function; /* it is one function, from its first byte to its last */
};

/* Finds the first such instruction at *at or behind it, and sets *at to its place. One that is
 * hooked already, by this copy of the library or another, is one too: its branch is `at`, `via` is
 * NULL, and `way` the short jump to it. False: there is none. */
bool syscall_next(const struct syscall_code *code, size_t *at, struct syscall_site *out);

/* ---- of the processor, for syscalls.c --------------------------------------------------- */

/* Does the instruction at code->start + at enter the kernel? `at` is less than the size, and a
 * multiple of SYSCALL_STEP. */
bool syscall_is_at(const struct syscall_code *code, size_t at, struct syscall_site *out);

/* Returns the next place, `at` or behind it, where an instruction may enter the kernel: for all
 * others syscall_is_at() answers false, and there are many. code->size: there is none. */
size_t syscall_candidate(const struct syscall_code *code, size_t at);

#if defined(__x86_64__)
/* mov 8(%rsp),%r9: with it syscall(2) loads its last argument, directly before `syscall`. */
extern const uint8_t syscall_fetch_last[CODE_BRANCH];
#endif

#endif
