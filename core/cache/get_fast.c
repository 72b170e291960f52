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
 * sequence, since the gate shuts before the memory changes, and opens after the sequences are even.
 * tests/model/protocol/hit.pml models this: other threads see this thread's pins in order, and at
 * its next fence at the latest.
 */
#include "core/base/error.h"
#include "core/cache/cache_set.h"
#include "core/cache/get_slow.h"
#include "core/cache/put_check.h"

#include <errno.h>

#define noinline            __attribute__((noinline))
#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* ---- steps ------------------------------------------------------------------------------ */

/* Only this thread writes the word, so the addition need not be atomic. The order is that of a
 * release. */
static inline void add_to(atomic_uint *own, unsigned value)
{
    atomic_store_explicit(own, atomic_load_explicit(own, memory_order_relaxed) + value,
                          memory_order_release);
}

/* Pairs with the release store in entry_next_sequence(). */
static inline uint32_t sequence_of(const struct hmreg_mr *mr)
{
    return atomic_load_explicit(&mr->sequence, memory_order_acquire);
}

/* Read and cleared by eviction (evict.c). */
static inline void mark_used(struct pin_slot *pin_slot)
{
    atomic_store_explicit(&pin_slot->used, 1, memory_order_relaxed);
}

/* False if [addr, addr + len) is empty or wraps: then its last byte precedes its first. */
static inline bool contains(const struct hmreg_mr *mr, uint64_t addr, uint64_t len)
{
    uint64_t last = addr + len - 1;

    return mr->node.start <= addr && addr <= last && last < mr->node.end;
}

/* Orders the change of a pin before the read of the entry. Pairs with barrier_everywhere(). */
static inline void fence(const struct thread_cache *tcache)
{
    if (unlikely(tcache->fenced))
        barrier_here();
    barrier_compiler();
}

static inline unsigned state_of(const struct thread_cache *tcache)
{
    return gate_state(tcache->view.gate);
}

/* ---- put -------------------------------------------------------------------------------- */

/* Call after the thread has removed a pin, perhaps the last, of an entry whose sequence is even.
 * May deregister the entry, and the application's callback may then change the view. at_once:
 * leaves that to other threads. */
static noinline void unpinned_last(const struct thread_cache *tcache, struct hmreg_mr *mr,
                                   bool at_once)
{
    /* Not mr->domain: the entry may hold another region already. */
    struct cache_set *set = cache_set_of(tcache->set);
    struct hmreg_mr *gone;

    if (sequence_of(mr) & ENDS_WITH_PUT)
        return;
    if (!mr->slot_offset || !process_is(set->domain->lib->epoch)) /* 0: an explicit region */
        return;
    if (!at_once)
        cache_set_reap(set);
    gone = cache_collect_unpinned(&set->pool, mr);
    if (gone && at_once)
        cache_set_leave_entry(set, gone);
    else if (gone)
        cache_set_free_entry(set, gone);
}

/* Removes a pin that a request added. */
static inline void unpin(const struct thread_cache *tcache, struct pin_slot *pin_slot,
                         struct hmreg_mr *mr, bool at_once)
{
    /* A release: a thread that adds up pins and sees the new value also sees the user's accesses.
     */
    add_to(&pin_slot->pins, -1u);
    fence(tcache);
    if (unlikely(!(sequence_of(mr) & (1 | ENDS_WITH_PUT))))
        unpinned_last(tcache, mr, at_once);
}

/* For an entry that ends with its last put, the pin slot means nothing: the get was a holder. */
static void leave_holders(struct cache_set *set, struct hmreg_mr *mr)
{
    if (!process_is(set->domain->lib->epoch) || !holders_leave(entry_holders(mr)))
        return;
    cache_set_reap(set);
    cache_set_free_entry(set, cache_retire_last_put(&set->pool, mr));
}

static noinline void put_last(const struct thread_cache *tcache, struct hmreg_mr *mr)
{
    if (sequence_of(mr) & ENDS_WITH_PUT)
        leave_holders(cache_set_of(tcache->set), mr);
    else
        unpinned_last(tcache, mr, false);
}

