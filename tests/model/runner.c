/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See runner.h.
 */
#include "tests/support/kernel_monitor.h"
#include "tests/model/runner.h"

#include "core/base/reaper.h"
#include "core/cache/cache_set.h" /* no public call shows whether attributes are left */
#include "core/context/context.h"
#include "tests/model/call.h"
#include "tests/model/oracle.h"
#include "tests/model/remote.h"
#include "tests/model/told.h"
#include "tests/model/world.h"
#include "tests/support/pinning.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

#define COMPARE_EVERY 16 /* steps */
#define BYTES         8  /* of a peer's access, at most */
#define LISTED        4  /* of the repeated ranges: the second ones of lists */

struct hold {
    struct hmreg_mr *mr; /* NULL: unused */
    struct pinned *region;
    struct oracle_want want;
};

static struct {
    const struct plan *plan;
    struct runner_record *record;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hold holds[PLAN_HOLDS];
    uint64_t evictions; /* seen so far */
    uint64_t causes[3]; /* of them, by CODES below */
    uint64_t failures;  /* gets that failed with their registration */
} t;

void oracle_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(t.record->wrong, sizeof(t.record->wrong), format, args);
    va_end(args);
    _exit(2);
}

static void must(int rc, const char *call)
{
    if (rc)
        oracle_fail("%s = %d: %s", call, rc, hmreg_last_error()->text);
}
#define MUST(call) must(call, #call)

static void check_complaints(void)
{
    if (*pinning_complaint())
        oracle_fail("%s", pinning_complaint());
}

/* ---- counters --------------------------------------------------------------------------- */

static struct hmreg_stats stats_now(void)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    MUST(hmreg_domain_stats(t.domain, &stats));
    return stats;
}

static uint64_t new_evictions(void)
{
    uint64_t before = t.evictions;

    t.evictions = stats_now().evictions;
    return t.evictions - before;
}

/* When munmap(2) returns, the monitor may have read the event but not yet delivered it: a get would
 * wait for that, the counters do not. */
static void compare_counters(void)
{
    struct hmreg_stats stats;
    const char *wrong;

    if (!monitor_sync(t.lib->monitor))
        oracle_fail("the monitor does not read the kernel's events");
    stats = stats_now();
    wrong = oracle_compare(&stats);
    if (wrong)
        oracle_fail("%s", wrong);
    if (stats.evictions != t.evictions)
        oracle_fail("%" PRIu64 " regions were evicted for no miss", stats.evictions - t.evictions);
    if (stats.failures != t.failures)
        oracle_fail("%" PRIu64 " failures are counted, not %" PRIu64, stats.failures, t.failures);
}

/* Errors that eviction can cure. */
static const int cured[] = {-ENOMEM, -ENOSPC, -HMREG_ENOKEY};

static bool is_cured(int code)
{
    return code == cured[0] || code == cured[1] || code == cured[2];
}

/* Each eviction has one cause: a limit, or the code that the fabric answered within this get. */
static void judge_causes(int code)
{
    const struct hmreg_stats stats = stats_now();
    const uint64_t now[] = {stats.evicted_memory, stats.evicted_room, stats.evicted_keys};

    if (stats.evictions != stats.evicted_limit + now[0] + now[1] + now[2])
        oracle_fail("the causes of all evictions do not add up");
    for (int i = 0; i < 3; i++) {
        if (now[i] != t.causes[i] && cured[i] != code)
            oracle_fail("evictions for error %d, which the fabric did not answer", -cured[i]);
        t.causes[i] = now[i];
    }
}

/* ---- gets ------------------------------------------------------------------------------- */

static unsigned area_of(unsigned number)
{
    const struct plan_kind *kind = t.plan->kind;

    if (!kind->devices || (kind->host && number % 8 < 5))
        return 0;
    return 1 + number / 8 % (WORLD_AREAS - 1);
}

/* A byte range of an area, of a few pages at most. */
static void some_range(unsigned area, const struct step *from, uint64_t *start, uint64_t *end)
{
    uint64_t bytes = world[area].pages * world_page(), room, len;

    *start = from->b % bytes;
    room = bytes - *start;
    len = 1 + from->c % (from->c % 3 ? 3 * world_page() : 100);
    *start += (uint64_t)(uintptr_t)world[area].base;
    *end = *start + (len < room ? len : room);
}

