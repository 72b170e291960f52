/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See thread_cache.h. The process's sets are in a list, whose head and lock lie in a page that the
 * kernel wipes in the child of a fork: a child has none of its parent's domains. A thread that ends
 * searches this list for its thread caches, since a domain may have been closed meanwhile. The
 * thread caches of a domain are in a list that only grows and is freed with the domain, so adding
 * them up takes no lock of its own.
 */
#include "core/cache/thread_cache.h"

#include "core/base/droppable.h"
#include "core/base/out_of_line.h"
#include "core/base/process.h"
#include "core/base/work.h"
#include "core/mr/mr.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define FIRST_SLOTS     64u        /* size of a new table; sizes are powers of two */
#define MOST_SLOTS      (1u << 24) /* size of the largest: 64 MiB */
#define FEW_SLOTS       (1u << 14) /* tables up to this size are at most a quarter full */
#define MANY_SLOTS      (1u << 18) /* smaller tables grow in larger steps, which are fewer */
#define PART_SLOTS      (1u << 15) /* tables of this size do not grow for parts of entries */
#define FIRST_PIN_SLOTS 64u
#define LINE            64
#define HEAP_PIN_SLOTS  1024u
#define GIVEN_BACK      (1u << 14) /* bytes of a replaced table that are given back at a time */

/* glibc does not dlopen a library whose static thread-local storage needs more alignment than its
 * own has: 64 bytes (a line) on x86-64, 16 on arm64, where a TLS view may span two lines. */
#if defined(__x86_64__)
#define VIEW_ALIGNMENT LINE
#else
#define VIEW_ALIGNMENT 16
#endif

/* In .tdata, which precedes all small variables: otherwise variables before it would be padded to a
 * line. */
_Thread_local struct tls_view tls_views[TLS_VIEWS] __attribute__((
    aligned(VIEW_ALIGNMENT), section(".tdata"), tls_model("initial-exec"), visibility("hidden")));

/* ---- the sets of this process ----------------------------------------------------------- */

/* Zero-filled memory is an unlocked mutex. */
struct registry {
    pthread_mutex_t lock;
    struct thread_cache_set *sets;
};

static _Atomic(void *) registry; /* struct registry */

/* ---- threads ---------------------------------------------------------------------------- */

static _Atomic uint64_t last_thread, last_serial;
static _Thread_local uint64_t thread_number __attribute__((tls_model("initial-exec")));
static pthread_key_t leaving;

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

/* ---- memory ----------------------------------------------------------------------------- */

/* Large tables and arrays are mappings of their own. They take memory page by page as they are
 * used, and are given back in parts. The kernel does not copy them for the child of a fork, which
 * does not use them and would have to wait. NULL: no memory. */
static void *map(size_t bytes, int protection)
{
    void *made = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (made == MAP_FAILED)
        return NULL;
    (void)madvise(made, bytes, MADV_WIPEONFORK);
    return made;
}

/* THREAD_CACHE_PROBES extra slots at the end, so that no search wraps; and the mark. */
static size_t bytes_of(uint32_t size)
{
    return ((size_t)size + THREAD_CACHE_PROBES + 1) * sizeof(uint32_t);
}

/* If possible, in memory that an image of the process lacks: a restored process must have no hit
 * before it knows that it is one. */
