/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks at the beginning of functions: which beginnings can be hooked and which are refused, with
 * functions whose bytes each case writes; other hooks in the same place; threads and signal
 * handlers in the function while it is hooked and unhooked.
 */

/* Hooks of functions whose bytes a case chooses: the library hooks those of runtimes, as they are.
 */
#include "core/patch/entry_hook.h"
#include "tests/support/code_filters.h"
#include "tests/support/made.h"
#include "tests/support/patch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

/* ---- the replacement -------------------------------------------------------------------- */

#define BY_HOOK 1000 /* what the replacement adds */

static struct entry_hook hook;
static atomic_ulong replaced;

static unsigned long replacement(unsigned long a, unsigned long b)
{
    made_function *original = NULL;
    void *at = atomic_load(&hook.original);

    memcpy(&original, &at, sizeof(at));
    atomic_fetch_add(&replaced, 1);
    return original(a, b) + BY_HOOK;
}

static const void *address_of(made_function *of)
{
    const void *at = NULL;

    memcpy(&at, &of, sizeof(at));
    return at;
}

static void need_hooks(void)
{
    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    if (!code_start())
        test_skip("membarrier(2) does not synchronize code here");
}

static bool install(const struct made *made)
{
    need_hooks();
    hook = (struct entry_hook){.function = code_of(made), .replacement = address_of(replacement)};
    return entry_hooks_install(&hook, 1) == 1;
}

/* Hooks it, calls it, and restores it. */
static void check_hooked(const struct made *made, unsigned long a, unsigned long b,
                         unsigned long result)
{
    need_hooks();
    assert_int_equal(made->call(a, b), result);
    if (!install(made))
        fail_msg("not hooked: %s", hook.why);
    assert_string_equal(hook.why, "");
    assert_true(entry_hook_is_whole(&hook));
    for (int i = 0; i < 3; i++) {
        unsigned long before = atomic_load(&replaced);

        assert_int_equal(made->call(a, b), result + BY_HOOK);
        assert_int_equal(atomic_load(&replaced), before + 1);
    }
    assert_true(entry_hook_remove(&hook));
    assert_false(entry_hook_is_whole(&hook));
    assert_int_equal(made->call(a, b), result);
}

static void check_refused(const struct made *made, const char *why)
{
    uint8_t before[32], after[32];
    struct entry_hook tried;

    memcpy(before, code_of(made), sizeof(before));
    assert_false(install(made));
    if (!strstr(hook.why, why))
        fail_msg("'%s', not '%s'", hook.why, why);
    memcpy(after, code_of(made), sizeof(after));
    assert_memory_equal(before, after, sizeof(before));
    assert_false(entry_hook_is_whole(&hook));
    tried = (struct entry_hook){.function = code_of(made)};
    entry_hook_try(&tried, &(struct code_text){0});
    assert_string_equal(tried.why, hook.why);
}

static struct entry_hook outer;

static unsigned long outer_replacement(unsigned long a, unsigned long b)
{
    made_function *original = NULL;
    void *at = atomic_load(&outer.original);

    memcpy(&original, &at, sizeof(at));
    return original(a, b) + 2 * BY_HOOK;
}

static void hook_twice(const struct made *made, unsigned long result)
{
    struct code_text text = {0};

    assert_true(install(made));
    outer = (struct entry_hook){.function = code_of(made),
                                .replacement = address_of(outer_replacement)};
    if (entry_hooks_install(&outer, 1) != 1)
        fail_msg("not hooked: %s", outer.why);
    assert_int_equal(made->call(result, 0), result + 3 * BY_HOOK);
    assert_false(entry_hook_is_whole(&hook));
    assert_int_equal(entry_hooks_install(&hook, 1), 0);
    assert_non_null(strstr(hook.why, "other code has changed it"));
    assert_int_equal(
        code_write(&text,
                   &(struct code_change){patch_site(&hook.patch), patch_before(&hook.patch),
                                         patch_size(&hook.patch)},
                   1),
        0);
    assert_false(entry_hook_is_whole(&outer));
    assert_int_equal(made->call(result, 0), result);
}

