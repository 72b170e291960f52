/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks beside those of another library in the same function, as UCX's: a jump over the beginning,
 * written before ours or after, to a function of that library which continues behind the jump and
 * which callers may call directly.
 */

/* Hooks of a function of the test's: the library hooks those of runtimes. */
#include "core/patch/entry_hook.h"
#include "tests/support/made.h"
#include "tests/support/redirect.h"

#include <dlfcn.h>

#define BY_HOOK 1000 /* what our replacement adds */

/* ---- our hook ---------------------------------------------------------------------------- */

static struct entry_hook hook;

static unsigned long replacement(unsigned long a, unsigned long b)
{
    made_function *original = NULL;
    void *at = atomic_load(&hook.original);

    memcpy(&original, &at, sizeof(at));
    return original(a, b) + BY_HOOK;
}

static void install(const struct made *made)
{
    made_function *ours = replacement;

    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    if (!code_start())
        test_skip("membarrier(2) does not synchronize code here");
    hook = (struct entry_hook){.function = code_of(made)};
    memcpy(&hook.replacement, &ours, sizeof(ours));
    if (entry_hooks_install(&hook, 1) != 1)
        fail_msg("not hooked: %s", hook.why);
    assert_true(entry_hook_is_whole(&hook));
}

/* ---- the function, and jumps --------------------------------------------------------------- */

#if defined(__x86_64__)

#define COVERED 16 /* bytes of its first instructions, which any of the jumps covers */

/* push %rbp; mov %rsp,%rbp; sub $32,%rsp; mov %rdi,-8(%rbp); mov %rsi,-16(%rbp);
 * lea 0(%rdi,%rsi),%rax, of eight bytes; leave; ret */
static struct made make_sum(void)
{
    return MAKE(0, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 32, 0x48, 0x89, 0x7d, 0xf8, 0x48, 0x89,
                0x75, 0xf0, 0x48, 0x8d, 0x84, 0x37, 0, 0, 0, 0, 0xc9, 0xc3);
}

#define JUMPS 3

/* jmp, if the target is near enough; movabs and jmp by %rax, as UCX's far one; jmp by an address
 * behind it. Returns the size, or 0. */
static size_t make_jump(unsigned sort, uint8_t out[COVERED], const uint8_t *from,
                        const void *target)
{
    intptr_t distance = (intptr_t)target - ((intptr_t)from + 5);
    int32_t near = (int32_t)distance;

    switch (sort) {
    case 0:
        out[0] = 0xe9;
        memcpy(out + 1, &near, sizeof(near));
        return near == distance ? 5 : 0;
    case 1:
        memcpy(out, (uint8_t[]){0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}, 12);
        memcpy(out + 2, &target, sizeof(target));
        return 12;
    default:
        memcpy(out, (uint8_t[]){0xff, 0x25, 0, 0, 0, 0}, 6);
        memcpy(out + 6, &target, sizeof(target));
        return 14;
    }
}

#else

#define COVERED 16
#define WORD(w) (uint8_t)(w), (uint8_t)((w) >> 8), (uint8_t)((w) >> 16), (uint8_t)((w) >> 24)

/* stp x29,x30,[sp,#-32]!; mov x29,sp; stp x19,x20,[sp,#16]; mov x19,x0; add x0,x19,x1;
 * ldp x19,x20,[sp,#16]; ldp x29,x30,[sp],#32; ret */
static struct made make_sum(void)
{
    return MAKE(0, WORD(0xa9be7bfdu), WORD(0x910003fdu), WORD(0xa90153f3u), WORD(0xaa0003f3u),
                WORD(0x8b010260u), WORD(0xa94153f3u), WORD(0xa8c27bfdu), WORD(0xd65f03c0u));
}

#define JUMPS 1

/* ldr x15, and br x15, as UCX's. */
static size_t make_jump(unsigned sort, uint8_t out[COVERED], const uint8_t *from,
                        const void *target)
{
    memcpy(out, (uint8_t[]){WORD(0x5800004fu), WORD(0xd61f01e0u)}, 8);
    memcpy(out + 8, &target, sizeof(target));
    return 16;
}

#endif

static void overwrite(const struct made *made, const uint8_t *bytes, size_t count)
{
    assert_int_equal(mprotect(made->page, made->size, PROT_READ | PROT_WRITE), 0);
    memcpy(code_of(made), bytes, count);
    seal(made);
}

/* ---- the other library -------------------------------------------------------------------- */

