/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks beside those of another library in the same function, as UCX's: a jump over the beginning,
 * written before ours or after, to a function of that library which continues behind the jump and
 * which callers may call directly.
 */
#include "hmem/hooks/entry_hook.h"
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
#define NOP     WORD(0xd503201fu)

/* add x0,x0,x1; nop ...; ret */
static struct made make_sum(void)
{
    return MAKE(0, WORD(0x8b010000u), NOP, NOP, NOP, NOP, NOP, WORD(0xd65f03c0u));
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

static void before__jump_into_another_library__hooked_there(void **state)
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
        assert_int_equal(code_write(&(struct code_text){0}, hook.site, hook.before, hook.size,
                                    PROT_READ | PROT_EXEC),
                         0);
        install(&made);
        assert_int_equal(made.call(30, 12), SUM + BY_HOOK);
        assert_true(entry_hook_remove(&hook));
    }
}

static void before__other_library_closed__stays(void **state)
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

static void before__removed_and_the_jump_is_gone__not_installed_there_again(void **state)
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

static void after__jump_over_the_beginning__both_called(void **state)
{
#if defined(__x86_64__)
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
#else
    test_skip("on this processor the site is the first instruction, which UCX refuses to cover");
#endif
}

TEST_MAIN(TEST(before__jump_into_another_library__hooked_there),
          TEST(before__other_library_closed__stays),
          TEST(before__removed_and_the_jump_is_gone__not_installed_there_again),
          TEST(after__jump_over_the_beginning__both_called))
