/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See thread_cache.h. The process's sets are in a list, whose head and lock lie in a page that the
 * kernel wipes in the child of a fork: a child has none of its parent's domains. A thread that ends
 * searches this list for the thread caches it has to give up, since a domain may have been closed
 * meanwhile. The thread caches of a domain are in a list that only grows and is freed with the
 * domain, so adding them up takes no lock of its own.
 */
#include "core/cache/thread_cache.h"

#include "core/base/populate.h"
#include "core/base/process.h"
#include "core/mr/mr.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS     64u        /* size of a new table; sizes are powers of two */
#define MOST_SLOTS      (1u << 24) /* size of the largest: 64 MiB */
#define FEW_SLOTS       (1u << 14) /* tables up to this size are at most a quarter full */
#define PART_SLOTS      (1u << 16) /* tables of this size do not grow for parts of entries */
#define MOST_OTHERS     (PART_SLOTS / 4)
#define FIRST_PIN_SLOTS 64u
#define LINE            64
#define MANY_BYTES      (256u << 10)

/* glibc does not dlopen a library whose static thread-local storage needs more alignment than its
 * own has: 64 bytes (a line) on x86-64, 16 on arm64, where a TLS view may span two lines. */
#if defined(__x86_64__)
#define VIEW_ALIGNMENT LINE
#else
#define VIEW_ALIGNMENT 16
#endif

/* In .tdata, which precedes all small variables: else those before it would be padded to a line. */
_Thread_local struct tls_view tls_views[TLS_VIEWS] __attribute__((
    aligned(VIEW_ALIGNMENT), section(".tdata"), tls_model("initial-exec"), visibility("hidden")));

/* ---- the sets of this process ----------------------------------------------------------- */

/* Zero-filled memory is an unlocked mutex. */
struct registry {
    pthread_mutex_t lock;
    struct thread_cache_set *sets;
};

static _Atomic(struct registry *) registry;

static struct registry *registry_open(void)
{
    struct registry *made = atomic_load(&registry), *other = NULL;

    if (made)
        return made;
    made = process_page();
    if (made && !atomic_compare_exchange_strong(&registry, &other, made)) {
        process_page_free(made);
        made = other;
    }
    return made;
}

/* ---- threads ---------------------------------------------------------------------------- */

static _Atomic uint64_t last_thread, last_serial;
static _Thread_local uint64_t thread_number __attribute__((tls_model("initial-exec")));
static pthread_key_t leaving;

/* The thread's thread caches of domains that have lost their TLS view to another one, each at its
 * serial modulo OWN_CACHES. A serial is never used again, so those of closed domains stay unused.
 */
#define OWN_CACHES 64
static _Thread_local struct own_cache {
    uint64_t serial;
    struct thread_cache *tcache;
} * own_caches __attribute__((tls_model("initial-exec"))); /* NULL: none yet, or no memory */

static void give_up(struct thread_cache_set *set, uint64_t owner)
{
    for (struct thread_cache *tcache = atomic_load(&set->first); tcache; tcache = tcache->next)
        if (atomic_load(&tcache->owner) == owner)
            atomic_store(&tcache->owner, 0); /* releases its writes to the next owner */
}

/* Called when a thread ends. Its other destructors may still get and put: then it joins again. */
static void leave(void *arg)
{
    struct registry *all = atomic_load(&registry);

    memset(tls_views, 0, sizeof(tls_views));
    free(own_caches);
    own_caches = NULL;
    pthread_mutex_lock(&all->lock);
    for (struct thread_cache_set *set = all->sets; set; set = set->next)
        give_up(set, thread_number);
    pthread_mutex_unlock(&all->lock);
}

static bool register_leave(void)
{
    return pthread_key_create(&leaving, leave) == 0;
}

/* Numbers the thread, and registers leave() to run when it ends. */
static bool thread_enter(void)
{
    static atomic_int asked;

    if (!process_once(&asked, register_leave) || pthread_setspecific(leaving, &tls_views))
        return false;
    if (!thread_number)
        thread_number = atomic_fetch_add(&last_thread, 1) + 1;
    return true;
}

