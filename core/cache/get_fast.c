/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fast path of hmreg_mr_get() and hmreg_mr_put(). A hit reads its thread's table, pins the
 * entry in the thread's own pin slot, and only then checks that the entry is still what the thread
 * remembers. It takes no lock, executes no fence, and touches no cache line that another thread
 * writes, except at a miss. Entries that need validation, and probe collisions, take the
 * out-of-line path below; a get that fails there takes the slow path, in get_slow.c.
 *
 * The order is: pin; read the gate's state; read the entry's sequence. A thread that retires an
 * entry makes its sequence even, passes a barrier in every thread, and adds up the pins. So either
 * the sum includes this pin, or this thread sees the new sequence. The state is read before the
 * sequence, since the gate is shut from before the memory changes until the sequences are even.
 * tests/model/protocol/hit.pml models this: other threads see this thread's pins in order, and at
 * its next fence at the latest.
 */
#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/cache/cache_set.h"
#include "core/cache/get_slow.h"
#include "core/cache/hit.h"
#include "core/cache/put_check.h"

#define noinline      __attribute__((noinline))
#define always_inline inline __attribute__((always_inline))

static inline unsigned state_of(const struct thread_cache *tcache)
{
    return gate_state(tcache->view.gate);
}

/* ---- put -------------------------------------------------------------------------------- */

noinline void unpinned_last(const struct thread_cache *tcache, struct hmreg_mr *mr)
{
    /* Not mr->domain: the entry may hold another region already. */
    struct cache_set *set = cache_set_of(tcache->set);
    struct hmreg_mr *gone;

    barrier_here(); /* the pin slot's new value is visible before what follows is read */
    if (sequence_of(mr) & (PUT_UNCHECKED | ENDS_WITH_PUT))
        return;
    if (!mr->slot_offset || !process_is(set->domain->lib->epoch)) /* 0: an explicit region */
        return;
    cache_set_reap(set);
    gone = cache_released(&set->pool, mr);
    if (gone)
        cache_set_free_entry(set, gone);
}

/* A get's pin slot of an entry that ends with its last put means nothing; it was a holder. */
static void leave_holders(struct cache_set *set, struct hmreg_mr *mr)
{
    if (!process_is(set->domain->lib->epoch) || !holders_leave(entry_holders(&set->pool, mr)))
        return;
    cache_set_reap(set);
    cache_set_free_entry(set, cache_left(&set->pool, mr));
}

noinline void put_last(const struct thread_cache *tcache, struct hmreg_mr *mr)
{
    if (sequence_of(mr) & ENDS_WITH_PUT)
        leave_holders(cache_set_of(tcache->set), mr);
    else
        unpinned_last(tcache, mr);
}

/* For a thread that has no pin slot for the entry yet, or has to fence. */
static noinline void put_out_of_line(struct hmreg_mr *mr)
{
    struct cache_set *set;
    struct thread_cache *tcache;
    struct pin_slot *pin_slot;

    if (mr && thread_cache_show(mr->domain->serial)) {
        hmreg_mr_put(mr);
        return;
    }
    if (mr && mr->domain->check_puts) {
        put_checked(mr);
        return;
    }
    if (!mr || !mr->slot_offset || domain_check(mr->domain))
        return;
    set = mr->domain->caches;
    tcache = thread_cache_join(&set->pool.thread_caches);
    pin_slot = tcache ? thread_cache_pin_slot(tcache, pin_slot_number(mr->slot_offset)) : NULL;
    if (pin_slot && !entry_ends_with_put(mr)) {
        unpin(tcache, pin_slot, mr);
        return;
    }
    cache_set_reap(set);
    cache_set_release(set, mr);
}

void hmreg_mr_put(struct hmreg_mr *mr)
{
    tls_view_pointer view;

    if (unlikely(!mr)) {
        put_out_of_line(mr);
        return;
    }
    view = tls_view_at(mr->domain->place);
    if (unlikely(view->serial != mr->domain->serial) || unlikely(mr->slot_offset >= view->room)) {
        put_out_of_line(mr);
        return;
    }
    add_to(&pin_slot_at(view->pin_slots, mr->slot_offset)->pins, -1u);
    barrier_compiler();
    if (unlikely(sequence_of(mr) % 2 == 0))
        put_last(view->tcache, mr);
}

