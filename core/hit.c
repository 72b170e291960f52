/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_mr_get() and hmreg_mr_put() where nothing stands in the way: a hit reads what its thread
 * remembers, pins the entry in a cell of its own, and only then looks whether the entry is still
 * what it was. No lock, no fence, no line that another thread writes but at a miss. What fails here
 * goes the whole way in get.c.
 *
 * The order: pin; `sure`; the entry's sequence. Who takes an entry away makes its sequence even,
 * passes a barrier in every thread, and adds up the pins. So either the sum has this pin, or this
 * thread sees the new sequence. `sure` comes before the sequence, since the monitor is sure again
 * only after it has made them even.
 */
#include "core/cache_set.h"
#include "core/error.h"
#include "core/validate.h"

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* Each thread writes its own cells only: no read-modify-write is needed. */
static inline void add_to(atomic_uint *own, unsigned value, memory_order order)
{
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + value, order);
}

static inline void stamp(const struct hot *hot, struct cell *cell)
{
    atomic_store_explicit(&cell->stamp,
                          atomic_load_explicit(&hot->pulse->clock, memory_order_relaxed),
                          memory_order_relaxed);
}

/* Between the change of a pin and the look at the entry. Pairs with barrier_everywhere(). */
static inline void fence(const struct hot *hot)
{
    if (unlikely(hot->fenced))
        barrier_here();
    barrier_compiler();
}

/* ---- put -------------------------------------------------------------------------------- */

/* A pin has been taken back that may have been the last of an entry that is not served. */
static __attribute__((noinline)) void put_last(const struct hot *hot, struct hmreg_mr *mr)
{
    /* Not mr->domain: the entry may be another's already. */
    struct cache_set *set = cache_set_of(hot->set);
    struct cache_entry *gone;

    if (!process_is(set->domain->lib->epoch))
        return;
    cache_set_reap(set);
    gone = cache_released(&set->pool, (struct cache_entry *)mr);
    if (gone)
        cache_set_end(set, gone);
}

static inline uint32_t sequence_of(const struct hmreg_mr *mr)
{
    /* Acquire: pairs with the release when the entry became what it is. */
    return atomic_load_explicit(&mr->sequence, memory_order_acquire);
}

static inline void unpin(const struct hot *hot, struct cell *cell, struct hmreg_mr *mr)
{
    /* Release: what the user did is done before who adds up finds this. */
    add_to(&cell->pins, -1u, memory_order_release);
    fence(hot);
    if (unlikely(sequence_of(mr) % 2 == 0 ||
                 atomic_load_explicit(&hot->pulse->reap, memory_order_relaxed)))
        put_last(hot, mr);
}

/* By a thread that has no cell for it yet. */
static __attribute__((noinline)) void put_slowly(struct hmreg_mr *mr)
{
    struct cache_set *set;
    struct hot *hot;
    struct cell *cell;

    if (!mr || domain_check(mr->domain) || !mr->number)
        return;
    set = mr->domain->caches;
    hot = hot_join(&set->pool.hot);
    cell = hot ? hot_make_cell(hot, mr->number) : NULL;
    if (cell) {
        stamp(hot, cell);
        unpin(hot, cell, mr);
        return;
    }
    cache_set_reap(set);
    cache_set_release(set, (struct cache_entry *)mr);
}

void hmreg_mr_put(struct hmreg_mr *mr)
{
    struct hot *hot = likely(mr) ? hot_known(mr->domain->serial) : NULL;
    struct cell *cell = likely(hot && mr->number) ? hot_cell(hot, mr->number) : NULL;

    if (unlikely(!cell)) {
        put_slowly(mr);
        return;
    }
    stamp(hot, cell);
    unpin(hot, cell, mr);
}

/* ---- get -------------------------------------------------------------------------------- */

/* Does the entry, which is pinned and in its place, contain the range, with these rights? */
static inline bool serves(const struct hot *hot, const struct hmreg_mr *mr, uint64_t addr,
                          uint64_t len, uint64_t access)
{
    uint64_t offset = addr - mr->node.start, size = mr_len(mr);

    if (offset >= size || len - 1 >= size - offset || mr_access(mr) != access)
        return false;
    return !hot->exact || (!offset && len == size);
}

