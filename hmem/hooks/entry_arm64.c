/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See entry_hook.h. On arm64 the site is the function's first instruction, or the second if the
 * first must stay where it is: BTI and PACIASP are where an indirect branch may land. The stub
 * undoes PACIASP by AUTIASP. An instruction that depends on its own address is not moved, except a
 * plain branch, as another library's hook may be.
 *
 * The Arm Architecture Reference Manual lets one processor replace an instruction that others
 * execute only among a few (B, BL, BRK, NOP, SVC, ...). At the beginning of a function it may be
 * any other, so this relies on what processors do beyond the manual, as every library does that
 * hooks functions: an aligned word is fetched whole, old or new, and the new one after the
 * maintenance and the membarrier(2) of code_write().
 *
 * x16 and x17 are free at a function's beginning: the linker's veneers use them.
 */
#include "hmem/hooks/entry_hook.h"

#if defined(__aarch64__) && defined(__LP64__)

#include <string.h>

#define NOP     0xd503201fu
#define PACIASP 0xd503233fu
#define AUTIASP 0xd50323bfu
#define LDR_X17 0x58000051u /* ldr x17, 8 bytes after this instruction */
#define BR_X17  0xd61f0220u

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

static bool is_bti(uint32_t word)
{
    return (word & 0xffffff3f) == 0xd503241f;
}

static bool is_branch(uint32_t word)
{
    return (word & 0xfc000000) == 0x14000000;
}

static bool ends_function(uint32_t word)
{
    return (word & 0xfffffc1f) == 0xd65f0000 || /* ret */
           (word & 0xfffffbff) == 0xd65f0bff;   /* retaa, retab */
}

/* Does the instruction depend on its address? */
static bool is_relative(uint32_t word)
{
    return (word & 0x1f000000) == 0x10000000 || /* adr, adrp */
           (word & 0x7c000000) == 0x14000000 || /* b, bl */
           (word & 0xfe000000) == 0x54000000 || /* b.cond, bc.cond */
           (word & 0x7e000000) == 0x34000000 || /* cbz, cbnz */
           (word & 0x7e000000) == 0x36000000 || /* tbz, tbnz */
           (word & 0x3b000000) == 0x18000000;   /* ldr, ldrsw, prfm: literal */
}

static bool is_breakpoint(uint32_t word)
{
    return (word & 0xffe0001f) == 0xd4200000; /* brk */
}

const char *entry_arch_refusal(void)
{
    return NULL;
}

const char *entry_arch_choose(struct entry_hook *hook, const struct entry_code *code)
{
    uint32_t word = code->readable < 8 ? 0 : word_at(code->function);
    bool stays = is_bti(word) || word == PACIASP;
    uint8_t *site = code->function + (stays ? CODE_BRANCH : 0);

    if (code->readable < 8 || (uintptr_t)code->function & 3)
        return "it is too short";
    word = word_at(site);
    if (is_breakpoint(word))
        return "there is a breakpoint at its beginning";
    if (stays && ends_function(word))
        return "it is too short";
    if (is_relative(word) && !is_branch(word))
        return "an instruction at its beginning depends on its address";
    hook->site = site;
    hook->size = CODE_BRANCH;
    hook->pad = NULL;
    return NULL;
}

/* b; or ldr of a literal, and br, as UCX writes them. */
const uint8_t *entry_arch_leads_to(const struct entry_code *code, size_t *size)
{
    uint32_t word = code->readable < 8 ? 0 : word_at(code->function);
    size_t at = is_bti(word) || word == PACIASP ? CODE_BRANCH : 0;
    const uint8_t *here = code->function + at, *to = NULL;
    uint32_t next;

    if (code->readable < at + 24 || (uintptr_t)code->function & 3)
        return NULL;
    word = word_at(here);
    next = word_at(here + CODE_BRANCH);
    *size = at + CODE_BRANCH;
    if (is_branch(word))
        return here + ((int32_t)(word << 6) >> 4);
    if ((word & 0xff00001f) == (0x58000000 | (next >> 5 & 0x1f)) &&
        (next & 0xfffffc1f) == 0xd61f0000) {
        memcpy(&to, here + ((int32_t)(word << 8) >> 13) * 4, sizeof(to));
        *size = at + 16;
    }
    return to;
}

struct writer {
    uint8_t *at;
};

static void put(struct writer *out, uint32_t word)
{
    memcpy(out->at, &word, sizeof(word));
    out->at += sizeof(word);
}

/* A jump to any address; its literal follows it. */
static void put_jump(struct writer *out, const void *target)
{
    put(out, LDR_X17);
    put(out, BR_X17);
    memcpy(out->at, &target, sizeof(target));
    out->at += sizeof(target);
}

/* The copy of the site, and the branch back: direct, since the function's page may refuse indirect
 * ones. */
static bool put_original(struct writer *out, const struct entry_hook *hook)
{
    uint32_t word = word_at(hook->site);
    int32_t distance = (int32_t)(word << 6) >> 4;
    const uint8_t *next = hook->site + (is_branch(word) ? distance : CODE_BRANCH);
    uint8_t branch[CODE_BRANCH];

    if (hook->site != hook->function)
        put(out, word_at(hook->function) == PACIASP ? PACIASP : NOP);
    if (!is_branch(word))
        put(out, word);
    if (!code_branch(branch, out->at, next)) {
        if (!is_branch(word))
            return false;
        put_jump(out, next);
        return true;
    }
    put(out, word_at(branch));
    return true;
}

const char *entry_arch_build(struct entry_hook *hook, const struct entry_code *code, uint8_t *room)
{
    struct writer out = {room};
    uint8_t *original;

    put(&out, hook->site != hook->function && word_at(hook->function) == PACIASP ? AUTIASP : NOP);
    put_jump(&out, hook->replacement);
    original = out.at;
    if (!put_original(&out, hook) || !code_branch(hook->after, hook->site, room))
        return "no addresses are free near it";
    memcpy(hook->before, hook->site, CODE_BRANCH);
    atomic_store(&hook->original, original);
    return NULL;
}

#endif