static struct oracle_want want_of(const struct step *step)
{
    static const uint64_t rights[] = {HMREG_ACCESS_REMOTE, HMREG_REMOTE_READ, HMREG_ACCESS_ALL};
    const struct step *from = step;
    struct oracle_want want = {.area = 0};

    if (step->b % 100 < 85)
        from = &t.plan->ranges[step->b / 100 % PLAN_RANGES];
    want.area = area_of(from->a);
    want.access = rights[step->c % 16 < 14 ? 0 : step->c % 16 - 13];
    some_range(want.area, from, &want.start, &want.end);
    call_form(t.plan, step->form, &want);
    if (call_is_list(&want, step->form))
        some_range(want.area, &t.plan->ranges[step->form / 256 % LISTED], &want.next_start,
                   &want.next_end);
    return want;
}

static bool is_there(const struct oracle_want *want)
{
    const struct area *area = &world[want->area];

    return world_there(area, want->start, want->end) &&
           (!want->next_end || world_there(area, want->next_start, want->next_end));
}

/* The application's notice comes while the memory is being registered. */
static struct {
    uint64_t start;
    bool done;
} notice;

static void give_notice(const struct provider_request *request)
{
    if (notice.done)
        return;
    notice.done = true;
    notice.start = (uint64_t)(uintptr_t)request->iov[0].iov_base;
    MUST(hmreg_invalidate(t.lib, request->iov[0].iov_base, 1));
}

static void hear_notice(const struct oracle_want *want)
{
    if (notice.done)
        oracle_invalidated_meanwhile(want, notice.start, notice.start + 1);
}

/* Unmapped memory: the get fails, and changes nothing. An unmapped device address would be the
 * host's here. */
static void get_nothing(const struct oracle_want *want, uint32_t form)
{
    struct hmreg_mr *untouched = (struct hmreg_mr *)&t, *mr = untouched;
    unsigned before = atomic_load(&pinning.regs);
    bool at_once;
    int rc;

    if (want->area)
        return;
    rc = call_get(t.domain, want, form, &mr, &at_once);
    t.failures++;
    if (rc != -EFAULT || mr != untouched || atomic_load(&pinning.regs) != before)
        oracle_fail("a get of memory that is not there answers %d", rc);
    hear_notice(want);
    oracle_get_failed(want, new_evictions(), false);
}

static void check_info(const struct oracle_want *want, const struct hmreg_mr_info *info)
{
    if (info->addr > want->start || (!want->next_end && info->addr + info->len < want->end) ||
        want->access & ~info->access)
        oracle_fail("the region's bounds or rights are not those that were asked for");
    if (want->ends && info->policy != HMREG_POLICY_LAST_PUT)
        oracle_fail("the region's policy is not the one that was asked for");
}

/* Of one get: a region that changes while it is registered is discarded. The kernel module counts
 * what the kernel does by itself, too; after two the get is served uncached. */
static unsigned most_registrations(void)
{
    if (kernel_monitor() == HMREG_MONITOR_COUNTER)
        return 3;
    return notice.done ? 2 : 1;
}

static void judge_get(struct hold *hold, unsigned regs_before, unsigned failures)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    unsigned regs = atomic_load(&pinning.regs) - regs_before;
    struct oracle_seen seen = {.region = hold->region, .registered = regs > 0};

    told_get(hold->mr, regs);
    MUST(hmreg_mr_query(hold->mr, &info));
    check_info(&hold->want, &info);
    if (regs > most_registrations())
        oracle_fail("%u registrations for one get", regs);
    seen.cached = info.cached;
    seen.evictions = regs ? new_evictions() : 0;
    seen.others_evicted_too = failures;
    if (notice.done && regs == 1 && info.cached)
        oracle_fail("invalidated while it was registered, and remembered all the same");
    atomic_fetch_add_explicit(&t.record->gets, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t.record->hits, !regs, memory_order_relaxed);
    hear_notice(&hold->want);
    if (regs) /* a get alone may deregister a few */
        MUST(hmreg_domain_progress(t.domain));
    oracle_get(&hold->want, &seen);
}

