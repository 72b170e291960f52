/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_stubs.h. Each site gets its own stub, on a page within a branch's reach (hook_arch.h
 * writes the stub).
 *
 * Pages of stubs come from code.h, and are never unmapped: each hook_stubs_install() that makes
 * stubs maps new ones.
 */
#include "core/monitor/memhooks/hook_stubs.h"

#include "core/base/error.h"
#include "core/base/kernel_call.h"
#include "core/monitor/memhooks/hook_arch.h"
#include "core/patch/patch.h"
#include "core/patch/stub.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define PAGE_LEAST 4096

/* ---- pages for stubs -------------------------------------------------------------------- */

static struct code_islands islands;

/* Makes stubs executable, before any branch leads there. */
static int seal_islands(void)
{
    int rc = code_seal(&islands);

    if (rc == -ENOSYS)
        return hmreg_fail(-EOPNOTSUPP, "memhooks: membarrier(2) failed, which new code needs; use "
                                       "userfaultfd or import");
    return !rc ? 0
               : hmreg_fail(-EOPNOTSUPP,
                            "memhooks: no memory for code of our own (mprotect: %s); use "
                            "userfaultfd or import",
                            strerror(-rc));
}

/* ---- one hooked site -------------------------------------------------------------------- */

/* A site with its stub. Kept for ever, like the stub, and reused when the site again has the
 * instruction that the stub replaced. */
struct hooked {
    const char *function;
    const uint8_t *stub;
    struct patch patch;
    uint8_t over[CODE_BRANCH]; /* another copy's branch, whose stub leads to ours */
    bool placed;
};

static struct hooked hooked[2 * HOOK_SITES_MAX];
static size_t hooked_count;

/* Beginnings of functions that must stay unchanged. */
static struct hook_start starts[HOOK_SITES_MAX];
static size_t start_count;
static bool failed; /* the last hook_stubs_install() failed */

/* Sites and beginnings, for hook_stubs_look_whole() to compare. While another thread rewrites it,
 * some old and some new elements are compared; each of them was valid together with the others of
 * its generation. */
static struct {
    _Atomic(const uint8_t *)
        word;                     /* eight bytes, among them the branch's, in pages of the branch */
    _Atomic uint64_t bytes, mask; /* of the word: the branch's bytes; mask: which ones they are */
} code_now[5 * HOOK_SITES_MAX];
static atomic_size_t code_count; /* 0: nothing to compare */

static int make_stub(struct hooked *hook, const struct syscall_site *site, struct hook_state *state)
{
    uint8_t *room = code_take_room(&islands, site->at, hook_arch_stub_size(site->number));
    const char *why = room ? hook_arch_make_stub(room, site, state) : "no addresses are free";

    hook->stub = room ? room + sizeof(struct stub_header) : NULL;
    if (!why && !patch_make(&hook->patch, hook->stub))
        why = "no addresses are free";
    return why ? hmreg_fail(-EOPNOTSUPP,
                            "memhooks: no code can be put within a jump of %s(): %s; use "
                            "userfaultfd or import",
                            hook->function, why)
               : 0;
}

static bool reads(const struct hooked *hook, const uint8_t *branch)
{
    return memcmp(hook->patch.at, branch, CODE_BRANCH) == 0;
}

#define CHAIN_MOST 64 /* stubs of other copies before ours */

/* Another copy's stub leaves to the stub whose branch it replaced. */
static bool leads_to(const uint8_t *branch, const uint8_t *stub)
{
    const uint8_t *at = code_target(branch);

    for (int i = 0; at && at != stub && i < CHAIN_MOST; i++)
        at = stub_next(at);
    return at == stub;
}

/* Does the site lead to our stub? No stub changes: one branch's stubs are looked at once. */
static bool leads_to_ours(struct hooked *hook)
{
    if (!patch_is_reached(&hook->patch))
        return false;
    if (reads(hook, hook->patch.after) || reads(hook, hook->over))
        return true;
    if (!leads_to(hook->patch.at, hook->stub))
        return false;
    memcpy(hook->over, hook->patch.at, CODE_BRANCH);
    return true;
}

/* Does the hook's stub fit the site as it is now? A stub that continues at the instruction it
 * replaced fits that instruction only. A branch in a pad that is not reached does not matter:
 * another copy or this one has left it. In a forked child our own branch is in place already. */
static bool fits(struct hooked *hook, const struct syscall_site *site)
{
    const struct patch *patch = &hook->patch;

    if (patch->at != site->at)
        return false;
    if (site->via)
        return patch->via == site->via;
    return leads_to_ours(hook) || (!patch->via && reads(hook, patch->before));
}

