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
#include "core/patch/code.h"

#if defined(__x86_64__) && defined(__LP64__)

#include <string.h>

#define JUMP       0xe9 /* followed by four bytes, the distance from the instruction's end */
#define SHORT_JUMP 0xeb /* followed by one byte */

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

bool code_short_branch(uint8_t to[CODE_SHORT], const uint8_t *at, const uint8_t *target)
{
    ptrdiff_t distance = target - (at + CODE_SHORT);

    to[0] = SHORT_JUMP;
    to[1] = (uint8_t)distance;
    return distance >= INT8_MIN && distance <= INT8_MAX;
}

/* ---- jumps ------------------------------------------------------------------------------ */

const uint8_t *code_target(const uint8_t *at)
{
    int32_t distance;

    memcpy(&distance, at + 1, sizeof(distance));
    return at[0] == JUMP ? at + CODE_BRANCH + distance : NULL;
}

/* mov of eight bytes to a register, and a jump by it, as UCX (%rax) and libfabric (%r11) write
 * them. */
static const uint8_t *far_target(const uint8_t *at, size_t readable, size_t *size)
{
    uint8_t high = at[0] & 1, reg = at[1] & 7;
    const uint8_t *jump = at + 10 + high, *to;

    if (readable < 12u + high || (at[0] & 0xfe) != 0x48 || (at[1] & 0xf8) != 0xb8 ||
        (high && at[10] != 0x41) || jump[0] != 0xff || jump[1] != (0xe0 | reg))
        return NULL;
    memcpy(&to, at + 2, sizeof(to));
    *size = 12u + high;
    return to;
}

/* A jump by the address in memory behind it. */
static const uint8_t *target_in_memory(const uint8_t *at)
{
    const uint8_t *to;
    int32_t distance;

    memcpy(&distance, at + 2, sizeof(distance));
    memcpy(&to, at + 6 + distance, sizeof(to));
    return to;
}

const uint8_t *code_leads_to(const uint8_t *function, size_t readable, size_t *size)
{
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t skipped = readable > 4 && !memcmp(function, endbr64, 4) ? sizeof(endbr64) : 0;
    const uint8_t *at = function + skipped, *to = NULL;

    readable -= skipped;
    *size = 0;
    if (readable >= 2 && at[0] == SHORT_JUMP) {
        to = at + CODE_SHORT + (int8_t)at[1];
        *size = CODE_SHORT;
    } else if (readable >= CODE_BRANCH && at[0] == JUMP) {
        to = code_target(at);
        *size = CODE_BRANCH;
    } else if (readable >= 6 && at[0] == 0xff && at[1] == 0x25) {
        to = target_in_memory(at);
        *size = 6;
    } else if (readable >= 12) {
        to = far_target(at, readable, size);
    }
    *size += skipped;
    return to;
}

/* ---- pads ------------------------------------------------------------------------------- */

#define FUNCTIONS_ALIGN 16
#define PAD_MOST        20 /* bytes before a function in which one is looked for */

/* The size of an instruction that does nothing, as assemblers and linkers put them between
 * functions. 0: it is none. */
static size_t filler_size(const uint8_t *at, const uint8_t *end)
{
    static const uint8_t forms[][8] = {{0x0f, 0x1f, 0x84, 0},
                                       {0x0f, 0x1f, 0x80, 0},
                                       {0x0f, 0x1f, 0x44, 0},
                                       {0x0f, 0x1f, 0x40, 0},
                                       {0x0f, 0x1f, 0x00},
                                       {0x90},
                                       {0xcc}};
    static const uint8_t sizes[] = {8, 7, 5, 4, 3, 1, 1};
    size_t prefixes = 0;

    while (at + prefixes < end && (at[prefixes] == 0x66 || at[prefixes] == 0x2e))
        prefixes++;
    at += prefixes;
    for (size_t i = 0; i < sizeof(sizes); i++)
        if (sizes[i] <= end - at && memcmp(at, forms[i], sizes[i]) == 0)
            return prefixes + sizes[i];
    return 0;
}

static bool is_filler(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        size_t size = filler_size(at, end);

        if (!size)
            return false;
        at += size;
    }
    return true;
}

uint8_t *code_pad_place(const uint8_t *end)
{
    uintptr_t next = ((uintptr_t)end + FUNCTIONS_ALIGN - 1) & ~(uintptr_t)(FUNCTIONS_ALIGN - 1);

    return (uint8_t *)next - CODE_BRANCH;
}

/* The pad is on a page of the code, since functions are aligned. */
uint8_t *code_pad_behind(const uint8_t *end)
{
    uint8_t *pad = code_pad_place(end);

    return pad >= end && is_filler(end, pad + CODE_BRANCH) ? pad : NULL;
}

uint8_t *code_pad_before(uint8_t *start, const uint8_t *from)
{
    for (ptrdiff_t size = CODE_BRANCH; size <= PAD_MOST && size <= start - from; size++)
        if (is_filler(start - size, start))
            return start - CODE_BRANCH;
    return NULL;
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