/* The caller receives the fabric's error after one attempt, unless eviction could help. */
static void judge_failure(const struct oracle_want *want, int rc, int expected, unsigned failures)
{
    t.failures++;
    if (!failures || rc != expected)
        oracle_fail("get = %d: %s", rc, hmreg_last_error()->text);
    if (!is_cured(expected) && failures != 1)
        oracle_fail("a registration that failed with %d was tried %u times", rc, failures);
    oracle_get_failed(want, new_evictions(), is_cured(expected));
}

static void put(struct hold *hold, uint32_t form)
{
    uint64_t key;

    if (!hold->mr)
        return;
    key = hold->region->key;
    pinned_unuse(hold->region);
    call_put(hold->mr, form);
    hold->mr = NULL;
    oracle_put(key);
}

static void get(const struct step *step, int code)
{
    struct hold *hold = &t.holds[step->a % PLAN_HOLDS];
    unsigned regs = atomic_load(&pinning.regs), failures = atomic_load(&pinning.failures);
    bool at_once;
    int rc;

    put(hold, step->form);
    hold->want = want_of(step);
    if (!is_there(&hold->want)) {
        atomic_store(&pinning.reg_times, 0);
        get_nothing(&hold->want, step->form);
        return;
    }
    rc = call_get(t.domain, &hold->want, step->form, &hold->mr, &at_once);
    failures = atomic_load(&pinning.failures) - failures;
    atomic_fetch_add_explicit(&t.record->at_once, at_once, memory_order_relaxed);
    judge_causes(code);
    if (rc) {
        hold->mr = NULL;
        judge_failure(&hold->want, rc, code, failures);
        return;
    }
    hold->region = pinned_of(hold->mr);
    pinned_use(hold->region);
    judge_get(hold, regs, failures);
}

static void get_fails(const struct step *step)
{
    static const int codes[] = {-ENOMEM, -EINVAL, -EIO, -ENOMEM, -ENOSPC, -HMREG_ENOKEY};
    int code = codes[step->c / 16 % 6];

    atomic_store(&pinning.reg_code, code);
    atomic_store(&pinning.reg_times, 1);
    get(step, code);
    atomic_store(&pinning.reg_times, 0);
}

static void get_invalidated(const struct step *step)
{
    pinning.reg_hook = give_notice;
    get(step, 0);
    pinning.reg_hook = NULL;
    notice.done = false;
}

/* ---- peers ------------------------------------------------------------------------------ */

/* Is this byte of the request unchanged since the registration, and not part of a tag? */
static bool may_touch(const struct hold *hold, uint64_t at)
{
    const struct area *area = &world[hold->want.area];
    uint64_t page = at & ~(uint64_t)(world_page() - 1);

    return at < hold->want.end && at - page >= sizeof(uint64_t) && world_there(area, at, at + 1) &&
           world_tag(area, at) == pinned_tag(hold->region, at);
}

/* A peer writes to the region, and the test finds the bytes in the memory; then the peer reads. */
static void peer(const struct step *step)
{
    const struct hold *hold = &t.holds[step->a % PLAN_HOLDS];
    uint64_t at, len = 0;
    char out[BYTES], in[BYTES];

    if (!hold->mr || hold->want.attributes || !remote_reaches()) /* the peer has no such auth key */
        return;
    at = hold->want.start + step->b % (hold->want.end - hold->want.start);
    while (len < BYTES && may_touch(hold, at + len))
        len++;
    if (!len)
        return;
    memset(out, (int)step->c, sizeof(out));
    if (hold->want.access & HMREG_REMOTE_WRITE) {
        MUST(remote_write(hold->mr, at, out, len));
        if (memcmp((void *)(uintptr_t)at, out, len))
            oracle_fail("what a peer wrote to the region is not in the memory");
    }
    MUST(remote_read(hold->mr, at, in, len));
    if (memcmp((void *)(uintptr_t)at, in, len))
        oracle_fail("what a peer read from the region is not what the memory has");
}

/* ---- changes ---------------------------------------------------------------------------- */

static uint64_t page_address(const struct area *area, unsigned page)
{
    return (uint64_t)(uintptr_t)area->base + page * world_page();
}

static bool may_change(unsigned first, unsigned count)
{
    return !oracle_keeps(0, page_address(&world[0], first), page_address(&world[0], first + count));
}