/* ---- get, out of line ------------------------------------------------------------------- */

/* Does the pinned entry contain the range? */
static bool serves(const struct thread_cache *tcache, const struct hmreg_mr *mr, uint64_t addr,
                   uint64_t len)
{
    uint64_t offset = addr - mr->node.start, size = mr->node.end - mr->node.start;

    if (offset >= size || len - 1 >= size - offset)
        return false;
    return !tcache->exact || (!offset && len == size);
}

/* By this state of the gate, can no change that the domain has not read yet concern this entry?
 * Events being read from the kernel, and counts, concern memory that the monitor watches; changes
 * in the queue may concern any. The sequence must be read after the state: one that was read before
 * may be from before a drain that has opened the gate since. */
static always_inline bool changes_are_read(unsigned state, const struct hmreg_mr *mr)
{
    return (state & GATE_LIVE) && !(state & GATE_QUEUED) &&
           !((state & GATE_CHANGES) && entry_body(mr)->monitored);
}

/* Asks the monitor, unless one question is for several gets (asked not NULL) and was answered
 * before this entry's gate and sequence were read. */
static always_inline bool is_current(const struct thread_cache *tcache, const struct hmreg_mr *mr,
                                     uint32_t sequence, bool *asked)
{
    if (asked && *asked)
        return true;
    if (!monitor_is_read(cache_set_of(tcache->set)->monitor) ||
        !changes_are_read(state_of(tcache), mr) || sequence_of(mr) != sequence)
        return false;
    if (asked)
        *asked = true;
    return true;
}

/* Performs the checks that the entry needs at each hit. An entry that fails is unpublished. */
static always_inline bool entry_is_valid(const struct thread_cache *tcache, struct hmreg_mr *mr,
                                         uint32_t sequence, bool *asked)
{
    struct cache_set *set = cache_set_of(tcache->set);

    if (entry_body(mr)->ask_monitor && !is_current(tcache, mr, sequence, asked))
        return false;
    if (!entry_body(mr)->ask_identity || cache_set_is_found(set, mr))
        return true;
    cache_unpublish_stale(&set->caches[entry_body(mr)->cache], mr);
    return false;
}

/* As serves(), of an entry that may begin another use meanwhile. */
static bool may_serve(const struct thread_cache *tcache, const struct hmreg_mr *mr, uint64_t addr,
                      uint64_t len)
{
    const struct hmreg_mr now = {
        .node = {.start = __atomic_load_n(&mr->node.start, __ATOMIC_RELAXED),
                 .end = __atomic_load_n(&mr->node.end, __ATOMIC_RELAXED)}};

    return serves(tcache, &now, addr, len);
}

/* Has the entry this variant? The array of extras may not reach one that has none. */
static bool may_have_variant(const struct cache_pool *pool, const struct hmreg_mr *mr,
                             const struct variant *variant)
{
    struct entry_extra *extra;

    if (!variant)
        return true;
    extra = cache_extra_at(pool, pin_slot_number(mr->slot_offset));
    return __atomic_load_n(&extra->variant, __ATOMIC_RELAXED) == variant;
}

/* As try_pinned(), for an entry that ends with its last put: the thread looks whether the entry
 * serves, and then becomes a holder if the entry still has the use in which it did. Of an entry
 * that needs no check the body is not read: of many entries in random order it would be one more
 * cache line for each. */