static void *library;
static made_function **original;
static made_function *target;

static void load(void)
{
    library = dlopen(TEST_REDIRECT, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    original = dlsym(library, "redirect_original");
    memcpy(&target, &(void *){dlsym(library, "redirect_target")}, sizeof(target));
    assert_true(original && target);
}

/* The instructions that the jump covers, and a jump behind them. */
static struct made make_original(const struct made *made)
{
    uint8_t bytes[2 * COVERED], *code = code_of(made);

    memcpy(bytes, code, COVERED);
    return make_at(bytes, COVERED + make_jump(JUMPS - 1, bytes + COVERED, NULL, code + COVERED), 0,
                   PLACE);
}

/* False: this sort of jump does not reach so far. */
static bool redirect(const struct made *made, unsigned sort)
{
    const void *to = NULL;
    uint8_t jump[COVERED];
    size_t size;

    memcpy(&to, &target, sizeof(target));
    size = make_jump(sort, jump, code_of(made), to);
    *original = make_original(made).call;
    if (size)
        overwrite(made, jump, size);
    return size;
}

/* ---- cases ---------------------------------------------------------------------------------- */

#define SUM  (30 + 12)
#define BOTH (SUM + BY_HOOK + BY_REDIRECT)

TEST(before__jump_into_another_library__hooked_there)
{
    load();
    for (unsigned sort = 0; sort < JUMPS; sort++) {
        struct made made = make_sum();
        uint8_t own[COVERED];

        memcpy(own, code_of(&made), COVERED);
        if (!redirect(&made, sort))
            continue;
        install(&made);
        assert_int_equal(made.call(30, 12), BOTH);
        assert_int_equal(target(30, 12),
                         BOTH); /* by callers that do not come by the made_function */
        overwrite(&made, own, COVERED);
        assert_false(entry_hook_is_whole(&hook));
        assert_int_equal(made.call(30, 12), SUM);
        assert_int_equal(
            code_write(&(struct code_text){0},
                       &(struct code_change){patch_site(&hook.patch), patch_before(&hook.patch),
                                             patch_size(&hook.patch)},
                       1),
            0);
        install(&made);
        assert_int_equal(made.call(30, 12), SUM + BY_HOOK);
        assert_true(entry_hook_remove(&hook));
    }
}

TEST(before__other_library_closed__stays)
{
    struct made made = make_sum();

    load();
    if (!redirect(&made, JUMPS - 1))
        fail_msg("no jump");
    install(&made);
    assert_int_equal(dlclose(library), 0);
    assert_int_equal(made.call(30, 12), BOTH);
    assert_true(entry_hook_is_whole(&hook));
    assert_true(entry_hook_remove(&hook));
    assert_int_equal(made.call(30, 12), SUM + BY_REDIRECT);
}

TEST(before__removed_and_the_jump_is_gone__not_installed_there_again)
{
    struct made made = make_sum();
    uint8_t own[COVERED];

    load();
    memcpy(own, code_of(&made), COVERED);
    if (!redirect(&made, JUMPS - 1))
        fail_msg("no jump");
    install(&made);
    assert_true(entry_hook_remove(&hook));
    assert_int_equal(entry_hooks_install(&hook, 1), 1);
    assert_true(entry_hook_remove(&hook));
    overwrite(&made, own, COVERED);
    assert_int_equal(entry_hooks_install(&hook, 1), 0);
    assert_non_null(strstr(hook.why, "other code has changed it"));
}

TEST(after__jump_over_the_beginning__both_called)
{
    load();
    for (unsigned sort = 0; sort < JUMPS; sort++) {
        struct made made = make_sum();
        uint8_t own[COVERED];

        memcpy(own, code_of(&made), COVERED);
        install(&made);
        assert_memory_equal(own, code_of(&made), COVERED); /* others know what to do with that */
        if (!redirect(&made, sort))
            continue;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(made.call(30, 12), BOTH);
            assert_int_equal(target(30, 12), BOTH);
            assert_true(entry_hook_is_whole(&hook));
        }
        overwrite(&made, own, COVERED);
        assert_int_equal(made.call(30, 12), SUM + BY_HOOK);
        assert_true(entry_hook_is_whole(&hook));
        assert_true(entry_hook_remove(&hook));
    }
}

/* ---- beginnings that compilers make for arm64 ----------------------------------------------- */

#if defined(__aarch64__)

