/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_mr_get() and hmreg_mr_put() where nothing stands in the way: a hit reads what its thread
 * remembers, pins the entry in a cell of its own, and only then looks whether the entry is still
 * what it was. No lock, no fence, no line that another thread writes but at a miss. What has to ask
 * somebody, or finds its first slot taken, is done aside; what fails there goes the whole way, in
 * get.c.
 *
 * The order: pin; the gate's state; the entry's sequence. Who takes an entry away makes its
 * sequence even, passes a barrier in every thread, and adds up the pins. So either the sum has this
 * pin, or this thread sees the new sequence. The state comes before the sequence, since the gate
 * is shut from before memory changes until the sequences are even. tests/model/protocol/hit.pml is
 * a model of it: other threads see the pins of this one in order, and at its next fence at the
 * latest.
 */
#include "core/cache_set.h"
#include "core/error.h"
#include "core/get.h"
#include "core/put_check.h"
#include "core/validate.h"

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define noinline            __attribute__((noinline))

/* Only this thread writes there, so adding need not be atomic for others; they read it whole. The
 * order is that of a release. */
static inline void add_to(atomic_uint *own, unsigned value)
{
#if defined(__x86_64__) && !defined(BARRIER_TSAN)
    __asm__ volatile("addl %1, %0" : "+m"(*own) : "ri"(value) : "memory", "cc");
#else
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + value,
                          memory_order_release);
#endif
}

static inline void count(_Atomic uint64_t *own)
{
#if defined(__x86_64__) && !defined(BARRIER_TSAN)
    __asm__ volatile("addq $1, %0" : "+m"(*own) : : "cc");
#else
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + 1,
                          memory_order_relaxed);
#endif
}

/* A load with acquire, which on x86 any load is: so compilers may make it a part of the instruction
 * that needs the value. Who needs the order calls barrier_compiler() after it. */
static inline unsigned peek(const atomic_uint *word)
{
#if defined(__x86_64__) && !defined(BARRIER_TSAN)
    return *(const unsigned *)word;
#else
    return atomic_load_explicit(word, memory_order_acquire);
#endif
}

/* Pairs with the release when the entry became what it is. */
static inline uint32_t sequence_of(const struct hmreg_mr *mr)
{
    return atomic_load_explicit(&mr->sequence, memory_order_acquire);
}

/* Pairs with gate_end_drain(), before which sequences were made even. */
static inline unsigned state_of(const struct hot *hot)
{
    return atomic_load_explicit(&hot->desk.gate->state, memory_order_acquire);
}