static noinline bool try_joining(struct thread_cache *tcache, struct hmreg_mr *mr,
                                 const struct pin_slot *pin_slot, uint32_t sequence, uint64_t addr,
                                 uint64_t len, const struct variant *variant, bool *asked,
                                 bool *go_on)
{
    struct cache_set *set = cache_set_of(tcache->set);

    *go_on = (state_of(tcache) & (GATE_LIVE | GATE_CHANGES)) == GATE_LIVE;
    if (!*go_on || sequence_of(mr) != (sequence | ENDS_WITH_PUT) ||
        !may_have_variant(&set->pool, mr, variant) || !may_serve(tcache, mr, addr, len))
        return false;
    *go_on = false; /* what follows may change the table */
    if (!holders_join(entry_holders(&set->pool, mr), sequence))
        return false;
    if (!pin_slot->asks) {
        count_hits(&tcache->rows[pin_slot->cache]->shown->hits, 1);
        return true;
    }
    if (!entry_is_valid(tcache, mr, sequence | ENDS_WITH_PUT, asked)) {
        leave_holders(set, mr);
        return false;
    }
    thread_cache_count(tcache, entry_body(mr)->cache, &set->caches[entry_body(mr)->cache].stats);
    return true;
}

/* Does the entry serve, which had the sequence when it was pinned? If not, it is unpinned. *go_on:
 * set to whether another may. variant: a constant NULL for plain gets, which the compiler folds, as
 * it does for asked. */
static always_inline bool try_pinned(struct thread_cache *tcache, struct hmreg_mr *mr,
                                     struct pin_slot *pin_slot, uint32_t sequence, uint64_t addr,
                                     uint64_t len, const struct variant *variant, bool *asked,
                                     bool *go_on)
{
    struct cache_set *set = cache_set_of(tcache->set);
    unsigned state;

    if (sequence_of(mr) & ENDS_WITH_PUT) {
        add_to(&pin_slot->pins, -1u);
        return try_joining(tcache, mr, pin_slot, sequence, addr, len, variant, asked, go_on);
    }
    fence(tcache);
    state = state_of(tcache);
    *go_on = (state & (GATE_LIVE | GATE_CHANGES)) == GATE_LIVE;
    if (sequence_of(mr) != sequence || !(*go_on || changes_are_read(state, mr)) ||
        !may_have_variant(&set->pool, mr, variant) || !serves(tcache, mr, addr, len)) {
        unpin(tcache, pin_slot, mr);
        return false;
    }
    *go_on = false; /* the checks may have changed the table */
    if (!entry_is_valid(tcache, mr, sequence, asked)) {
        unpin(tcache, pin_slot, mr);
        return false;
    }
    mark_used(pin_slot);
    thread_cache_count(tcache, entry_body(mr)->cache, &set->caches[entry_body(mr)->cache].stats);
    return true;
}

/* The sequence that a thread remembers of the entry's present use. */
static always_inline uint32_t use_of(const struct hmreg_mr *mr)
{
    return sequence_of(mr) & ~ENDS_WITH_PUT;
}

static always_inline uint32_t remembered_sequence(const struct pin_slot *pin_slot)
{
    return pin_slot->check & ~(uint32_t)THREAD_CACHE_NO_SEQUENCE;
}

/* The sequence of an entry that the thread remembers, if its region grants these access rights. 0:
 * it does not. */
static always_inline uint32_t remembered(const struct thread_cache *tcache,
                                         const struct pin_slot *pin_slot, uint64_t access)
{
    uint64_t more = cache_set_of(tcache->set)->domain->more_rights;
    uint64_t has = pin_slot->check & HMREG_ACCESS_ALL;

    if (!access || access & ~has || has & ~(access | more))
        return 0;
    return remembered_sequence(pin_slot);
}

/* Has the entry a variant? The array of variants may not reach one that has none. */
static always_inline bool is_varied(const struct pin_slot *pin_slot)
{
    return pin_slot->check & THREAD_CACHE_VARIED;
}

/* Tries the entry that a slot names. NULL: it does not serve. ends: only one that ends with its
 * last put may. The other arguments are try_pinned()'s. */
