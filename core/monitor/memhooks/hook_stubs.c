/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_stubs.h. Each site gets its own stub, on a page within a branch's reach (hook_arch.h
 * writes the stub).
 *
 * Pages of stubs ("islands") are written while they are not executable, and never again once they
 * are: each hook_stubs_install() that makes stubs maps new pages. They are never unmapped, since a
 * thread may be interrupted in a stub at any time and continue much later.
 *
 * libc's code is writable only while an instruction is replaced, and its whole mapping at once: the
 * kernel charges the process for memory that has been writable and records that in a flag of the
 * mapping, so a page made writable on its own would remain a separate mapping. Other threads
 * execute the code meanwhile. It stays executable: mprotect(2) changes the mapping's protection in
 * one step, from read and execute to read, write and execute, and back; a thread that faults on one
 * of its pages in between waits in the page fault, and continues. Only the site's page is written
 * and so copied, and the copy is complete when the kernel maps it. The thread that does this blocks
 * signals meanwhile; the caller's lock keeps forks out.
 */
#include "core/monitor/memhooks/hook_stubs.h"

#include "core/base/error.h"
#include "core/base/maps.h"
#include "core/monitor/memhooks/hook_arch.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- pages for stubs -------------------------------------------------------------------- */

#define ISLANDS    16
#define WIDE_STEP  (UINT64_C(1) << 20)
#define ISLAND_MIN 16384 /* bytes; some thirty stubs, more than libc needs */

static struct {
    uint8_t *start;
    size_t used;
    bool sealed; /* executable, and never written again */
} islands[ISLANDS];

static bool reaches(const uint8_t *from, const uint8_t *to)
{
    return (from < to ? to - from : from - to) <= (ptrdiff_t)HOOK_REACH;
}

/* The size of an island: at least a page. */
static size_t island_size(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return page < ISLAND_MIN ? ISLAND_MIN : page;
}

static uint8_t *map_at(uintptr_t address)
{
    size_t size = island_size();
    void *made = mmap((void *)address, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (made != MAP_FAILED && made != (void *)address) { /* an older kernel took it as a hint */
        munmap(made, size);
        made = MAP_FAILED;
    }
    return made == MAP_FAILED ? NULL : made;
}

/* Tries addresses below the code first: above a program's own code the heap grows. */
static uint8_t *map_near_by(const uint8_t *code, uint64_t step)
{
    uintptr_t base = (uintptr_t)code & ~(step - 1);
    uint8_t *made = NULL;

    for (uintptr_t away = step; !made && away < HOOK_REACH && away < base; away += step)
        made = map_at(base - away);
    for (uintptr_t away = 2 * step; !made && away < HOOK_REACH; away += step)
        made = map_at(base + away);
    return made;
}

/* Tries wide steps first; if gigabytes beside the code are reserved, only small gaps may be left.
 */
static uint8_t *map_near(const uint8_t *code)
{
    uint8_t *made = NULL;

    for (uint64_t step = WIDE_STEP; !made && step >= island_size(); step /= 8)
        made = map_near_by(code, step);
    return made;
}

/* Allocates room for a stub, within a branch's reach of the code and not executable yet. NULL:
 * none. */
static uint8_t *take_room(const uint8_t *code, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    for (int i = 0; i < ISLANDS; i++) {
        if (!islands[i].start)
            islands[i].start = map_near(code);
        if (!islands[i].start)
            return NULL;
        if (islands[i].sealed || !reaches(code, islands[i].start) ||
            islands[i].used + size > island_size())
            continue;
        islands[i].used += size;
        return islands[i].start + islands[i].used - size;
    }
    return NULL;
}

/* Makes stubs executable. All processors' instruction caches drop old contents of these addresses
 * before any branch leads there. */
static int seal_islands(void)
{
    for (int i = 0; i < ISLANDS; i++) {
        char *start = (char *)islands[i].start;

        if (!start || islands[i].sealed)
            continue;
        __builtin___clear_cache(start, start + islands[i].used);
        if (mprotect(start, island_size(), PROT_READ | PROT_EXEC))
            return hmreg_fail(-EOPNOTSUPP,
                              "memhooks: no memory for code of our own (mprotect: %s); use "
                              "userfaultfd or import",
                              strerror(errno));
        islands[i].sealed = true;
    }
    return hook_fetch_anew() ? 0 : hmreg_fail(-EOPNOTSUPP, "memhooks: membarrier failed");
}

/* ---- one hooked site -------------------------------------------------------------------- */

/* A site with its stub. Kept for ever, as the stub is, and reused when the site's instruction is
 * the same again. */
struct hooked {
    struct hook_site site;
    uint8_t before[HOOK_SITE_SIZE], after[HOOK_SITE_SIZE];
    uint8_t over[HOOK_SITE_SIZE]; /* another copy's jump, whose stub leads to ours */
    bool placed;
};

static struct hooked hooked[2 * HOOK_SITES_MAX];
static size_t hooked_count;

/* Jumps of other libraries that must stay unchanged. */
static struct hook_jump jumps[HOOK_SITES_MAX];
static size_t jump_count;
static bool failed; /* the last hook_stubs_install() failed */

/* What hook_stubs_look_whole() compares: sites and jumps. While another thread rewrites it, some
 * old and some new elements are compared; each of them was right when the others of its generation
 * were. */
static struct {
    _Atomic(const uint8_t *) at;
    _Atomic uint64_t bytes;
} code_now[3 * HOOK_SITES_MAX];
static atomic_size_t code_count; /* 0: nothing to compare */

static int make_stub(struct hooked *hook, struct hook_state *state)
{
    const struct hook_site *site = &hook->site;
    uint8_t *at = take_room(site->at, hook_arch_stub_size(site->number));
    const char *why =
        at ? hook_arch_make_stub(at, site->at, site->number, state) : "no addresses are free";

    if (why)
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: no code can be put within a jump of %s(): %s; use userfaultfd "
                          "or import",
                          site->function, why);
    memcpy(hook->before, site->at, HOOK_SITE_SIZE);
    hook_arch_branch(hook->after, site->at, at + sizeof(struct hook_stub_header));
    return 0;
}

