/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See entry_hook.h. On arm64 the site is any instruction that does not depend on its own address,
 * one that computes an address (adr, adrp), with which NVIDIA's driver begins, or a plain branch,
 * as another library's hook may be. It lies behind the OTHERS bytes at the beginning that another
 * library's jump may take, if an instruction there is suitable; else as near to the beginning as
 * possible. The first instruction is the last choice, since tracers set their probes (uprobes) on
 * it: the kernel executes the file's instruction in place of a probed one, which bypasses the hook.
 * BTI and PACIASP at the beginning stay: an indirect branch may land there.
 *
 * Instructions before the site stay where they are, and are executed before the stub, which undoes
 * them: they may lower sp, store to the frame so opened, sign x30 (PACIASP), and write to the
 * flags, to the registers that they stored before, and to x9 to x16. The original executes copies
 * of them. This relies on the procedure call standard, by which callers expect nothing in the flags
 * and in x9 to x17 (stub and original jump by x17) and nothing below sp. No branch in the function
 * may lead behind its first instruction and up to the site; indirect branches are taken not to.
 *
 * The Arm Architecture Reference Manual lets one processor replace an instruction that others
 * execute only among a few (B, BL, BRK, NOP, SVC, ...). The site may be any other, so this relies
 * on what processors do beyond the manual, as every library does that hooks functions: an aligned
 * word is fetched whole, old or new, and the new one after the maintenance and the membarrier(2) of
 * code_write().
 */
#include "core/patch/entry_hook.h"

#if defined(__aarch64__) && defined(__LP64__)

#include <string.h>

#define OTHERS 16    /* bytes of the longest jump: ldr x15; br x15; and the address */
#define BEFORE 48    /* bytes before the site */
#define SCAN   256   /* bytes in which branches are looked for, if the function's size is unknown */
#define FRAME  32768 /* bytes that ldr reaches from sp */

_Static_assert(BEFORE / CODE_BRANCH * 16 + 48 <= ENTRY_ROOM, "if each up to the site is an adrp");

#define PACIASP 0xd503233fu
#define AUTIASP 0xd50323bfu
#define LDR_X17 0x58000051u /* ldr x17, 8 bytes after this instruction */
#define BR_X17  0xd61f0220u

/* ---- one instruction -------------------------------------------------------------------- */

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

static bool is_address(uint32_t word)
{
    return (word & 0x1f000000) == 0x10000000; /* adr, adrp */
}

static bool is_breakpoint(uint32_t word)
{
    return (word & 0xffe0001f) == 0xd4200000; /* brk */
}

const char *entry_arch_refusal(void)
{
    return NULL;
}

/* ---- instructions before the site -------------------------------------------------------- */

#define NONE 31 /* register number of zero, or sp */

/* Changes by the instructions before the site. */
struct prologue {
    struct {
        uint32_t reg, depth; /* depth of its place in the frame, like the depth below */
    } saved[2 * BEFORE / CODE_BRANCH];
    unsigned saves;
    uint32_t depth; /* bytes between sp and where it was when the function was called */
    bool is_signed; /* x30 */
};

static bool is_temporary(uint32_t reg)
{
    return reg >= 9 && reg <= 16;
}

static bool may_write(const struct prologue *p, uint32_t reg)
{
    if (is_temporary(reg))
        return true;
    for (unsigned i = 0; i < p->saves; i++)
        if (p->saved[i].reg == reg)
            return true;
    return false;
}

static bool lower_stack(struct prologue *p, uint32_t bytes)
{
    if (!bytes || bytes % 16 || bytes >= FRAME - p->depth)
        return false;
    p->depth += bytes;
    return true;
}

/* A store of one or two 64-bit registers to sp plus an offset. */
struct store {
    uint32_t count, regs[2];
    int32_t offset;
    bool lowers; /* lowers sp by the offset, and stores there */
};

static bool decode_store(uint32_t word, struct store *out)
{
    uint32_t pair = word & 0xff4003e0;
    bool is_general = !(word & 0x04000000);

    *out = (struct store){.count = 1, .regs = {word & 31, word >> 10 & 31}};
    if (pair == 0xa90003e0 || pair == 0x6d0003e0) { /* stp */
        out->count = 2;
        out->offset = ((int32_t)(word << 10) >> 25) * 8;
        out->lowers = word & 0x00800000;
    } else if ((word & 0xfbc003e0) == 0xf90003e0) { /* str */
        out->offset = (int32_t)(word >> 10 & 0xfff) * 8;
    } else if ((word & 0xfbe00fe0) == 0xf8000fe0) { /* str, and lowers sp */
        out->offset = (int32_t)(word << 11) >> 23;
        out->lowers = true;
    } else {
        return false;
    }
    for (uint32_t i = 0; i < out->count && !is_general; i++)
        out->regs[i] = NONE; /* the stub restores general registers only: no others are written */
    return true;
}