static always_inline struct hmreg_mr *try_entry(struct thread_cache *tcache, uint32_t number,
                                                uint64_t addr, uint64_t len, uint64_t access,
                                                const struct variant *variant, bool ends,
                                                bool *asked, bool *go_on)
{
    struct hmreg_mr *mr = cache_entry_at(&cache_set_of(tcache->set)->pool, number);
    struct pin_slot *pin_slot = &tcache->view.pin_slots[number];
    uint32_t sequence = remembered(tcache, pin_slot, access);

    *go_on = true;
    if (!sequence || use_of(mr) != sequence || is_varied(pin_slot) != (variant != NULL) ||
        (ends && !(sequence_of(mr) & ENDS_WITH_PUT)))
        return NULL;
    add_to(&pin_slot->pins, 1);
    return try_pinned(tcache, mr, pin_slot, sequence, addr, len, variant, asked, go_on) ? mr : NULL;
}

/* The slot `distance` after the first of a request's. 0: the search ends before it. Searched by
 * distance, since an unpin may change the table. */
static always_inline uint32_t slot_at_distance(const struct thread_cache *tcache, uint64_t addr,
                                               unsigned distance)
{
    if (distance == THREAD_CACHE_PROBES)
        return 0;
    return thread_cache_slot(tcache->view.slots, tcache->view.mask,
                             thread_cache_hash(addr))[distance];
}

static void remember_part(struct thread_cache *tcache, uint64_t addr, uint32_t slot)
{
    thread_cache_remember(tcache, addr, pin_slot_number(slot),
                          pin_slot_at(tcache->view.pin_slots, slot)->check, true);
}

/* Is the pinned entry a hit that needs no more checks? Then it is counted. The steps are those of
 * hmreg_mr_get(), for a cache that need not be the thread's usual one. */
static always_inline bool hits_plainly(const struct thread_cache *tcache, struct hmreg_mr *mr,
                                       struct pin_slot *pin_slot, uint32_t sequence, uint64_t addr,
                                       uint64_t len)
{
    if (pin_slot->asks || is_varied(pin_slot) || !gate_is_open(tcache->view.gate) ||
        sequence_of(mr) != sequence || !contains(mr, addr, len))
        return false;
    mark_used(pin_slot);
    count_hits(&tcache->rows[pin_slot->cache]->shown->hits, 1);
    return true;
}

/* Tries the entry that a slot names. */
static always_inline struct hmreg_mr *hit_slot(struct thread_cache *tcache, uint32_t slot,
                                               uint64_t addr, uint64_t len, uint64_t access)
{
    struct hmreg_mr *mr = mr_at(tcache->view.entries, slot);
    struct pin_slot *pin_slot = pin_slot_at(tcache->view.pin_slots, slot);
    uint32_t sequence = remembered(tcache, pin_slot, access);

    if (!sequence || sequence_of(mr) != sequence)
        return NULL;
    add_to(&pin_slot->pins, 1);
    barrier_compiler();
    if (hits_plainly(tcache, mr, pin_slot, sequence, addr, len))
        return mr;
    unpin(tcache, pin_slot, mr);
    return NULL;
}

noinline struct hmreg_mr *hit_slots(struct thread_cache *tcache, uint64_t addr, uint64_t len,
                                    uint64_t access, unsigned from)
{
    uint32_t slot = slot_at_distance(tcache, addr, 0);
    struct hmreg_mr *mr = NULL;

    if (!gate_is_open(tcache->view.gate))
        return NULL;
    for (unsigned i = from; !mr && slot && (slot = slot_at_distance(tcache, addr, i)); i++)
        mr = hit_slot(tcache, slot, addr, len, access);
    if (mr)
        return mr;
    for (unsigned i = 0; !mr && (slot = range_list_find(&tcache->larger, addr, len, i)); i++)
        mr = hit_slot(tcache, slot, addr, len, access);
    if (mr)
        remember_part(tcache, addr, slot);
    return mr;
}

