/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See syscalls.h.
 */
#include "core/patch/stub.h"
#include "core/patch/syscalls.h"

#if defined(__aarch64__) && defined(__LP64__)

#include <string.h>

#define SVC        0xd4000001u /* svc #0 */
#define SVC_NUMBER 0x001fffe0u /* the immediate, 0 in SVC; the kernel ignores it */

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* Is the next instruction reached only from elsewhere, or after a call? */
static bool leaves(uint32_t word)
{
    return (word & 0x7c000000) == 0x14000000 || /* b, bl */
           (word & 0xfe000000) == 0xd6000000;   /* br, blr, ret */
}

/* Finds the number that the code before a site loads into x8, in plain cases only: any instruction
 * with 8 in a register field that may be a destination ends the search. */
static long number_before(const uint8_t *code, size_t at)
{
    for (size_t back = 4; back <= at && back <= 64; back += 4) {
        uint32_t word = word_at(code + at - back);

        if ((word & 0x7fe0001f) == 0x52800008) /* mov x8 or w8, #number */
            return word >> 5 & 0xffff;
        if (leaves(word) || (word & 0x1f) == 8 || (word >> 10 & 0x1f) == 8)
            return SYSCALL_ANY;
    }
    return SYSCALL_ANY;
}

bool syscall_is_at(const struct syscall_code *searched, size_t at, struct syscall_site *out)
{
    uint8_t *code = searched->start;
    const uint8_t *target;

    if (at + CODE_BRANCH > searched->size)
        return false;
    *out = (struct syscall_site){.at = NULL};
    if ((word_at(code + at) & ~SVC_NUMBER) == SVC) {
        out->at = word_at(code + at) == SVC ? code + at : NULL;
        out->number = number_before(code, at);
        return true;
    }
    out->at = code + at;
    target = code_target(code + at); /* a target within this code is no stub */
    return target && (target < code || target >= code + searched->size) &&
           stub_number(target, &out->number);
}

size_t syscall_candidate(const struct syscall_code *searched, size_t at)
{
    return at < searched->size ? at : searched->size;
}

#endif
