/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See code.h. An instruction is replaced by one aligned store. The Arm Architecture Reference
 * Manual
 * ("Concurrent modification and execution of instructions") lists the instructions that one
 * processor may replace by one another while others execute them; callers keep to it or say what
 * they rely on instead.
 */
#include "core/patch/code.h"

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

bool code_short_branch(uint8_t to[CODE_SHORT], const uint8_t *at, const uint8_t *target)
{
    return false;
}

/* ---- jumps ------------------------------------------------------------------------------ */

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

const uint8_t *code_target(const uint8_t *at)
{
    uint32_t word = word_at(at);
    int32_t distance = (int32_t)(word << 6) >> 4;

    return (word & 0xfc000000) == 0x14000000 ? at + distance : NULL;
}

/* Does it jump to the address in this register? */
static bool jumps_by(uint32_t word, uint32_t reg)
{
    return word == (0xd61f0000 | reg << 5);
}

/* ldr of a literal, and br, as UCX writes them. */
static const uint8_t *literal_target(const uint8_t *at, size_t readable, size_t *size)
{
    uint32_t word = word_at(at);
    const uint8_t *to;

    if (readable < 8 || (word & 0xff000000) != 0x58000000 ||
        !jumps_by(word_at(at + 4), word & 0x1f))
        return NULL;
    memcpy(&to, at + ((int32_t)(word << 8) >> 13) * 4, sizeof(to));
    *size = 16;
    return to;
}

/* movz and movk of one register, and br. */
static const uint8_t *far_target(const uint8_t *at, size_t readable, size_t *size)
{
    uint32_t word = word_at(at), reg = word & 0x1f;
    const uint8_t *start = at, *last = at + (readable < 20 ? readable : 20) - CODE_BRANCH;
    uint64_t value = 0;

    while (at + CODE_BRANCH <= last && (word & 0xdf80001f) == (0xd2800000 | reg)) {
        unsigned shift = (word >> 21 & 3) * 16;
        bool keep = word & 0x20000000; /* movk */

        value = keep ? value & ~(UINT64_C(0xffff) << shift) : 0;
        value |= (uint64_t)(word >> 5 & 0xffff) << shift;
        at += 4;
        word = word_at(at);
    }
    *size = (size_t)(at + 4 - start);
    return at > start && jumps_by(word, reg) ? (const uint8_t *)(uintptr_t)value : NULL;
}

const uint8_t *code_leads_to(const uint8_t *function, size_t readable, size_t *size)
{
    const uint32_t paciasp = 0xd503233f, bti = 0xd503241f;
    const uint8_t *at = function, *to;
    uint32_t word;

    *size = 0;
    if (readable < 2 * CODE_BRANCH || (uintptr_t)function & 3)
        return NULL;
    word = word_at(at);
    at += word == paciasp || (word & 0xffffff3f) == bti ? CODE_BRANCH : 0;
    readable -= (size_t)(at - function);
    to = code_target(at);
    if (to)
        *size = CODE_BRANCH;
    else
        to = literal_target(at, readable, size);
    if (!to)
        to = far_target(at, readable, size);
    *size += (size_t)(at - function);
    return to;
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
