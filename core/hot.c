/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hot.h. The sets of the process are in a list of its own page, wiped in the child of a fork
 * with its lock: a child has none of its parent's domains. A thread that ends looks there for what
 * it has to give up, since a domain may have been closed meanwhile; a domain's threads' parts are
 * only added to, and freed with it, so that they are added up without a lock.
 */
#include "core/hot.h"

#include "core/lru.h"
#include "core/mr.h"
#include "core/process.h"
#include "core/quiet.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u        /* of a new table; always a power of two */
#define MOST_SLOTS  (1u << 22) /* of the largest: 64 MiB */
#define FEW_SLOTS   (1u << 13) /* so many may be half empty */
#define FIRST_CELLS 64u
#define LINE        64
#define MANY_BYTES  (256u << 10)

_Thread_local struct hot_place hot_places[HOT_PLACES]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

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
static _Thread_local uint64_t thread_number;
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

    memset(hot_places, 0, sizeof(hot_places));
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

    if (!process_once(&asked, ask_to_be_told) || pthread_setspecific(leaving, &hot_places))
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
static struct slot *slots_new(uint32_t size)
{
    return calloc((size_t)size + HOT_PROBES, sizeof(struct slot));
}

static void part_free(struct hot *hot)
{
    free(hot->cells);
    free(hot->slots);
    free(hot);
}

static struct hot *part_new(struct hot_set *set)
{
    struct hot *hot = calloc(1, sizeof(*hot) + set->caches * sizeof(hot->rows[0]));

    if (!hot)
        return NULL;
    hot->slots = slots_new(FIRST_SLOTS);
    hot->set = set;
    if (!hot->slots || !hot_cell(hot, FIRST_CELLS - 1)) {
        part_free(hot);
        return NULL;
    }
    hot->size = FIRST_SLOTS;
    hot->span = FIRST_SLOTS * sizeof(struct slot);
    hot->pulse = set->pulse;
    hot->entry_size = set->entries->size;
    hot->fenced = set->fenced;
    hot->exact = set->exact;
    atomic_init(&hot->owner, thread_number);
    hot->next = atomic_load(&set->first);
    while (!atomic_compare_exchange_weak(&set->first, &hot->next, hot))
        ;
    return hot;
}

static void move_in(struct hot_set *set, struct hot *hot)
{
    bool aside = set->fenced || set->exact;

    *hot_place(hot_place_of(set->serial)) =
        (struct hot_place){aside ? hot_other_serial(set->serial) : set->serial, hot};
}

struct hot *hot_join(struct hot_set *set)
{
    struct hot *hot = hot_known(set->serial);

    if (hot)
        return hot;
    if (!thread_enter())
        return NULL;
    hot = own_part(set);
    hot = hot ? hot : left_part(set);
    hot = hot ? hot : part_new(set);
    if (hot)
        move_in(set, hot);
    return hot;
}

/* ---- a domain's ------------------------------------------------------------------------- */