/* A range of host pages. */
static bool some_pages(const struct step *step, unsigned *first, unsigned *count)
{
    *count = 1 + step->a % 4;
    *first = step->b % (WORLD_PAGES - *count + 1);
    return may_change(*first, *count);
}

/* An application that reports changes itself does so before it frees. */
static void tell_host(unsigned first, unsigned count)
{
    uint64_t start = page_address(&world[0], first), end = page_address(&world[0], first + count);

    if (t.plan->kind->monitor == HMREG_MONITOR_IMPORT) {
        MUST(hmreg_invalidate(t.lib, (void *)(uintptr_t)start, (size_t)(end - start)));
        oracle_invalidated(start, end);
    }
}

static void host_changed(unsigned first, unsigned count)
{
    oracle_changed(0, page_address(&world[0], first), page_address(&world[0], first + count));
}

static void map(const struct step *step)
{
    unsigned first, count;

    if (!some_pages(step, &first, &count))
        return;
    tell_host(first, count);
    world_map(first, count);
    host_changed(first, count);
}

static void unmap(const struct step *step)
{
    unsigned first, count;

    if (!some_pages(step, &first, &count))
        return;
    tell_host(first, count);
    world_unmap(first, count);
    host_changed(first, count);
}

static bool all_there(unsigned first, unsigned count)
{
    return world_there(&world[0], page_address(&world[0], first),
                       page_address(&world[0], first + count));
}

static void drop(const struct step *step)
{
    unsigned first, count;

    if (!some_pages(step, &first, &count) || !all_there(first, count))
        return;
    tell_host(first, count);
    world_drop(first, count);
    host_changed(first, count);
}

/* mremap() moves one mapping only: a single page surely is of one. */
static void move(const struct step *step)
{
    unsigned first = step->a % WORLD_PAGES, to = step->b % WORLD_PAGES;

    if (first == to || !all_there(first, 1) || !may_change(first, 1) || !may_change(to, 1) ||
        world_may_be_huge(first) || world_may_be_huge(to))
        return;
    tell_host(first, 1);
    tell_host(to, 1);
    world_move(first, 1, to);
    host_changed(first, 1);
    host_changed(to, 1);
}

static void free_device(const struct step *step, bool again)
{
    struct area *area = &world[1 + step->a % (WORLD_AREAS - 1)];
    unsigned segment = step->b % (area->pages / WORLD_SEGMENT), first = segment * WORLD_SEGMENT;
    uint64_t start = page_address(area, first), end = page_address(area, first + WORLD_SEGMENT);

    if (t.plan->kind->notice) {
        MUST(hmreg_invalidate(t.lib, (void *)(uintptr_t)start, (size_t)(end - start)));
        oracle_invalidated(start, end);
    } else if (area->tags[first] && world_reports(area)) {
        oracle_invalidated(start, end);
    }
    if (area->tags[first])
        world_free(area, segment);
    if (again)
        world_alloc(area, segment);
    oracle_betrayed((unsigned)(area - world), start, end);
}

static void invalidate(const struct step *step)
{
    struct oracle_want want = want_of(step);

    MUST(hmreg_invalidate(t.lib, (void *)(uintptr_t)want.start, (size_t)(want.end - want.start)));
    oracle_invalidated(want.start, want.end);
}

static void flush(void)
{
    bool busy = atomic_load(&pinning.busy_times) > 0;

    MUST(hmreg_domain_flush(t.domain));
    oracle_flushed(busy);
}

/* ---- forks ------------------------------------------------------------------------------ */

/* In the child. 0, or the step that failed. */
static int live_as_a_child(const struct hold *held)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_mr *untouched = (struct hmreg_mr *)&t, *mr = untouched;
    unsigned alive = atomic_load(&pinning.alive);
    struct hmreg *lib;
    char memory[100];

    pinning.ring = NULL; /* the parent's ring */
    pinning.tags = false;
    pinning.dereg_hook = NULL;
    atomic_store(&pinning.busy_times, 0);
    if (hmreg_mr_get(t.domain, world[0].base, 1, HMREG_SEND, &mr) != -EPERM || mr != untouched)
        return 1;
    hmreg_mr_put(held->mr);
    if (hmreg_domain_flush(t.domain) != -EPERM || hmreg_domain_close(t.domain) != -EPERM ||
        hmreg_invalidate(t.lib, world[0].base, 1) != -EPERM || hmreg_close(t.lib) != -EPERM)
        return 2;
    if (atomic_load(&pinning.alive) != alive)
        return 3;
    if (hmreg_open(&config, &lib) || pinning_open(lib, NULL, &t.domain) ||
        hmreg_mr_get(t.domain, memory, sizeof(memory), HMREG_SEND, &mr))
        return 4;
    hmreg_mr_put(mr);
    return hmreg_domain_close(t.domain) || hmreg_close(lib) ? 5 : 0;
}