static always_inline struct hmreg_mr *hit_out_of_line(struct thread_cache *tcache, uint64_t addr,
                                                      uint64_t len, uint64_t access,
                                                      const struct variant *variant, bool ends,
                                                      bool *asked)
{
    uint64_t salted = variant ? addr ^ variant_salt(variant) : addr;
    struct hmreg_mr *mr = NULL;
    bool go_on = true;
    uint32_t slot;

    for (unsigned i = 0; go_on && !mr && (slot = slot_at_distance(tcache, salted, i)); i++)
        mr = try_entry(tcache, pin_slot_number(slot), addr, len, access, variant, ends, asked,
                       &go_on);
    if (mr || variant || !go_on || !tcache->larger.count)
        return mr;
    for (unsigned i = 0; go_on && !mr && (slot = range_list_find(&tcache->larger, addr, len, i));
         i++)
        mr = try_entry(tcache, pin_slot_number(slot), addr, len, access, NULL, ends, asked, &go_on);
    if (mr)
        remember_part(tcache, addr, slot);
    return mr;
}

struct hmreg_mr *get_remembered(struct hmreg_domain *domain, const struct cache_want *want,
                                bool *asked)
{
    struct thread_cache *tcache = thread_cache_find(&domain->caches->pool.thread_caches);
    uint64_t len = want->end - want->start;
    bool ends = want->policy == HMREG_POLICY_LAST_PUT;

    if (!tcache)
        return NULL;
    cache_drain(&domain->caches->pool);
    if (state_of(tcache) & GATE_REAP)
        cache_set_reap(domain->caches);
    return want->variant
               ? hit_out_of_line(tcache, want->start, len, want->access, want->variant, ends, asked)
               : hit_out_of_line(tcache, want->start, len, want->access, NULL, ends, asked);
}

static noinline int get_out_of_line(struct hmreg_domain *domain, const void *addr, size_t len,
                                    uint64_t access, struct hmreg_mr **out)
{
    struct thread_cache *tcache = NULL;
    struct hmreg_mr *mr = NULL;

    if (domain && out && process_is(domain->lib->epoch))
        tcache = thread_cache_find(&domain->caches->pool.thread_caches);
    if (tcache) {
        cache_drain(&domain->caches->pool);
        if (state_of(tcache) & GATE_REAP)
            cache_set_reap(domain->caches);
        mr = hit_out_of_line(tcache, (uintptr_t)addr, len, access, NULL, false, NULL);
    }
    if (!mr)
        return get_slowly(domain, addr, len, access, out);
    *out = mr;
    return 0;
}

/* The TLS view is another domain's. */
static noinline int get_showing_view(struct hmreg_domain *domain, const void *addr, size_t len,
                                     uint64_t access, struct hmreg_mr **out)
{
    if (thread_cache_show(domain->serial))
        return hmreg_mr_get(domain, addr, len, access, out);
    return get_out_of_line(domain, addr, len, access, out);
}

/* The pinned entry is unpublished, or the gate is not open: nothing is served until the changes are
 * read. */
static noinline int get_after_change(struct hmreg_mr *pinned, const void *addr, size_t len,
                                     uint64_t access, struct hmreg_mr **out, uint64_t place)
{
    struct thread_cache *tcache = tls_view_at(place)->tcache;

    if (pinned->slot_offset)
        unpin(tcache, pin_slot_at(tcache->view.pin_slots, pinned->slot_offset), pinned);
    return get_out_of_line(cache_set_of(tcache->set)->domain, addr, len, access, out);
}

/* The pinned entry does not serve this request, or the slot is free. */
static noinline int get_from_next_slots(struct hmreg_mr *pinned, const void *addr, size_t len,
                                        uint64_t access, struct hmreg_mr **out, uint64_t place)
{
    struct thread_cache *tcache = tls_view_at(place)->tcache;
    struct hmreg_mr *mr = NULL;

    if (pinned->slot_offset)
        unpin(tcache, pin_slot_at(tcache->view.pin_slots, pinned->slot_offset), pinned);
    if (pinned->slot_offset || tcache->larger.count)
        mr = hit_slots(tcache, (uintptr_t)addr, len, access, 1);
    if (!mr)
        return get_out_of_line(cache_set_of(tcache->set)->domain, addr, len, access, out);
    *out = mr;
    return 0;
}