/* ---- thread caches ---------------------------------------------------------------------- */

static struct thread_cache *find_own(struct thread_cache_set *set)
{
    struct thread_cache *tcache = atomic_load(&set->first);

    while (tcache && atomic_load(&tcache->owner) != thread_number)
        tcache = tcache->next;
    return tcache;
}

/* So that thread_cache_show() finds it without a search among those of all threads. */
static void note_own(struct thread_cache *tcache)
{
    if (!own_caches)
        own_caches = calloc(OWN_CACHES, sizeof(*own_caches));
    if (own_caches)
        own_caches[tcache->set->serial % OWN_CACHES] =
            (struct own_cache){tcache->set->serial, tcache};
}

static struct thread_cache *adopt_left(struct thread_cache_set *set)
{
    struct thread_cache *tcache = atomic_load(&set->first);
    uint64_t no_owner = 0;

    for (; tcache; tcache = tcache->next, no_owner = 0)
        if (atomic_compare_exchange_strong(&tcache->owner, &no_owner, thread_number))
            break;
    return tcache;
}

/* THREAD_CACHE_PROBES extra slots at the end, so that no search wraps. */
static uint32_t *slots_new(uint32_t size)
{
    size_t count = (size_t)size + THREAD_CACHE_PROBES;
    uint32_t *slots = calloc(count, sizeof(*slots));

    if (slots) /* requests are spread over all of the table */
        populate(slots, count * sizeof(*slots));
    return slots;
}

static uint32_t size_of(const struct thread_cache *tcache)
{
    return tcache->view.mask / sizeof(uint32_t) + 1;
}

static void set_slots(struct thread_cache *tcache, uint32_t *slots, uint32_t size)
{
    tcache->view.slots = slots;
    tcache->view.mask = (size - 1) * (uint32_t)sizeof(uint32_t);
    tcache->used = tcache->others = 0;
}

/* Updates the thread's copy of the view. Call it when the view has changed. */
static void show(const struct thread_cache *tcache)
{
    struct tls_view *shown = tls_view_of(tcache->set->serial);

    if (shown->tcache == tcache)
        *shown = tcache->view;
}

static void thread_cache_free(struct thread_cache *tcache)
{
    range_list_free(&tcache->larger);
    free(tcache->view.pin_slots);
    free(tcache->view.slots);
    free(tcache);
}

static struct thread_cache *thread_cache_new(struct thread_cache_set *set)
{
    struct thread_cache *tcache =
        calloc(1, sizeof(*tcache) + set->caches * sizeof(tcache->rows[0]));
    bool aside = set->fenced || set->exact;

    if (!tcache)
        return NULL;
    set_slots(tcache, slots_new(FIRST_SLOTS), FIRST_SLOTS);
    tcache->set = set;
    if (!tcache->view.slots || !thread_cache_pin_slot(tcache, FIRST_PIN_SLOTS - 1)) {
        thread_cache_free(tcache);
        return NULL;
    }
    tcache->view.serial = aside ? ~set->serial : set->serial;
    tcache->view.gate = set->gate;
    tcache->view.tcache = tcache;
    tcache->fenced = set->fenced;
    tcache->exact = set->exact;
    atomic_init(&tcache->owner, thread_number);
    tcache->next = atomic_load(&set->first);
    while (!atomic_compare_exchange_weak(&set->first, &tcache->next, tcache))
        ;
    return tcache;
}

static struct thread_cache *take_view(struct thread_cache *tcache)
{
    if (tcache)
        *tls_view_of(tcache->set->serial) = tcache->view;
    return tcache;
}

struct thread_cache *thread_cache_find(struct thread_cache_set *set)
{
    const struct tls_view *view = tls_view_of(set->serial);
    struct thread_cache *tcache;

