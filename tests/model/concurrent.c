/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache with many threads at once, and what must hold in any order: a region that a get returns
 * covers the memory as it is now, has exactly the requested rights, and stays until its last put;
 * limits hold at every moment; the counters add up. (sequence.c checks more, but runs one thread at
 * a time.)
 *
 * Memory is in slots. A get shares its slots until any thread puts its region; a change takes a
 * slot alone. An unmapped slot belongs to the thread that maps it next, which may be before
 * munmap(2) has returned to the one that unmapped it. Registrations may be larger than the slots of
 * a get, so that neighbours change while a region is held.
 *
 * Seeded: HMREG_TEST_SEED=7 gives each thread the same sequence of choices; HMREG_TEST_OPS: the
 * number of steps in each case.
 */
#include "tests/support/kernel_monitor.h"
#include "tests/support/pinning.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define THREADS    4
#define SLOTS      16
#define SLOT_PAGES 3
#define SPAN       3  /* slots of a get, at most */
#define HOLDS      24 /* regions waiting to be put by some thread */
#define LIMIT      20

#if TEST_TSAN
#define PART     20
#define MAY_FORK 0 /* ThreadSanitizer does not follow forks of a process with threads */
#elif TEST_ASAN
#define PART     5
#define MAY_FORK 0 /* AddressSanitizer's allocator keeps other threads' locks in the child */
#else
#define PART     1
#define MAY_FORK 1
#endif

enum { ALONE = -1, UNMAPPED = -2 }; /* otherwise the number of users */

struct slot {
    atomic_int users;
    uint64_t tags[SLOT_PAGES];  /* written by its users, or by the thread that has it alone */
    struct vendor_claim *claim; /* of a device */
};

struct hold {
    struct hmreg_mr *mr;
    struct pinned *region;
    unsigned first, count; /* slots */
};

struct kind {
    enum hmreg_monitor monitor;
    bool device;
    bool reports; /* the vendor reports the end of device memory */
    bool notice;  /* hits rely on received notices */
    bool changes; /* of memory, invalidations, flushes */
    uint32_t flags;
    enum hmreg_policy policy; /* of the domain */
    uint64_t max_regions;
    unsigned long steps; /* of all threads */
};

static struct {
    const struct kind *kind;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    size_t page;
    char *base;
    struct slot slots[SLOTS];
    _Atomic(struct hold *) holds[HOLDS];
    atomic_ullong last_tag, gets, reuses;
    atomic_bool over;
} t;

struct worker {
    pthread_t thread;
    uint64_t random;
    unsigned long steps;
};

static unsigned draw(struct worker *worker, unsigned limit)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (unsigned)(worker->random >> 32) % limit;
}

static char *memory_of(unsigned slot)
{
    return t.base + slot * SLOT_PAGES * t.page;
}

static size_t slot_len(void)
{
    return SLOT_PAGES * t.page;
}

/* ---- slots ------------------------------------------------------------------------------ */

static bool take_part_in(struct slot *slot)
{
    int users = atomic_load(&slot->users);

    while (users >= 0)
        if (atomic_compare_exchange_weak(&slot->users, &users, users + 1))
            return true;
    return false;
}

static void leave(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        atomic_fetch_sub(&t.slots[i].users, 1);
}

static bool take_part(unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        if (!take_part_in(&t.slots[i])) {
            leave(first, i - first);
            return false;
        }
    return true;
}

static bool take_alone(unsigned slot)
{
    int unused = 0;

    return atomic_compare_exchange_strong(&t.slots[slot].users, &unused, ALONE);
}

/* Writes new tags; for the thread that has the slot alone. */
static void tag(unsigned slot)
{
    for (unsigned i = 0; i < SLOT_PAGES; i++) {
        uint64_t number = atomic_fetch_add(&t.last_tag, 1) + 1;

        t.slots[slot].tags[i] = number;
        __atomic_store_n((uint64_t *)(void *)(memory_of(slot) + i * t.page), number,
                         __ATOMIC_RELAXED);
    }
}

static void open_to_all(unsigned slot)
{
    atomic_store(&t.slots[slot].users, 0);
}

static bool map(unsigned slot, int how)
{
    return mmap(memory_of(slot), slot_len(), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0) == memory_of(slot);
}

/* An abandoned slot belongs to the thread whose map succeeds. */
static void take_over(unsigned slot)
{
    if (t.kind->device || atomic_load(&t.slots[slot].users) != UNMAPPED ||
        !map(slot, MAP_FIXED_NOREPLACE))
        return;
    tag(slot);
    atomic_fetch_add(&t.reuses, 1);
    open_to_all(slot);
}