/* For a thread without a pin slot for the entry, or one that must fence. */
static noinline void put_out_of_line(struct hmreg_mr *mr)
{
    struct cache_set *set;
    struct thread_cache *tcache;
    struct pin_slot *pin_slot;

    if (mr->domain->check_puts) {
        put_checked(mr);
        return;
    }
    if (!mr->slot_offset || domain_check(mr->domain))
        return;
    set = mr->domain->caches;
    tcache = thread_cache_join(&set->pool.thread_caches);
    pin_slot = tcache ? thread_cache_pin_slot(tcache, pin_slot_number(mr->slot_offset)) : NULL;
    if (pin_slot && !entry_ends_with_put(mr)) {
        unpin(tcache, pin_slot, mr, false);
        return;
    }
    cache_set_reap(set);
    cache_set_release(set, mr);
}

void hmreg_mr_put(struct hmreg_mr *mr)
{
    const struct tls_view *view;

    if (unlikely(!mr))
        return;
    view = tls_view_of(mr->domain->serial);
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

/* Does the entry, which may begin another use meanwhile, contain the range? */
static bool serves(const struct thread_cache *tcache, const struct pin_slot *pin_slot,
                   const struct hmreg_mr *mr, const struct cache_want *want)
{
    uint64_t start = __atomic_load_n(&mr->node.start, __ATOMIC_RELAXED);
    uint64_t size = __atomic_load_n(&mr->node.end, __ATOMIC_RELAXED) - start;
    uint64_t offset = want->start - start, len = want->end - want->start;

    if (offset >= size || len - 1 >= size - offset)
        return false;
    return !(tcache->exact || pin_slot->whole) || (!offset && len == size);
}

/* By this state of the gate: can no unread change concern this entry? Events being read from the
 * kernel, and counts, concern memory that the monitor watches; changes in the queue may concern
 * any. Read the sequence after the state: an earlier value may be from before a drain that has
 * opened the gate since. */
static bool changes_are_read(unsigned state, const struct hmreg_mr *mr)
{
    return (state & (GATE_LIVE | GATE_LOST)) == GATE_LIVE && !(state & GATE_QUEUED) &&
           !((state & GATE_CHANGES) && entry_body(mr)->monitored);
}

/* Is the entry's memory what the get claims? Performs the checks that the entry needs at each hit,
 * which may take long. Unpublishes an entry that fails them. */
static bool entry_is_valid(const struct thread_cache *tcache, struct hmreg_mr *mr,
                           uint32_t sequence, const struct cache_want *want)
{
    struct cache_set *set = cache_set_of(tcache->set);

    if (!entry_is_claimed(mr, want->claim) ||
        (want->at_once && (entry_body(mr)->ask_monitor || entry_body(mr)->ask_identity)))
        return false;
    if (entry_body(mr)->ask_monitor &&
        (!monitor_is_read(set->monitor) || !changes_are_read(state_of(tcache), mr) ||
         sequence_of(mr) != sequence))
        return false;
    if (!entry_body(mr)->ask_identity || cache_set_is_found(set, mr))
        return true;
    cache_unpublish_stale(&set->caches[entry_body(mr)->cache], mr);
    return false;
}

/* Does the entry still have the sequence, and does it serve? The gate's state was read before. */
static bool is_served(const struct thread_cache *tcache, const struct pin_slot *pin_slot,
                      const struct hmreg_mr *mr, uint32_t sequence, const struct cache_want *want)
{
    return sequence_of(mr) == sequence &&
           __atomic_load_n(&entry_body(mr)->variant, __ATOMIC_RELAXED) == want->variant &&
           serves(tcache, pin_slot, mr, want);
}

static bool is_open(unsigned state)
{
    return (state & (GATE_LIVE | GATE_LOST | GATE_CHANGES)) == GATE_LIVE;
}

/* Tries a pinned entry, which had the sequence before. Unpins it if it does not serve. */
static bool try_pinned(struct thread_cache *tcache, struct hmreg_mr *mr, struct pin_slot *pin_slot,
                       uint32_t sequence, const struct cache_want *want, bool *go_on)
{
    unsigned state;
    bool served;

    fence(tcache);
    state = state_of(tcache);
    *go_on = is_open(state);
    served =
        is_served(tcache, pin_slot, mr, sequence, want) && (*go_on || changes_are_read(state, mr));
    if (served) {
        *go_on = false; /* the checks may change the table */
        served = entry_is_valid(tcache, mr, sequence, want);
    }
    if (served)
        mark_used(pin_slot);
    else
        unpin(tcache, pin_slot, mr, want->at_once);
    return served;
}

/* Likewise for an entry that ends with its last put: checks that the entry serves, then becomes a
 * holder if the entry still has that use. */
static bool try_joining(struct thread_cache *tcache, struct hmreg_mr *mr,
                        const struct pin_slot *pin_slot, uint32_t sequence,
                        const struct cache_want *want, bool *go_on)
{
    struct cache_set *set = cache_set_of(tcache->set);

    *go_on = is_open(state_of(tcache));
    if (!*go_on || !is_served(tcache, pin_slot, mr, sequence | ENDS_WITH_PUT, want))
        return false;
    *go_on = false; /* the calls below may change the table */
    if (!holders_join(entry_holders(mr), sequence))
        return false;
    if (entry_is_valid(tcache, mr, sequence | ENDS_WITH_PUT, want))
        return true;
    leave_holders(set, mr);
    return false;
}

/* The sequence of an entry that the thread remembers; 0: its region does not grant the wanted
 * rights. */
static uint32_t remembered(const struct thread_cache *tcache, const struct pin_slot *pin_slot,
                           const struct cache_want *want)
{
    uint64_t more = cache_set_of(tcache->set)->domain->more_rights;
    uint64_t has = pin_slot->check & HMREG_ACCESS_ALL;
    bool varied = pin_slot->check & THREAD_CACHE_VARIED;
    bool trusts = want->claim && want->claim->trusted;

    if (!want->access || want->access & ~has || has & ~(want->access | more) ||
        (varied ? !want->variant && !trusts : want->variant != NULL))
        return 0;
    return pin_slot->check & ~(uint32_t)THREAD_CACHE_NO_SEQUENCE;
}

/* Tries the entry that a slot names. NULL: it does not serve. *go_on: whether another entry may.
 * Giving up an entry that ends with its last put may deregister it, so only others serve at once.
 */
static struct hmreg_mr *try_entry(struct thread_cache *tcache, uint32_t slot,
                                  const struct cache_want *want, bool *go_on)
{
    struct hmreg_mr *mr = mr_at(tcache->view.entries, slot);
    struct pin_slot *pin_slot = pin_slot_at(tcache->view.pin_slots, slot);
    uint32_t sequence = remembered(tcache, pin_slot, want), now = sequence_of(mr);
    unsigned cache = pin_slot->cache;
    bool served;

    *go_on = true;
    if (!sequence || (now & ~ENDS_WITH_PUT) != sequence ||
        (want->policy == HMREG_POLICY_LAST_PUT && !(now & ENDS_WITH_PUT)))
        return NULL;
    if (now & ENDS_WITH_PUT) {
        served = !want->at_once && try_joining(tcache, mr, pin_slot, sequence, want, go_on);
    } else {
        add_to(&pin_slot->pins, 1);
        served = try_pinned(tcache, mr, pin_slot, sequence, want, go_on);
    }
    if (!served)
        return NULL;
    thread_cache_count(tcache, cache, &cache_set_of(tcache->set)->caches[cache].stats);
    return mr;
}

/* The slot at `distance` from a request's first. 0: the search ends before it. Searches by
 * distance, since an unpin may change the table. */
static uint32_t slot_at_distance(const struct thread_cache *tcache, uint64_t addr,
                                 unsigned distance)
{
    if (distance == THREAD_CACHE_PROBES)
        return 0;
    return thread_cache_read(
        thread_cache_slot(tcache->view.slots, tcache->view.mask, thread_cache_hash(addr)) +
        distance);
}

static struct hmreg_mr *find_in_table(struct thread_cache *tcache, const struct cache_want *want)
{
    uint64_t addr = want->start, len = want->end - want->start;
    struct hmreg_mr *mr = NULL;
    bool go_on = true;
    uint32_t slot;

    if (want->variant)
        addr ^= variant_salt(want->variant);
    for (unsigned i = 0; go_on && !mr && (slot = slot_at_distance(tcache, addr, i)); i++)
        mr = try_entry(tcache, slot, want, &go_on);
    if (mr || want->variant)
        return mr;
    for (unsigned i = 0; go_on && !mr && (slot = range_list_find(&tcache->larger, addr, len, i));
         i++)
        mr = try_entry(tcache, slot, want, &go_on);
    if (mr && !want->at_once) /* the table may have to grow */
        thread_cache_remember(tcache, addr, pin_slot_number(slot),
                              pin_slot_at(tcache->view.pin_slots, slot)->check, true);
    return mr;
}

/* In the child of a fork the gate is not live, and the parent's domains are left alone. */
static struct hmreg_mr *find_remembered(struct thread_cache *tcache, const struct cache_want *want)
{
    struct cache_set *set = cache_set_of(tcache->set);
    bool whole = thread_cache_is_whole(tcache);

    if (state_of(tcache) != GATE_LIVE || !whole) {
        if (!process_is(set->domain->lib->epoch))
            return NULL;
        (void)context_life(set->domain->lib);
        if (!whole)
            thread_cache_mark_whole(tcache);
        cache_drain(&set->pool);
        if (state_of(tcache) & GATE_REAP)
            cache_set_reap(set);
    }
    return find_in_table(tcache, want);
}

struct hmreg_mr *get_remembered(struct hmreg_domain *domain, const struct cache_want *want)
{
    struct thread_cache *tcache = thread_cache_find(&domain->caches->pool.thread_caches);

    return tcache ? find_remembered(tcache, want) : NULL;
}

/* The calling thread's cache; in the child of a fork NULL. */
static struct thread_cache *find_tcache(struct hmreg_domain *domain)
{
    return process_is(domain->lib->epoch) ? thread_cache_find(&domain->caches->pool.thread_caches)
                                          : NULL;
}

_Static_assert(HMREG_GET_HOST == THREAD_CACHE_VARIED,
               "the flag makes pin_first() match what serves trusted claims, and nothing else");

/* tcache: the thread's, if known. access: with HMREG_GET_HOST or without. */
static noinline int get_out_of_line(struct thread_cache *tcache, struct hmreg_domain *domain,
                                    const void *addr, size_t len, uint64_t access,
                                    struct hmreg_mr **out)
{
    struct iovec iov = {(void *)(uintptr_t)addr, len};
    struct request request = {
        .iov = &iov, .count = 1, .access = access & ~HMREG_GET_HOST, .any_key = true};
    struct cache_want want = {
        .start = (uintptr_t)addr, .end = (uintptr_t)addr + len, .access = request.access};
    struct hmreg_mr *mr = NULL;

    if (access & HMREG_GET_HOST) {
        request.claim = claim_of_system();
        want.claim = &request.claim;
    }
    if (!tcache && domain && out)
        tcache = find_tcache(domain);
    if (tcache)
        mr = find_remembered(tcache, &want);
    if (!mr)
        return get_past_table(domain, &request, &want, out);
    *out = mr;
    return 0;
}

/* The pinned entry does not serve at once; or the slot is free. */
static noinline int get_unpinned(struct thread_cache *tcache, struct hmreg_domain *domain,
                                 struct hmreg_mr *pinned, const void *addr, size_t len,
                                 uint64_t access, struct hmreg_mr **out)
{
    if (pinned->slot_offset)
        unpin(tcache, pin_slot_at(tcache->view.pin_slots, pinned->slot_offset), pinned, false);
    return get_out_of_line(tcache, domain, addr, len, access, out);
}

/* ---- get -------------------------------------------------------------------------------- */

/* Pins the entry that the thread's table has first for the address. marks: the marks that its pin
 * slot may have. False: it does not serve at once, or the slot is free and *mr is entry 0, which
 * contains no range. */
static inline bool pin_first(const struct tls_view *view, uint64_t addr, uint64_t len,
                             uint64_t access, uint32_t marks, struct hmreg_mr **mr,
                             struct pin_slot **pin_slot)
{
    uint32_t slot =
        thread_cache_read(thread_cache_slot(view->slots, view->mask, thread_cache_hash(addr)));

    *pin_slot = pin_slot_at(view->pin_slots, slot);
    *mr = mr_at(view->entries, slot);
    add_to(&(*pin_slot)->pins, 1);
    barrier_compiler();
    return likely(gate_is_open(view->gate)) &&
           likely(((sequence_of(*mr) ^ (*pin_slot)->check) & ~marks) == access) &&
           likely(contains(*mr, addr, len));
}

static inline void note_hit(const struct tls_view *view, struct pin_slot *pin_slot)
{
    mark_used(pin_slot);
    cache_stats_hit(view->rows[pin_slot->cache]->shown);
}

int hmreg_mr_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                 struct hmreg_mr **out)
{
    struct hmreg_mr *mr;
    const struct tls_view *view;
    struct pin_slot *pin_slot;

    /* A fast check that neither is NULL: rare pointers without a common bit also take the
     * out-of-line path. Bits that are not access rights would be taken for bits of a sequence. */
    if (unlikely(!((uintptr_t)domain & (uintptr_t)out)) ||
        unlikely(access & ~(HMREG_ACCESS_ALL | HMREG_GET_HOST)))
        return get_out_of_line(NULL, domain, addr, len, access, out);
    view = tls_view_of(domain->serial);
    if (unlikely(view->serial != domain->serial))
        return get_out_of_line(NULL, domain, addr, len, access, out);
    if (unlikely(!pin_first(view, (uintptr_t)addr, len, access, 0, &mr, &pin_slot)))
        return get_unpinned(view->tcache, domain, mr, addr, len, access, out);
    note_hit(view, pin_slot);
    *out = mr;
    return 0;
}