static void do_fork(const struct step *step)
{
    int status = -1;
    pid_t child = test_fork();

    if (child == 0)
        _exit(live_as_a_child(&t.holds[step->a % PLAN_HOLDS]));
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        oracle_fail("a forked child went wrong: status %#x", status);
    atomic_fetch_add(&t.record->forks, 1);
}

/* ---- steps ------------------------------------------------------------------------------ */

static void take_step(const struct step *step)
{
    switch ((enum act)step->act) {
    case ACT_GET:
        get(step, 0);
        break;
    case ACT_GET_FAILS:
        get_fails(step);
        break;
    case ACT_GET_INVALIDATED:
        get_invalidated(step);
        break;
    case ACT_PUT:
        put(&t.holds[step->a % PLAN_HOLDS], step->form);
        break;
    case ACT_PEER:
        peer(step);
        break;
    case ACT_MAP:
        map(step);
        break;
    case ACT_UNMAP:
        unmap(step);
        break;
    case ACT_DROP:
        drop(step);
        break;
    case ACT_MOVE:
        move(step);
        break;
    case ACT_FREE:
    case ACT_LEAVE:
        free_device(step, step->act == ACT_FREE);
        break;
    case ACT_INVALIDATE:
        invalidate(step);
        break;
    case ACT_FLUSH:
        flush();
        break;
    case ACT_BUSY:
        atomic_store(&pinning.busy_times, (int)(step->a % 4));
        oracle_busy();
        break;
    case ACT_FORK:
        do_fork(step);
        break;
    case ACT_RENEW:
    case ACT_COUNT:
        break;
    }
}

/* ---- threads ---------------------------------------------------------------------------- */

static struct {
    pthread_t thread[PLAN_THREADS];
    sem_t turn[PLAN_THREADS];
    sem_t over;
    unsigned next;  /* step */
    unsigned ended; /* thread */
} players;

static unsigned next_kept(unsigned from)
{
    while (from < t.plan->count && !t.plan->keep[from])
        from++;
    return from;
}

static void one_step(const struct step *step)
{
    atomic_store_explicit(&t.record->step, (unsigned)(step - t.plan->steps), memory_order_relaxed);
    atomic_fetch_add_explicit(&t.record->steps, 1, memory_order_relaxed);
    take_step(step);
    check_complaints();
    if ((step - t.plan->steps) % COMPARE_EVERY == 0)
        compare_counters();
}

/* Runs its steps of the plan. Returns whether the thread ends before the next. */
static bool take_steps(unsigned self)
{
    bool ends = false;

    while (players.next < t.plan->count && t.plan->steps[players.next].thread == self && !ends) {
        const struct step *step = &t.plan->steps[players.next];

        one_step(step);
        players.next = next_kept(players.next + 1);
        ends = step->act == ACT_RENEW;
    }
    return ends || players.next == t.plan->count;
}

static void pass_on(void)
{
    sem_post(&players.turn[t.plan->steps[players.next].thread]);
}

static void *player(void *arg)
{
    unsigned self = (unsigned)(uintptr_t)arg;

    for (;;) {
        while (sem_wait(&players.turn[self]))
            ;
        if (players.next == t.plan->count)
            return NULL;
        if (take_steps(self))
            break;
        pass_on();
    }
    players.ended = self;
    sem_post(&players.over);
    return NULL;
}

static void start_player(unsigned self)
{
    if (pthread_create(&players.thread[self], NULL, player, (void *)(uintptr_t)self))
        oracle_fail("no thread to play with");
}

static void start_players(void)
{
    sem_init(&players.over, 0, 0);
    for (unsigned i = 0; i < t.plan->threads; i++) {
        sem_init(&players.turn[i], 0, 0);
        start_player(i);
    }
}

