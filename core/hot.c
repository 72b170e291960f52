/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hot.h. The sets of the process are in a list of its own page, wiped in the child of a fork
 * with its lock: a child has none of its parent's domains. A thread that ends looks there for what
 * it has to give up, since a domain may have been closed meanwhile; a domain's threads' parts are
 * only added to, and freed with it, so that they are added up without a lock.
 */
#include "core/hot.h"

#include "core/mr.h"
#include "core/process.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u        /* of a new table; always a power of two */
#define MOST_SLOTS  (1u << 24) /* of the largest: 64 MiB */
#define FEW_SLOTS   (1u << 14) /* so many may be three quarters empty */
#define FIRST_CELLS 64u
#define LINE        64
#define MANY_BYTES  (256u << 10)

/* glibc loads no library late whose thread-local data of this kind want more alignment than its own
 * have: a line on x86-64, 16 bytes on arm64, where a desk may lie in two lines. */
#if defined(__x86_64__)
#define DESK_ALIGNMENT LINE
#else
#define DESK_ALIGNMENT 16
#endif

/* In .tdata, which comes before all that is small: else what precedes it would be padded to a line.
 */
_Thread_local struct hot_desk hot_desks[HOT_DESKS] __attribute__((
    aligned(DESK_ALIGNMENT), section(".tdata"), tls_model("initial-exec"), visibility("hidden")));

/* ---- the sets of this process ----------------------------------------------------------- */

/* All zero is a mutex that is free. */
struct registry {
    pthread_mutex_t lock;
    struct hot_set *sets;
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

static void give_up(struct hot_set *set, uint64_t owner)
{
    for (struct hot *hot = atomic_load(&set->first); hot; hot = hot->next)
        if (atomic_load(&hot->owner) == owner)
            atomic_store(&hot->owner, 0); /* releases what it wrote to the next owner */
}

/* The thread ends. Its other destructors may still get and put: then it joins again. */
static void leave(void *arg)
{
    struct registry *all = atomic_load(&registry);

    memset(hot_desks, 0, sizeof(hot_desks));
    pthread_mutex_lock(&all->lock);
    for (struct hot_set *set = all->sets; set; set = set->next)
        give_up(set, thread_number);
    pthread_mutex_unlock(&all->lock);
}

static bool ask_to_be_told(void)
{
    return pthread_key_create(&leaving, leave) == 0;
}

/* Names the thread, and makes sure that its end is noticed. */
static bool thread_enter(void)
{
    static atomic_int asked;

    if (!process_once(&asked, ask_to_be_told) || pthread_setspecific(leaving, &hot_desks))
        return false;
    if (!thread_number)
        thread_number = atomic_fetch_add(&last_thread, 1) + 1;
    return true;
}

/* ---- a thread's part -------------------------------------------------------------------- */

static struct hot *own_part(struct hot_set *set)
{
    struct hot *hot = atomic_load(&set->first);

    while (hot && atomic_load(&hot->owner) != thread_number)
        hot = hot->next;
    return hot;
}

static struct hot *left_part(struct hot_set *set)
{
    struct hot *hot = atomic_load(&set->first);
    uint64_t nobody = 0;

    for (; hot; hot = hot->next, nobody = 0)
        if (atomic_compare_exchange_strong(&hot->owner, &nobody, thread_number))
            break;
    return hot;
}

/* Some more at the end, so that no search wraps. */
static uint32_t *slots_new(uint32_t size)
{
    return calloc((size_t)size + HOT_PROBES, sizeof(uint32_t));
}

static uint32_t size_of(const struct hot *hot)
{
    return hot->desk.mask / sizeof(uint32_t) + 1;
}

static void set_slots(struct hot *hot, uint32_t *slots, uint32_t size)
{
    hot->desk.slots = slots;
    hot->desk.mask = (size - 1) * (uint32_t)sizeof(uint32_t);
    hot->used = hot->others = 0;
}

/* To be called when the desk has changed. */
static void show(const struct hot *hot)
{
    struct hot_desk *shown = hot_desk_of(hot->set->serial);

    if (shown->hot == hot)
        *shown = hot->desk;
}

static void part_free(struct hot *hot)
{
    free(hot->desk.cells);
    free(hot->desk.slots);
    free(hot);
}

static struct hot *part_new(struct hot_set *set)
{
    struct hot *hot = calloc(1, sizeof(*hot) + set->caches * sizeof(hot->rows[0]));
    bool aside = set->fenced || set->exact;

    if (!hot)
        return NULL;
    set_slots(hot, slots_new(FIRST_SLOTS), FIRST_SLOTS);
    hot->set = set;
    if (!hot->desk.slots || !hot_cell(hot, FIRST_CELLS - 1)) {
        part_free(hot);
        return NULL;
    }
    hot->desk.serial = aside ? ~set->serial : set->serial;
    hot->desk.gate = set->gate;
    hot->desk.hot = hot;
    hot->fenced = set->fenced;
    hot->exact = set->exact;
    atomic_init(&hot->owner, thread_number);
    hot->next = atomic_load(&set->first);
    while (!atomic_compare_exchange_weak(&set->first, &hot->next, hot))
        ;
    return hot;
}

static struct hot *sit_down(struct hot *hot)
{
    if (hot)
        *hot_desk_of(hot->set->serial) = hot->desk;
    return hot;
}

struct hot *hot_find(struct hot_set *set)
{
    const struct hot_desk *desk = hot_desk_of(set->serial);