static struct hooked *find_hooked(const struct hook_site *site)
{
    for (size_t i = 0; i < hooked_count; i++)
        if (fits(&hooked[i], &site->is))
            return &hooked[i];
    return NULL;
}

static int fail_changing(const char *function)
{
    return hmreg_fail(-EBUSY, "memhooks: other code is just changing the code of %s()", function);
}

static int add_hooked(const struct hook_site *site, struct hook_state *state)
{
    struct hooked *hook = &hooked[hooked_count];
    int rc;

    if (hooked_count == sizeof(hooked) / sizeof(hooked[0]))
        return hmreg_fail(
            -EOPNOTSUPP,
            "memhooks: other code keeps changing the code of %s(), so it cannot be hooked",
            site->function);
    *hook = (struct hooked){.function = site->function,
                            .patch = {.at = site->is.at, .via = site->is.via, .way = site->is.way}};
    if (!patch_is_possible(&hook->patch))
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: the code of %s() cannot be patched atomically; use "
                          "userfaultfd or import",
                          site->function);
    rc = make_stub(hook, &site->is, state);
    if (!rc && hook->patch.via && patch_is_reached(&hook->patch)) /* by another copy */
        rc = fail_changing(site->function);
    if (!rc)
        hooked_count++;
    return rc;
}

/* ---- all sites -------------------------------------------------------------------------- */

/* Makes stubs for sites without one. */
static int make_stubs(const struct hook_sites *sites, struct hook_state *state)
{
    int rc = 0;

    for (size_t i = 0; !rc && i < sites->count; i++)
        if (!find_hooked(&sites->site[i]))
            rc = add_hooked(&sites->site[i], state);
    return rc ? rc : seal_islands();
}

void hook_stubs_mend(void)
{
    struct code_text text = {.start = 0};

    for (size_t i = 0; i < hooked_count; i++)
        if (hooked[i].placed)
            patch_mend(&hooked[i].patch, &text);
}

/* Sorts by address: changing sites in this order costs least. */
static void insert(struct patch *patches[], size_t count, struct patch *patch)
{
    for (; count && patches[count - 1]->at > patch->at; count--)
        patches[count] = patches[count - 1];
    patches[count] = patch;
}

static void restore_sites(void)
{
    struct patch *patches[2 * HOOK_SITES_MAX];
    struct code_text text = {.start = 0};
    size_t some = 0;

    for (size_t i = 0; i < hooked_count; i++) {
        if (hooked[i].placed)
            insert(patches, some++, &hooked[i].patch);
        hooked[i].placed = false;
    }
    patch_restore(patches, some, &text);
    start_count = 0;
    atomic_store(&code_count, 0);
}

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* The bytes behind the branch may be in another page, and those before it: never both. */
static size_t expect(size_t count, const uint8_t *at, const uint8_t *bytes)
{
    const size_t others = sizeof(uint64_t) - CODE_BRANCH;
    size_t before = (uintptr_t)at % PAGE_LEAST < others ? 0 : others;
    uint64_t wanted = 0;

    memcpy((uint8_t *)&wanted + before, bytes, CODE_BRANCH);
    atomic_store(&code_now[count].word, at - before);
    atomic_store(&code_now[count].bytes, wanted);
    atomic_store(&code_now[count].mask, (UINT64_MAX >> 8 * others) << 8 * before);
    return count + 1;
}

static const uint8_t *jump_of(const struct patch *patch)
{
    return patch->via ? patch->via : patch->way;
}

/* Records the bytes of all sites that lead to our stubs now, and of all beginnings. */
static void expect_all(void)
{
    size_t count = 0;

    for (size_t i = 0; i < hooked_count; i++) {
        const struct patch *patch = &hooked[i].patch;

        if (!hooked[i].placed)
            continue;
        count = expect(count, patch->at,
                       reads(&hooked[i], hooked[i].over) ? hooked[i].over : patch->after);
        if (patch->via || patch->way)
            count = expect(count, jump_of(patch), jump_of(patch));
    }
    for (size_t i = 0; i < start_count; i++)
        count = expect(count, starts[i].at, starts[i].bytes);
    atomic_store(&code_count, count);
}

/* Is a jump of ours among the first bytes of the function? */
static bool has_site(const struct hook_sites *sites, const uint8_t *function)
{
    for (size_t i = 0; i < sites->count; i++) {
        const struct syscall_site *site = &sites->site[i].is;
        const uint8_t *changed = site->via ? site->via : site->at;

        if (changed >= function && changed < function + CODE_BRANCH)
            return true;
    }
    return false;
}