static noinline bool is_as_claimed(const struct hmreg_mr *mr, const struct hmreg_mr_attr *attr)
{
    const struct claim claim = claim_of(attr);

    return entry_is_claimed(mr, &claim);
}

/* Does an entry without a variant fit the claim? Entries of the system's cache are system
 * memory. */
static inline bool suits_claim(const struct hmreg_mr *mr, const struct pin_slot *pin_slot,
                               const struct hmreg_mr_attr *attr)
{
    if (attr->claim_iface == HMREG_CLAIM_NONE)
        return true;
    return attr->iface == HMREG_IFACE_SYSTEM ? pin_slot->cache == HMREG_IFACE_SYSTEM
                                             : is_as_claimed(mr, attr);
}

static noinline struct hmreg_mr *unpin_first(const struct tls_view *view, struct pin_slot *pin_slot,
                                             struct hmreg_mr *mr)
{
    if (mr->slot_offset)
        unpin(view->tcache, pin_slot, mr, false);
    return NULL;
}

/* A hot entry with the mark VARIED and no other was registered by a trusted claim. */
struct hmreg_mr *get_hit(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr)
{
    const struct tls_view *view = tls_view_of(domain->serial);
    uint32_t marks = attr->claim_iface == HMREG_CLAIM_TRUSTED ? THREAD_CACHE_VARIED : 0;
    uint64_t addr = (uintptr_t)attr->iov->iov_base;
    struct pin_slot *pin_slot;
    struct hmreg_mr *mr;