    if (view->serial == set->serial || view->serial == ~set->serial)
        return view->tcache;
    tcache = thread_number ? find_own(set) : NULL;
    if (tcache)
        note_own(tcache);
    return take_view(tcache);
}

bool thread_cache_show(uint64_t serial)
{
    const struct own_cache *own = own_caches ? &own_caches[serial % OWN_CACHES] : NULL;

    if (!own || own->serial != serial || own->tcache->view.serial != serial ||
        tls_view_of(serial)->serial == serial)
        return false;
    take_view(own->tcache);
    return true;
}

struct thread_cache *thread_cache_join(struct thread_cache_set *set)
{
    struct thread_cache *tcache = thread_cache_find(set);

    if (tcache)
        return tcache;
    if (!thread_enter())
        return NULL;
    tcache = adopt_left(set);
    return take_view(tcache ? tcache : thread_cache_new(set));
}

/* ---- sets ------------------------------------------------------------------------------- */

bool thread_cache_set_open(struct thread_cache_set *set, const struct stable_array *entries,
                           pthread_mutex_t *lock, unsigned caches, bool exact, bool fenced)
{
    struct registry *all = registry_open();

    *set = (struct thread_cache_set){
        .entries = entries, .lock = lock, .caches = caches, .exact = exact};
    set->gate = all ? gate_open() : NULL;
    if (!set->gate)
        return false;
    set->serial = atomic_fetch_add(&last_serial, 1) + 1;
    set->fenced = fenced || !barrier_start();
    pthread_mutex_lock(&all->lock);
    set->next = all->sets;
    all->sets = set;
    pthread_mutex_unlock(&all->lock);
    return true;
}

void thread_cache_set_close(struct thread_cache_set *set,
                            struct cache_stats *(*stats)(struct thread_cache_set *, unsigned))
{
    struct registry *all = atomic_load(&registry);
    struct thread_cache_set **link = &all->sets;

    pthread_mutex_lock(&all->lock);
    while (*link != set)
        link = &(*link)->next;
    *link = set->next;
    pthread_mutex_unlock(&all->lock);
    for (struct thread_cache *tcache = atomic_load(&set->first), *next; tcache; tcache = next) {
        next = tcache->next;
        for (unsigned i = 0; i < set->caches; i++)
            cache_stats_leave(stats(set, i), tcache->rows[i]);
        thread_cache_free(tcache);
    }
    gate_close(set->gate);
}

/* ---- pin slots ------------------------------------------------------------------------------ */

/* Allocates zeroed pin slots. A small array is aligned to a cache line; a large one comes from
 * calloc(), whose pages take no memory until they are used. */
static struct pin_slot *pin_slots_new(uint32_t room)
{
    size_t bytes = room * sizeof(struct pin_slot);
    struct pin_slot *made = bytes < MANY_BYTES ? aligned_alloc(LINE, bytes) : calloc(1, bytes);

    if (made && bytes < MANY_BYTES)
        memset((void *)made, 0, bytes);
    return made;
}

/* Eviction may clear `used` meanwhile: then the entry gets one more chance. */
static void copy_pin_slots(struct pin_slot *to, const struct pin_slot *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        atomic_init(&to[i].pins, atomic_load_explicit(&from[i].pins, memory_order_relaxed));
        atomic_init(&to[i].used, atomic_load_explicit(&from[i].used, memory_order_relaxed));
        to[i].asks = from[i].asks;
        to[i].cache = from[i].cache;
        to[i].check = from[i].check;
        to[i].hash = from[i].hash;
    }
}

/* Only the thread itself writes its pin slots (except `used`), so it copies them without the lock.
 * Other threads read them under the lock. */
struct pin_slot *thread_cache_pin_slot(struct thread_cache *tcache, uint32_t number)
{
    struct tls_view *view = &tcache->view;
    uint32_t had = pin_slot_number(view->room), room = had ? had : FIRST_PIN_SLOTS;
    struct pin_slot *made, *old = view->pin_slots;

