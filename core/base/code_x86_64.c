/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See code.h.
 *
 * Replacing code that other threads execute. If all bytes lie within eight aligned ones: by
 * one aligned store, which a processor fetches whole or not at all. Else in three steps: the first
 * two bytes become a jump to themselves, at which arriving threads wait; the others are
 * written, which no thread executes now; then the first two. Between the steps every thread passes
 * a context synchronization event. The caller blocks signals meanwhile, since a handler that came
 * to the site would wait for ever.
 */
#include "core/base/code.h"

#if defined(__x86_64__) && defined(__LP64__)

#include <string.h>

#define JUMP 0xe9 /* followed by four bytes, the distance from the instruction's end */

/* Valgrind executes translations of code and does not notice when code changes. It answers this
 * sequence of instructions, which no other code uses. */
bool code_is_translated(void)
{
    uint64_t request[6] = {0x1001};
    uint64_t answer = 0;

    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(request)
                     : "cc", "memory");
    return answer != 0;
}

const char *code_refusal(void)
{
    return code_is_translated() ? "valgrind does not see code change" : NULL;
}

bool code_branch(uint8_t to[CODE_BRANCH], const uint8_t *at, const uint8_t *target)
{
    intptr_t distance = (intptr_t)target - (intptr_t)(at + CODE_BRANCH);
    int32_t near = (int32_t)distance;

    to[0] = JUMP;
    memcpy(to + 1, &near, sizeof(near));
    return near == distance;
}

/* ---- changing code ---------------------------------------------------------------------- */

/* Do `count` bytes lie within eight aligned ones? */
static bool within_word(const uint8_t *at, size_t count)
{
    return ((uintptr_t)at & 7) + count <= 8;
}

bool code_can_replace(const uint8_t *at, size_t count)
{
    return within_word(at, 2);
}

/* Writes bytes that lie within eight aligned ones, by one store. In assembler, since sanitizers
 * know nothing of code as memory. */
static void store_within_word(uint8_t *at, const uint8_t *bytes, size_t count)
{
    uint64_t *word = (uint64_t *)((uintptr_t)at & ~(uintptr_t)7);
    uint64_t value;

    __asm__ volatile("movq (%1), %0" : "=r"(value) : "r"(word) : "memory");
    memcpy((uint8_t *)&value + ((uintptr_t)at & 7), bytes, count);
    __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(word) : "memory");
}

void code_replace(uint8_t *at, const uint8_t *bytes, size_t count)
{
    static const uint8_t wait_here[2] = {0xeb, 0xfe};

    if (within_word(at, count)) {
        store_within_word(at, bytes, count);
        return;
    }
    if (!code_can_replace(at, count)) { /* no thread executes them */
        for (size_t i = 0; i < count; i++)
            store_within_word(at + i, bytes + i, 1);
        return;
    }
    store_within_word(at, wait_here, 2);
    code_fetch_anew();
    for (size_t i = 2; i < count; i++)
        store_within_word(at + i, bytes + i, 1);
    code_fetch_anew();
    store_within_word(at, bytes, 2);
}

#endif
