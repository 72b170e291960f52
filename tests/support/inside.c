/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See inside.h.
 */
#include "tests/support/inside.h"

#include "core/base/error.h"
#include "core/base/fault_cause.h"
#include "core/base/life.h"
#include "core/base/lock_right.h"
#include "core/base/maps.h"
#include "core/base/memory_limit.h"
#include "core/base/process.h"
#include "core/base/reaper.h"
#include "core/base/thread.h"
#include "core/base/work.h"
#include "core/cache/cache_set.h"
#include "core/cache/get_slow.h"
#include "core/cache/room_text.h"
#include "core/context/context.h"
#include "core/context/domain.h"
#include "core/context/lost.h"
#include "core/context/resolve.h"
#include "core/context/runtimes.h"
#include "core/group/group.h"
#include "core/monitor/change/change_queue.h"
#include "core/monitor/change/sharing.h"
#include "core/monitor/memhooks/hook_arch.h"
#include "core/monitor/memhooks/hook_sites.h"
#include "core/monitor/memhooks/memhooks.h"
#include "core/monitor/userfaultfd/uffd.h"
#include "core/monitor/userfaultfd/watched.h"
#include "core/mr/explain.h"
#include "core/mr/room.h"
#include "core/patch/inlined.h"

#include <search.h>
#include <string.h>

_Static_assert(INSIDE_WORK_MOST == CACHE_WORK_MOST, "as the library has it");
_Static_assert(INSIDE_CUTS == CACHE_CUTS, "as the library has it");
_Static_assert(INSIDE_CHANGES == CHANGES_SIZE, "as the library has it");
_Static_assert(INSIDE_VIEWS == TLS_VIEWS, "as the library has it");
_Static_assert(INSIDE_LARGER == RANGE_LIST_MOST, "as the library has it");
_Static_assert(INSIDE_MAPPED == MAPPED_KNOWN, "as the library has it");
_Static_assert(INSIDE_STACK_BYTES == THREAD_STACK_BYTES, "as the library has it");
_Static_assert(INSIDE_WATCHED_LARGE == WATCHING_LARGE, "as the library has it");
_Static_assert(INSIDE_WATCHED_KEPT == WATCHING_KEPT, "as the library has it");
_Static_assert(INSIDE_COUNTS_CALLS == HOOK_COUNTS_CALLS, "as the library has it");
_Static_assert(INSIDE_CAUSE_BYTES == FAULT_CAUSE_BYTES, "as the library has it");
_Static_assert(INSIDE_IDLE_NS == REAPER_IDLE_NS, "as the library has it");

/* ---- the caches of a domain --------------------------------------------------------------- */

pthread_mutex_t *inside_lock(struct hmreg_domain *domain)
{
    return &domain->caches->pool.lock;
}

static unsigned variants;

static void count_variant(const void *node, VISIT which, int depth)
{
    variants += which == postorder || which == leaf;
}

unsigned inside_variants(struct hmreg_domain *domain)
{
    variants = 0;
    twalk(domain->caches->variants.tree, count_variant);
    return variants;
}

static struct hmreg_stats stats_of(struct cache *cache)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    cache_stats_sum(&cache->stats, &stats);
    return stats;
}

struct hmreg_stats inside_stats_of(struct hmreg_domain *domain, enum hmreg_iface iface, int device)
{
    return stats_of(cache_set_at(domain->caches, iface, device));
}

struct hmreg_stats inside_stats_with(struct hmreg_domain *domain, const struct hmreg_mr *mr)
{
    return stats_of(&domain->caches->caches[mr_body(mr)->cache]);
}

unsigned inside_entries(const struct hmreg_domain *domain)
{
    return __atomic_load_n(&domain->caches->pool.count, __ATOMIC_ACQUIRE);
}

unsigned inside_evictable(struct hmreg_domain *domain)
{
    return domain->caches->caches[HMREG_IFACE_SYSTEM].live.count;
}

const atomic_uint *inside_to_free(struct hmreg_domain *domain)
{
    return &domain->caches->pool.to_free.count;
}

bool inside_makes_room(struct hmreg_domain *domain)
{
    return atomic_load(&domain->caches->pool.wanting);
}

bool inside_has_changes(struct hmreg_domain *domain)
{
    return gate_is_queued(domain->caches->pool.thread_caches.gate);
}

void inside_drain(struct hmreg_domain *domain)
{
    cache_drain(&domain->caches->pool);
}