/* Where other code has overwritten our jump, the site is not ours any more. */
static void rely_on(const struct hook_sites *sites)
{
    for (size_t i = 0; i < hooked_count; i++)
        hooked[i].placed = hooked[i].placed && leads_to_ours(&hooked[i]);
    start_count = 0;
    for (size_t i = 0; i < sites->starts; i++)
        if (!has_site(sites, sites->start[i].at))
            starts[start_count++] = sites->start[i];
    expect_all();
}

static int fail_placing(const struct hooked *hook)
{
    int error = -hook->patch.error;

    if (error == EBUSY || error == EEXIST)
        return fail_changing(hook->function);
    return hmreg_fail(-EOPNOTSUPP,
                      "memhooks: the code of %s() cannot be changed: %s; use "
                      "userfaultfd or import",
                      hook->function, strerror(error));
}

/* A branch in a pad that is not reached is overwritten. */
static int place(struct hooked *const hooks[], size_t count)
{
    struct code_text text = {.start = 0};
    struct patch *patches[HOOK_SITES_MAX];
    size_t some = 0;
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        struct patch *patch = &hooks[i]->patch;

        if (!patch_is_reached(patch))
            memcpy(patch->before, patch->at, CODE_BRANCH);
        patch->error = 0;
        if (!leads_to_ours(hooks[i]))
            insert(patches, some++, patch);
    }
    patch_place(patches, some, &text);
    for (size_t i = 0; i < count; i++) {
        hooks[i]->placed = !hooks[i]->patch.error || reads(hooks[i], hooks[i]->patch.after);
        if (!rc && hooks[i]->patch.error)
            rc = fail_placing(hooks[i]);
    }
    return rc;
}

/* Each site's hook. */
static int find_all(const struct hook_sites *sites, struct hooked *out[HOOK_SITES_MAX])
{
    for (size_t i = 0; i < sites->count; i++) {
        out[i] = find_hooked(&sites->site[i]);
        if (!out[i])
            return fail_changing(sites->site[i].function);
    }
    return 0;
}

int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state)
{
    struct hooked *hooks[HOOK_SITES_MAX];
    int rc;

    if (!code_start())
        return hmreg_fail(-EOPNOTSUPP, "memhooks: membarrier(2) cannot synchronize code: an old "
                                       "kernel, or a filter of system calls; use userfaultfd or "
                                       "import");
    rc = make_stubs(sites, state);
    rc = rc ? rc : find_all(sites, hooks);
    rc = rc ? rc : place(hooks, sites->count);
    failed = rc;
    if (rc)
        restore_sites();
    else
        rely_on(sites);
    return rc;
}

bool hook_stubs_are_whole(void)
{
    for (size_t i = 0; i < hooked_count; i++)
        if (hooked[i].placed && !leads_to_ours(&hooked[i]))
            return false;
    for (size_t i = 0; i < start_count; i++)
        if (memcmp(starts[i].at, starts[i].bytes, CODE_BRANCH) != 0)
            return false;
    return !failed;
}

bool hook_stubs_have(const struct hook_sites *sites)
{
    for (size_t i = 0; i < sites->count; i++) {
        struct hooked *hook = find_hooked(&sites->site[i]);

        if (!hook || !hook->placed || !leads_to_ours(hook))
            return false;
    }
    return true;
}

bool hook_stubs_look_whole(void)
{
    size_t count = atomic_load(&code_count);

    uint64_t changed = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t now = word_at(atomic_load_explicit(&code_now[i].word, memory_order_relaxed));

        now ^= atomic_load_explicit(&code_now[i].bytes, memory_order_relaxed);
        changed |= now & atomic_load_explicit(&code_now[i].mask, memory_order_relaxed);
    }
    return count && !changed;
}

/* The time that threads get to leave the hook: yields, then pauses of 1 ms. A thread that is
 * stopped in the hook may stay longer; then unloading the library is unsafe. A thread that jumped
 * out of the hook never leaves it: if no more threads stay than the last time, few pauses are
 * made. */
#define LEAVE_YIELDS 1000
#define LEAVE_PAUSES 400
#define FEW_PAUSES   20

void hook_stubs_remove(struct hook_state *state)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    static uint64_t stayed;
    uint64_t inside;
    int pauses;

    restore_sites();
    atomic_store(&state->hook, NULL);
    for (int i = 0; (inside = atomic_load(&state->inside)); i++) {
        pauses = inside > stayed ? LEAVE_PAUSES : FEW_PAUSES;
        if (i >= LEAVE_YIELDS + pauses)
            break;
        if (i < LEAVE_YIELDS || kernel_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0))
            sched_yield();
    }
    stayed = inside;
}