    if (desk->serial == set->serial || desk->serial == ~set->serial)
        return desk->hot;
    return thread_number ? sit_down(own_part(set)) : NULL;
}

struct hot *hot_join(struct hot_set *set)
{
    struct hot *hot = hot_find(set);

    if (hot)
        return hot;
    if (!thread_enter())
        return NULL;
    hot = left_part(set);
    return sit_down(hot ? hot : part_new(set));
}

/* ---- a domain's ------------------------------------------------------------------------- */

bool hot_set_open(struct hot_set *set, const struct shelf *entries, pthread_mutex_t *lock,
                  unsigned caches, bool exact)
{
    struct registry *all = registry_open();

    *set = (struct hot_set){.entries = entries, .lock = lock, .caches = caches, .exact = exact};
    set->gate = all ? gate_open() : NULL;
    if (!set->gate)
        return false;
    set->serial = atomic_fetch_add(&last_serial, 1) + 1;
    set->fenced = !barrier_start();
    pthread_mutex_lock(&all->lock);
    set->next = all->sets;
    all->sets = set;
    pthread_mutex_unlock(&all->lock);
    return true;
}

void hot_set_close(struct hot_set *set, struct ledger *(*ledger)(struct hot_set *, unsigned))
{
    struct registry *all = atomic_load(&registry);
    struct hot_set **link = &all->sets;

    pthread_mutex_lock(&all->lock);
    while (*link != set)
        link = &(*link)->next;
    *link = set->next;
    pthread_mutex_unlock(&all->lock);
    for (struct hot *hot = atomic_load(&set->first), *next; hot; hot = next) {
        next = hot->next;
        for (unsigned i = 0; i < set->caches; i++)
            ledger_leave(ledger(set, i), hot->rows[i]);
        part_free(hot);
    }
    gate_close(set->gate);
}

/* ---- cells ------------------------------------------------------------------------------ */

/* All zero. A few lie on lines of their own; of many, whole pages do, unused as long as they are.
 */
static struct cell *cells_new(uint32_t room)
{
    size_t bytes = room * sizeof(struct cell);
    struct cell *made = bytes < MANY_BYTES ? aligned_alloc(LINE, bytes) : calloc(1, bytes);

    if (made && bytes < MANY_BYTES)
        memset((void *)made, 0, bytes);
    return made;
}

/* Eviction may clear `used` meanwhile: then an entry has one more chance. */
static void copy_cells(struct cell *to, const struct cell *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        atomic_init(&to[i].pins, atomic_load_explicit(&from[i].pins, memory_order_relaxed));
        atomic_init(&to[i].used, atomic_load_explicit(&from[i].used, memory_order_relaxed));
        to[i].check = from[i].check;
        to[i].hash = from[i].hash;
    }
}

/* Only the thread itself writes its cells, but for `used`, so it copies them without the lock;
 * others read them with it. */
struct cell *hot_cell(struct hot *hot, uint32_t number)
{
    struct hot_desk *desk = &hot->desk;
    uint32_t had = hot_number(desk->room), room = had ? had : FIRST_CELLS;
    struct cell *made, *old = desk->cells;

    if (number < had)
        return &old[number];
    while (room <= number)
        room *= 2;
    made = cells_new(room);
    if (!made)
        return NULL;
    if (old)
        copy_cells(made, old, had);
    pthread_mutex_lock(hot->set->lock);
    desk->cells = made;
    desk->room = hot_name(room);
    desk->entries = hot->set->entries->base;
    pthread_mutex_unlock(hot->set->lock);
    show(hot);
    free(old);
    return &made[number];
}

uint32_t hot_pins(const struct hot_set *set, uint32_t number)
{
    uint32_t sum = 0;

    /* Acquire: pairs with the release of a put, after which the region may end. */
    for (const struct hot *hot = atomic_load(&set->first); hot; hot = hot->next)
        if (hot_name(number) < hot->desk.room)
            sum += atomic_load_explicit(&hot->desk.cells[number].pins, memory_order_acquire);
    return sum;
}

bool hot_was_used(const struct hot_set *set, uint32_t number)
{
    for (const struct hot *hot = atomic_load(&set->first); hot; hot = hot->next)
        if (hot_name(number) < hot->desk.room &&
            atomic_load_explicit(&hot->desk.cells[number].used, memory_order_relaxed))
            return true;
    return false;
}