unsigned inside_flush(struct hmreg_domain *domain)
{
    return cache_set_flush(domain->caches);
}

bool inside_sweep(struct hmreg_domain *domain)
{
    struct cache_set *set = domain->caches;
    bool again;

    reaper_pause(&set->reaper);
    while (set->sweep.number)
        sweep_some(&set->sweep, &set->pool);
    sweep_expect(&set->sweep);
    while (sweep_some(&set->sweep, &set->pool))
        ;
    again = sweep_is_expected(&set->sweep);
    reaper_resume(&set->reaper);
    return again;
}

bool inside_shows_lost(const struct hmreg_domain *domain)
{
    return domain->caches->shown->lost;
}

void inside_mark_lost(struct hmreg_domain *domain, const char *why)
{
    lost_mark(domain, why);
}

/* ---- threads' tables ---------------------------------------------------------------------- */

static struct thread_cache *newest(const struct hmreg_domain *domain)
{
    return atomic_load(&domain->caches->pool.thread_caches.first);
}

bool inside_is_fenced(const struct hmreg_domain *domain)
{
    return domain->caches->pool.thread_caches.fenced;
}

unsigned inside_tables(const struct hmreg_domain *domain)
{
    unsigned tables = 0;

    for (const struct thread_cache *table = newest(domain); table; table = table->next)
        tables++;
    return tables;
}

size_t inside_table_size(const struct hmreg_domain *domain)
{
    const struct tls_view *view = &newest(domain)->view;

    return view->mask / sizeof(view->slots[0]) + 1;
}

uint32_t inside_table_used(const struct hmreg_domain *domain)
{
    return newest(domain)->used;
}

bool inside_asks(const struct hmreg_domain *domain, const struct hmreg_mr *mr)
{
    const struct pin_slot *slots = newest(domain)->view.pin_slots;

    return slots[pin_slot_number(mr->slot_offset)].check & THREAD_CACHE_OUT_OF_LINE;
}

unsigned inside_mapped(const struct hmreg_domain *domain, uint64_t start, uint64_t end)
{
    const struct thread_cache *table = newest(domain);
    unsigned times = 0;

    for (int i = 0; i < MAPPED_KNOWN; i++)
        times += table->mapped[i].start == start && table->mapped[i].end == end;
    return times;
}

static struct thread_cache *hidden;

void inside_hide_tables(struct hmreg_domain *domain)
{
    hidden = atomic_exchange(&domain->caches->pool.thread_caches.first, NULL);
}

void inside_show_tables(struct hmreg_domain *domain)
{
    atomic_store(&domain->caches->pool.thread_caches.first, hidden);
}

atomic_uint *inside_pins(const struct hmreg_domain *domain, const struct hmreg_mr *mr)
{
    return &pin_slot_at(tls_view_of(domain->serial)->pin_slots, mr->slot_offset)->pins;
}

bool inside_shares_slot(const struct hmreg_domain *domain, const void *one, const void *other)
{
    uint32_t differ =
        thread_cache_hash((uint64_t)(uintptr_t)one) ^ thread_cache_hash((uint64_t)(uintptr_t)other);

    return !(differ & tls_view_of(domain->serial)->mask);
}

uint32_t inside_sequence(const struct hmreg_mr *mr)
{
    return atomic_load(&mr->sequence);
}

void inside_use_last_sequence(struct hmreg_mr *mr)
{
    atomic_store(&mr->sequence, ~(uint32_t)THREAD_CACHE_NO_SEQUENCE);
}

bool inside_is_registered(const struct hmreg_mr *mr)
{
    return mr_body(mr)->registered;
}

struct hmreg_mr *inside_hit(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr)
{
    return get_hit(domain, attr);
}

struct hmreg_mr *inside_remembered_in_slot(struct hmreg_domain *domain, const void *addr,
                                           size_t len, uint64_t access)
{
    static struct variant variant; /* its address counts */
    struct cache_want want = {.access = access, .variant = &variant};

    want.start = (uint64_t)(uintptr_t)addr ^ variant_salt(&variant);
    want.end = want.start + len;
    return get_remembered(domain, &want);
}

/* ---- the monitor -------------------------------------------------------------------------- */

void inside_set_reading(struct hmreg_domain *domain, bool reading)
{
    atomic_uint *state = &domain->caches->pool.thread_caches.gate->state;

    if (reading)
        atomic_fetch_or(state, GATE_READING);
    else
        atomic_fetch_and(state, ~GATE_READING);
}