/* Wakes the threads that wait for a turn after the last step. */
static void end_players(unsigned ended)
{
    for (unsigned i = 0; i < t.plan->threads; i++) {
        if (i == ended)
            continue;
        sem_post(&players.turn[i]);
        pthread_join(players.thread[i], NULL);
    }
}

/* A thread that ends before the last step is replaced. */
static void run_players(void)
{
    players.next = next_kept(0);
    if (players.next == t.plan->count)
        return;
    start_players();
    for (;;) {
        pass_on();
        while (sem_wait(&players.over))
            ;
        pthread_join(players.thread[players.ended], NULL);
        if (players.next == t.plan->count)
            break;
        start_player(players.ended);
    }
    end_players(players.ended);
}

/* ---- episodes --------------------------------------------------------------------------- */

static void set_limit(const char *name, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    if (value == HMREG_LIMIT_NONE)
        unsetenv(name);
    else
        setenv(name, text, 1);
}

static void open_all(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = t.plan->kind->monitor};
    struct hmreg_domain_config domain = {.size = sizeof(domain),
                                         .flags = t.plan->flags,
                                         .rights = t.plan->rights,
                                         .policy = t.plan->policy,
                                         .max_regions = t.plan->max_regions,
                                         .max_bytes = t.plan->max_bytes};
    enum hmreg_check check = t.plan->kind->notice ? HMREG_CHECK_NOTICE : HMREG_CHECK_ALWAYS;
    struct hmreg_domain_info info = {.size = sizeof(info)};

    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        domain.check[i] = check;
    told_open(&domain);
    /* Each ten seconds the library's thread ends regions whose memory has ended without a report.
     * An episode takes as long in an emulator, or on a machine that is busy. */
    reaper_set_idle(INT64_MAX / 2);
    world_open((unsigned)((t.plan->seed + t.plan->episode) % 8)); /* each combination in turn */
    set_limit("HMREG_CACHE_MAX_COUNT", t.plan->all_regions);
    set_limit("HMREG_CACHE_MAX_SIZE", t.plan->all_bytes);
    MUST(hmreg_open(&config, &t.lib));
    set_limit("HMREG_CACHE_MAX_COUNT", HMREG_LIMIT_NONE);
    set_limit("HMREG_CACHE_MAX_SIZE", HMREG_LIMIT_NONE);
    MUST(remote_open_domain(t.plan->kind->fabric, t.lib, &domain, &t.domain));
    MUST(hmreg_domain_query(t.domain, &info));
    oracle_limits(info.max_regions, info.max_bytes);
}

/* Nothing changes. */
static void close_while_held(void)
{
    bool held = false;

    for (unsigned i = 0; i < PLAN_HOLDS; i++)
        held |= t.holds[i].mr != NULL;
    if (held && hmreg_domain_close(t.domain) != -EBUSY)
        oracle_fail("a domain was closed while its regions were held");
    compare_counters();
}

static void close_all(void)
{
    atomic_store(&pinning.busy_times, 0);
    close_while_held();
    for (unsigned i = 0; i < PLAN_HOLDS; i++)
        put(&t.holds[i], 0);
    flush();
    compare_counters();
    if (t.domain->caches->variants.tree)
        oracle_fail("attributes are left without regions");
    MUST(remote_close_domain(t.domain));
    MUST(hmreg_close(t.lib));
    if (atomic_load(&pinning.alive) || atomic_load(&pinning.regs) != atomic_load(&pinning.deregs))
        oracle_fail("%u regions were never deregistered", atomic_load(&pinning.alive));
    check_complaints();
    world_close();
}

static void on_dereg(const struct pinned *region)
{
    told_deregistered(region);
    oracle_deregistered(region);
}

void play(const struct plan *plan, struct runner_record *record)
{
    memset(&t, 0, sizeof(t));
    t.plan = plan;
    t.record = record;
    atomic_store(&record->episode, plan->episode);
    atomic_store(&record->step, PLAN_STEPS);
    pinning_reset();
    pinning.tags = true;
    pinning.dereg_hook = on_dereg;
    oracle_open(plan);
    open_all();
    run_players();
    atomic_store(&record->step, PLAN_STEPS);
    close_all();
}