static bool reads(const struct hooked *hook, const uint8_t *instruction)
{
    return memcmp(hook->site.at, instruction, HOOK_SITE_SIZE) == 0;
}

/* Finds a hooked site whose stub fits the instruction there now; in a forked child its jump is
 * there already. */
static struct hooked *find_hooked(const struct hook_site *site)
{
    for (size_t i = 0; i < hooked_count; i++) {
        struct hooked *hook = &hooked[i];

        if (hook->site.at == site->at && (reads(hook, hook->before) || reads(hook, hook->after)))
            return hook;
    }
    return NULL;
}

static int add_hooked(const struct hook_site *site, struct hook_state *state)
{
    struct hooked *hook = &hooked[hooked_count];
    int rc;

    if (hooked_count == sizeof(hooked) / sizeof(hooked[0]))
        return hmreg_fail(-EOPNOTSUPP, "memhooks: others change the code of %s() again and again",
                          site->function);
    *hook = (struct hooked){.site = *site};
    if (!hook_arch_can_replace(site->at))
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: %s() lies where it cannot be changed at once; "
                          "use userfaultfd or import",
                          site->function);
    rc = make_stub(hook, state);
    if (!rc)
        hooked_count++;
    return rc;
}

/* ---- changing code ---------------------------------------------------------------------- */

static bool can_make_all_fetch(void)
{
    return hook_arch_call_kernel(SYS_membarrier,
                                 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == 0 &&
           hook_fetch_anew();
}

/* The memory whose protection is changed: the whole mapping that contains a site or, if the
 * kernel's list of mappings cannot be read, the site's page. */
struct text {
    uintptr_t start, end;
    int protection; /* PROT_*, before the change */
};

static long protect(const struct text *text, int more)
{
    return hook_arch_call_kernel(SYS_mprotect, (long)text->start, (long)(text->end - text->start),
                                 text->protection | more);
}

static struct text page_of(const struct hooked *hook)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    return (struct text){(uintptr_t)hook->site.at & ~(page - 1),
                         ((uintptr_t)hook->site.at + HOOK_SITE_SIZE + page - 1) & ~(page - 1),
                         hook->site.protection};
}

/* The last mapping found, since most sites are in the same one. Cleared by each install and
 * removal, as mappings may have changed. */
static struct text mapping;