/* ---- gets ------------------------------------------------------------------------------- */

static void check_page(const struct pinned *region, uint64_t at, uint64_t is, bool by_peer)
{
    uint64_t seen = pinned_tag(region, at);

    if (seen != is)
        pinning_complain("stale: the page at %#" PRIx64 " has tag %" PRIu64 ", region %" PRIu64
                         " was registered when it had %" PRIu64,
                         at, is, region->key, seen);
    if (by_peer && pinning.ring && region->start <= at && at + sizeof(seen) <= region->end &&
        (pinned_read(region, at, &seen, sizeof(seen)) || seen != is))
        pinning_complain("a peer reads tag %" PRIu64 ", the page at %#" PRIx64 " has %" PRIu64,
                         seen, at, is);
}

static void check(const struct hold *hold, uint64_t start, uint64_t end, uint64_t access,
                  bool by_peer)
{
    const struct pinned *region = hold->region;

    if (region->start > start || region->end < end || region->access != access)
        pinning_complain("region %" PRIu64 " is not what was asked for", region->key);
    if ((t.kind->flags & HMREG_DOMAIN_EXACT) && (region->start != start || region->end != end))
        pinning_complain("region %" PRIu64 " is larger than the range", region->key);
    for (uint64_t at = start & ~(uint64_t)(t.page - 1); at < end; at += t.page) {
        size_t page = (size_t)(at - (uint64_t)(uintptr_t)t.base) / t.page;

        check_page(region, at, t.slots[page / SLOT_PAGES].tags[page % SLOT_PAGES], by_peer);
    }
}

static void put(struct hold *hold)
{
    if (!hold)
        return;
    pinned_unuse(hold->region);
    if (hold->first % 2 || hmreg_mr_try_put(hold->mr))
        hmreg_mr_put(hold->mr);
    leave(hold->first, hold->count);
    free(hold);
}

static void get(struct worker *worker)
{
    unsigned count = 1 + draw(worker, SPAN), first = draw(worker, SLOTS - count + 1);
    size_t skip = draw(worker, 8) ? 0 : 100, cut = draw(worker, 8) ? 0 : 200;
    uint64_t access = draw(worker, 8) ? HMREG_ACCESS_REMOTE : HMREG_REMOTE_READ;
    uint64_t start = (uint64_t)(uintptr_t)memory_of(first) + skip;
    uint64_t end = (uint64_t)(uintptr_t)memory_of(first) + count * slot_len() - cut;
    struct hold *hold;
    int rc;

    if (!take_part(first, count)) {
        take_over(first);
        return;
    }
    hold = malloc(sizeof(*hold));
    *hold = (struct hold){.first = first, .count = count};
    rc = draw(worker, 2) ? hmreg_mr_try_get(t.domain, (void *)(uintptr_t)start,
                                            (size_t)(end - start), access, &hold->mr)
                         : -EAGAIN;
    if (rc)
        rc = hmreg_mr_get(t.domain, (void *)(uintptr_t)start, (size_t)(end - start), access,
                          &hold->mr);
    if (rc) {
        pinning_complain("get = %d: %s", rc, hmreg_last_error()->text);
        leave(first, count);
        free(hold);
        return;
    }
    hold->region = pinned_of(hold->mr);
    pinned_use(hold->region);
    atomic_fetch_add(&t.gets, 1);
    check(hold, start, end, access, draw(worker, 16) == 0);
    put(atomic_exchange(&t.holds[draw(worker, HOLDS)], hold));
}

/* ---- changes ---------------------------------------------------------------------------- */

/* An application that reports changes itself does so before it frees. */
static void report(unsigned slot)
{
    if (t.kind->monitor == HMREG_MONITOR_IMPORT &&
        hmreg_invalidate(t.lib, memory_of(slot), slot_len()))
        pinning_complain("invalidate: %s", hmreg_last_error()->text);
}

static void replace(unsigned slot)
{
    if (!map(slot, MAP_FIXED))
        pinning_complain("mmap: %s", strerror(errno));
}

/* Leaves the slot to the thread that maps it first: at once or, if the cache only promises that
 * much, after munmap returns. */
static void abandon(unsigned slot)
{
    if (!t.kind->notice)
        atomic_store(&t.slots[slot].users, UNMAPPED);
    munmap(memory_of(slot), slot_len());
    if (t.kind->notice)
        atomic_store(&t.slots[slot].users, UNMAPPED);
}

