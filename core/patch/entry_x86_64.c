/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See entry_hook.h. On x86-64 the site is one instruction of at least five bytes, which a jump to
 * the stub replaces, or one of at least two, which a short jump replaces: to a *pad* of five bytes
 * that no thread executes, with the jump to the stub. Pads are filler that compilers put between
 * the function and its neighbours, or behind a jump or a return in it.
 *
 * The site lies behind the OTHERS bytes at the beginning that another library's jump may take, if
 * an instruction there will do; else behind a near jump, of five bytes; else behind the first
 * instruction. Tracers set their probes (uprobes) on that: the kernel executes the file's
 * instruction in place of a probed one, and restores the file's byte when the probe goes.
 *
 * Instructions before the site stay where they are, and are executed before the stub, which undoes
 * them: they may push registers and lower %rsp, write to the registers pushed, to %rax, %r10 and
 * %r11 (free at a function's beginning) and to the flags, and store to their frame. The original
 * executes copies of them. A conditional branch among them may lead to where the function returns a
 * number at once, as all of NVIDIA's do once the driver has shut down: such a call does nothing,
 * and is not hooked. No branch in the function may lead behind its first instruction and up to the
 * site.
 *
 * Zydis is loaded when it is first needed, since libhmreg links libc only.
 */
#include "core/patch/entry_hook.h"

#if defined(__x86_64__) && defined(__LP64__) && defined(HMREG_HAVE_ZYDIS)

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define OTHERS 14  /* bytes of the longest jump: jmp *(%rip), and the address */
#define PUSHES 16  /* instructions before the site, and so registers pushed */
#define BEFORE 48  /* bytes before the site */
#define SCAN   256 /* bytes in which branches are looked for, if the function's size is unknown */

/* ---- Zydis ------------------------------------------------------------------------------ */

static struct {
    __typeof__(ZydisDecoderInit) *init;
    __typeof__(ZydisDecoderDecodeFull) *decode;
    __typeof__(ZydisGetVersion) *version;
    ZydisDecoder decoder;
    char why[96]; /* "": loaded */
} zydis;
static pthread_once_t zydis_once = PTHREAD_ONCE_INIT;

static bool zydis_entry(void *library, const char *name, void *member)
{
    void *entry = dlsym(library, name);

    memcpy(member, &entry, sizeof(entry));
    return entry;
}

/* The structs of two minor versions differ, so only the one we were compiled with will do. */
static bool zydis_fits(void *library)
{
    return zydis_entry(library, "ZydisDecoderInit", &zydis.init) &&
           zydis_entry(library, "ZydisDecoderDecodeFull", &zydis.decode) &&
           zydis_entry(library, "ZydisGetVersion", &zydis.version) &&
           zydis.version() >> 32 == ZYDIS_VERSION >> 32 &&
           ZYAN_SUCCESS(
               zydis.init(&zydis.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
}

static void zydis_load(void)
{
    char name[32];
    void *library;

    snprintf(name, sizeof(name), "libZydis.so.%u.%u", (unsigned)ZYDIS_VERSION_MAJOR(ZYDIS_VERSION),
             (unsigned)ZYDIS_VERSION_MINOR(ZYDIS_VERSION));
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library || !zydis_fits(library))
        snprintf(zydis.why, sizeof(zydis.why), "%s, which decodes instructions, %s", name,
                 library ? "is another version" : "is not installed");
}

const char *entry_arch_refusal(void)
{
    pthread_once(&zydis_once, zydis_load);
    return zydis.why[0] ? zydis.why : NULL;
}

/* ---- one instruction -------------------------------------------------------------------- */

struct instruction {
    ZydisDecodedInstruction is;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    const uint8_t *at;
    uint8_t size;
};

static bool decode(const uint8_t *at, size_t readable, struct instruction *out)
{
    if (!ZYAN_SUCCESS(zydis.decode(&zydis.decoder, at, readable, &out->is, out->operands)))
        return false;
    out->at = at;
    out->size = out->is.length;
    return true;
}

/* The target of a branch with a distance. */
static bool branches_to(const struct instruction *in, const uint8_t **target)
{
    for (unsigned i = 0; i < in->is.operand_count; i++) {
        const ZydisDecodedOperand *operand = &in->operands[i];

        if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operand->imm.is_relative) {
            *target = in->at + in->size + operand->imm.value.s;
            return true;
        }
    }
    return false;
}

/* The place of the distance in an operand relative to the instruction's end; 0: there is none. */
static uint8_t relative_memory(const struct instruction *in)
{
    for (unsigned i = 0; i < in->is.operand_count; i++)
        if (in->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
            in->operands[i].mem.base == ZYDIS_REGISTER_RIP)
            return in->is.raw.disp.offset;
    return 0;
}

static bool is_jump(const struct instruction *in)
{
    return in->is.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

/* jz and its like, which have a form with a distance of four bytes; loop and jrcxz have none.
 * condition: the low half of the byte that names it. */
static bool is_conditional(const struct instruction *in, uint8_t *condition)
{
    bool near = in->is.raw.imm[0].size == 8;

    if (in->is.meta.category != ZYDIS_CATEGORY_COND_BR ||
        (near ? (in->is.opcode & 0xf0) != 0x70 : (in->is.opcode & 0xf0) != 0x80))
        return false;
    *condition = in->is.opcode & 0x0f;
    return true;
}

static bool can_move(const struct instruction *in)
{
    const uint8_t *target;
    uint8_t condition;

    switch (in->is.meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_INTERRUPT:
        return false;
    case ZYDIS_CATEGORY_COND_BR:
        return is_conditional(in, &condition);
    default:
        return !branches_to(in, &target) || is_jump(in);
    }
}

/* ---- instructions before the site -------------------------------------------------------- */

/* Changes by the instructions before the site. */
struct prologue {
    struct {
        ZydisRegister reg;
        uint32_t depth; /* depth of its place in the frame, like the depth below */
    } pushed[PUSHES];
    unsigned pushes;
    const uint8_t *way; /* the short jump to the site, or NULL */
    uint32_t depth;     /* bytes between %rsp and where it was when the function was called */
};

static bool is_push(const struct instruction *in)
{
    return in->is.mnemonic == ZYDIS_MNEMONIC_PUSH &&
           in->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER && in->operands[0].size == 64;
}

static bool lowers_stack(const struct instruction *in)
{
    return in->is.mnemonic == ZYDIS_MNEMONIC_SUB &&
           in->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           in->operands[0].reg.value == ZYDIS_REGISTER_RSP &&
           in->operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
           in->operands[1].imm.value.s > 0 && in->operands[1].imm.value.s < 1 << 20;
}

static ZydisRegister whole(ZydisRegister part)
{
    static const struct {
        ZydisRegister first, count, whole;
    } parts[] = {
        {ZYDIS_REGISTER_EAX, 16, ZYDIS_REGISTER_RAX},
        {ZYDIS_REGISTER_AX, 16, ZYDIS_REGISTER_RAX},
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (part >= parts[i].first && part < parts[i].first + parts[i].count)
            return parts[i].whole + (part - parts[i].first);
    return part;
}

static bool may_write(const struct prologue *p, ZydisRegister reg)
{
    reg = whole(reg);
    if (reg == ZYDIS_REGISTER_RFLAGS || reg == ZYDIS_REGISTER_RAX || reg == ZYDIS_REGISTER_R10 ||
        reg == ZYDIS_REGISTER_R11)
        return true;
    for (unsigned i = 0; i < p->pushes; i++)
        if (p->pushed[i].reg == reg)
            return true;
    return false;
}

static bool is_written(const ZydisDecodedOperand *operand)
{
    return operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
}

/* Is it a store to the frame? Repeating it stores the value once more. */
static bool stores_in_frame(const struct prologue *p, const struct instruction *in,
                            const ZydisDecodedOperand *to)
{
    return in->is.mnemonic == ZYDIS_MNEMONIC_MOV && to->type == ZYDIS_OPERAND_TYPE_MEMORY &&
           to->mem.index == ZYDIS_REGISTER_NONE && to->mem.segment == ZYDIS_REGISTER_SS &&
           (to->mem.base == ZYDIS_REGISTER_RSP ||
            (to->mem.base == ZYDIS_REGISTER_RBP && may_write(p, ZYDIS_REGISTER_RBP)));
}

/* Can the stub undo the instruction, and the original execute it once more? */
static bool can_undo(struct prologue *p, const struct instruction *in)
{
    const uint8_t *target;

    if (p->pushes == PUSHES || !can_move(in) || is_jump(in) || branches_to(in, &target))
        return false;
    if (is_push(in)) {
        p->depth += 8;
        p->pushed[p->pushes].depth = p->depth;
        p->pushed[p->pushes++].reg = in->operands[0].reg.value;
        return true;
    }
    if (lowers_stack(in)) {
        p->depth += (uint32_t)in->operands[1].imm.value.s;
        return true;
    }
    for (unsigned i = 0; i < in->is.operand_count; i++) {
        const ZydisDecodedOperand *operand = &in->operands[i];

        if (is_written(operand) && !stores_in_frame(p, in, operand) &&
            (operand->type != ZYDIS_OPERAND_TYPE_REGISTER || !may_write(p, operand->reg.value)))
            return false;
    }
    return true;
}

/* Does the branch lead to a return, with writes to registers only before it? */
static bool leads_to_return(const struct entry_code *code, const struct instruction *branch)
{
    size_t limit = code->size ? code->size : code->readable;
    const uint8_t *target;
    struct instruction in;
    uint8_t condition;

    if (!is_conditional(branch, &condition) || !branches_to(branch, &target))
        return false;
    for (int i = 0; i < 3; i++, target += in.size) {
        ptrdiff_t at = target - code->function;

        if (at < 0 || (size_t)at >= limit || !decode(target, limit - (size_t)at, &in))
            return false;
        if (in.is.meta.category == ZYDIS_CATEGORY_RET)
            return true;
        if ((in.is.mnemonic != ZYDIS_MNEMONIC_MOV && in.is.mnemonic != ZYDIS_MNEMONIC_XOR) ||
            in.operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER)
            return false;
    }
    return false;
}

/* The end of the search for branches of the function. */
static size_t scanned(const struct entry_code *code)
{
    return code->size ? code->size : code->readable < SCAN ? code->readable : SCAN;
}

/* Does a branch of the function lead to the bytes [from, to)? */
static bool is_entered(const struct entry_code *code, const uint8_t *from, const uint8_t *to)
{
    size_t size = scanned(code);
    struct instruction in;
    const uint8_t *target;

    for (size_t at = 0; at < size; at += in.size) {
        if (!decode(code->function + at, code->readable - at, &in))
            return code->size; /* data among the code: what jumps where is unknown */
        if (branches_to(&in, &target) && target >= from && target < to)
            return true;
    }
    return false;
}

/* ---- pads ------------------------------------------------------------------------------- */

/* Does a short jump at the site reach the pad? */
static bool reaches(const uint8_t *site, const uint8_t *pad)
{
    uint8_t jump[CODE_SHORT];

    return pad && code_short_branch(jump, site, pad);
}

/* Filler in the function, behind an instruction that does not continue there. The search ends where
 * the next function may begin, since its first instruction may be filler too. */
static uint8_t *pad_within(const struct entry_code *code, const uint8_t *site)
{
    size_t size = scanned(code);
    struct instruction in, next;
    const uint8_t *target;

    for (size_t at = 0; at < size && decode(code->function + at, size - at, &in); at += in.size) {
        uint8_t *pad = code->function + at + in.size;
        unsigned place = (uintptr_t)pad & 15;

        if ((in.is.meta.category == ZYDIS_CATEGORY_RET ||
             (is_jump(&in) && branches_to(&in, &target))) &&
            place && place + CODE_BRANCH <= 16 && reaches(site, pad) &&
            decode(pad, code->readable - (size_t)(pad - code->function), &next) &&
            next.is.mnemonic == ZYDIS_MNEMONIC_NOP && next.size >= CODE_BRANCH &&
            !is_entered(code, pad, pad + CODE_BRANCH))
            return pad;
    }
    return NULL;
}

static uint8_t *find_pad(const struct entry_code *code, const uint8_t *site)
{
    uint8_t *before = code_pad_before(code->function, code->before), *behind = NULL;
    const uint8_t *end = code->function + code->size;

    if (reaches(site, before))
        return before;
    if (code->size && code_pad_place(end) + CODE_BRANCH <= code->function + code->readable)
        behind = code_pad_behind(end);
    return reaches(site, behind) ? behind : pad_within(code, site);
}

/* ---- choosing --------------------------------------------------------------------------- */

static bool is_site(const struct entry_code *code, const struct instruction *in, uint8_t **pad)
{
    *pad = NULL;
    if (!can_move(in) || in->is.mnemonic == ZYDIS_MNEMONIC_ENDBR64) /* indirect calls land there */
        return false;
    if (in->size >= CODE_BRANCH && code_can_replace(in->at, CODE_BRANCH))
        return true;
    if (in->size < CODE_SHORT || !code_can_replace(in->at, CODE_SHORT))
        return false;
    *pad = find_pad(code, in->at);
    return *pad;
}

/* Another hook of this kind: a short jump to a pad. The jump in the pad can be the site: *in
 * becomes that. Returns the short jump's address, or NULL. */
static const uint8_t *follow(const struct entry_code *code, struct instruction *in)
{
    const uint8_t *way = in->at;
    ptrdiff_t first = code->before - code->function, away;
    struct instruction at_pad;
    const uint8_t *target, *next;

    if (!is_jump(in) || in->size != CODE_SHORT || !branches_to(in, &target))
        return NULL;
    away = target - code->function;
    if (away >= first && away + CODE_BRANCH <= (ptrdiff_t)code->readable &&
        decode(target, CODE_BRANCH, &at_pad) && at_pad.size == CODE_BRANCH && is_jump(&at_pad) &&
        branches_to(&at_pad, &next)) {
        *in = at_pad;
        return way;
    }
    return NULL;
}

/* Walks from the beginning to the first site that is not before `least`. */
static const char *walk(const struct entry_code *code, size_t least, struct instruction *in,
                        struct prologue *p, uint8_t **pad)
{
    size_t limit = code->size ? code->size : code->readable;

    *p = (struct prologue){.pushes = 0};
    for (size_t at = 0; at < limit; at += in->size) {
        if (!decode(code->function + at, limit - at, in))
            return at ? "it is too short" : "its first instruction cannot be decoded";
        if (in->is.mnemonic == ZYDIS_MNEMONIC_INT3)
            return at ? "it is too short" : "there is a breakpoint at its beginning";
        p->way = follow(code, in);
        if (at >= least && is_site(code, in, pad))
            return NULL;
        if (in->is.meta.category == ZYDIS_CATEGORY_RET || is_jump(in))
            return "it is too short";
        if (at > BEFORE || !(can_undo(p, in) || leads_to_return(code, in)))
            return "it begins with an instruction that cannot be replaced while threads execute it";
    }
    return "it is too short";
}

static const char *find_site(const struct entry_code *code, struct instruction *site,
                             struct prologue *p, uint8_t **pad)
{
    static const size_t least[] = {OTHERS, CODE_BRANCH, 1};
    const char *why = NULL;

    for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
        why = walk(code, least[i], site, p, pad);
        if (!why && site->at != code->function &&
            is_entered(code, code->function + 1,
                       p->way ? p->way + CODE_SHORT : site->at + site->size))
            why = "a branch leads to its beginning";
        if (!why)
            break;
    }
    return why;
}

const char *entry_arch_choose(struct entry_hook *hook, const struct entry_code *code)
{
    struct prologue prologue;
    struct instruction site;
    uint8_t *pad;
    const char *why = find_site(code, &site, &prologue, &pad);

    if (why)
        return why;
    if (prologue.way && !entry_add_way(hook, prologue.way, CODE_SHORT))
        return "too many other hooks are at its beginning";
    hook->patch = (struct patch){.at = code->function + (site.at - code->function)};
    if (pad)
        hook->patch = (struct patch){.at = pad, .via = hook->patch.at};
    return NULL;
}

/* ---- writing ---------------------------------------------------------------------------- */

struct writer {
    uint8_t *at;
};

static void put(struct writer *out, const void *bytes, size_t count)
{
    memcpy(out->at, bytes, count);
    out->at += count;
}

static bool put_distance(struct writer *out, const uint8_t *target)
{
    intptr_t distance = target - (out->at + 4);
    int32_t near = (int32_t)distance;

    put(out, &near, sizeof(near));
    return near == distance;
}

static bool put_jump(struct writer *out, const uint8_t *target)
{
    put(out, (uint8_t[]){0xe9}, 1);
    return put_distance(out, target);
}

/* jmp *(%rip), and the address. */
static void put_far_jump(struct writer *out, const void *target)
{
    put(out, (uint8_t[]){0xff, 0x25, 0, 0, 0, 0}, 6);
    put(out, &target, sizeof(target));
}

/* An instruction whose operand is a register or %rsp, and 32 bits beyond %rsp. */
static void put_from_stack(struct writer *out, uint8_t opcode, unsigned reg, uint32_t beyond)
{
    put(out,
        (uint8_t[]){(uint8_t)(0x48 | (reg >> 3) << 2), opcode, (uint8_t)(0x84 | (reg & 7) << 3),
                    0x24},
        4);
    put(out, &beyond, sizeof(beyond));
}

/* The stub's beginning: the registers as they were when the function was called. Each is read from
 * the place that it was pushed to first. */
static void put_undo(struct writer *out, const struct prologue *p)
{
    for (unsigned i = p->pushes; i--;)
        put_from_stack(out, 0x8b, (unsigned)(p->pushed[i].reg - ZYDIS_REGISTER_RAX),
                       p->depth - p->pushed[i].depth); /* mov */
    if (p->depth)
        put_from_stack(out, 0x8d, 4, p->depth); /* lea, %rsp */
}

/* Copies an instruction with a relative memory operand, adjusted to the new place. */
static bool put_with_distance(struct writer *out, const struct instruction *in, uint8_t place)
{
    intptr_t distance = in->at - out->at;
    int32_t near;

    memcpy(&near, in->at + place, sizeof(near));
    distance += near;
    near = (int32_t)distance;
    put(out, in->at, in->size);
    memcpy(out->at - in->size + place, &near, sizeof(near));
    return near == distance;
}

/* Copies an instruction, adjusted to the new place. */
static bool put_moved(struct writer *out, const struct instruction *in)
{
    uint8_t place = relative_memory(in), condition;
    const uint8_t *target;

    if (place)
        return put_with_distance(out, in, place);
    if (!branches_to(in, &target)) {
        put(out, in->at, in->size);
        return true;
    }
    if (is_jump(in))
        return put_jump(out, target);
    if (!is_conditional(in, &condition))
        return false;
    put(out, (uint8_t[]){0x0f, (uint8_t)(0x80 | condition)}, 2);
    return put_distance(out, target);
}

static bool put_original(struct writer *out, const struct entry_hook *hook,
                         const struct entry_code *code)
{
    const uint8_t *at = code->function;
    struct instruction in;

    do {
        if (at > code->function + BEFORE + 15 ||
            !decode(at, code->readable - (size_t)(at - code->function), &in))
            return false;
        follow(code, &in);
        if (!put_moved(out, &in))
            return false;
        at += in.size;
    } while (in.at != patch_site(&hook->patch));
    return is_jump(&in) || put_jump(out, at);
}

const char *entry_arch_build(const struct entry_hook *hook, const struct entry_code *code,
                             uint8_t *room, uint8_t **original)
{
    struct prologue prologue;
    struct writer out = {room};
    struct instruction site;
    uint8_t *pad;

    if (find_site(code, &site, &prologue, &pad) || site.at != patch_site(&hook->patch) ||
        pad != (hook->patch.via ? hook->patch.at : NULL))
        return "other code changes it at the same time";
    put_undo(&out, &prologue);
    put_far_jump(&out, hook->replacement);
    *original = out.at;
    return put_original(&out, hook, code)
               ? NULL
               : "its first instructions refer to an address that is too far away";
}

#endif