#if defined(__x86_64__)
#define NO_FILLER 0x00
#define INT3      0xcc

/* nop; mov $7,%eax; ret */
#define SEVEN 0x90, 0xb8, 7, 0, 0, 0, 0xc3

/* ---- beginnings that are hooked --------------------------------------------------------- */

TEST(hook__five_byte_instruction__replaced)
{
    struct made made = MAKE(NO_FILLER, SEVEN);

    check_hooked(&made, 1, 2, 7);
}

/* mov $7,%eax; ret: tracers set their probes on the first instruction */
TEST(hook__first_instruction__never_replaced)
{
    struct made made = MAKE(NO_FILLER, 0xb8, 7, 0, 0, 0, 0xc3);

    check_refused(&made, "it is too short");
}

/* cmp $7,%rdi; je +6; jmp *8(%rip); at 12 six bytes; at 20 the address of a function that returns
 * 7, which with the two bytes before it is movabs: an address's bytes alone may look like a branch.
 */
static struct made make_branching(const uint8_t at_12[6])
{
    struct made target = MAKE(NO_FILLER, SEVEN);
    uint8_t bytes[28] = {0x48, 0x83, 0xff, 7, 0x74, 6, 0xff, 0x25, 8, 0, 0, 0};

    memcpy(bytes + 12, at_12, 6);
    memcpy(bytes + 18, "\x48\xb8", 2);
    memcpy(bytes + 20, &target.call, sizeof(target.call));
    return make_at(bytes, sizeof(bytes), NO_FILLER, PLACE);
}

/* mov $4,%eax; ret: as NVIDIA's driver begins */
TEST(hook__branch_to_where_a_number_is_returned__stays)
{
    struct made made = make_branching((const uint8_t[]){0xb8, 4, 0, 0, 0, 0xc3});

    check_hooked(&made, 1, 0, 7);
    assert_int_equal(patch_site(&hook.patch) - hook.function, 6);
    assert_true(install(&made));
    assert_int_equal(made.call(7, 0), 4); /* without the hook */
    assert_true(entry_hook_remove(&hook));
}

/* mov %rdi,-8(%rsp); ret: more than a number may be there */
TEST(hook__branch_to_a_store__refused)
{
    struct made made = make_branching((const uint8_t[]){0x48, 0x89, 0x7c, 0x24, 0xf8, 0xc3});

    check_refused(&made, "it begins with an instruction that cannot");
}

TEST(hook__instruction_across_words__replaced_in_steps)
{
    const uint8_t seven[] = {SEVEN};

    for (size_t place = PLACE; place < PLACE + 8; place++) {
        struct made made = make_at(seven, sizeof(seven), NO_FILLER, place);

        if (place % 8 != 6) /* two bytes of the site must lie in one word */
            check_hooked(&made, 1, 2, 7);
        else
            check_refused(&made, "it is too short");
    }
}

/* endbr64; mov %rsi,%rax; mov %rdx,%rsi, which cannot be undone; cmp $7,%rdi; je to 26; xor
 * %eax,%eax; add $8,%al; ret; at 21 a nop of five bytes; xor %eax,%eax; add $7,%al; ret: as Intel's
 * Level Zero driver begins to free memory. */
#define WITH_PAD                                                                                   \
    0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf0, 0x48, 0x89, 0xd6, 0x48, 0x83, 0xff, 7, 0x74, 10,     \
        0x31, 0xc0, 0x04, 8, 0xc3, 0x0f, 0x1f, 0x44, 0, 0, 0x31, 0xc0, 0x04, 7, 0xc3

TEST(hook__filler_behind_a_return__is_the_pad)
{
    struct made made = MAKE(NO_FILLER, WITH_PAD), other = MAKE(NO_FILLER, WITH_PAD);

    check_hooked(&made, 1, 2, 8);
    assert_int_equal(made.call(7, 2), 7);
    assert_int_equal(patch_site(&hook.patch) - hook.function, 4);
    assert_int_equal(hook.patch.at - hook.function, 21);
    hook_twice(&other, 7);
}