/* Moves the pages to a slot that this thread also has alone, and whose pages are replaced. */
static void move(unsigned slot, unsigned to)
{
    report(to);
    if (mremap(memory_of(slot), slot_len(), slot_len(), MREMAP_MAYMOVE | MREMAP_FIXED,
               memory_of(to)) != memory_of(to))
        pinning_complain("mremap: %s", strerror(errno));
    tag(to);
    open_to_all(to);
    replace(slot);
}

/* For the thread that has the slot alone. */
static void change_host(struct worker *worker, unsigned slot)
{
    unsigned how = draw(worker, 4), other = draw(worker, SLOTS);

    report(slot);
    if (how == 0) {
        abandon(slot);
        return;
    }
    if (how == 1 && take_alone(other))
        move(slot, other);
    else if (how == 2)
        replace(slot);
    else
        madvise(memory_of(slot), slot_len(), MADV_DONTNEED);
    tag(slot);
    open_to_all(slot);
}

static void change(struct worker *worker)
{
    unsigned slot = draw(worker, SLOTS);

    if (t.kind->device && take_alone(slot)) {
        vendor_renew(t.slots[slot].claim);
        tag(slot);
        open_to_all(slot);
    } else if (!t.kind->device) {
        if (take_alone(slot))
            change_host(worker, slot);
    }
}

/* ---- the rest --------------------------------------------------------------------------- */

/* In the child: 0, or the step that failed. */
static int live_as_a_child(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_mr *mr;
    char memory[100];

    pinning.ring = NULL; /* the parent's ring */
    pinning.tags = false;
    if (hmreg_mr_get(t.domain, t.base, 1, HMREG_SEND, &mr) != -EPERM ||
        hmreg_domain_flush(t.domain) != -EPERM || hmreg_invalidate(t.lib, t.base, 1) != -EPERM)
        return 1;
    if (hmreg_open(&config, &t.lib) || pinning_open(t.lib, NULL, &t.domain) ||
        hmreg_mr_get(t.domain, memory, sizeof(memory), HMREG_SEND, &mr))
        return 2;
    hmreg_mr_put(mr);
    return hmreg_domain_close(t.domain) || hmreg_close(t.lib) ? 3 : 0;
}

static void do_fork(void)
{
    int status = -1;
    pid_t child = MAY_FORK ? test_fork() : 0;

    if (!MAY_FORK)
        return;
    if (child == 0)
        _exit(live_as_a_child());
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        pinning_complain("a forked child went wrong: status %#x", (unsigned)status);
}

static void *get_and_end(void *arg)
{
    get(arg);
    return NULL;
}

static void short_life(struct worker *worker)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, get_and_end, worker))
        pinning_complain("no thread");
    else
        pthread_join(thread, NULL);
}

static void change_something(struct worker *worker)
{
    unsigned slot = draw(worker, SLOTS);

    switch (draw(worker, 64)) {
    case 0:
        hmreg_domain_flush(t.domain);
        break;
    case 1:
    case 2:
        hmreg_invalidate(t.lib, memory_of(slot), draw(worker, 2) ? 1 : slot_len());
        break;
    default:
        change(worker);
    }
}

static void one_step(struct worker *worker, unsigned long step)
{
    unsigned at = draw(worker, 1000);

    if (step % 20000 == 7777)
        do_fork();
    else if (at < 10 && t.kind->changes)
        change_something(worker);
    else if (at == 999 && draw(worker, 4) == 0)
        short_life(worker);
    else if (at < 600)
        get(worker);
    else
        put(atomic_exchange(&t.holds[draw(worker, HOLDS)], NULL));
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (unsigned long i = 0; i < worker->steps; i++)
        one_step(worker, i);
    return NULL;
}

/* Checks the limits continuously; yields otherwise. */
static void *look_on(void *arg)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    while (!atomic_load(&t.over)) {
        if (hmreg_domain_stats(t.domain, &stats))
            pinning_complain("stats: %s", hmreg_last_error()->text);
        if (stats.regions > t.kind->max_regions)
            pinning_complain("%" PRIu64 " regions are cached, the limit is %" PRIu64, stats.regions,
                             t.kind->max_regions);
        if (stats.bytes > t.kind->max_regions * 2 * slot_len())
            pinning_complain("%" PRIu64 " bytes are cached", stats.bytes);
        sched_yield();
    }
    return NULL;
}

/* ---- cases ------------------------------------------------------------------------------ */

static unsigned long setting(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);

    return value ? strtoul(value, NULL, 0) : otherwise;
}

