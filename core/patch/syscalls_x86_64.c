/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See syscalls.h.
 */
#include "core/patch/stub.h"
#include "core/patch/syscalls.h"

#if defined(__x86_64__) && defined(__LP64__)

#include <string.h>

#define JUMP       0xe9 /* followed by four bytes, the distance from the instruction's end */
#define SHORT_JUMP 0xeb /* followed by one byte */
#define ENTER      0x05 /* the second byte of `syscall`, of two */

#define JUMP_IF      6 /* bytes of a conditional jump: 0x0f, 0x80 to 0x8f, and the distance */
#define JUMP_IF_CODE 2

/* Are the bytes a conditional jump's distance that leads into this code? A `syscall` is not: the
 * bytes behind it would have to be the distance's upper bytes. */
static bool is_distance(const struct syscall_code *code, size_t at)
{
    for (size_t back = JUMP_IF_CODE; back < JUMP_IF - 1 && back <= at; back++) {
        const uint8_t *jump = code->start + at - back;
        int32_t distance;

        if (at - back + JUMP_IF > code->size || jump[0] != 0x0f || (jump[1] & 0xf0) != 0x80)
            continue;
        memcpy(&distance, jump + JUMP_IF_CODE, sizeof(distance));
        if ((size_t)((ptrdiff_t)(at - back + JUMP_IF) + distance) < code->size)
            return true;
    }
    return false;
}

static bool has_syscall(const struct syscall_code *code, size_t at)
{
    return code->start[at] == 0x0f && code->start[at + 1] == ENTER && !is_distance(code, at);
}

static bool is_stub_jump(const uint8_t *site, long *number)
{
    const uint8_t *target = code_target(site);

    return target && stub_number(target, number);
}

const uint8_t syscall_fetch_last[CODE_BRANCH] = {0x4c, 0x8b, 0x4c, 0x24, 0x08};

/* Is the instruction before `syscall` one that a stub can execute, or a jump to a stub? *number is
 * set in any case. first: no byte precedes it. After a byte 0x40 to 0x4f it would be part of
 * another instruction: mov $x,%r8d. */
static bool is_before_site(const uint8_t *site, bool first, long *number)
{
    uint32_t value;

    *number = SYSCALL_ANY;
    if (site[0] == JUMP)
        return is_stub_jump(site, number);
    if (!first && (site[-1] & 0xf0) == 0x40)
        return false;
    memcpy(&value, site + 1, sizeof(value));
    if (site[0] == 0xb8)
        *number = (long)value;
    return site[0] == 0xb8 || memcmp(site, syscall_fetch_last, CODE_BRANCH) == 0;
}

/* Finds the end of the function around `syscall`: known, or behind the instructions with which
 * libc's wrappers fail: or $-1,%eax or mov $-1,%eax; ret. NULL: not found. */
static const uint8_t *end_of_function(const struct syscall_code *code, size_t at)
{
    static const uint8_t fails[][4] = {{0x83, 0xc8, 0xff, 0xc3}, {0xff, 0xff, 0xff, 0xc3}};

    if (code->is_function)
        return code->start + code->size;
    for (size_t i = at + 2; i + sizeof(fails[0]) <= code->size && i < at + 64; i++)
        if (memcmp(code->start + i, fails[0], sizeof(fails[0])) == 0 ||
            memcmp(code->start + i, fails[1], sizeof(fails[1])) == 0)
            return code->start + i + sizeof(fails[0]);
    return NULL;
}

/* Finds the last bytes before the next function, if no code executes them. A jump to a stub is
 * there from the last time that the function was hooked. */
static uint8_t *find_pad(const struct syscall_code *code, size_t at)
{
    const uint8_t *end = end_of_function(code, at), *enter = code->start + at;
    uint8_t *pad = end ? code_pad_place(end) : NULL, jump[CODE_SHORT];
    long number;

    if (!pad || pad < end || !code_short_branch(jump, enter, pad) ||
        !code_can_replace(enter, CODE_SHORT) ||
        (!code->is_function && pad + CODE_BRANCH > code->start + code->size))
        return NULL;
    return code_pad_behind(end) || is_stub_jump(pad, &number) ? pad : NULL;
}

/* Is this a short jump to a jump to a stub? */
static bool is_hooked(const struct syscall_code *code, size_t at, struct syscall_site *out)
{
    uint8_t *enter = code->start + at, *to = enter + CODE_SHORT + (int8_t)enter[1];
    uint8_t *end = code->start + code->size;

    if (enter[0] != SHORT_JUMP || to < enter ||
        to > (code->is_function ? code_pad_place(end) : end - CODE_BRANCH))
        return false;
    *out = (struct syscall_site){.at = to, .way = enter};
    return is_stub_jump(to, &out->number);
}

bool syscall_is_at(const struct syscall_code *code, size_t at, struct syscall_site *out)
{
    uint8_t *enter = code->start + at, *before = enter - CODE_BRANCH;
    bool fits = false;

    if (at + CODE_SHORT > code->size)
        return false;
    if (is_hooked(code, at, out))
        return true;
    if (!has_syscall(code, at))
        return false;
    *out = (struct syscall_site){.number = SYSCALL_ANY};
    if (at >= CODE_BRANCH)
        fits = is_before_site(before, at == CODE_BRANCH, &out->number);
    if (at >= CODE_BRANCH && before[0] == JUMP) { /* a stub's: or an unknown hook's */
        out->at = fits ? before : NULL;
        return true;
    }
    out->at = find_pad(code, at);
    if (out->at)
        out->via = enter;
    else if (fits && at != CODE_BRANCH)
        out->at = before;
    return true;
}

static size_t find_byte(const struct syscall_code *code, size_t from, size_t end, uint8_t byte)
{
    const uint8_t *found = from < end ? memchr(code->start + from, byte, end - from) : NULL;

    return found ? (size_t)(found - code->start) : end;
}

/* Searches for the second byte of `syscall`, the rarer one. */
size_t syscall_candidate(const struct syscall_code *code, size_t at)
{
    size_t second = find_byte(code, at + 1, code->size, ENTER);

    return find_byte(code, at, second < code->size ? second - 1 : code->size, SHORT_JUMP);
}

#endif