/* Does it store to the frame without overwriting a register saved there? */
static bool stores_in_frame(const struct prologue *p, uint32_t depth, uint32_t size)
{
    if (depth > p->depth || depth < size)
        return false;
    for (unsigned i = 0; i < p->saves; i++)
        if (p->saved[i].depth > depth - size && p->saved[i].depth - 8 < depth)
            return false;
    return true;
}

static bool note_store(struct prologue *p, const struct store *store)
{
    uint32_t depth;

    if (store->lowers && !lower_stack(p, (uint32_t)-store->offset))
        return false;
    depth = p->depth - (store->lowers ? 0 : (uint32_t)store->offset);
    if (!stores_in_frame(p, depth, 8 * store->count))
        return false;
    for (uint32_t i = 0; i < store->count; i++) {
        if (store->regs[i] == NONE || may_write(p, store->regs[i]))
            continue;
        p->saved[p->saves].depth = depth - 8 * i;
        p->saved[p->saves++].reg = store->regs[i];
    }
    return true;
}

/* Does it only compute, from registers or loads, and write the register in its lowest bits or the
 * flags? */
static bool computes(uint32_t word)
{
    static const struct {
        uint32_t mask, value;
    } kinds[] = {
        {0x1f000000, 0x10000000}, /* adr, adrp */
        {0x1f800000, 0x11000000}, /* add, sub, cmp: immediate */
        {0x1f800000, 0x12000000}, /* and, orr, tst: immediate */
        {0x1f800000, 0x12800000}, /* movz, movn, movk */
        {0x1f000000, 0x0a000000}, /* and, orr, mov, tst: register */
        {0x1f000000, 0x0b000000}, /* add, sub, cmp: register */
        {0x3fc00000, 0x39400000}, /* ldr, ldrh, ldrb: unsigned offset */
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if ((word & kinds[i].mask) == kinds[i].value)
            return true;
    return false;
}

static bool sets_flags_only(uint32_t word)
{
    return (word & 31) == NONE && (word & 0x60000000) == 0x60000000; /* cmp, tst; else it is sp */
}

/* Can the stub undo the instruction, and the original execute it once more? */
static bool can_undo(struct prologue *p, uint32_t word)
{
    uint32_t shift = word & 0x00400000 ? 12 : 0;
    struct store store;

    if (word == PACIASP) {
        bool first = !p->depth && !p->is_signed;

        p->is_signed = true;
        return first;
    }
    if ((word & 0xff8003ff) == 0xd10003ff) /* sub of sp */
        return lower_stack(p, (word >> 10 & 0xfff) << shift);
    if (decode_store(word, &store))
        return note_store(p, &store);
    return computes(word) && (sets_flags_only(word) || may_write(p, word & 31));
}

/* ---- choosing ---------------------------------------------------------------------------- */

/* The distance of a branch; 0: it is no branch. */
static int32_t branch_distance(uint32_t word)
{
    if ((word & 0x7c000000) == 0x14000000) /* b, bl */
        return (int32_t)(word << 6) >> 4;
    if ((word & 0xfe000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) /* b.cond, cbz */
        return ((int32_t)(word << 8) >> 13) * 4;
    if ((word & 0x7e000000) == 0x36000000) /* tbz, tbnz */
        return ((int32_t)(word << 13) >> 18) * 4;
    return 0;
}

/* Does a branch of the function lead behind its first instruction and before `end`, an offset? */
static bool is_entered(const struct entry_code *code, ptrdiff_t end)
{
    size_t size = code->size ? code->size : code->readable < SCAN ? code->readable : SCAN;

    for (size_t at = 0; at + CODE_BRANCH <= size; at += CODE_BRANCH) {
        int32_t distance = branch_distance(word_at(code->function + at));
        ptrdiff_t to = (ptrdiff_t)at + distance;

        if (distance && to > 0 && to < end)
            return true;
    }
    return false;
}

static bool is_site(uint32_t word)
{
    return !is_bti(word) && (!is_relative(word) || is_address(word) || is_branch(word));
}

/* Walks from the beginning to the first site that is not before `least`. */
static const char *walk(const struct entry_code *code, size_t least, struct prologue *p,
                        uint8_t **site)
{
    size_t limit = code->size ? code->size : code->readable;

    *p = (struct prologue){.saves = 0};
    for (size_t at = 0; at <= BEFORE && at + CODE_BRANCH <= limit; at += CODE_BRANCH) {
        uint32_t word = word_at(code->function + at);

        *site = code->function + at;
        if (is_breakpoint(word))
            return "its beginning has a breakpoint";
        if (at && ends_function(word))
            break;
        if (at >= least && is_site(word) && (at || word != PACIASP))
            return NULL;
        if ((at || !is_bti(word)) && !can_undo(p, word))
            return "an instruction at its beginning depends on its own address";
    }
    return "it is too short";
}

static const char *find_site(const struct entry_code *code, struct prologue *p, uint8_t **site)
{
    static const size_t least[] = {OTHERS, CODE_BRANCH, 0};
    const char *why = "it is too short";

    if ((uintptr_t)code->function & 3)
        return why;
    for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
        why = walk(code, least[i], p, site);
        if (!why && *site != code->function &&
            is_entered(code, *site + CODE_BRANCH - code->function))
            why = "a branch leads to its beginning";
        if (!why)
            break;
    }
    return why;
}

const char *entry_arch_choose(struct entry_hook *hook, const struct entry_code *code)
{
    struct prologue prologue;

    hook->patch = (struct patch){.via = NULL};
    return find_site(code, &prologue, &hook->patch.at);
}

/* ---- writing ---------------------------------------------------------------------------- */

struct writer {
    uint8_t *at;
};

static void put(struct writer *out, uint32_t word)
{
    memcpy(out->at, &word, sizeof(word));
    out->at += sizeof(word);
}

/* A jump to any address; its literal follows. */
static void put_jump(struct writer *out, const void *target)
{
    put(out, LDR_X17);
    put(out, BR_X17);
    memcpy(out->at, &target, sizeof(target));
    out->at += sizeof(target);
}

/* The stub's beginning: the registers as they were when the function was called. Each is read from
 * the place that it was stored to first. */
static void put_undo(struct writer *out, const struct prologue *p)
{
    for (unsigned i = 0; i < p->saves; i++) /* ldr, of sp and an offset */
        put(out, 0xf94003e0 | (p->depth - p->saved[i].depth) / 8 << 10 | p->saved[i].reg);
    if (p->depth >> 12) /* add to sp */
        put(out, 0x914003ff | p->depth >> 12 << 10);
    if (p->depth & 0xfff)
        put(out, 0x910003ff | (p->depth & 0xfff) << 10);
    if (p->is_signed)
        put(out, AUTIASP);
}

/* movz, and movk for the other bits. */
static void put_address(struct writer *out, uint32_t reg, uint64_t address)
{
    put(out, 0xd2800000 | (uint32_t)(address & 0xffff) << 5 | reg);
    for (uint32_t i = 1; i < 4; i++)
        put(out, 0xf2800000 | i << 21 | (uint32_t)(address >> 16 * i & 0xffff) << 5 | reg);
}

/* Copies an instruction to where it does the same. */
static void put_moved(struct writer *out, const uint8_t *at)
{
    uint32_t word = word_at(at);
    int64_t distance = (int64_t)((int32_t)(word << 8) >> 13) * 4 + (word >> 29 & 3);

    if ((word & 0x9f000000) == 0x10000000) /* adr */
        put_address(out, word & 31, (uint64_t)((intptr_t)at + distance));
    else if ((word & 0x9f000000) == 0x90000000) /* adrp */
        put_address(out, word & 31, (uint64_t)(((intptr_t)at & -4096) + distance * 4096));
    else
        put(out, word);
}

/* The copies up to the site, and the branch back: direct, since the function's page may refuse
 * indirect ones. */
static bool put_original(struct writer *out, const struct entry_hook *hook,
                         const struct entry_code *code)
{
    const uint8_t *site = hook->patch.at;
    uint32_t word = word_at(site);
    const uint8_t *next = site + (is_branch(word) ? branch_distance(word) : CODE_BRANCH);
    uint8_t branch[CODE_BRANCH];

    for (const uint8_t *at = code->function; at < site; at += CODE_BRANCH)
        put_moved(out, at);
    if (!is_branch(word))
        put_moved(out, site);
    if (!code_branch(branch, out->at, next)) {
        if (!is_branch(word))
            return false;
        put_jump(out, next);
        return true;
    }
    put(out, word_at(branch));
    return true;
}

const char *entry_arch_build(const struct entry_hook *hook, const struct entry_code *code,
                             uint8_t *room, uint8_t **original)
{
    struct writer out = {room};
    struct prologue prologue;
    uint8_t *site;

    if (find_site(code, &prologue, &site) || site != hook->patch.at)
        return "other code changes it at the same time";
    put_undo(&out, &prologue);
    put_jump(&out, hook->replacement);
    *original = out.at;
    return put_original(&out, hook, code) ? NULL : "no addresses are free near it";
}

#endif
