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

#include <stdlib.h>
#include <string.h>

#define FIRST_BITS 6  /* slots of a new table, as a power of two */
#define MOST_BITS  22 /* and of the largest: 64 MiB */

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
static bool is_told_of_leaving;

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

static void ask_to_be_told(void)
{
    is_told_of_leaving = pthread_key_create(&leaving, leave) == 0;
}

/* Names the thread, and makes sure that its end is noticed. */
static bool thread_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, ask_to_be_told);
    if (!is_told_of_leaving || pthread_setspecific(leaving, &hot_places))
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
static struct slot *slots_new(unsigned bits)
{
    return calloc(((size_t)1 << bits) + HOT_PROBES, sizeof(struct slot));
}

static void part_free(struct hot *hot)
{
    if (!hot)
        return;
    for (uint32_t first = SHELF_FIRST; first && hot_cell(hot, first); first *= 2)
        free(hot_cell(hot, first));
    free(hot->rows);
    free(hot->slots);
    free(hot);
}

static struct hot *part_new(struct hot_set *set)
{
    struct hot *hot = calloc(1, sizeof(*hot) + set->caches * sizeof(hot->hits[0]));

    if (!hot)
        return NULL;
    hot->slots = slots_new(FIRST_BITS);
    hot->rows = calloc(set->caches, sizeof(hot->rows[0]));
    if (!hot->slots || !hot->rows) {
        part_free(hot);
        return NULL;
    }
    hot->pulse = set->pulse;
    hot->shift = 64 - FIRST_BITS;
    hot->size = 1u << FIRST_BITS;
    hot->fenced = set->fenced;
    hot->exact = set->exact;
    hot->set = set;
    atomic_init(&hot->owner, thread_number);
    hot->next = atomic_load(&set->first);
    while (!atomic_compare_exchange_weak(&set->first, &hot->next, hot))
        ;
    return hot;
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
        hot_places[set->serial % HOT_PLACES] = (struct hot_place){set->serial, hot};
    return hot;
}

/* ---- a domain's ------------------------------------------------------------------------- */

bool hot_set_open(struct hot_set *set, const struct shelf *entries, unsigned caches, bool exact)
{
    struct registry *all = registry_open();

    *set = (struct hot_set){.entries = entries, .caches = caches, .exact = exact};
    set->pulse = all ? process_page() : NULL;
    if (!set->pulse)
        return false;
    set->serial = atomic_fetch_add(&last_serial, 1) + 1;
    set->fenced = !barrier_start();
    atomic_init(&set->pulse->sure, 1);
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
    process_page_free(set->pulse);
}

/* ---- cells ------------------------------------------------------------------------------ */

struct cell *hot_make_cell(struct hot *hot, uint32_t number)
{
    struct cell *known = hot_cell(hot, number);
    unsigned board = shelf_board(number);
    uint32_t first = 1u << board;
    void *made;

    if (known)
        return known;
    made = calloc(first, sizeof(struct cell));
    if (!made)
        return NULL;
    hot->boards[board].entries = hot->set->entries->boards[board];
    /* Release: who adds up sees zeroes, and pins only after them. */
    atomic_store_explicit(&hot->boards[board].cells, (uintptr_t)made - first * sizeof(struct cell),
                          memory_order_release);
    return hot_cell(hot, number);
}

uint32_t hot_pins(const struct hot_set *set, uint32_t number)
{
    uint32_t sum = 0;

    for (const struct hot *hot = atomic_load(&set->first); hot; hot = hot->next) {
        const struct cell *cell = hot_cell(hot, number);

        /* Acquire: pairs with the release of a put, after which the region may end. */
        if (cell)
            sum += atomic_load_explicit(&cell->pins, memory_order_acquire);
    }
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
        const struct cell *cell = hot_cell(hot, number);
        uint32_t cells_age =
            cell ? now - atomic_load_explicit(&cell->stamp, memory_order_relaxed) : age;

        if (cells_age < age)
            age = cells_age;
    }
    return now - age;
}

/* ---- slots ------------------------------------------------------------------------------ */

static bool is_good(const struct hot *hot, const struct slot *slot)
{
    const struct hmreg_mr *mr = shelf_at(hot->set->entries, slot->number);

    return atomic_load_explicit(&mr->sequence, memory_order_relaxed) == slot->sequence;
}

/* Where a request goes: its own slot, a free one, or one that is good no more. NULL: nowhere. */
static struct slot *room_for(const struct hot *hot, uint64_t key, uint32_t number)
{
    struct slot *slot = hot_slot(hot, key), *end = slot + HOT_PROBES, *room = NULL;

    for (; slot < end; slot++) {
        if (!slot->key)
            return room ? room : slot;
        if (slot->key == key && slot->number == number)
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
        count += hot->slots[i].key && is_good(hot, &hot->slots[i]);
    return count;
}

static void store(struct hot *hot, struct slot *slot, const struct slot *what)
{
    hot->used += !slot->key;
    *slot = *what;
}

/* What is good moves to a table that it fills to at most six tenths. */
static void make_larger(struct hot *hot)
{
    struct slot *old = hot->slots, *end = old + hot->size + HOT_PROBES;
    uint64_t good = count_good(hot);
    unsigned bits = FIRST_BITS;
    struct slot *made;

    while (bits < MOST_BITS && good * 10 > UINT64_C(6) << bits)
        bits++;
    made = slots_new(bits);
    if (!made)
        return;
    hot->slots = made;
    hot->shift = 64 - bits;
    hot->size = 1u << bits;
    hot->used = 0;
    for (struct slot *slot = old; slot < end; slot++) {
        struct slot *room =
            slot->key && is_good(hot, slot) ? room_for(hot, slot->key, slot->number) : NULL;

        if (room)
            store(hot, room, slot);
    }
    free(old);
}

/* A table that is too full to search quickly is made larger, or at least cleaned. */
bool hot_remember(struct hot *hot, uint64_t key, uint32_t number, uint32_t sequence)
{
    struct slot what = {key, number, sequence};
    struct slot *slot;

    if (!key)
        return false;
    if (hot->used >= hot->size / 16 * 13)
        make_larger(hot);
    slot = room_for(hot, key, number);
    store(hot, slot ? slot : hot_slot(hot, key), &what);
    return true;
}

bool hot_count_hits(struct hot *hot, unsigned cache, struct ledger *ledger)
{
    if (hot->hits[cache])
        return true;
    hot->rows[cache] = ledger_join(ledger);
    if (!hot->rows[cache])
        return false;
    hot->hits[cache] = &hot->rows[cache]->shown->hits;
    return true;
}