/* A range of addresses to which the kernel maps nothing else. */
static char *reserve(void)
{
    size_t len = SLOTS * slot_len();
    char *top = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(top, MAP_FAILED);
    munmap(top, len);
    return top - (1ull << 39);
}

static void open_slot(unsigned slot)
{
    assert_true(map(slot, MAP_FIXED_NOREPLACE));
    tag(slot);
    if (!t.kind->device)
        return;
    t.slots[slot].claim =
        vendor_claim(HMREG_IFACE_CUDA, memory_of(slot), slot_len(), HMREG_MEM_DEVICE, 0);
    t.slots[slot].claim->goes_on = true;
}

static void open_all(const struct kind *kind)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = kind->monitor};
    struct hmreg_domain_config domain = {.size = sizeof(domain),
                                         .flags = kind->flags,
                                         .policy = kind->policy,
                                         .max_regions = kind->max_regions,
                                         .max_bytes = kind->max_regions * 2 * SLOT_PAGES *
                                                      (uint64_t)sysconf(_SC_PAGESIZE)};
    int rc;

    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        domain.check[i] = kind->notice ? HMREG_CHECK_NOTICE : HMREG_CHECK_ALWAYS;
    memset(&t, 0, sizeof(t));
    t.kind = kind;
    t.page = (size_t)sysconf(_SC_PAGESIZE);
    vendors_reset();
    vendors[HMREG_IFACE_CUDA].reports = kind->reports;
    pinning_reset();
    rc = hmreg_open(&config, &t.lib);
    if (rc == -EPERM || rc == -ENOSYS || rc == -EOPNOTSUPP)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    t.base = reserve();
    for (unsigned i = 0; i < SLOTS; i++)
        open_slot(i);
    pinning.tags = true;
    if (ring_open(&pinning.ring))
        pinning.ring = NULL; /* the kernel does not permit it: check by tags only */
    assert_ok(pinning_open(t.lib, &domain, &t.domain));
}

/* The counters add up: every get is counted once, every registration has ended, each miss
 * registered once, except for changes meanwhile. */
static void balance(void)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    unsigned regs = atomic_load(&pinning.regs);

    assert_ok(hmreg_domain_stats(t.domain, &stats));
    assert_int_equal(stats.hits + stats.misses + stats.uncached, atomic_load(&t.gets));
    assert_int_equal(stats.regions, 0);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.retired, 0);
    assert_true(regs >= stats.misses + stats.uncached);
    if (!t.kind->changes)
        assert_int_equal(regs, stats.misses + stats.uncached);
    assert_int_equal(atomic_load(&pinning.deregs), regs);
    assert_true(stats.hits > 0);
    print_message("%llu gets, %llu hits, %llu misses, %llu uncached, %llu taken over\n",
                  atomic_load(&t.gets), (unsigned long long)stats.hits,
                  (unsigned long long)stats.misses, (unsigned long long)stats.uncached,
                  atomic_load(&t.reuses));
}

static void close_all(void)
{
    for (unsigned i = 0; i < HOLDS; i++)
        put(atomic_load(&t.holds[i]));
    assert_ok(hmreg_domain_flush(t.domain));
    assert_string_equal(pinning_complaint(), "");
    balance();
    assert_ok(hmreg_domain_close(t.domain));
    assert_ok(hmreg_close(t.lib));
    munmap(t.base, SLOTS * slot_len());
    if (pinning.ring)
        ring_close(pinning.ring);
    pinning.ring = NULL;
}

static void run(const struct kind *kind)
{
    struct worker workers[THREADS];
    unsigned long steps = setting("HMREG_TEST_OPS", test_times(kind->steps / PART));
    uint64_t seed = setting("HMREG_TEST_SEED", 1);
    pthread_t looker;

    open_all(kind);
    assert_int_equal(pthread_create(&looker, NULL, look_on, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.random = (seed + 1) * 0x9e3779b97f4a7c15u + i,
                                     .steps = steps / THREADS};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&t.over, true);
    pthread_join(looker, NULL);
    close_all();
}

TEST(watched__memory_changes__never_stale_and_limits_hold)
{
    const struct kind kind = {
        .monitor = kernel_monitor(), .changes = true, .max_regions = LIMIT, .steps = 400000};

    run(&kind);
}

TEST(watched__in_an_exact_domain__never_stale_and_limits_hold)
{
    const struct kind kind = {.monitor = kernel_monitor(),
                              .changes = true,
                              .flags = HMREG_DOMAIN_EXACT,
                              .max_regions = 2 * LIMIT,
                              .steps = 200000};

    run(&kind);
}

