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

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

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

/* A site with its stub. Kept for ever, as the stub is, and reused when the site's instruction is
 * the same again. */
struct hooked {
    struct hook_site site;
    const uint8_t *stub;
    uint8_t before[HOOK_SITE_SIZE], after[HOOK_SITE_SIZE];
    uint8_t over[HOOK_SITE_SIZE]; /* another copy's jump, whose stub leads to ours */
    /* At site.enter, if there is one. */
    uint8_t enter_before[HOOK_ENTER_SIZE], enter_after[HOOK_ENTER_SIZE];
    bool placed;
};

static struct hooked hooked[2 * HOOK_SITES_MAX];
static size_t hooked_count;

/* Beginnings of functions that must stay unchanged. */
static struct hook_start starts[HOOK_SITES_MAX];
static size_t start_count;
static bool failed; /* the last hook_stubs_install() failed */

/* What hook_stubs_look_whole() compares: sites and beginnings. While another thread rewrites it,
 * some old and some new elements are compared; each of them was valid together with the others of
 * its generation. */
static struct {
    _Atomic(const uint8_t *) at;
    _Atomic uint64_t bytes;
} code_now[5 * HOOK_SITES_MAX];
static atomic_size_t code_count; /* 0: nothing to compare */

static int make_stub(struct hooked *hook, struct hook_state *state)
{
    const struct hook_site *site = &hook->site;
    struct hook_entry entry = {site->at, site->enter, site->number};
    uint8_t *at = code_take_room(&islands, site->at, hook_arch_stub_size(site->number));
    const char *why = at ? hook_arch_make_stub(at, &entry, state) : "no addresses are free";

    if (why)
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: no code can be put within a jump of %s(): %s; use userfaultfd "
                          "or import",
                          site->function, why);
    hook->stub = at + sizeof(struct hook_stub_header);
    memcpy(hook->before, site->at, HOOK_SITE_SIZE);
    code_branch(hook->after, site->at, hook->stub);
    if (site->enter)
        hook_arch_enter_bytes(site->enter, site->at, hook->enter_after, hook->enter_before);
    return 0;
}

static bool reads(const struct hooked *hook, const uint8_t *instruction)
{
    return memcmp(hook->site.at, instruction, HOOK_SITE_SIZE) == 0;
}

/* Does the code before the site read so? */
static bool enters(const struct hooked *hook, const uint8_t *instruction)
{
    return memcmp(hook->site.enter, instruction, HOOK_ENTER_SIZE) == 0;
}

static bool is_reached(const struct hooked *hook)
{
    return !hook->site.enter || enters(hook, hook->enter_after);
}

#define CHAIN_MOST 64 /* stubs of other copies before ours */

/* Another copy's stub leaves to the stub whose jump it replaced. */
static bool leads_to(const uint8_t *site, const uint8_t *stub)
{
    const uint8_t *at = hook_arch_target(site);

    for (int i = 0; at && at != stub && i < CHAIN_MOST; i++)
        at = hook_stub_next(at);
    return at == stub;
}

/* Does the site's jump lead to our stub? No stub changes: one jump's stubs are looked at once. */
static bool leads_to_ours(struct hooked *hook)
{
    if (!is_reached(hook))
        return false;
    if (reads(hook, hook->after) || reads(hook, hook->over))
        return true;
    if (!leads_to(hook->site.at, hook->stub))
        return false;
    memcpy(hook->over, hook->site.at, HOOK_SITE_SIZE);
    return true;
}

/* Does its stub do for the site as it is now? A stub that leaves to what it replaced does for that
 * only. A jump at a site that is not reached matters to none: it is what another copy, or this one,
 * has left there. In a forked child our own jump is in place already. */
static bool fits(struct hooked *hook, const struct hook_site *site)
{
    if (hook->site.at != site->at)
        return false;
    if (site->enter)
        return hook->site.enter == site->enter;
    return leads_to_ours(hook) || (!hook->site.enter && reads(hook, hook->before));
}

static struct hooked *find_hooked(const struct hook_site *site)
{
    for (size_t i = 0; i < hooked_count; i++)
        if (fits(&hooked[i], site))
            return &hooked[i];
    return NULL;
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
    *hook = (struct hooked){.site = *site};
    if (!(site->enter ? code_can_replace(site->enter, HOOK_ENTER_SIZE)
                      : code_can_replace(site->at, HOOK_SITE_SIZE)))
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: the code of %s() cannot be patched atomically; use "
                          "userfaultfd or import",
                          site->function);
    rc = make_stub(hook, state);
    if (!rc)
        hooked_count++;
    return rc;
}

/* ---- changing code ---------------------------------------------------------------------- */

/* The last mapping found, since most sites are in the same one. Cleared by each install and
 * removal, as mappings may have changed. */
static struct code_text mapping;

static long write_at(const struct hooked *hook, uint8_t *at, const uint8_t *expected,
                     const uint8_t *bytes, size_t size)
{
    if (memcmp(at, expected, size) != 0)
        return -EBUSY;
    return code_write(&mapping, at, bytes, size, hook->site.protection);
}

/* Writes our jumps where they are not, if the code is as it was; first the one that no code reaches
 * without the other. */
static long place(struct hooked *hook)
{
    const struct hook_site *site = &hook->site;
    long rc = 0;

    if (leads_to_ours(hook))
        return 0;
    if (!is_reached(hook))
        memcpy(hook->before, site->at, HOOK_SITE_SIZE);
    if (!reads(hook, hook->after))
        rc = write_at(hook, site->at, hook->before, hook->after, HOOK_SITE_SIZE);
    if (!rc && !is_reached(hook))
        rc = write_at(hook, site->enter, hook->enter_before, hook->enter_after, HOOK_ENTER_SIZE);
    return rc;
}