static bool find_mapping(const struct hooked *hook, struct text *out)
{
    uintptr_t site = (uintptr_t)hook->site.at;
    struct maps maps;
    struct map map;

    if (site < mapping.start || site >= mapping.end) {
        mapping = (struct text){.start = 0};
        maps_begin(&maps, -1);
        if (maps_next(&maps, site, &map) == 1 && map.start <= site && map.executable)
            mapping = (struct text){map.start, map.end,
                                    PROT_EXEC | (map.readable ? PROT_READ : 0) |
                                        (map.writable ? PROT_WRITE : 0)};
        maps_end(&maps);
    }
    *out = mapping;
    return mapping.end >= site + HOOK_SITE_SIZE;
}

/* *out: the memory to be protected again. The kernel may refuse to charge the process for the whole
 * mapping, but not for a page of it. */
static long make_writable(const struct hooked *hook, struct text *out)
{
    if (find_mapping(hook, out) && !protect(out, PROT_WRITE))
        return 0;
    *out = page_of(hook);
    return protect(out, PROT_WRITE);
}

/* Writes the bytes to the site if it has the expected ones. */
static long change_site(const struct hooked *hook, const uint8_t *expected, const uint8_t *bytes)
{
    sigset_t all, before;
    struct text text;
    long rc;

    if (!reads(hook, expected))
        return -EBUSY;
    rc = make_writable(hook, &text);
    if (rc)
        return rc;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    hook_arch_replace(hook->site.at, bytes);
    hook_fetch_anew();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return protect(&text, 0);
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

static void restore_sites(void)
{
    mapping = (struct text){.start = 0};
    for (size_t i = 0; i < hooked_count; i++) {
        if (hooked[i].placed)
            change_site(&hooked[i], hooked[i].after, hooked[i].before);
        hooked[i].placed = false;
    }
    jump_count = 0;
    atomic_store(&code_count, 0);
}

/* Does the site's jump lead to our stub? Another copy's stub executes the instruction that it
 * replaced: our jump. The kernel is asked once only. */
static bool leads_to_ours(struct hooked *hook)
{
    if (reads(hook, hook->after) || reads(hook, hook->over))
        return true;
    if (!hook_is_stub(hook->site.at, hook->site.number))
        return false;
    memcpy(hook->over, hook->site.at, HOOK_SITE_SIZE);
    return true;
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

/* Records the bytes of all sites and jumps that lead to our stubs now. */
static void expect_all(void)
{
    size_t count = 0;

    for (size_t i = 0; i < hooked_count; i++)
        if (hooked[i].placed)
            count = expect(count, hooked[i].site.at,
                           reads(&hooked[i], hooked[i].over) ? hooked[i].over : hooked[i].after);
    for (size_t i = 0; i < jump_count; i++)
        count = expect(count, jumps[i].at, jumps[i].bytes);
    atomic_store(&code_count, count);
}

/* Where other code has overwritten our jump, the site is not ours any more. */
static void rely_on(const struct hook_sites *sites)
{
    for (size_t i = 0; i < hooked_count; i++)
        hooked[i].placed = hooked[i].placed && leads_to_ours(&hooked[i]);
    memcpy(jumps, sites->jump, sizeof(jumps));
    jump_count = sites->jumps;
    expect_all();
}

static int place_jump(struct hooked *hook)
{
    long rc = reads(hook, hook->after) ? 0 : change_site(hook, hook->before, hook->after);

    if (rc)
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: the code of %s() cannot be changed: %s; use "
                          "userfaultfd or import",
                          hook->site.function, strerror((int)-rc));
    hook->placed = true;
    return 0;
}

int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state)
{
    int rc;

    if (!can_make_all_fetch())
        return hmreg_fail(-EOPNOTSUPP, "memhooks: this kernel's membarrier cannot synchronize "
                                       "code; use userfaultfd or import");
    rc = seal_islands(); /* islands of a failed attempt */
    mapping = (struct text){.start = 0};
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
    for (size_t i = 0; i < jump_count; i++)
        if (memcmp(jumps[i].at, jumps[i].bytes, HOOK_SITE_SIZE) != 0)
            return false;
    return !failed;
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

/* An upper bound for threads to leave the hook, in yields. A thread that is stopped in it may stay
 * longer: unloading the library is unsafe then. */
#define LEAVE_TRIES 1000000

void hook_stubs_remove(struct hook_state *state)
{
    restore_sites();
    atomic_store(&state->hook, NULL);
    for (int i = 0; i < LEAVE_TRIES && atomic_load(&state->inside); i++)
        sched_yield();
}