/* A branch leads to it; it is executed; it is none; the next function could begin in it. */
TEST(hook__filler_that_may_be_executed__is_no_pad)
{
    static const struct {
        size_t at, place;
        uint8_t byte;
    } cases[] = {{15, PLACE, 5}, {20, PLACE, 0x90}, {22, PLACE, 0x10}, {0, PLACE + 7, 0xf3}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[] = {WITH_PAD};

        bytes[cases[i].at] = cases[i].byte;
        struct made made = make_at(bytes, sizeof(bytes), NO_FILLER, cases[i].place);

        check_refused(&made, "it begins with an instruction that cannot");
    }
}

/* Two functions with one pad between them: push %rbx; mov %rdi,%rbx; mov %rbx,%rax; pop %rbx; ret.
 * Their sizes are in the program's symbol table. */
__asm__(".pushsection .text\n"
        ".balign 16, 0xcc\n"
        ".skip 16, 0x00\n"
        ".globl test_first, test_second\n"
        ".type test_first, @function\n"
        "test_first: push %rbx; mov %rdi,%rbx; mov %rbx,%rax; pop %rbx; ret\n"
        ".size test_first, .-test_first\n"
        ".balign 16, 0xcc\n"
        ".type test_second, @function\n"
        "test_second: push %rbx; mov %rdi,%rbx; mov %rbx,%rax; pop %rbx; ret; .skip 7, 0x00\n"
        ".size test_second, .-test_second\n"
        ".popsection");
unsigned long test_first(unsigned long a, unsigned long b);
unsigned long test_second(unsigned long a, unsigned long b);

static unsigned long first_replacement(unsigned long a, unsigned long b)
{
    return 1;
}

static unsigned long second_replacement(unsigned long a, unsigned long b)
{
    return 2;
}

/* Both are chosen for before either's branch is there. */
TEST(hook__neighbours_with_one_pad__one_has_it)
{
    struct entry_hook hooks[2] = {{.replacement = address_of(first_replacement)},
                                  {.replacement = address_of(second_replacement)}};

    need_hooks();
    memcpy(&hooks[0].function, &(made_function *){test_first}, sizeof(void *));
    memcpy(&hooks[1].function, &(made_function *){test_second}, sizeof(void *));
    assert_int_equal(entry_hooks_install(hooks, 2), 1);
    assert_string_equal(hooks[0].why, "");
    assert_string_not_equal(hooks[1].why, "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(test_first(7, 0), 1);
        assert_int_equal(test_second(7, 0), 7);
        assert_true(entry_hook_remove(&hooks[0]));
        assert_int_equal(test_first(7, 0), 7);
        assert_int_equal(entry_hooks_install(hooks, 1), 1); /* it has the pad still */
    }
    assert_true(entry_hook_remove(&hooks[0]));
}

/* ---- other hooks in the same place ------------------------------------------------------- */

TEST(hook__hooked_by_another_since__both_called)
{
    struct made direct = MAKE(NO_FILLER, SEVEN);
    struct made pad = MAKE(INT3, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xd8, 0x5b, 0xc3);

    hook_twice(&direct, 7);
    hook_twice(&pad, 7);
}

/* ---- beginnings that are refused -------------------------------------------------------- */

#else /* arm64 */

#define WORD(w)   (uint8_t)(w), (uint8_t)((w) >> 8), (uint8_t)((w) >> 16), (uint8_t)((w) >> 24)
#define NO_FILLER 0
#define SEVEN     WORD(0xd28000e0u), WORD(0xd65f03c0u) /* mov x0,#7; ret */

TEST(hook__plain_instruction__replaced)
{
    struct made made = MAKE(NO_FILLER, SEVEN);

    check_hooked(&made, 1, 2, 7);
}