bool hot_set_open(struct hot_set *set, const struct shelf *entries, pthread_mutex_t *lock,
                  unsigned caches, bool exact)
{
    struct registry *all = registry_open();

    *set = (struct hot_set){.entries = entries, .lock = lock, .caches = caches, .exact = exact};
    set->pulse = all ? pulse_open() : NULL;
    if (!set->pulse)
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
    pulse_close(set->pulse);
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

/* Only the thread itself writes its cells, so it copies them without the lock; others read them
 * with it. */
struct cell *hot_cell(struct hot *hot, uint32_t number)
{
    uint32_t room = hot->room ? hot->room : FIRST_CELLS;
    struct cell *made, *old = hot->cells;

    if (number < hot->room)
        return &hot->cells[number];
    while (room <= number)
        room *= 2;
    made = cells_new(room);
    if (!made)
        return NULL;
    if (old)
        memcpy((void *)made, (void *)old, hot->room * sizeof(*old));
    quiet_lock(hot->set->lock);
    hot->cells = made;
    hot->room = room;
    hot->entries = hot->set->entries->base;
    quiet_unlock(hot->set->lock);
    free(old);
    return &made[number];
}

uint32_t hot_pins(const struct hot_set *set, uint32_t number)
{
    uint32_t sum = 0;

    /* Acquire: pairs with the release of a put, after which the region may end. */
    for (const struct hot *hot = atomic_load(&set->first); hot; hot = hot->next)
        if (number < hot->room)
            sum += atomic_load_explicit(&hot->cells[number].pins, memory_order_acquire);
    return sum;
}

/* Ages, since the clock may wrap and a cell may be of long ago. */
uint32_t hot_last_use(const struct hot_set *set, uint32_t number, uint32_t known)
{
    uint32_t now = atomic_load_explicit(&set->pulse->clock, memory_order_relaxed);
    uint32_t age = now - known;

    if (lru_is_later(known, now))
        return known;
    for (const struct hot *hot = atomic_load(&set->first); hot; hot = hot->next) {
        uint32_t stamp = number < hot->room
                             ? atomic_load_explicit(&hot->cells[number].stamp, memory_order_relaxed)
                             : known;

        if (now - stamp < age)
            age = now - stamp;
    }
    return now - age;
}

/* ---- slots ------------------------------------------------------------------------------ */

static bool is_good(const struct hot *hot, const struct slot *slot)
{
    const struct hmreg_mr *mr = shelf_at(hot->set->entries, slot->number);
    uint32_t sequence = atomic_load_explicit(&mr->sequence, memory_order_relaxed);

    return slot->addr && !((sequence ^ slot->check) & ~(HOT_ASIDE | HMREG_ACCESS_ALL));
}

/* Where a request goes: its own slot, a free one, or one that is good no more. NULL: nowhere. */
static struct slot *room_for(const struct hot *hot, uint64_t addr, uint32_t number)
{
    struct slot *slot = hot_slot(hot, addr), *end = slot + HOT_PROBES, *room = NULL;

    for (; slot < end; slot++) {
        if (!slot->addr)
            return room ? room : slot;
        if (slot->addr == addr && slot->number == number)
            return slot;
        if (!room && !is_good(hot, slot))
            room = slot;
    }
    return room;
}

static uint32_t count_good(const struct hot *hot)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < hot->size + HOT_PROBES; i++)
        count += is_good(hot, &hot->slots[i]);
    return count;
}

static void store(struct hot *hot, struct slot *slot, const struct slot *what)
{
    hot->used += !slot->addr;
    *slot = *what;
}

/* How many may be used. A search is short in a table that is half empty; memory is, in a large one.
 */
static uint32_t limit_of(uint32_t size)
{
    return size <= FEW_SLOTS ? size / 2 : size / 16 * 13;
}

/* What is good moves to a table of which it fills three quarters of the limit at most. */
static void make_larger(struct hot *hot)
{
    struct slot *old = hot->slots, *end = old + hot->size + HOT_PROBES;
    uint64_t good = count_good(hot);
    uint32_t size = FIRST_SLOTS;
    struct slot *made;

    while (size < MOST_SLOTS && good * 4 > UINT64_C(3) * limit_of(size))
        size *= 2;
    made = slots_new(size);
    if (!made)
        return;
    hot->slots = made;
    hot->size = size;
    hot->span = size * sizeof(struct slot);
    hot->used = 0;
    for (struct slot *slot = old; slot < end; slot++) {
        struct slot *room = is_good(hot, slot) ? room_for(hot, slot->addr, slot->number) : NULL;

        if (room)
            store(hot, room, slot);
    }
    free(old);
}

/* A table that is too full to search quickly is made larger, or at least cleaned. */
void hot_remember(struct hot *hot, uint64_t addr, uint32_t number, uint32_t check)
{
    struct slot what = {addr, number, check};
    struct slot *slot;

    if (hot->used >= limit_of(hot->size))
        make_larger(hot);
    slot = room_for(hot, addr, number);
    store(hot, slot ? slot : hot_slot(hot, addr), &what);
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
    if (!hot->hits) {
        hot->hits = hits_of(hot, cache, ledger);
        hot->usual = (uint16_t)cache;
    }
    return hot->hits && hot->usual == cache;
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