void inside_count_by(struct hmreg_domain *domain, const uint64_t *made)
{
    static struct gate_counts counts;

    counts.made = made;
    atomic_store(&counts.read, 0);
    gate_count_by(domain->caches->pool.thread_caches.gate, made ? &counts : NULL);
}

bool inside_tidy(struct hmreg *lib)
{
    return monitor_tidy(lib->monitor);
}

void inside_set_tries(unsigned tries)
{
    userfault_set_tries(tries);
}

bool inside_is_short(struct hmreg *lib)
{
    return monitor_is_short(lib->monitor);
}

void inside_answered(struct hmreg *lib, int code)
{
    monitor_asked(lib->monitor, code);
}

enum hmreg_monitor inside_shown_monitor(const struct hmreg *lib)
{
    return (enum hmreg_monitor)lib->stats_page.page->header.monitor;
}

const char *inside_shown_why(const struct hmreg *lib)
{
    return lib->stats_page.page->header.monitor_why;
}

bool inside_forget_at_fork(void (*forget)(void))
{
    return sharing_starts(forget);
}

/* ---- its userfaultfd ---------------------------------------------------------------------- */

int inside_uffd_open(bool by_name, int *fd)
{
    struct owned_fd file;
    int rc = uffd_open(by_name, &file);

    if (!rc)
        *fd = file.fd;
    return rc;
}

int inside_uffd_watch(int fd, uint64_t start, uint64_t end)
{
    return uffd_watch(fd, start, end);
}

int inside_uffd_ask(int fd, uint64_t at)
{
    return uffd_ask_watched(fd, at, (uint64_t)sysconf(_SC_PAGESIZE));
}

bool inside_uffd_is_exact(uint64_t features, const char *release)
{
    return uffd_is_exact(features, release);
}

/* ---- its hooks ---------------------------------------------------------------------------- */

uint64_t inside_hook_calls(void)
{
    return memhooks_calls();
}

uint64_t inside_hook_loads(void)
{
    return memhooks_loads();
}

bool inside_is_quiet(void)
{
    uint64_t when;

    return memhooks_is_quiet(&when);
}

bool inside_counts_agree(void)
{
    const struct hook_state *hooks = hook_state_get();
    uint64_t ended = atomic_load(&hooks->ended);

    return ended <= atomic_load(&hooks->begun);
}

_Atomic uint64_t *inside_hooks(void)
{
    return &hook_state_get()->inside;
}

const char *inside_inlined(const uint8_t *code, size_t size, size_t *at)
{
    struct inlined_call call = {NULL, NULL};

    if (!inlined_next(code, code + size, &call))
        return NULL;
    *at = (size_t)(call.at - code);
    return call.name;
}

int inside_hook_sites(void)
{
    struct hook_sites sites;
    int rc = hook_sites_find(&sites);

    return rc ? rc : (int)sites.count;
}

/* ---- the library's own thread ------------------------------------------------------------- */

bool inside_thread_runs(void)
{
    return reaper_runs();
}

void inside_thread_rest(void)
{
    reaper_rest();
}

void inside_thread_wake(void)
{
    reaper_wake();
}

void inside_set_idle(int64_t ns)
{
    reaper_set_idle(ns);
}

void inside_pause(struct hmreg_domain *domain)
{
    reaper_pause(&domain->caches->reaper);
}

void inside_resume(struct hmreg_domain *domain)
{
    reaper_resume(&domain->caches->reaper);
}

void inside_may_retry(struct hmreg_domain *domain)
{
    atomic_store(&domain->caches->retry_at, 1);
}

struct gate *inside_gate(struct hmreg_domain *domain)
{
    return domain->caches->pool.thread_caches.gate;
}

bool inside_is_noticed(const struct gate *gate)
{
    return atomic_load(&gate->sources) != 0;
}

void inside_settle(struct hmreg_domain *domain)
{
    hmreg_domain_settle(domain);
}

static struct inside_client tests;

#define CALL(name)                                                                                 \
    static bool name(struct reaper_client *client)                                                 \
    {                                                                                              \
        return tests.name && tests.name();                                                         \
    }
CALL(is_due)
CALL(examine)
CALL(reap)
CALL(tidy)
CALL(recurs)
CALL(recur)
CALL(sheds)
CALL(shed)

static struct reaper_client client;