    if (number < had)
        return &old[number];
    while (room <= number)
        room *= 4; /* pages of a large array that are not used take no memory */
    made = pin_slots_new(room);
    if (!made)
        return NULL;
    if (old)
        copy_pin_slots(made, old, had);
    pthread_mutex_lock(tcache->set->lock);
    view->pin_slots = made;
    view->room = pin_slot_offset(room);
    view->entries = tcache->set->entries->base;
    pthread_mutex_unlock(tcache->set->lock);
    show(tcache);
    free(old);
    return &made[number];
}

uint32_t thread_cache_pins(const struct thread_cache_set *set, uint32_t number)
{
    uint32_t sum = 0;

    /* Acquire: pairs with the release of a put, after which the region may be deregistered. */
    for (const struct thread_cache *tcache = atomic_load(&set->first); tcache;
         tcache = tcache->next)
        if (pin_slot_offset(number) < tcache->view.room)
            sum += atomic_load_explicit(&tcache->view.pin_slots[number].pins, memory_order_acquire);
    return sum;
}

bool thread_cache_was_used(const struct thread_cache_set *set, uint32_t number)
{
    for (const struct thread_cache *tcache = atomic_load(&set->first); tcache;
         tcache = tcache->next)
        if (pin_slot_offset(number) < tcache->view.room &&
            atomic_load_explicit(&tcache->view.pin_slots[number].used, memory_order_relaxed))
            return true;
    return false;
}

void thread_cache_clear_used(const struct thread_cache_set *set, uint32_t number)
{
    for (const struct thread_cache *tcache = atomic_load(&set->first); tcache;
         tcache = tcache->next)
        if (pin_slot_offset(number) < tcache->view.room &&
            atomic_load_explicit(&tcache->view.pin_slots[number].used, memory_order_relaxed))
            atomic_store_explicit(&tcache->view.pin_slots[number].used, 0, memory_order_relaxed);
}

/* ---- slots ------------------------------------------------------------------------------ */

/* Does the thread's pin slot match the entry's sequence? There may be more pin slots than entries.
 */
static bool is_good(const struct thread_cache *tcache, uint32_t number)
{
    const struct hmreg_mr *mr = stable_array_at(tcache->set->entries, number);
    uint32_t check = tcache->view.pin_slots[number].check;

    if (!check)
        return false;
    check ^= atomic_load_explicit(&mr->sequence, memory_order_relaxed);
    return !(check & ~(uint32_t)THREAD_CACHE_NO_SEQUENCE);
}

static uint32_t *first_slot(const struct thread_cache *tcache, uint32_t hash)
{
    return thread_cache_slot(tcache->view.slots, tcache->view.mask, hash);
}

/* Finds a slot for an entry: its own, a free one, or a stale one. NULL: none. */
static uint32_t *room_for(const struct thread_cache *tcache, uint32_t hash, uint32_t number)
{
    uint32_t *slot = first_slot(tcache, hash), *end = slot + THREAD_CACHE_PROBES, *room = NULL;

    for (; slot < end && *slot; slot++) {
        if (*slot == pin_slot_offset(number))
            return slot;
        if (!room && !is_good(tcache, pin_slot_number(*slot)))
            room = slot;
    }
    return room || slot == end ? room : slot;
}

/* Stores an entry in the slot of its last request. True: that was free. */
static bool store(struct thread_cache *tcache, uint32_t number)
{
    uint32_t hash = tcache->view.pin_slots[number].hash;
    uint32_t *slot = room_for(tcache, hash, number);
    bool was_free;

    slot = slot ? slot : first_slot(tcache, hash);
    was_free = !*slot;
    tcache->used += was_free;
    *slot = pin_slot_offset(number);
    return was_free;
}

/* Does the slot belong to its entry's last request? Other slots that name the entry belong to other
 * requests, or to an earlier use of the entry. */