static inline unsigned sure_of(const struct hot *hot)
{
    /* Acquire: pairs with the monitor's, who has made sequences even before. */
    return atomic_load_explicit(&hot->pulse->sure, memory_order_acquire);
}

/* The monitor is not sure: that is of host memory. 0: this is a forked child. */
static bool is_beyond_doubt(const struct hot *hot, const struct hmreg_mr *mr)
{
    return sure_of(hot) % 2 || (sure_of(hot) && !mr->monitored);
}

/* Asks what the entry demands to be asked at each hit. */
static __attribute__((noinline)) bool is_right(const struct hot *hot, struct hmreg_mr *mr,
                                               uint32_t sequence)
{
    struct cache_set *set = mr->domain->caches;

    if (mr->ask_monitor &&
        (!monitor_is_read(set->monitor) || sure_of(hot) % 2 == 0 || sequence_of(mr) != sequence))
        return false;
    if (!mr->ask_identity ||
        cache_set_is_same(set, mr->iface, mr->node.start, mr->node.end, mr_identity(mr)))
        return true;
    cache_drop(&set->caches[mr->cache], (struct cache_entry *)mr);
    return false;
}

static inline struct hmreg_mr *mr_of(const struct hot *hot, const struct slot *slot)
{
    uintptr_t entries = hot->boards[shelf_board(slot->number)].entries;

    return &((struct cache_entry *)(entries + slot->number * sizeof(struct cache_entry)))->mr;
}

static inline void count_hit(struct hot *hot, const struct hmreg_mr *mr)
{
    _Atomic uint64_t *hits = hot->hits[mr->cache];

    atomic_store_explicit(hits, atomic_load_explicit(hits, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* A slot whose key is the request's. *go_on: there may be another. */
static inline struct hmreg_mr *try_slot(struct hot *hot, const struct slot *slot, uint64_t addr,
                                        uint64_t len, uint64_t access, bool *go_on)
{
    struct hmreg_mr *mr = mr_of(hot, slot);
    struct cell *cell = hot_cell(hot, slot->number);
    uint32_t sequence = slot->sequence;
    unsigned sure;

    *go_on = true;
    if (unlikely(sequence_of(mr) != sequence))
        return NULL;
    add_to(&cell->pins, 1, memory_order_relaxed);
    fence(hot);
    sure = sure_of(hot);
    *go_on = sequence_of(mr) == sequence && (sure % 2 || is_beyond_doubt(hot, mr));
    if (unlikely(!*go_on) || unlikely(!serves(hot, mr, addr, len, access))) {
        unpin(hot, cell, mr);
        return NULL;
    }
    if ((mr->ask_monitor || mr->ask_identity) && unlikely(!is_right(hot, mr, sequence))) {
        *go_on = false;
        unpin(hot, cell, mr);
        return NULL;
    }
    stamp(hot, cell);
    count_hit(hot, mr);
    return mr;
}

static inline struct hmreg_mr *hit(struct hot *hot, uint64_t addr, uint64_t len, uint64_t access)
{
    uint64_t key = hot_key(addr, access);
    const struct slot *slot = hot_slot(hot, key), *end = slot + HOT_PROBES;
    bool go_on = true;

    for (; go_on && slot->key && slot < end; slot++) {
        struct hmreg_mr *mr =
            slot->key == key ? try_slot(hot, slot, addr, len, access, &go_on) : NULL;

        if (mr)
            return mr;
    }
    return NULL;
}

int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **mr)
{
    struct hot *hot = likely(domain && mr) ? hot_known(domain->serial) : NULL;
    struct hmreg_mr *found = likely(hot) ? hit(hot, (uintptr_t)addr, len, access) : NULL;

    if (unlikely(!found))
        return get_slowly(domain, addr, len, access, mr);
    *mr = found;
    return 0;
}

/* ---- notices ---------------------------------------------------------------------------- */

int hmreg_invalidate(struct hmreg *lib, const void *addr, size_t len)
{
    struct change change = {.start = (uint64_t)(uintptr_t)addr,
                            .end = (uint64_t)(uintptr_t)addr + len};
    int rc = context_check(lib);

    rc = rc ? rc : validate_range(addr, len);
    if (!rc)
        monitor_tell(lib->monitor, &change);
    return rc;
}