    if (unlikely(view->serial != domain->serial) || unlikely(attr->access & ~HMREG_ACCESS_ALL))
        return NULL;
    if (unlikely(!pin_first(view, addr, attr->iov->iov_len, attr->access, marks, &mr, &pin_slot)) ||
        unlikely(!suits_claim(mr, pin_slot, attr)))
        return unpin_first(view, pin_slot, mr);
    note_hit(view, pin_slot);
    return mr;
}

/* ---- get and put, at once --------------------------------------------------------------- */

/* Searches the thread's table, as find_remembered(), but reads no changes. */
static noinline int try_out_of_line(struct thread_cache *tcache, struct hmreg_domain *domain,
                                    const void *addr, size_t len, uint64_t access,
                                    struct hmreg_mr **out)
{
    const struct claim host = claim_of_system();
    const struct cache_want want = {.start = (uintptr_t)addr,
                                    .end = (uintptr_t)addr + len,
                                    .access = access & ~HMREG_GET_HOST,
                                    .claim = access & HMREG_GET_HOST ? &host : NULL,
                                    .at_once = true};
    struct hmreg_mr *mr = NULL;

    if (!tcache)
        tcache = find_tcache(domain);
    if (tcache && state_of(tcache) == GATE_LIVE && thread_cache_is_whole(tcache))
        mr = find_in_table(tcache, &want);
    if (!mr)
        return -EAGAIN;
    *out = mr;
    return 0;
}