static bool is_own(const struct thread_cache *tcache, const uint32_t *slot)
{
    uint32_t number = pin_slot_number(*slot);
    const uint32_t *first = first_slot(tcache, tcache->view.pin_slots[number].hash);

    return slot >= first && slot < first + THREAD_CACHE_PROBES && is_good(tcache, number);
}

static uint32_t count_good(const struct thread_cache *tcache)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < size_of(tcache) + THREAD_CACHE_PROBES; i++)
        count += is_own(tcache, &tcache->view.slots[i]);
    return count;
}

/* The number of slots that may be in use. In a table at most a quarter full most searches end where
 * they begin; for a large table memory matters more. */
static uint32_t limit_of(uint32_t size)
{
    return size <= FEW_SLOTS ? size / 4 : size / 2;
}

/* Moves the valid slots to a new table, where they fill at most three quarters of the limit. A slot
 * does not record its request, so each entry keeps the slot of the last request it served; its
 * other requests, for which a table of PART_SLOTS has room, are remembered anew when they are made
 * again. */
static void make_larger(struct thread_cache *tcache)
{
    uint32_t *old = tcache->view.slots, *end = old + size_of(tcache) + THREAD_CACHE_PROBES, *made;
    uint32_t others = tcache->others < MOST_OTHERS ? tcache->others : MOST_OTHERS;
    uint64_t good = (uint64_t)count_good(tcache) + others;
    uint32_t size = FIRST_SLOTS;

    while (size < MOST_SLOTS && good * 4 > UINT64_C(3) * limit_of(size))
        size *= size < FEW_SLOTS ? 8 : 2; /* small tables grow in larger steps, which are fewer */
    made = slots_new(size);
    if (!made)
        return;
    set_slots(tcache, made, size);
    for (uint32_t *slot = old; slot < end; slot++)
        if (is_good(tcache, pin_slot_number(*slot)))
            store(tcache, pin_slot_number(*slot));
    show(tcache);
    free(old);
}

static bool keeps_slot(const void *tcache, uint32_t slot)
{
    return is_good(tcache, pin_slot_number(slot));
}

/* A table that is too full to be searched quickly is enlarged, or at least purged of stale slots.
 */
void thread_cache_remember(struct thread_cache *tcache, uint64_t addr, uint32_t number,
                           uint32_t check, bool part)
{
    struct pin_slot *pin_slot = &tcache->view.pin_slots[number];
    bool full = tcache->used >= limit_of(size_of(tcache)), known = pin_slot->check == check;

    pin_slot->check = check;
    pin_slot->hash = thread_cache_hash(addr);
    if (full && part && size_of(tcache) >= PART_SLOTS)
        return;
    if (full)
        make_larger(tcache);
    tcache->others += store(tcache, number) && known;
}

/* If ended entries hide it from searches, they go. */
void thread_cache_keep_larger(struct thread_cache *tcache, struct range range, uint64_t addr,
                              uint64_t len)
{
    uint32_t found;

    range_list_add(&tcache->larger, range);
    found = range_list_find(&tcache->larger, addr, len, 0);
    if (found != range.number && !(found && keeps_slot(tcache, found)))
        range_list_purge(&tcache->larger, keeps_slot, tcache);
}

/* ---- counts ------------------------------------------------------------------------------ */

bool thread_cache_is_usual(struct thread_cache *tcache, unsigned cache)
{
    if (!tcache->view.hits) {
        tcache->view.hits = &tcache->rows[cache]->shown->hits;
        tcache->usual = (uint16_t)cache;
        show(tcache);
    }
    return tcache->usual == cache;
}

static void count_in(struct cache_stats_row *row)
{
    _Atomic uint64_t *hits = &row->shown->hits;

    atomic_store_explicit(hits, atomic_load_explicit(hits, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void thread_cache_count(struct thread_cache *tcache, unsigned cache, struct cache_stats *stats)
{
    if (thread_cache_counts(tcache, cache, stats))
        count_in(tcache->rows[cache]);
    else
        cache_stats_add(stats, STATS_HITS, 1);
}