bool inside_join(const struct inside_client *from, bool paused)
{
    tests = *from;
    client = (struct reaper_client){.is_due = is_due,
                                    .examine = examine,
                                    .reap = reap,
                                    .tidy = tidy,
                                    .recurs = recurs,
                                    .recur = recur,
                                    .sheds = sheds,
                                    .shed = shed};
    if (paused)
        reaper_pause(&client);
    return reaper_join(&client);
}

void inside_resume_client(void)
{
    reaper_resume(&client);
}

void inside_leave(void)
{
    reaper_leave(&client);
}

/* ---- what else ---------------------------------------------------------------------------- */

void inside_set_names(struct hmreg_domain *domain, const char *fabric, const char *nic)
{
    if (fabric)
        strncpy(domain->caps.fabric, fabric, sizeof(domain->caps.fabric) - 1);
    if (nic)
        strncpy(domain->caps.nic, nic, sizeof(domain->caps.nic) - 1);
}

void inside_set_pinning(struct hmreg_domain *domain, bool pins)
{
    domain->caps.pins = pins;
}

void inside_set_caching(struct hmreg_domain *domain)
{
    domain->caps.caches = true;
}

void inside_set_options(struct hmreg_domain *domain)
{
    domain->caps.orderings = domain->caps.on_demand = UINT32_MAX;
    domain->caps.iova = true;
    domain->caps.mr_mode |= HMREG_MR_VIRT_ADDR;
}

void inside_ask_vendors(struct hmreg *lib)
{
    atomic_store(&lib->runtimes.vendors, true);
}

static bool (*compare_by)(uint64_t addr, size_t len, uint64_t identity);

static bool is_same(struct hmem *self, uint64_t addr, size_t len, uint64_t identity)
{
    return compare_by(addr, len, identity);
}

void inside_compare_by(struct hmreg *lib, enum hmreg_iface iface,
                       bool (*compare)(uint64_t addr, size_t len, uint64_t identity))
{
    static struct hmem_ops compares;
    struct runtime *runtime = runtimes_named(&lib->runtimes, iface);

    compare_by = compare;
    compares = *runtime->ops;
    compares.is_same = is_same;
    runtime->ops = &compares;
}

bool inside_is_same(struct hmreg *lib, enum hmreg_iface iface, uint64_t start, uint64_t end,
                    uint64_t identity)
{
    return resolve_is_same(lib, iface, start, end, identity);
}

void inside_add_traffic(int more)
{
    atomic_fetch_add(&room_counts()->traffic, (unsigned)more);
}

bool inside_steps(unsigned long *steps)
{
#ifdef NDEBUG
    return false;
#else
    *steps = work_counted;
    return true;
#endif
}

size_t inside_domain_size(void)
{
    return sizeof(struct hmreg_domain);
}

bool inside_any_thread(const struct hmreg_domain *domain)
{
    return domain->caps.any_thread;
}

bool inside_keeps_keys(const struct hmreg_domain *domain)
{
    return domain->keys.used != NULL;
}

bool inside_is_replacing(const struct hmreg_domain *group)
{
    return group_is_replacing(group->group);
}

void inside_keep_refusal(void)
{
    explain_keep(HMREG_IFACE_SYSTEM, -1, NULL, 0);
}

bool inside_may_lock(void)
{
    return lock_right_exempts();
}

bool inside_find_cause(const struct iovec *iov, size_t count, bool written, char *text)
{
    return hmreg_fault_cause(iov, count, written, text);
}

bool inside_keeps_list(void)
{
    struct owned_fd list = maps_keep();
    bool keeps = list.fd >= 0;

    owned_fd_close(&list);
    return keeps;
}

void inside_read_list_as_text(void)
{
    maps_read_only();
}

uint64_t inside_memory_limit(const char *root, const char **what)
{
    struct memory_limit limit = memory_limit_read(root);

    *what = limit.what;
    return limit.bytes;
}

/* ---- lives -------------------------------------------------------------------------------- */

uint64_t inside_life(void)
{
    return life_number();
}

bool inside_is_same_process(uint64_t one, uint64_t other)
{
    return life_is_of_same_process(one, other);
}

uint64_t inside_epoch(void)
{
    return process_epoch_start();
}

bool inside_is_epoch(uint64_t epoch)
{
    return process_is(epoch);
}

int inside_fail(int code, const char *text)
{
    return hmreg_fail(code, "%s", text);
}