#define OPEN  "stp x29,x30,[sp,#-48]!; mov x29,sp;"
#define CLOSE "ldp x29,x30,[sp],#48; ret;"

/* A function that is copied to a page of its own, and does the same there. */
#define SHAPE(name, text)                                                                          \
    extern const uint8_t shape_##name[], shape_##name##_end[];                                     \
    __asm__(".pushsection .rodata\n.balign 4\n"                                                    \
            ".globl shape_" #name ", shape_" #name "_end\n"                                        \
            "shape_" #name ": " text "\nshape_" #name "_end:\n.popsection")

/* A call in the function writes to the temporary registers, and to x30. */
SHAPE(calls, OPEN "stp x19,x20,[sp,#16]; mov x19,x0;"
                  "mov x20,x1; bl 1f; add x0,x19,x20; ldp x19,x20,[sp,#16];" CLOSE
                  "1: mov x9,#0; mov x0,#0; ret");
SHAPE(arguments, OPEN "stp x0,x1,[sp,#16]; mov x0,#7;"
                      "mov x1,#8; ldp x9,x10,[sp,#16]; add x0,x9,x10;" CLOSE);
SHAPE(loads, OPEN "stp x0,x1,[sp,#16]; ldr x9,[sp,#16];"
                  "ldr x10,[sp,#24]; add x0,x9,x10;" CLOSE);
SHAPE(flags, OPEN "cmp x0,x1; mov x9,#12; movk x9,#1,lsl #16;"
                  "csel x1,x1,xzr,hi; add x0,x0,x1;" CLOSE);
/* adrp x9, the page before; adr x11, four bytes before itself */
SHAPE(pages, OPEN "stp x19,x20,[sp,#16]; .inst 0xf0ffffe9; .inst 0x10ffffeb;"
                  "add x9,x9,#4095; adr x10,.; and x10,x10,#~4095; sub x10,x10,x9; sub x10,x10,#1;"
                  "adr x12,.; sub x12,x12,x11; sub x12,x12,#28;"
                  "add x0,x0,x1; add x0,x0,x10; add x0,x0,x12; ldp x19,x20,[sp,#16];" CLOSE);
SHAPE(lowers, "sub sp,sp,#48; stp x29,x30,[sp,#32]; add x29,sp,#32; stp x19,x20,[sp,#16];"
              "mov x19,x0; mov x20,x1; add x0,x19,x20; ldp x19,x20,[sp,#16];"
              "ldp x29,x30,[sp,#32]; add sp,sp,#48; ret");
/* paciasp ... autiasp */
SHAPE(signs, "hint #25; stp x29,x30,[sp,#-32]!; mov x29,sp; str x19,[sp,#16];"
             "mov x19,x0; add x0,x19,x1; ldr x19,[sp,#16]; ldp x29,x30,[sp],#32; hint #29; ret");
SHAPE(floats, "stp d9,d8,[sp,#-64]!; stp x29,x30,[sp,#16]; str x19,[sp,#32]; str d10,[sp,#40];"
              "add x29,sp,#16; fmov d8,x0; fmov d9,x1; fmov d10,x1; fmov x0,d8; add x0,x0,x1;"
              "ldr d10,[sp,#40]; ldr x19,[sp,#32]; ldp x29,x30,[sp,#16]; ldp d9,d8,[sp],#64; ret");
SHAPE(large, "str x19,[sp,#-32]!; stp x29,x30,[sp,#16]; sub sp,sp,#4,lsl #12; sub sp,sp,#48;"
             "str xzr,[sp,#16]; tst x0,x1; mov x19,x0; add x0,x19,x1; add sp,sp,#4,lsl #12;"
             "add sp,sp,#48; ldp x29,x30,[sp,#16]; ldr x19,[sp],#32; ret");
/* The branch leads to the fourth instruction. */
SHAPE(loops, OPEN "mov x9,#2; 1: mov x10,x9; sub x9,x10,#1; cbnz x9,1b; add x0,x0,x1;" CLOSE);
SHAPE(ends, "add x9,x0,x1; mov x10,x9; mov x11,x10; stp x0,x1,[sp,#-16]!; mov x0,x9;"
            "add sp,sp,#16; ret");
SHAPE(is_short, "mov x9,x0; mov x10,x9; mov x11,x10; mov x12,x11; ret");

static const struct shape {
    const char *name;
    const uint8_t *code, *end;
    ptrdiff_t site;
    bool copied; /* by UCX, if it finds the beginning as it was */
    unsigned long result;
} shapes[] = {
#define ROW(of, ...)                                                                               \
    {                                                                                              \
        .name = #of, shape_##of, shape_##of##_end, __VA_ARGS__                                     \
    }
    ROW(calls, 16, true, SUM),  ROW(arguments, 16, true, SUM), ROW(loads, 16, true, SUM),
    ROW(flags, 16, true, SUM),  ROW(pages, 16, true, SUM),     ROW(lowers, 16, false, SUM),
    ROW(signs, 16, false, SUM), ROW(floats, 16, false, SUM),   ROW(large, 16, false, SUM),
    ROW(loops, 4, false, SUM),  ROW(ends, 16, false, SUM),     ROW(is_short, 4, false, 30),
};

/* ---- UCX's way of covering a beginning ------------------------------------------------------ */

static uint32_t bits(uint32_t word, unsigned high, unsigned low)
{
    return word << (31 - high) >> (31 - high + low);
}

static bool is_adrp(uint32_t word)
{
    return bits(word, 31, 31) && bits(word, 28, 24) == 0x10;
}

static bool is_pair(uint32_t word) /* stp of 64 bits, by an offset or with a change of its base */
{
    return bits(word, 31, 25) == 0x54 && bits(word, 24, 23) && !bits(word, 22, 22);
}

static bool is_move(uint32_t word) /* of a register; to and from sp; movz and movk */
{
    return (bits(word, 30, 21) == 0x150 && bits(word, 15, 5) == 0x1f) ||
           bits(word, 30, 10) == 0x44000 || (bits(word, 28, 23) == 0x25 && bits(word, 30, 30));
}

static bool is_load(uint32_t word) /* ldr, by an offset or with a change of its base */
{
    return bits(word, 31, 31) &&
           (bits(word, 29, 22) == 0xe5 || (bits(word, 29, 21) == 0x1c2 && bits(word, 10, 10)));
}

static bool is_comparison(uint32_t word) /* of registers */
{
    return bits(word, 30, 22) == 0x1ac && bits(word, 4, 0) == 31;
}

/* The kinds of instructions that UCX copies. */
static bool ucx_copies(uint32_t word)
{
    return is_adrp(word) || is_pair(word) || is_move(word) || is_load(word) || is_comparison(word);
}

static made_function *behind; /* of the other library: the covered instructions, and the rest */

static unsigned long doubles(unsigned long a, unsigned long b)
{
    return 2 * behind(a, b);
}

/* The address of an adrp, by movz and movk. */
static size_t put_page(uint32_t *out, uint32_t word, uint64_t at)
{
    uint32_t immediate = bits(word, 23, 5) << 2 | bits(word, 30, 29);
    uint64_t page = (at >> 12) + (uint64_t)(int64_t)((int32_t)(immediate << 11) >> 11);

    for (uint32_t i = 0; i < 4; i++)
        out[i] = (i ? 0xf2800000 : 0xd2800000) | i << 21 |
                 (uint32_t)(page << 12 >> 16 * i & 0xffff) << 5 | (word & 31);
    return 4;
}

/* False: it refuses, and changes nothing. */
static bool ucx_covers(const struct made *made)
{
    uint32_t words[4], copy[4 * 4 + 4], used = 0, reg = 9;
    made_function *to = doubles;
    const uint8_t *next = code_of(made) + COVERED;
    uint8_t jump[COVERED];
    size_t count = 0;

    memcpy(words, code_of(made), sizeof(words));
    for (size_t i = 0; i < 4; i++) {
        if (!ucx_copies(words[i]))
            return false;
        used |= 1u << (is_pair(words[i]) ? bits(words[i], 9, 5) : bits(words[i], 4, 0));
        if (is_adrp(words[i]))
            count += put_page(copy + count, words[i], (uint64_t)(code_of(made) + 4 * i));
        else
            copy[count++] = words[i];
    }
    while (used & 1u << reg)
        reg++;
    copy[count++] = 0x58000040 | reg; /* ldr; br */
    copy[count++] = 0xd61f0000 | reg << 5;
    memcpy(copy + count, &next, sizeof(next));
    behind = make_at((const uint8_t *)copy, 4 * count + sizeof(next), 0, PLACE).call;
    make_jump(0, jump, NULL, *(void **)&to);
    overwrite(made, jump, COVERED);
    return true;
}

/* ---- registers that a function leaves as they are ------------------------------------------- */

struct kept {
    uint64_t general[10], vector[8]; /* x19 to x28, d8 to d15 */
    uint64_t frame;                  /* x29, less what it was */
};

unsigned long test_call_keeping(made_function *function, unsigned long a, unsigned long b,
                                struct kept *kept);

/* Loads the registers from `kept`, calls, and stores them there. */
__asm__(".pushsection .text\n.type test_call_keeping, %function\n"
        "test_call_keeping: hint #34; stp x29,x30,[sp,#-176]!; mov x29,sp; str x3,[sp,#160]\n"
        "stp x19,x20,[sp,#16]; stp x21,x22,[sp,#32]; stp x23,x24,[sp,#48]\n"
        "stp x25,x26,[sp,#64]; stp x27,x28,[sp,#80]; stp d8,d9,[sp,#96]\n"
        "stp d10,d11,[sp,#112]; stp d12,d13,[sp,#128]; stp d14,d15,[sp,#144]\n"
        "ldp x19,x20,[x3]; ldp x21,x22,[x3,#16]; ldp x23,x24,[x3,#32]\n"
        "ldp x25,x26,[x3,#48]; ldp x27,x28,[x3,#64]; ldp d8,d9,[x3,#80]\n"
        "ldp d10,d11,[x3,#96]; ldp d12,d13,[x3,#112]; ldp d14,d15,[x3,#128]\n"
        "mov x9,x0; mov x0,x1; mov x1,x2; blr x9\n"
        "ldr x3,[sp,#160]; mov x9,sp; sub x9,x29,x9; str x9,[x3,#144]\n"
        "stp x19,x20,[x3]; stp x21,x22,[x3,#16]; stp x23,x24,[x3,#32]\n"
        "stp x25,x26,[x3,#48]; stp x27,x28,[x3,#64]; stp d8,d9,[x3,#80]\n"
        "stp d10,d11,[x3,#96]; stp d12,d13,[x3,#112]; stp d14,d15,[x3,#128]\n"
        "ldp x19,x20,[sp,#16]; ldp x21,x22,[sp,#32]; ldp x23,x24,[sp,#48]\n"
        "ldp x25,x26,[sp,#64]; ldp x27,x28,[sp,#80]; ldp d8,d9,[sp,#96]\n"
        "ldp d10,d11,[sp,#112]; ldp d12,d13,[sp,#128]; ldp d14,d15,[sp,#144]\n"
        "ldp x29,x30,[sp],#176; ret\n"
        ".size test_call_keeping, .-test_call_keeping\n.popsection");

static void check_call(const struct shape *shape, const struct made *made, unsigned long result)
{
    struct kept kept = {.frame = 0}, before;
    unsigned long got;

    for (unsigned i = 0; i < 10; i++)
        kept.general[i] = 0x1111111111111111u * (i + 1);
    for (unsigned i = 0; i < 8; i++)
        kept.vector[i] = 0x0123456789abcdefu + i;
    before = kept;
    got = test_call_keeping(made->call, 30, 12, &kept);
    if (got != result)
        fail_msg("%s: %lu, not %lu", shape->name, got, result);
    if (memcmp(&kept, &before, sizeof(kept)) != 0)
        fail_msg("%s: it left other values in registers", shape->name);
}

static void check_shape(const struct shape *shape)
{
    struct made made = make_at(shape->code, (size_t)(shape->end - shape->code), 0, PLACE);
    uint8_t own[COVERED];
    bool covered;

    memcpy(own, code_of(&made), COVERED);
    check_call(shape, &made, shape->result);
    install(&made);
    if (patch_site(&hook.patch) - hook.function != shape->site)
        fail_msg("%s: the site is at %td", shape->name, patch_site(&hook.patch) - hook.function);
    check_call(shape, &made, shape->result + BY_HOOK);
    covered = ucx_covers(&made);
    if (covered != shape->copied)
        fail_msg("%s: UCX %s", shape->name, covered ? "covers it" : "refuses it");
    check_call(shape, &made, (shape->result + BY_HOOK) * (covered ? 2 : 1));
    assert_true(entry_hook_is_whole(&hook));
    assert_true(entry_hook_remove(&hook));
    check_call(shape, &made, shape->result * (covered ? 2 : 1));
    if (covered)
        overwrite(&made, own, COVERED);
    check_call(shape, &made, shape->result);
}

TEST(after__ucx_covers_what_it_can__both_called)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        check_shape(&shapes[i]);
}
#endif

TEST_MAIN()
