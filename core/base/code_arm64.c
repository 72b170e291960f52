/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See code.h. An instruction is replaced by one aligned store. The Arm Architecture Reference
 * Manual
 * ("Concurrent modification and execution of instructions") lists the instructions that one
 * processor may replace by one another while others execute them; callers keep to it or say what
 * they rely on instead.
 */
#include "core/base/code.h"

#if defined(__aarch64__) && defined(__LP64__)

#include <string.h>

/* Valgrind executes translations of code and does not notice when code changes. It answers this
 * sequence of instructions, which no other code uses. */
bool code_is_translated(void)
{
    uint64_t request[6] = {0x1001};
    register uint64_t answer __asm__("x3") = 0;
    register uint64_t *arguments __asm__("x4") = request;

    __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\t"
                     "ror x12, x12, #51\n\tror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(answer)
                     : "r"(arguments)
                     : "cc", "memory");
    return answer != 0;
}

const char *code_refusal(void)
{
    return code_is_translated() ? "valgrind does not see code change" : NULL;
}

bool code_branch(uint8_t to[CODE_BRANCH], const uint8_t *at, const uint8_t *target)
{
    intptr_t distance = (intptr_t)target - (intptr_t)at;
    uint32_t word = 0x14000000 | ((uint32_t)(distance >> 2) & 0x03ffffff);

    memcpy(to, &word, sizeof(word));
    return distance >= -(INT64_C(1) << 27) && distance < INT64_C(1) << 27;
}

/* ---- changing code ---------------------------------------------------------------------- */

bool code_can_replace(const uint8_t *at, size_t count)
{
    return count == CODE_BRANCH;
}

/* In assembler, since sanitizers know nothing of code as memory. */
void code_replace(uint8_t *at, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i += CODE_BRANCH) {
        uint32_t word;

        memcpy(&word, bytes + i, sizeof(word));
        __asm__ volatile("str %w0, [%1]" : : "r"(word), "r"(at + i) : "memory");
    }
    __builtin___clear_cache((char *)at, (char *)at + count);
}

#endif