void hot_clear_used(const struct hot_set *set, uint32_t number)
{
    for (const struct hot *hot = atomic_load(&set->first); hot; hot = hot->next)
        if (hot_name(number) < hot->desk.room &&
            atomic_load_explicit(&hot->desk.cells[number].used, memory_order_relaxed))
            atomic_store_explicit(&hot->desk.cells[number].used, 0, memory_order_relaxed);
}

/* ---- slots ------------------------------------------------------------------------------ */

/* Is the thread's knowledge of an entry good? There may be more cells than entries. */
static bool is_good(const struct hot *hot, uint32_t number)
{
    const struct hmreg_mr *mr = shelf_at(hot->set->entries, number);
    uint32_t check = hot->desk.cells[number].check;

    if (!check)
        return false;
    check ^= atomic_load_explicit(&mr->sequence, memory_order_relaxed);
    return !(check & ~(HOT_ASIDE | HMREG_ACCESS_ALL));
}

static uint32_t *first_slot(const struct hot *hot, uint32_t hash)
{
    return hot_slot(hot->desk.slots, hot->desk.mask, hash);
}

/* Where an entry goes: its own slot, a free one, or one that is good no more. NULL: nowhere. */
static uint32_t *room_for(const struct hot *hot, uint32_t hash, uint32_t number)
{
    uint32_t *slot = first_slot(hot, hash), *end = slot + HOT_PROBES, *room = NULL;

    for (; slot < end && *slot; slot++) {
        if (*slot == hot_name(number))
            return slot;
        if (!room && !is_good(hot, hot_number(*slot)))
            room = slot;
    }
    return room || slot == end ? room : slot;
}

/* By its last request. False: it was there. */
static bool store(struct hot *hot, uint32_t number)
{
    uint32_t hash = hot->desk.cells[number].hash;
    uint32_t *slot = room_for(hot, hash, number);
    bool fresh;

    slot = slot ? slot : first_slot(hot, hash);
    fresh = *slot != hot_name(number);
    hot->used += !*slot;
    *slot = hot_name(number);
    return fresh;
}

/* Is it where its entry's last request led? Other slots that name the entry are of other requests,
 * or of what the entry was before. */
static bool is_own(const struct hot *hot, const uint32_t *slot)
{
    uint32_t number = hot_number(*slot);
    const uint32_t *first = first_slot(hot, hot->desk.cells[number].hash);

    return slot >= first && slot < first + HOT_PROBES && is_good(hot, number);
}

static uint32_t count_good(const struct hot *hot)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < size_of(hot) + HOT_PROBES; i++)
        count += is_own(hot, &hot->desk.slots[i]);
    return count;
}

/* How many may be used. Most searches end where they begin in a table that is half empty; memory is
 * what counts in a large one. */
static uint32_t limit_of(uint32_t size)
{
    return size <= FEW_SLOTS ? size / 4 : size / 2;
}

/* To a table of which what is good fills three quarters of the limit at most. A slot does not say
 * what was asked for: entries come along, each by the last request it served, and their other
 * requests come again when they are made again. */
static void make_larger(struct hot *hot)
{
    uint32_t *old = hot->desk.slots, *end = old + size_of(hot) + HOT_PROBES, *made;
    uint64_t good = (uint64_t)count_good(hot) + hot->others;
    uint32_t size = FIRST_SLOTS;

    while (size < MOST_SLOTS && good * 4 > UINT64_C(3) * limit_of(size))
        size *= 2;
    made = slots_new(size);
    if (!made)
        return;
    set_slots(hot, made, size);
    for (uint32_t *slot = old; slot < end; slot++)
        if (is_good(hot, hot_number(*slot)))
            store(hot, hot_number(*slot));
    show(hot);
    free(old);
}

/* A table that is too full to search quickly is made larger, or at least cleaned. */
void hot_remember(struct hot *hot, uint64_t addr, uint32_t number, uint32_t check)
{
    struct cell *cell = &hot->desk.cells[number];
    bool known = cell->check == check;

    cell->check = check;
    cell->hash = hot_hash(addr);
    if (hot->used >= limit_of(size_of(hot)))
        make_larger(hot);
    hot->others += store(hot, number) && known;
}

/* ---- counts ----------------------------------------------------------------------------- */

static _Atomic uint64_t *hits_of(struct hot *hot, unsigned cache, struct ledger *ledger)
{
    if (!hot->rows[cache])
        hot->rows[cache] = ledger_join(ledger);
    return hot->rows[cache] ? &hot->rows[cache]->shown->hits : NULL;
}

bool hot_is_usual(struct hot *hot, unsigned cache, struct ledger *ledger)
{
    if (!hot->desk.hits) {
        hot->desk.hits = hits_of(hot, cache, ledger);
        hot->usual = (uint16_t)cache;
        show(hot);
    }
    return hot->desk.hits && hot->usual == cache;
}

void hot_count(struct hot *hot, unsigned cache, struct ledger *ledger)
{
    _Atomic uint64_t *hits = hits_of(hot, cache, ledger);

    if (hits)
        atomic_store_explicit(hits, atomic_load_explicit(hits, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    else
        ledger_add(ledger, STATS_HITS, 1);
}