/* bti c; paciasp ... autiasp */
TEST(hook__landing_instruction__stays)
{
    struct made bti = MAKE(NO_FILLER, WORD(0xd503245fu), SEVEN);
    struct made signs =
        MAKE(NO_FILLER, WORD(0xd503233fu), WORD(0xd28000e0u), WORD(0xd50323bfu), WORD(0xd65f03c0u));

    check_hooked(&bti, 1, 2, 7);
    assert_ptr_equal(patch_site(&hook.patch), hook.function + 4);
    check_hooked(&signs, 1, 2, 7);
}

TEST(hook__branch_to_another_function__followed)
{
    struct made made =
        MAKE(NO_FILLER, WORD(0x14000004u), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, SEVEN);

    check_hooked(&made, 1, 2, 7);
}

/* ldr, cbz, tbz, bl, b.eq */
TEST(hook__instruction_relative_to_itself__refused)
{
    static const uint32_t words[] = {0x58000000, 0x34000000, 0x36000000, 0x94000001, 0x54000000};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct made made = MAKE(NO_FILLER, WORD(words[i]), SEVEN);

        check_refused(&made, "depends on its own address");
    }
}

/* ---- sites behind the beginning ----------------------------------------------------------- */

#define OPEN   "stp x29,x30,[sp,#-48]!; mov x29,sp; stp x19,x20,[sp,#16];"
#define BEHIND 16 /* the site's place that other libraries' jumps do not cover */