/* The pinned entry is not the one that the thread remembers, or it needs more checks than that. */
static noinline int get_checked(struct hmreg_mr *pinned, const void *addr, size_t len,
                                uint64_t access, struct hmreg_mr **out, uint64_t place)
{
    struct thread_cache *tcache = tls_view_at(place)->tcache;
    struct pin_slot *pin_slot = pin_slot_at(tcache->view.pin_slots, pinned->slot_offset);
    uint32_t sequence = remembered(tcache, pin_slot, access);
    bool go_on;

    if (pinned->slot_offset && use_of(pinned) != remembered_sequence(pin_slot))
        return get_after_change(pinned, addr, len, access, out, place); /* most likely a miss */
    if (!sequence || is_varied(pin_slot) ||
        (!(sequence_of(pinned) & ENDS_WITH_PUT) && !contains(pinned, (uintptr_t)addr, len)))
        return get_from_next_slots(pinned, addr, len, access, out, place);
    if (!hits_plainly(tcache, pinned, pin_slot, sequence, (uintptr_t)addr, len) &&
        !try_pinned(tcache, pinned, pin_slot, sequence, (uintptr_t)addr, len, NULL, NULL, &go_on))
        return get_out_of_line(cache_set_of(tcache->set)->domain, addr, len, access, out);
    *out = pinned;
    return 0;
}

/* ---- get -------------------------------------------------------------------------------- */

/* The entry is pinned, and after that the gate was found open. */
static always_inline int get_pinned(tls_view_pointer view, struct hmreg_mr *mr,
                                    struct pin_slot *pin_slot, const void *addr, size_t len,
                                    uint64_t access, struct hmreg_mr **out, uint64_t place)
{
    if (unlikely((sequence_of(mr) ^ pin_slot->check) != access))
        return get_checked(mr, addr, len, access, out, place);
    if (unlikely(!contains(mr, (uintptr_t)addr, len)))
        return get_from_next_slots(mr, addr, len, access, out, place);
    mark_used(pin_slot);
    count_hits(view->hits, 1);
    *out = mr;
    return 0;
}

/* The gate is not GATE_LIVE alone, as it never is where the monitor counts changes. */
static noinline int get_by_counts(struct hmreg_mr *pinned, const void *addr, size_t len,
                                  uint64_t access, struct hmreg_mr **out, uint64_t place)
{
    tls_view_pointer view = tls_view_at(place);

    if (unlikely(!gate_is_open(view->gate)))
        return get_after_change(pinned, addr, len, access, out, place);
    return get_pinned(view, pinned, pin_slot_at(view->pin_slots, pinned->slot_offset), addr, len,
                      access, out, place);
}

int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **out)
{
    const struct gate *gate;
    struct hmreg_mr *mr;
    struct pin_slot *pin_slot;
    uint64_t place;
    uint32_t slot;
    tls_view_pointer view;

    /* Fast check that neither is NULL: pointers without a common bit, which are rare, also take the
     * out-of-line path. Bits that are no access rights would be taken for bits of a sequence. */
    if (unlikely(!((uintptr_t)domain & (uintptr_t)out)) || unlikely(access & ~HMREG_ACCESS_ALL))
        return get_out_of_line(domain, addr, len, access, out);
    place = domain->place;
    view = tls_view_at(place);
    if (unlikely(view->serial != domain->serial))
        return get_showing_view(domain, addr, len, access, out);
    slot = *thread_cache_slot(view->slots, view->mask, thread_cache_hash((uintptr_t)addr));
    mr = mr_at(view->entries, slot);
    pin_slot = pin_slot_at(view->pin_slots, slot);
    add_to(&pin_slot->pins, 1);
    barrier_compiler();
    gate = view->gate;
    /* A free slot names entry 0, which contains no range. */
    if (unlikely(atomic_load_explicit(&gate->state, memory_order_acquire) != GATE_LIVE))
        return get_by_counts(mr, addr, len, access, out, place);
    return get_pinned(view, mr, pin_slot, addr, len, access, out, place);
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