/* For eviction, which clears it (evict.c). */
static inline void mark_used(struct cell *cell)
{
    atomic_store_explicit(&cell->used, 1, memory_order_relaxed);
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
static noinline void put_last(const struct hot *hot, struct hmreg_mr *mr)
{
    /* Not mr->domain: the entry may be another's already. */
    struct cache_set *set = cache_set_of(hot->set);
    struct cache_entry *gone;

    barrier_here(); /* the cell's new value is out before what follows is read */
    if (sequence_of(mr) & HOT_UNENDING)
        return;
    if (!mr->name || !process_is(set->domain->lib->epoch)) /* 0: an explicit region */
        return;
    cache_set_reap(set);
    gone = cache_released(&set->pool, (struct cache_entry *)mr);
    if (gone)
        cache_set_end(set, gone);
}

static inline void unpin(const struct hot *hot, struct cell *cell, struct hmreg_mr *mr)
{
    /* A release: what the user did is done before who adds up finds this. */
    add_to(&cell->pins, -1u);
    fence(hot);
    if (unlikely(sequence_of(mr) % 2 == 0))
        put_last(hot, mr);
}

/* By a thread that has no cell for it yet, or has to fence. */
static noinline void put_aside(struct hmreg_mr *mr)
{
    struct cache_set *set;
    struct hot *hot;
    struct cell *cell;

    if (mr && mr->domain->check_puts) {
        put_checked(mr);
        return;
    }
    if (!mr || !mr->name || domain_check(mr->domain))
        return;
    set = mr->domain->caches;
    hot = hot_join(&set->pool.hot);
    cell = hot ? hot_cell(hot, hot_number(mr->name)) : NULL;
    if (cell) {
        unpin(hot, cell, mr);
        return;
    }
    cache_set_reap(set);
    cache_set_release(set, (struct cache_entry *)mr);
}

void hmreg_mr_put(struct hmreg_mr *mr)
{
    hot_view desk;

    if (unlikely(!mr)) {
        put_aside(mr);
        return;
    }
    desk = hot_desk_at(mr->domain->place);
    if (unlikely(desk->serial != mr->domain->serial) || unlikely(mr->name >= desk->room)) {
        put_aside(mr);
        return;
    }
    add_to(&hot_cell_of(desk->cells, mr->name)->pins, -1u);
    barrier_compiler();
    if (unlikely(peek(&mr->sequence) % 2 == 0))
        put_last(desk->hot, mr);
}

/* ---- get, aside ------------------------------------------------------------------------- */

/* Does the entry, which is pinned and in its place, contain the range, with these rights? */
static bool serves(const struct hot *hot, const struct hmreg_mr *mr, uint64_t addr, uint64_t len,
                   uint64_t access)
{
    uint64_t offset = addr - mr->node.start, size = mr_len(mr);

    if (offset >= size || len - 1 >= size - offset || mr->access != access)
        return false;
    return !hot->exact || (!offset && len == size);
}

/* No change that the domain has not read can be of this entry. What is being read from the kernel
 * is of memory that the monitor watches; what is in the queue may be of any. */
static bool is_certain(const struct hot *hot, const struct hmreg_mr *mr)
{
    unsigned state = state_of(hot);

    return (state & GATE_LIVE) && !(state & GATE_QUEUED) &&
           !((state & GATE_READING) && mr->monitored);
}

/* Asks what the entry demands to be asked at each hit. */
static bool is_right(const struct hot *hot, struct hmreg_mr *mr, uint32_t sequence)
{
    struct cache_set *set = cache_set_of(hot->set);

    if (mr->ask_monitor &&
        (!monitor_is_read(set->monitor) || !is_certain(hot, mr) || sequence_of(mr) != sequence))
        return false;
    if (!mr->ask_identity ||
        cache_set_is_same(set, mr->iface, mr->node.start, mr->node.end, mr_identity(mr)))
        return true;
    cache_drop(&set->caches[mr->cache], (struct cache_entry *)mr);
    return false;
}

/* An entry that a slot names. NULL: it does not serve; *go_on: another may. */
static struct hmreg_mr *try_entry(struct hot *hot, uint32_t number, uint64_t addr, uint64_t len,
                                  uint64_t access, bool *go_on)
{
    struct cache_set *set = cache_set_of(hot->set);
    struct hmreg_mr *mr = &cache_entry_at(&set->pool, number)->mr;
    struct cell *cell = &hot->desk.cells[number];
    uint32_t sequence = (cell->check ^ (uint32_t)access) & ~HOT_ASIDE;

    *go_on = true;
    if (sequence_of(mr) != sequence) /* or the rights are others */
        return NULL;
    add_to(&cell->pins, 1);
    fence(hot);
    *go_on = (state_of(hot) & (GATE_LIVE | GATE_CHANGES)) == GATE_LIVE;
    if (sequence_of(mr) != sequence || !(*go_on || is_certain(hot, mr)) ||
        !serves(hot, mr, addr, len, access)) {
        unpin(hot, cell, mr);
        return NULL;
    }
    *go_on = false; /* asking may have changed the table */
    if (!is_right(hot, mr, sequence)) {
        unpin(hot, cell, mr);
        return NULL;
    }
    mark_used(cell);
    hot_count(hot, mr->cache, &set->caches[mr->cache].ledger);
    return mr;
}

static struct hmreg_mr *hit_aside(struct hot *hot, uint64_t addr, uint64_t len, uint64_t access)
{
    const uint32_t *slot = hot_slot(hot->desk.slots, hot->desk.mask, hot_hash(addr));
    const uint32_t *end = slot + HOT_PROBES;
    struct hmreg_mr *mr = NULL;
    bool go_on = true;

    for (; go_on && !mr && slot < end && *slot; slot++)
        mr = try_entry(hot, hot_number(*slot), addr, len, access, &go_on);
    return mr;
}

static noinline int get_aside(struct hmreg_domain *domain, const void *addr, size_t len,
                              uint64_t access, struct hmreg_mr **out)
{
    struct hot *hot = NULL;
    struct hmreg_mr *mr = NULL;

    if (domain && out && process_is(domain->lib->epoch))
        hot = hot_find(&domain->caches->pool.hot);
    if (hot) {
        cache_drain(&domain->caches->pool);
        if (state_of(hot) & GATE_REAP)
            cache_set_reap(domain->caches);
        mr = hit_aside(hot, (uintptr_t)addr, len, access);
    }
    if (!mr)
        return get_slowly(domain, addr, len, access, out);
    *out = mr;
    return 0;
}

/* What was pinned is not what was asked for, or no more. */
static noinline int get_otherwise(struct hmreg_mr *pinned, const void *addr, size_t len,
                                  uint64_t access, struct hmreg_mr **out, uint64_t place)
{
    struct hot *hot = hot_desk_at(place)->hot;

    if (pinned->name)
        unpin(hot, hot_cell_of(hot->desk.cells, pinned->name), pinned);
    return get_aside(cache_set_of(hot->set)->domain, addr, len, access, out);
}

/* ---- get -------------------------------------------------------------------------------- */

/* Leaves in *value what differs: in the end the 0 that is returned. */
static inline bool differs(uint64_t *value, uint64_t other)
{
#ifdef __x86_64__
    bool result;

    __asm__("xorq %2, %0" : "+r"(*value), "=@ccnz"(result) : "r"(other));
    return result;
#else
    *value ^= other;
    return *value;
#endif
}

/* Not for [addr, addr + len) that is empty or wraps: then its last byte lies before the first. */
static inline bool contains(const struct hmreg_mr *mr, uint64_t addr, uint64_t len)
{
    uint64_t last = addr + len - 1;

    __asm__("" : "+r"(last)); /* compilers who see through it look at carries, at length */
    return mr->node.start <= addr && addr <= last && last < mr->node.end;
}

#define CELLS_AN_ENTRY (sizeof(struct cache_entry) / sizeof(struct cell))
_Static_assert(sizeof(struct cache_entry) % sizeof(struct cell) == 0,
               "a name, scaled, is an entry's");

/* The entry that a slot names. */
static inline struct hmreg_mr *mr_at(char *entries, uint32_t name)
{
    uint64_t offset = name;

#if defined(__x86_64__)
    /* One instruction: compilers take two or three, which are no faster here. */
    __asm__("imulq %2, %1, %0" : "=r"(offset) : "r"(offset), "i"(CELLS_AN_ENTRY) : "cc");
#else
    offset *= CELLS_AN_ENTRY;
#endif
    return (struct hmreg_mr *)(entries + offset);
}

int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **out)
{
    const struct gate *gate;
    struct hmreg_mr *mr;
    struct cell *cell;
    uint64_t place, wrong;
    uint32_t slot;
    hot_view desk;

    /* Neither is NULL: pointers that have no bit in common, which is rare, go aside as well. Bits
     * that are no rights would be taken for a sequence's. */
    if (unlikely(!((uintptr_t)domain & (uintptr_t)out)) || unlikely(access & ~HMREG_ACCESS_ALL))
        return get_aside(domain, addr, len, access, out);
    place = domain->place;
    desk = hot_desk_at(place);
    if (unlikely(desk->serial != domain->serial))
        return get_aside(domain, addr, len, access, out);
    slot = *hot_slot(desk->slots, desk->mask, hot_hash((uintptr_t)addr));
    mr = mr_at(desk->entries, slot);
    cell = hot_cell_of(desk->cells, slot);
    add_to(&cell->pins, 1);
    barrier_compiler();
    gate = desk->gate;
    /* A free slot's entry is 0, which contains nothing. */
    if (unlikely(peek(&gate->state) != GATE_LIVE))
        return get_otherwise(mr, addr, len, access, out, place);
    barrier_compiler();
    wrong = peek(&mr->sequence) ^ cell->check;
    if (unlikely(differs(&wrong, access)))
        return get_otherwise(mr, addr, len, access, out, place);
    if (unlikely(!contains(mr, (uintptr_t)addr, len)))
        return get_otherwise(mr, addr, len, mr->access, out, place);
    mark_used(cell);
    count(desk->hits);
    *out = mr;
    return (int)wrong;
}

/* ---- notices ---------------------------------------------------------------------------- */

int hmreg_invalidate(struct hmreg *lib, const void *addr, size_t len)
{
    int rc = context_check(lib);

    rc = rc ? rc : validate_range(addr, len);
    if (!rc)
        monitor_notice(lib->monitor, (uintptr_t)addr, (uintptr_t)addr + len);
    return rc;
}