TEST(noticed__memory_changes__never_stale_and_limits_hold)
{
    static const struct kind kind = {.monitor = HMREG_MONITOR_USERFAULTFD,
                                     .notice = true,
                                     .changes = true,
                                     .max_regions = LIMIT,
                                     .steps = 200000};

    run(&kind);
}

TEST(hooked__memory_changes__never_stale_and_limits_hold)
{
    static const struct kind kind = {
        .monitor = HMREG_MONITOR_MEMHOOKS, .changes = true, .max_regions = LIMIT, .steps = 200000};

    run(&kind);
}

TEST(reported__memory_changes__never_stale_and_limits_hold)
{
    static const struct kind kind = {
        .monitor = HMREG_MONITOR_IMPORT, .changes = true, .max_regions = LIMIT, .steps = 400000};

    run(&kind);
}

TEST(reported__last_put__never_stale_and_limits_hold)
{
    static const struct kind kind = {.monitor = HMREG_MONITOR_IMPORT,
                                     .changes = true,
                                     .policy = HMREG_POLICY_LAST_PUT,
                                     .max_regions = LIMIT,
                                     .steps = 400000};

    run(&kind);
}

TEST(device__last_put__never_stale_and_limits_hold)
{
    static const struct kind kind = {.monitor = HMREG_MONITOR_DISABLED,
                                     .device = true,
                                     .changes = true,
                                     .policy = HMREG_POLICY_LAST_PUT,
                                     .max_regions = LIMIT,
                                     .steps = 400000};

    run(&kind);
}

TEST(device__memory_changes__never_stale_and_limits_hold)
{
    static const struct kind kind = {.monitor = HMREG_MONITOR_DISABLED,
                                     .device = true,
                                     .changes = true,
                                     .max_regions = LIMIT,
                                     .steps = 400000};

    run(&kind);
}

TEST(device__ends_are_reported__never_stale_and_limits_hold)
{
    static const struct kind kind = {.monitor = HMREG_MONITOR_DISABLED,
                                     .device = true,
                                     .reports = true,
                                     .changes = true,
                                     .max_regions = LIMIT,
                                     .steps = 400000};

    run(&kind);
}

TEST(quiet__nothing_changes__each_miss_registers_once)
{
    static const struct kind kind = {
        .monitor = HMREG_MONITOR_IMPORT, .max_regions = 3 * LIMIT, .steps = 400000};

    run(&kind);
}

/* ---- hits and ends at the same moment ---------------------------------------------------- */

#define HITS (1000000 / PART)

static void end_it(unsigned long how)
{
    if (how % 2)
        hmreg_domain_flush(t.domain);
    else
        hmreg_invalidate(t.lib, memory_of(0), 1);
}

/* Without pauses: the window between a pin and its check is short. */
static void *hit_on(void *arg)
{
    struct worker *worker = arg;
    struct hmreg_mr *mr;

    for (unsigned long i = 0; i < worker->steps && !*pinning_complaint(); i++) {
        if (draw(worker, 64) == 0)
            end_it(i);
        if (hmreg_mr_get(t.domain, memory_of(0), 100, HMREG_ACCESS_REMOTE, &mr)) {
            pinning_complain("get: %s", hmreg_last_error()->text);
            break;
        }
        atomic_fetch_add_explicit(&t.gets, 1, memory_order_relaxed);
        if (!atomic_load_explicit(&pinned_of(mr)->alive, memory_order_relaxed))
            pinning_complain("region %" PRIu64 " ended while in use", pinned_of(mr)->key);
        hmreg_mr_put(mr);
    }
    return NULL;
}

/* Memory does not change: each of two threads ends regions that the other may be about to use. */
static void race(enum hmreg_policy policy, unsigned long hits)
{
    struct kind kind = {
        .monitor = HMREG_MONITOR_IMPORT, .changes = true, .policy = policy, .max_regions = LIMIT};
    struct worker workers[2];

    open_all(&kind);
    pinning.keep = true;
    for (unsigned i = 0; i < 2; i++) {
        workers[i] = (struct worker){.random = 77 + i, .steps = hits};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, hit_on, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(workers[i].thread, NULL);
    close_all();
    pinning_reset();
}

TEST(hits__raced_by_ends__no_region_ends_in_use)
{
    race(HMREG_POLICY_KEEP, HITS);
}

TEST(hits__raced_by_last_puts__no_region_ends_in_use)
{
    race(HMREG_POLICY_LAST_PUT, HITS / 10); /* most of them register */
}

TEST_MAIN()