/* Is the table's first entry for the address as the thread remembers it? A thread that pinned an
 * ended entry would have to check under the lock whether its pin was the last. */
static inline bool first_matches(const struct tls_view *view, uint64_t addr, uint64_t access)
{
    uint32_t slot =
        thread_cache_read(thread_cache_slot(view->slots, view->mask, thread_cache_hash(addr)));

    return (sequence_of(mr_at(view->entries, slot)) ^ pin_slot_at(view->pin_slots, slot)->check) ==
           access;
}

int hmreg_mr_try_get(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                     struct hmreg_mr **out)
{
    struct hmreg_mr *mr;
    const struct tls_view *view;
    struct pin_slot *pin_slot;

    if (!domain || !out || access & ~(HMREG_ACCESS_ALL | HMREG_GET_HOST))
        return -EAGAIN;
    view = tls_view_of(domain->serial);
    if (unlikely(view->serial != domain->serial))
        return try_out_of_line(NULL, domain, addr, len, access, out);
    if (unlikely(!first_matches(view, (uintptr_t)addr, access)))
        return try_out_of_line(view->tcache, domain, addr, len, access, out);
    if (unlikely(!pin_first(view, (uintptr_t)addr, len, access, 0, &mr, &pin_slot))) {
        if (mr->slot_offset)
            unpin(view->tcache, pin_slot, mr, true);
        return try_out_of_line(view->tcache, domain, addr, len, access, out);
    }
    note_hit(view, pin_slot);
    *out = mr;
    return 0;
}

/* Takes a pin off an entry that serves gets. If the entry has just stopped serving, this leaves it
 * to other threads. */
static int unpin_hot(const struct tls_view *view, struct hmreg_mr *mr)
{
    if (mr->slot_offset >= view->room || sequence_of(mr) % 2 == 0)
        return -EAGAIN;
    unpin(view->tcache, pin_slot_at(view->pin_slots, mr->slot_offset), mr, true);
    return 0;
}

/* The domain is exact, or hits must fence. */
static noinline int try_put_out_of_line(struct hmreg_mr *mr)
{
    const struct thread_cache *tcache =
        mr->slot_offset && !mr->domain->check_puts ? find_tcache(mr->domain) : NULL;

    return tcache ? unpin_hot(&tcache->view, mr) : -EAGAIN;
}

int hmreg_mr_try_put(struct hmreg_mr *mr)
{
    const struct tls_view *view;

    if (!mr)
        return 0;
    view = tls_view_of(mr->domain->serial);
    return view->serial == mr->domain->serial ? unpin_hot(view, mr) : try_put_out_of_line(mr);
}