#define LIST(name, text)                                                                           \
    extern const uint32_t name[], name##_end[];                                                    \
    __asm__(".pushsection .rodata\n.arch_extension pauth\n.balign 4\n"                             \
            ".globl " #name "," #name "_end\n" #name ": " text "\n" #name "_end:\n.popsection")

/* As NVIDIA's driver begins: the register is none that may be undone. */
LIST(test_driver, "adrp x2,.; mov w1,#0xba00; movk w1,#0x321c,lsl #16; ldr w2,[x2]; cmp w2,w1;"
                  "b.eq .+12; mov x0,#7; ret; mov x0,#4; ret");
LIST(test_adr, "adr x0,.+8; ret");

TEST(hook__address_at_the_beginning__computed_by_the_original)
{
    struct made driver = make_at((const uint8_t *)test_driver, 40, NO_FILLER, PLACE);
    struct made adr = make_at((const uint8_t *)test_adr, 8, NO_FILLER, PLACE);

    check_hooked(&driver, 1, 2, 7);
    assert_ptr_equal(patch_site(&hook.patch), hook.function);
    check_hooked(&adr, 1, 2, (unsigned long)code_of(&adr) + 8);
}

LIST(test_opening, OPEN);
LIST(test_closing, "mov x0,#7; ldp x19,x20,[sp,#16]; ldp x29,x30,[sp],#48; ret");

/* The first instruction of the closing is the site, if the one before can be undone. */
static struct made make_opened(uint32_t fourth)
{
    uint32_t words[8];

    memcpy(words, test_opening, 12);
    words[3] = fourth;
    memcpy(words + 4, test_closing, 16);
    return make_at((const uint8_t *)words, sizeof(words), NO_FILLER, PLACE);
}

static void check_site(const struct made *made, ptrdiff_t site, const char *what, size_t number)
{
    struct entry_hook tried = {.function = code_of(made)};

    need_hooks();
    entry_hook_try(&tried, &(struct code_text){0});
    if (tried.why[0])
        fail_msg("%s %zu: %s", what, number, tried.why);
    if (patch_site(&tried.patch) - tried.function != site)
        fail_msg("%s %zu: the site is at %td", what, number,
                 patch_site(&tried.patch) - tried.function);
}

/* Each can follow OPEN. */
LIST(test_undone, "adr x9,.+8; adrp x16,.; add x29,sp,#16; cmp x0,#1; and x10,x0,#1; tst x0,#1;"
                  "mov x9,#1; mov x9,#-2; movk x9,#1; mov w11,w0; tst x0,x1; add x9,x0,x1;"
                  "cmp x0,x1; cmp x0,w1,sxtw; ldr x20,[sp,#16]; ldrb w9,[sp,#16];"
                  "ldrh w9,[sp,#16]; str x0,[sp,#32]; str d0,[sp,#40]; stp x0,x1,[sp,#32];"
                  "stp d0,d1,[sp,#32]; mov x30,x0");

TEST(hook__instructions_that_are_undone__site_behind)
{
    size_t count = (size_t)(test_undone_end - test_undone);

    for (size_t i = 0; i < count; i++) {
        struct made made = make_opened(test_undone[i]);

        check_site(&made, BEHIND, "instruction", i);
        if (i + 1 < count) /* the last one loses the way back */
            check_hooked(&made, 1, 2, 7);
    }
}

/* Registers that are not stored; another frame; a register's place; sp upwards, by half of its
 * alignment, or farther than ldr reaches; other memory and bases; landing; calls; addresses. */
LIST(test_not_undone,
     "mov x0,x1; mov x8,x0; mov x17,x0; mov x18,x0; mov x21,x0; mov sp,x29; sub sp,sp,x9;"
     "str x0,[sp,#48]; str x0,[sp,#56]; stp x0,x1,[sp,#40]; stp x0,x1,[sp,#-16];"
     "str x0,[sp,#16]; stp x0,x1,[sp,#8]; stp x0,x1,[sp,#24]; str d0,[sp,#24];"
     "add sp,sp,#16; stp x0,x1,[sp,#16]!; str x0,[sp,#16]!; sub sp,sp,#8; str x0,[sp,#-24]!;"
     "sub sp,sp,#8,lsl #12; sub sp,sp,#0; str x0,[x1]; str w0,[sp,#40]; ldr x9,[x0],#8;"
     "ldr x9,[x0,#8]!; ldp x9,x10,[sp]; stp x0,x1,[sp],#16; hint #34; paciasp; svc #0; brk #1;"
     "ret; br x9; blr x9; bl .; cbz x0,.+8; tbz x0,#1,.+8; b.eq .+8; b .+8; .inst 0x58000049");

TEST(hook__instruction_that_cannot_be_undone__nearer_site)
{
    size_t count = (size_t)(test_not_undone_end - test_not_undone);

    for (size_t i = 0; i < count; i++) {
        struct made made = make_opened(test_not_undone[i]);

        check_site(&made, 4, "instruction", i);
    }
}

/* d21 is stored, x21 is written. */
LIST(test_vectors, "stp x29,x30,[sp,#-48]!; mov x29,sp; stp d21,d22,[sp,#16]; mov x21,x0;"
                   "mov x0,#7; ldp x29,x30,[sp],#48; ret");

TEST(hook__vector_register_stored__general_one_is_not)
{
    struct made made = make_at((const uint8_t *)test_vectors, 28, NO_FILLER, PLACE);

    check_site(&made, 4, "vector register", 0);
}

/* At 20, behind the site. */
#define BRANCHES(text) OPEN "mov x9,x0; mov x10,x9; " text "; mov x0,#7; ret;"

LIST(test_inside,
     BRANCHES("b .-16") BRANCHES("bl .-12") BRANCHES("b.eq .-8") BRANCHES("cbz x0,.-4")
         BRANCHES("cbnz w0,.-16") BRANCHES("tbz x0,#1,.-12") BRANCHES("tbnz x0,#33,.-4"));
LIST(test_outside,
     BRANCHES("b .-20") BRANCHES("bl .+4") BRANCHES("b.eq .-20") BRANCHES("cbz x0,.+4")
         BRANCHES("cbnz w0,.-20") BRANCHES("tbz x0,#1,.+4") BRANCHES("tbnz x0,#33,.-20"));

TEST(hook__branch_behind_the_beginning__nearer_site)
{
    for (size_t i = 0; i < 7; i++) {
        struct made inside = make_at((const uint8_t *)&test_inside[8 * i], 32, NO_FILLER, PLACE);
        struct made outside = make_at((const uint8_t *)&test_outside[8 * i], 32, NO_FILLER, PLACE);

        check_site(&inside, i % 4 ? 4 : 0, "branch inside", i); /* i % 4 is 0: it leads to 4 */
        check_site(&outside, BEHIND, "branch outside", i);
    }
}

/* bti c; 1: mov x0,#7; cbz x0,1b; ret */
TEST(hook__branch_behind_the_landing_instruction__refused)
{
    struct made made =
        MAKE(NO_FILLER, WORD(0xd503245fu), WORD(0xd28000e0u), WORD(0xb4ffffe0u), WORD(0xd65f03c0u));

    check_refused(&made, "a branch leads to its beginning");
}

/* One has its branch far behind, the other goes on in its neighbour, and both have sizes in the
 * program's symbol table. In one page, since no more is read where the kernel's list of mappings
 * cannot be. The one that is called begins with bti c, which a program built for BTI demands. */
__asm__(".pushsection .text\n.balign 1024\n"
        ".globl test_long, test_falls\n"
        ".type test_long, @function\n"
        "test_long: " OPEN "mov x9,x0; mov x10,x9; mov x0,#7; ldp x29,x30,[sp],#48; ret\n"
        ".fill 128, 4, 0xd503201f\n"
        "b test_long+4\n"
        ".size test_long, .-test_long\n"
        ".type test_falls, @function\n"
        "test_falls: hint #34; mov x9,#1; mov x9,#1; mov x9,#1\n"
        ".size test_falls, .-test_falls\n"
        "mov x0,#7; ret\n"
        ".popsection");
unsigned long test_long(unsigned long a, unsigned long b);
unsigned long test_falls(unsigned long a, unsigned long b);

TEST(hook__size_in_the_symbol_table__respected)
{
    check_site(&(struct made){.call = test_long}, 0, "long", 0);
    check_site(&(struct made){.call = test_falls}, CODE_BRANCH, "short", 0);
    check_hooked(&(struct made){.call = test_falls}, 0, 0, 7);
}

TEST(hook__hooked_by_another_since__both_called)
{
    struct made behind = make_opened(0xaa0003f3); /* mov x19,x0 */
    struct made first = MAKE(NO_FILLER, SEVEN);

    hook_twice(&behind, 7);
    hook_twice(&first, 7);
}
#endif

/* ---- threads and handlers --------------------------------------------------------------- */

#define THREADS 8

static made_function *busy;
static unsigned long busy_result;
static atomic_bool done, wrong;
static atomic_ulong handled;

static void call_first(void)
{
    unsigned long result = busy(busy_result, 0);

    if (result != busy_result && result != busy_result + BY_HOOK)
        atomic_store(&wrong, true);
}

static void on_signal(int number)
{
    call_first();
    atomic_fetch_add(&handled, 1);
}

static atomic_uint rounds; /* of the threads */

static void *call_often(void *arg)
{
    for (; !atomic_load(&done); atomic_fetch_add(&rounds, 1))
        call_first();
    return NULL;
}

static void hook_while_called(const struct made *made, unsigned long result)
{
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t threads[THREADS];

    need_hooks();
    busy = made->call;
    busy_result = result;
    atomic_store(&done, false);
    assert_true(install(made));
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (unsigned long i = 0; i < test_times(200); i++) {
        unsigned before = atomic_load(&rounds);

        if (i % 16 == 0)
            test_wait_until(atomic_load(&rounds) != before);
        pthread_kill(threads[i % THREADS], SIGUSR1);
        assert_true(entry_hook_remove(&hook));
        pthread_kill(threads[i % THREADS], SIGUSR1);
        assert_int_equal(entry_hooks_install(&hook, 1), 1);
        assert_int_equal(busy(result, 0), result + BY_HOOK);
    }
    atomic_store(&done, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(entry_hook_remove(&hook));
    assert_false(atomic_load(&wrong));
}

TEST(hook__eight_threads_and_handlers__none_between)
{
#if defined(__x86_64__)
    const uint8_t seven[] = {SEVEN};
    struct made across = make_at(seven, sizeof(seven), NO_FILLER, PLACE + 5);
    struct made pad = MAKE(INT3, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xd8, 0x5b, 0xc3);
    /* push %rbx; mov %rdi,%rbx; lea 0(%rbx),%rax (seven bytes); pop %rbx; ret */
    struct made pushed =
        MAKE(NO_FILLER, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x8d, 0x83, 0, 0, 0, 0, 0x5b, 0xc3);

    hook_while_called(&across, 7);
    hook_while_called(&pad, 7);
    hook_while_called(&pushed, 7);
#else
    struct made made = MAKE(NO_FILLER, SEVEN);
    struct made opened = make_opened(0xaa0003f3); /* mov x19,x0 */

    hook_while_called(&made, 7);
    hook_while_called(&opened, 7);
#endif
}

/* ---- many at once ----------------------------------------------------------------------- */

#define MANY 40

static struct entry_hook many[MANY];

static unsigned long any_replacement(unsigned long a, unsigned long b)
{
    return BY_HOOK;
}

/* A function in code that can never be made writable. */
static struct made make_unwritable(void)
{
    const uint8_t seven[] = {SEVEN};
    struct made made = {.size = (size_t)sysconf(_SC_PAGESIZE)};
    int written = memfd_create("code", MFD_CLOEXEC), file;
    char path[64];

    assert_int_equal(ftruncate(written, (off_t)made.size), 0);
    assert_int_equal(pwrite(written, seven, sizeof(seven), PLACE), sizeof(seven));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", written);
    file = open(path, O_RDONLY | O_CLOEXEC);
    made.page = mmap(NULL, made.size, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    if (file < 0 || made.page == MAP_FAILED)
        test_skip("no mapping of a file that cannot be written");
    close(file);
    close(written);
    call_at(&made, PLACE);
    return made;
}

TEST(hook__many_of_which_one_cannot_be_written__the_others)
{
    struct made made[MANY];

    need_hooks();
    for (int i = 0; i < MANY; i++) {
        made[i] = i == 20 ? make_unwritable() : MAKE(NO_FILLER, SEVEN);
        many[i] = (struct entry_hook){.function = code_of(&made[i]),
                                      .replacement = address_of(any_replacement)};
    }
    assert_int_equal(entry_hooks_install(many, MANY), MANY - 1);
    for (int i = 0; i < MANY; i++) {
        assert_string_equal(many[i].why, i == 20 ? "its code cannot be made writable" : "");
        assert_int_equal(made[i].call(1, 2), i == 20 ? 7 : BY_HOOK);
        assert_int_equal(entry_hook_is_whole(&many[i]), i != 20);
        assert_int_equal(entry_hook_remove(&many[i]), i != 20);
        assert_int_equal(made[i].call(1, 2), 7);
    }
}

TEST(hook__no_memory_can_be_made_executable__none_and_why)
{
    struct made made[2] = {MAKE(NO_FILLER, SEVEN), MAKE(NO_FILLER, SEVEN)};
    pid_t child;

    need_hooks();
    child = test_fork();
    if (child == 0) {
        for (int i = 0; i < 2; i++)
            many[i] = (struct entry_hook){.function = code_of(&made[i]),
                                          .replacement = address_of(any_replacement)};
        if (!code_filter_refuse(SYS_mprotect, EACCES))
            _exit(77);
        assert_int_equal(entry_hooks_install(many, 2), 0);
        for (int i = 0; i < 2; i++) {
            assert_non_null(strstr(many[i].why, "executable"));
            assert_int_equal(made[i].call(1, 2), 7);
        }
        _exit(0);
    }
    test_await_or_skip(child, "this system has no seccomp filters");
}

TEST_MAIN()
