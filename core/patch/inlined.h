/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds system calls that change mappings in code that is not libc's, by its bytes. It finds a call
 * whose number is loaded by the instruction directly before (or pushed and popped there), and Free
 * Pascal's function for all calls, whose number is a parameter. In 12 GB of code each file that
 * makes such calls has at least one in this form, and no other code has this form
 * (tests/measure/inlined_calls.txt).
 */
#ifndef HMREG_CORE_PATCH_INLINED_H
#define HMREG_CORE_PATCH_INLINED_H

#include <stdbool.h>
#include <stdint.h>

struct inlined_call {
    const uint8_t *at; /* the instruction that enters the kernel */
    const char *name;  /* "munmap"; "any system call" */
};

/* Finds the first such call whose instruction lies in [start, end). The bytes of the range are
 * readable; its start is a multiple of 4 on arm64. Misses a call whose number is loaded before the
 * start. False: there is none, or no form is known for the processor. */
bool inlined_next(const uint8_t *start, const uint8_t *end, struct inlined_call *out);

/* Finds the first call behind *found in the range. */
bool inlined_after(const struct inlined_call *found, const uint8_t *start, const uint8_t *end,
                   struct inlined_call *out);

#endif