static uint32_t *slots_new(uint32_t size)
{
    uint32_t *made;

    if (size <= FEW_SLOTS) {
        made = droppable_take(bytes_of(size));
        return made ? made : calloc(1, bytes_of(size));
    }
    made = mmap(NULL, bytes_of(size), PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    return made != MAP_FAILED ? made : map(bytes_of(size), PROT_READ | PROT_WRITE);
}

/* Without the hooks in libc, which would shut the gates: no region is of this memory. */
static void unmap_slots(void *slots, size_t bytes)
{
    syscall(SYS_munmap, slots, bytes);
}

static void slots_free(uint32_t *slots, uint32_t size)
{
    if (slots && size > FEW_SLOTS)
        unmap_slots(slots, bytes_of(size));
    else if (!droppable_give_back(slots))
        free(slots);
}

/* ---- thread caches ---------------------------------------------------------------------- */

static struct thread_cache *find_own(struct thread_cache_set *set)
{
    struct thread_cache *tcache = atomic_load(&set->first);

    while (tcache && atomic_load(&tcache->owner) != thread_number)
        tcache = tcache->next;
    return tcache;
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

static uint32_t size_of(const struct thread_cache *tcache)
{
    return tcache->view.mask / sizeof(uint32_t) + 1;
}

static uint32_t *mark_of(const struct thread_cache *tcache)
{
    return &tcache->view.slots[size_of(tcache) + THREAD_CACHE_PROBES];
}

bool thread_cache_is_whole(const struct thread_cache *tcache)
{
    return thread_cache_read(mark_of(tcache));
}

void thread_cache_mark_whole(struct thread_cache *tcache)
{
    *mark_of(tcache) = 1;
}

/* slots: new; NULL: no memory. */
static void set_slots(struct thread_cache *tcache, uint32_t *slots, uint32_t size)
{
    tcache->view.slots = slots;
    tcache->view.mask = (size - 1) * (uint32_t)sizeof(uint32_t);
    tcache->used = tcache->parts = 0;
    if (slots)
        thread_cache_mark_whole(tcache);
}

/* Updates the thread's copy of the view. Call it when the view has changed. */
static void show(const struct thread_cache *tcache)
{
    struct tls_view *shown = tls_view_of(tcache->set->serial);

    if (shown->tcache == tcache)
        *shown = tcache->view;
}

static size_t pin_slots_bytes(uint32_t room)
{
    return (size_t)room * sizeof(struct pin_slot);
}

static void thread_cache_free(struct thread_cache *tcache)
{
    range_list_free(&tcache->larger);
    if (tcache->reserved_end)
        munmap(tcache->view.pin_slots, pin_slots_bytes(tcache->reserved_end));
    else
        free(tcache->view.pin_slots);
    if (tcache->old_slots)
        unmap_slots(tcache->old_slots, tcache->old_bytes);
    if (tcache->view.slots)
        slots_free(tcache->view.slots, size_of(tcache));
    free(tcache);
}

static struct thread_cache *thread_cache_new(struct thread_cache_set *set)
{
    struct thread_cache *tcache =
        calloc(1, sizeof(*tcache) + set->caches * sizeof(tcache->rows[0]));
    bool out_of_line = set->fenced || set->exact;

    if (!tcache)
        return NULL;
    set_slots(tcache, slots_new(FIRST_SLOTS), FIRST_SLOTS);
    tcache->set = set;
    if (!tcache->view.slots || !thread_cache_pin_slot(tcache, FIRST_PIN_SLOTS - 1)) {
        thread_cache_free(tcache);
        return NULL;
    }
    tcache->view.serial = out_of_line ? ~set->serial : set->serial;
    tcache->view.gate = set->gate;
    tcache->view.rows = tcache->rows;
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

    if (view->serial == set->serial || view->serial == ~set->serial)
        return view->tcache;
    return take_view(thread_number ? find_own(set) : NULL);
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
    struct registry *all = process_page_at(&registry);

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

/* On the heap: zeroed, and aligned to a cache line. */
static struct pin_slot *pin_slots_new(uint32_t room)
{
    struct pin_slot *made = aligned_alloc(LINE, pin_slots_bytes(room));

    if (made)
        memset((void *)made, 0, pin_slots_bytes(room));
    return made;
}

/* Likewise in reserved addresses, enough for all entries. *at: their start, or NULL if none are
 * reserved yet. False: no memory. */
static bool pin_slots_extend(struct pin_slot **at, uint32_t *room, uint32_t end)
{
    struct pin_slot *made = *at ? *at : map(pin_slots_bytes(end), PROT_NONE);

    *room = *room < end ? *room : end;
    if (made && !mprotect(made, pin_slots_bytes(*room), PROT_READ | PROT_WRITE)) {
        *at = made;
        return true;
    }
    if (made && !*at)
        munmap(made, pin_slots_bytes(end));
    return false;
}

/* Eviction may clear `used` meanwhile: then the entry gets one more chance. */
static void copy_pin_slots(struct pin_slot *to, const struct pin_slot *from, uint32_t count)
{
    work_count(count);
    for (uint32_t i = 0; i < count; i++) {
        atomic_init(&to[i].pins, atomic_load_explicit(&from[i].pins, memory_order_relaxed));
        atomic_init(&to[i].used, atomic_load_explicit(&from[i].used, memory_order_relaxed));
        to[i].cache = from[i].cache;
        to[i].check = from[i].check;
    }
}

/* Other threads read the pin slots under the lock. */
static void show_pin_slots(struct thread_cache *tcache, struct pin_slot *at, uint32_t room)
{
    pthread_mutex_lock(tcache->set->lock);
    tcache->view.pin_slots = at;
    tcache->view.room = pin_slot_offset(room);
    tcache->view.entries = tcache->set->entries->base;
    pthread_mutex_unlock(tcache->set->lock);
    show(tcache);
}

/* Only the thread itself writes its pin slots (except `used`), so it copies them without the lock:
 * the few that are on the heap. Many grow in place. False: no memory. */
static OUT_OF_LINE bool grow_pin_slots(struct thread_cache *tcache, uint32_t had, uint32_t room)
{
    struct pin_slot *old = tcache->view.pin_slots, *made = tcache->reserved_end ? old : NULL;
    uint32_t end = tcache->reserved_end;

    if (room > HEAP_PIN_SLOTS) {
        end = end ? end : (tcache->set->entries->reserved_end + LINE - 1) & ~(LINE - 1u);
        if (!pin_slots_extend(&made, &room, end))
            return false;
    } else {
        made = pin_slots_new(room);
        if (!made)
            return false;
    }
    if (made != old && old)
        copy_pin_slots(made, old, had);
    tcache->reserved_end = end;
    show_pin_slots(tcache, made, room);
    if (made != old)
        free(old);
    return true;
}

struct pin_slot *thread_cache_pin_slot(struct thread_cache *tcache, uint32_t number)
{
    uint32_t had = pin_slot_number(tcache->view.room), room = had ? had : FIRST_PIN_SLOTS;

    if (number >= had) {
        while (room <= number)
            room *= 4; /* pages that are not used take no memory */
        if (!grow_pin_slots(tcache, had, room))
            return NULL;
    }
    return &tcache->view.pin_slots[number];
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
static bool slot_is_live(const struct thread_cache *tcache, uint32_t number)
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

/* Finds a slot for an entry: its own, a free one, a stale one, or else the first. */
static uint32_t *room_for(const struct thread_cache *tcache, uint32_t hash, uint32_t number)
{
    uint32_t *slot = first_slot(tcache, hash), *end = slot + THREAD_CACHE_PROBES, *room = NULL;
    uint32_t name;

    for (; slot < end && (name = thread_cache_read(slot)); slot++) {
        if (name == pin_slot_offset(number))
            return slot;
        if (!room && !slot_is_live(tcache, pin_slot_number(name)))
            room = slot;
    }
    if (!room)
        room = slot == end ? first_slot(tcache, hash) : slot;
    return room;
}

/* The number of slots that may be in use. In a table at most a quarter full most searches end at
 * their first slot; for a large table memory matters more. */
static uint32_t limit_of(uint32_t size)
{
    return size <= FEW_SLOTS ? size / 4 : size / 2;
}

/* A large table that was replaced, a part at a time: giving back all of it would take too long. */
static void give_back_some(struct thread_cache *tcache)
{
    size_t left = tcache->old_bytes > GIVEN_BACK ? tcache->old_bytes - GIVEN_BACK : 0;

    if (!tcache->old_slots)
        return;
    left &= ~(size_t)(GIVEN_BACK - 1);
    unmap_slots(tcache->old_slots + left, tcache->old_bytes - left);
    tcache->old_bytes = left;
    if (!left)
        tcache->old_slots = NULL;
}

/* Replaces a full table by an empty one: later gets find the entries in the caches and remember
 * them again. The new table is larger, unless the old one had room for every entry and for the
 * parts of entries that it served: then most of its slots are stale. */
static void replace_slots(struct thread_cache *tcache)
{
    uint32_t had = size_of(tcache), size = had, *made;
    uint32_t parts = had < PART_SLOTS ? tcache->parts : 0;

    if (size < MOST_SLOTS && limit_of(size) < tcache->set->entries->end + parts)
        size *= size < MANY_SLOTS ? 8 : 2;
    made = slots_new(size);
    if (!made)
        return;
    if (tcache->old_slots)
        unmap_slots(tcache->old_slots, tcache->old_bytes);
    tcache->old_slots = NULL;
    if (had > FEW_SLOTS) {
        tcache->old_slots = (char *)tcache->view.slots;
        tcache->old_bytes = bytes_of(had);
    } else {
        slots_free(tcache->view.slots, had);
    }
    set_slots(tcache, made, size);
    show(tcache);
}

static bool keeps_slot(const void *tcache, uint32_t slot)
{
    return slot_is_live(tcache, pin_slot_number(slot));
}

void thread_cache_remember(struct thread_cache *tcache, uint64_t addr, uint32_t number,
                           uint32_t check, bool part)
{
    bool full = tcache->used >= limit_of(size_of(tcache));
    uint32_t *slot;

    tcache->view.pin_slots[number].check = check;
    give_back_some(tcache);
    if (full && part && size_of(tcache) >= PART_SLOTS)
        return;
    if (full)
        replace_slots(tcache);
    slot = room_for(tcache, thread_cache_hash(addr), number);
    if (!thread_cache_read(slot)) {
        tcache->used++;
        tcache->parts += part;
    }
    *slot = pin_slot_offset(number);
}

/* If unpublished entries hide it from searches, they go. */
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

void thread_cache_count(struct thread_cache *tcache, unsigned cache, struct cache_stats *stats)
{
    if (thread_cache_counts(tcache, cache, stats))
        cache_stats_hit(tcache->rows[cache]->shown);
    else
        cache_stats_add(stats, STATS_HITS, 1);
}