/* Puts the file's bytes behind the first one, so that the instruction is whole without the probe.
 */
static void mend(struct hooked *hook)
{
    const struct hook_site *site = &hook->site;

    if (site->enter &&
        code_is_probed(site->enter, hook->enter_after, hook->enter_before, HOOK_ENTER_SIZE))
        write_at(hook, site->enter + 1, hook->enter_after + 1, hook->enter_before + 1,
                 HOOK_ENTER_SIZE - 1);
    else if (!site->enter && code_is_probed(site->at, hook->after, hook->before, HOOK_SITE_SIZE))
        write_at(hook, site->at + 1, hook->after + 1, hook->before + 1, HOOK_SITE_SIZE - 1);
}

/* Restores the code where it is still ours. A jump behind a function stays, for threads that are
 * about to execute it: without the jump to it, no other thread does. Writing it again protects its
 * code, if that failed before. */
static void restore(struct hooked *hook)
{
    const struct hook_site *site = &hook->site;

    mend(hook);
    if (!site->enter)
        write_at(hook, site->at, hook->after, hook->before, HOOK_SITE_SIZE);
    else if (!enters(hook, hook->enter_after))
        write_at(hook, site->at, hook->after, hook->after, HOOK_SITE_SIZE);
    else if (reads(hook, hook->after))
        write_at(hook, site->enter, hook->enter_after, hook->enter_before, HOOK_ENTER_SIZE);
}

/* ---- all sites -------------------------------------------------------------------------- */

/* Makes a stub for each site that has none. */
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
    mapping = (struct code_text){.start = 0};
    for (size_t i = 0; i < hooked_count; i++)
        if (hooked[i].placed)
            mend(&hooked[i]);
}

static void restore_sites(void)
{
    mapping = (struct code_text){.start = 0};
    for (size_t i = 0; i < hooked_count; i++) {
        if (hooked[i].placed)
            restore(&hooked[i]);
        hooked[i].placed = false;
    }
    start_count = 0;
    atomic_store(&code_count, 0);
}

_Static_assert(HOOK_SITE_SIZE == 4 || HOOK_SITE_SIZE == 5, "a site's bytes are in bytes_at()");

/* Assembled in a register: through memory each load would wait for the stores before it, and
 * hook_stubs_look_whole() would take 60 ns instead of 15. */
static uint64_t bytes_at(const uint8_t *at)
{
    uint32_t first;

    memcpy(&first, at, sizeof(first));
    return first | (uint64_t)(HOOK_SITE_SIZE > 4 ? at[HOOK_SITE_SIZE - 1] : 0) << 32;
}

static size_t expect(size_t count, const uint8_t *at, const uint8_t *bytes)
{
    atomic_store(&code_now[count].at, at);
    atomic_store(&code_now[count].bytes, bytes_at(bytes));
    return count + 1;
}

/* Records the bytes of all sites that lead to our stubs now, and of all beginnings. */
static void expect_all(void)
{
    size_t count = 0;

    for (size_t i = 0; i < hooked_count; i++) {
        if (!hooked[i].placed)
            continue;
        count = expect(count, hooked[i].site.at,
                       reads(&hooked[i], hooked[i].over) ? hooked[i].over : hooked[i].after);
        if (hooked[i].site.enter)
            count = expect(count, hooked[i].site.enter, hooked[i].site.enter);
    }
    for (size_t i = 0; i < start_count; i++)
        count = expect(count, starts[i].at, starts[i].bytes);
    atomic_store(&code_count, count);
}

/* Is a jump of ours among the first bytes of the function? */
static bool has_site(const struct hook_sites *sites, const uint8_t *function)
{
    for (size_t i = 0; i < sites->count; i++) {
        const struct hook_site *site = &sites->site[i];
        const uint8_t *changed = site->enter ? site->enter : site->at;

        if (changed >= function && changed < function + HOOK_SITE_SIZE)
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

static int place_jump(struct hooked *hook)
{
    long rc = place(hook);

    hook->placed = !rc || reads(hook, hook->after); /* even if its code is still writable */
    if (rc)
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: the code of %s() cannot be changed: %s; use "
                          "userfaultfd or import",
                          hook->site.function, strerror((int)-rc));
    return 0;
}

int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state)
{
    int rc;

    if (!code_start())
        return hmreg_fail(-EOPNOTSUPP, "memhooks: membarrier(2) cannot synchronize code: an old "
                                       "kernel, or a filter of system calls; use userfaultfd or "
                                       "import");
    rc = seal_islands(); /* islands of a failed attempt */
    mapping = (struct code_text){.start = 0};
    for (size_t i = 0; !rc && i < sites->count; i++) {
        struct hooked *hook = find_hooked(&sites->site[i]);

        if (!hook)
            rc = make_stubs(sites, state);
        if (!rc)
            rc = place_jump(hook ? hook : find_hooked(&sites->site[i]));
    }
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
        if (memcmp(starts[i].at, starts[i].bytes, HOOK_SITE_SIZE) != 0)
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

    for (size_t i = 0; i < count; i++)
        if (bytes_at(atomic_load_explicit(&code_now[i].at, memory_order_relaxed)) !=
            atomic_load_explicit(&code_now[i].bytes, memory_order_relaxed))
            return false;
    return count;
}

/* How long threads have to leave the hook: yields, then pauses of 1 ms. A thread that is stopped in
 * it may stay longer: unloading the library is unsafe then. One that jumped out of it never leaves:
 * as many as stayed the last time get few pauses. */
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
