/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See watching.h. What was registered is remembered as a span, since the program may split a
 * mapping that is watched (mprotect, a hole) and join it again: unless all its parts were left
 * together they could not join. So a span is left when no region needs any of it, nor anything of
 * the mappings as they are now that lie in it: those may have grown, or have merged with watched
 * neighbours. What was unmapped is taken off the spans by the kernel's own changes. Watched memory
 * that grew in its place and was split from its span since is in none: so what lies beside is asked
 * about, where the list of mappings answers questions (Linux 6.11).
 *
 * The mappings are found first and registered then. If another thread replaces a part of one in
 * between, the new mapping there may be split at the old one's border: watched too far, never too
 * little.
 *
 * A mapping that is left need not be ours any more: the program may have put its own userfaultfd
 * on new memory in a span, and older kernels let any userfaultfd unregister what another has. So
 * each is registered once more before it is left, which fails with EBUSY where it is another's.
 *
 * Leaving a mapping makes the kernel walk its pages, with the address space locked: 20 us a MiB
 * that is in memory. A large mapping without a region therefore stays watched, until a few others
 * have been left after it, or the reaper finds the time; a program that forgets its only region in
 * a large heap again and again pays nothing. Meanwhile munmap(2) in it wakes a thread as if there
 * were a region.
 */
#include "core/monitor/userfaultfd/watched.h"

#include "core/base/maps.h"
#include "core/base/reaper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE (1ull << 30) /* left at once: the kernel locks the address space for that long */

static bool touch(const struct span *left, const struct span *right)
{
    return left->start < right->end && right->start < left->end;
}

/* ---- the spans -------------------------------------------------------------------------- */

/* The first that ends behind an address. */
static size_t first_behind(const struct watching *watching, uint64_t addr)
{
    size_t low = 0, high = watching->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (watching->spans[middle].end > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool have_room(struct watching *watching)
{
    size_t room = watching->room ? 2 * watching->room : 64;
    struct span *spans;

    if (watching->count < watching->room)
        return true;
    spans = realloc(watching->spans, room * sizeof(*spans));
    if (!spans)
        return false;
    watching->spans = spans;
    watching->room = room;
    return true;
}

/* Puts `by` spans (0 or 1) into the place of those from `first` to `last` - 1. */
static void replace(struct watching *watching, size_t first, size_t last, const struct span *by)
{
    struct span *spans = watching->spans;
    size_t more = by ? 1 : 0;

    memmove(&spans[first + more], &spans[last], (watching->count - last) * sizeof(*spans));
    if (by)
        spans[first] = *by;
    watching->count += more - (last - first);
}

/* There is room. */
static void put_span(struct watching *watching, struct span span)
{
    size_t first = first_behind(watching, span.start), last = first;

    while (last < watching->count && watching->spans[last].start < span.end) {
        if (watching->spans[last].start < span.start)
            span.start = watching->spans[last].start;
        if (watching->spans[last].end > span.end)
            span.end = watching->spans[last].end;
        last++;
    }
    replace(watching, first, last, &span);
}

/* Without room for two where there was one, the one stays whole. */
static void take_off(struct watching *watching, uint64_t start, uint64_t end)
{
    size_t first = first_behind(watching, start), last;

    if (first < watching->count && watching->spans[first].start < start) {
        struct span rest = {end, watching->spans[first].end};

        if (rest.start < rest.end && !have_room(watching))
            return;
        watching->spans[first++].end = start;
        if (rest.start < rest.end)
            replace(watching, first, first, &rest);
    }
    for (last = first; last < watching->count && watching->spans[last].end <= end;)
        last++;
    if (last < watching->count && watching->spans[last].start < end)
        watching->spans[last].start = end;
    replace(watching, first, last, NULL);
}

/* ---- the mappings as they are ----------------------------------------------------------- */

/* The whole mappings that hold a span. False: there is a hole, or a mapping of a file, which is
 * never cached and where the kernel would map fewer pages at a fault; or the list cannot be read.
 */
static bool find_whole(struct watching *watching, const struct span *span, struct span *out)
{
    struct span whole = {UINT64_MAX, span->start};
    struct maps maps;
    struct map map;

    maps_begin(&maps, watching->maps.fd);
    while (whole.end < span->end && maps_next(&maps, whole.end, &map) == 1 &&
           map.start <= whole.end && map.anonymous) {
        whole.start = map.start < whole.start ? map.start : whole.start;
        whole.end = map.end;
    }
    maps_end(&maps);
    *out = whole;
    return whole.end >= span->end;
}

/* For each mapping that touches a span. */
static void each_mapping(struct watching *watching, const struct span *span,
                         void (*act)(struct watching *watching, const struct map *map, void *arg),
                         void *arg)
{
    struct maps maps;
    struct map map;
    uint64_t at = span->start;

    maps_begin(&maps, watching->maps.fd);
    while (at < span->end && maps_next(&maps, at, &map) == 1 && map.start < span->end) {
        act(watching, &map, arg);
        at = map.end;
    }
    maps_end(&maps);
}

static void widen(struct watching *watching, const struct map *map, void *arg)
{
    struct span *whole = arg;

    whole->start = map->start < whole->start ? map->start : whole->start;
    whole->end = map->end > whole->end ? map->end : whole->end;
}

static void leave_mapping(struct watching *watching, const struct map *map, void *arg)
{
    if (uffd_watch(watching->fd, map->start, map->end))
        return;
    for (uint64_t at = map->start, next; at < map->end; at = next) {
        next = (at / PIECE + 1) * PIECE;
        next = next < map->end ? next : map->end;
        uffd_unwatch(watching->fd, at, next);
    }
}

/* ---- leaving ---------------------------------------------------------------------------- */

static bool is_needed(const struct watching *watching, const struct span *span)
{
    return watching->needed(watching->arg, span->start, span->end);
}

static bool is_kept(const struct watching *watching, const struct span *span)
{
    for (unsigned i = 0; i < watching->kept_count; i++)
        if (touch(&watching->kept[i], span))
            return true;
    return false;
}

/* What is still needed is one span from now on, and left together: false. *span: out, what was
 * left.
 */
static bool leave_whole(struct watching *watching, struct span *span)
{
    struct span whole = *span;

    each_mapping(watching, span, widen, &whole);
    if (is_needed(watching, &whole)) {
        put_span(watching, whole);
        return false;
    }
    each_mapping(watching, span, leave_mapping, NULL);
    take_off(watching, whole.start, whole.end);
    *span = whole;
    return true;
}

/* The mapping that holds an address, if it is watched and no span says so: watched memory may grow
 * in its place, which no event tells, and be split then. */
static bool find_grown(struct watching *watching, uint64_t addr, struct span *out)
{
    size_t index = first_behind(watching, addr);
    struct maps maps;
    struct map map;
    bool found;

    if (watching->maps.fd < 0 || (index < watching->count && watching->spans[index].start <= addr))
        return false;
    maps_begin(&maps, watching->maps.fd);
    found = maps_next(&maps, addr, &map) == 1 && map.start <= addr && map.anonymous;
    maps_end(&maps);
    *out = (struct span){map.start, map.end};
    return found &&
           uffd_is_watched(watching->fd, addr & ~(watching->page_size - 1), watching->page_size);
}

/* The span that holds an address, the last or the first of its bytes; else what has grown. */
static bool find_beside(struct watching *watching, uint64_t addr, struct span *out)
{
    size_t index = first_behind(watching, addr);

    if (index < watching->count && watching->spans[index].start <= addr) {
        *out = watching->spans[index];
        return out->start == addr || out->end == addr + 1;
    }
    return find_grown(watching, addr, out) && have_room(watching);
}

/* Leaves what lies beside, but for what is to be kept for being large. */
static bool leave_next(struct watching *watching, struct span *span)
{
    if (is_needed(watching, span) || is_kept(watching, span))
        return false;
    if (span->end - span->start < WATCHING_LARGE || watching->kept_count == WATCHING_KEPT)
        return leave_whole(watching, span);
    watching->kept[watching->kept_count++] = *span;
    return false;
}

/* What is left of spans on both sides of what was left or unmapped: its region may be gone with
 * that. And so on, outwards. */
static void leave_beside(struct watching *watching, uint64_t start, uint64_t end)
{
    struct span span;

    while (start && find_beside(watching, start - 1, &span) && leave_next(watching, &span))
        start = span.start;
    while (find_beside(watching, end, &span) && leave_next(watching, &span))
        end = span.end;
}

static void leave_now(struct watching *watching, const struct span *span)
{
    struct span whole = *span;

    if (leave_whole(watching, &whole))
        leave_beside(watching, whole.start, whole.end);
}

/* The oldest makes room. */
static void keep(struct watching *watching, const struct span *span)
{
    struct span oldest = watching->kept[0];

    if (is_kept(watching, span))
        return;
    reaper_wake(); /* it tidies some time after */
    if (watching->kept_count < WATCHING_KEPT) {
        watching->kept[watching->kept_count++] = *span;
        return;
    }
    memmove(&watching->kept[0], &watching->kept[1],
            (WATCHING_KEPT - 1) * sizeof(watching->kept[0]));
    watching->kept[WATCHING_KEPT - 1] = *span;
    leave_now(watching, &oldest);
}

static void leave(struct watching *watching, const struct span *span)
{
    if (is_needed(watching, span))
        return;
    if (span->end - span->start < WATCHING_LARGE)
        leave_now(watching, span);
    else
        keep(watching, span);
}

/* A reader that has lost changes leaves spans as they are: too large does no harm. */
static void take_off_unmapped(struct watching *watching)
{
    struct change change;

    while (changes_next(&watching->changes, &change))
        if (change.source == CHANGE_KERNEL && change.unmapped) {
            take_off(watching, change.start, change.end);
            leave_beside(watching, change.start, change.end);
        }
}

/* False: there is none. */
static bool leave_one_kept(struct watching *watching)
{
    struct span span;

    if (!watching->kept_count)
        return false;
    span = watching->kept[--watching->kept_count];
    leave_now(watching, &span);
    return true;
}

/* They have a region again. */
static void forget_kept(struct watching *watching, const struct span *span)
{
    unsigned left = 0;

    for (unsigned i = 0; i < watching->kept_count; i++)
        if (!touch(&watching->kept[i], span))
            watching->kept[left++] = watching->kept[i];
    watching->kept_count = left;
}

/* ---- moves ------------------------------------------------------------------------------ */

/* The kernel says how long the memory was; it may have grown by the move. The thread that moved it
 * waits meanwhile. Where the list of mappings would have to be read as text, what has grown is
 * found by the rest, if that is still there when the move is left. */
static uint64_t grown_end(const struct watching *watching, uint64_t start, uint64_t end)
{
    struct maps maps;
    struct map map;

    if (watching->maps.fd < 0)
        return end;
    maps_begin(&maps, watching->maps.fd);
    if (maps_next(&maps, start, &map) == 1 && map.start <= start && map.end > end)
        end = map.end;
    maps_end(&maps);
    return end;
}

/* Beyond what there is room for, memory stays watched until its mapping is left by a region or the
 * library is closed. */
void watching_note_move(struct watching *watching, uint64_t start, uint64_t end)
{
    unsigned at = atomic_load(&watching->moves_end);

    if (at - atomic_load(&watching->moves_begin) == WATCHING_MOVES)
        return;
    watching->moves[at % WATCHING_MOVES] = (struct span){start, grown_end(watching, start, end)};
    atomic_store(&watching->moves_end, at + 1);
}

static void leave_moved(struct watching *watching)
{
    unsigned at = atomic_load(&watching->moves_begin);

    for (; at != atomic_load(&watching->moves_end) && have_room(watching); at++) {
        struct span span = watching->moves[at % WATCHING_MOVES];

        atomic_store(&watching->moves_begin, at + 1);
        put_span(watching, span);
        leave(watching, &span);
    }
}

/* ---- refusals --------------------------------------------------------------------------- */

/* Leaves what is watched in a span. */
static void leave_in(struct watching *watching, const struct span *span)
{
    struct span left = {span->start, span->start};

    while (left.end < span->end) {
        size_t index = first_behind(watching, left.end);

        if (index == watching->count || watching->spans[index].start >= span->end)
            return;
        left = watching->spans[index];
        leave(watching, &left);
    }
}

/* What was refused a moment ago may still be needed, by the get that is about to find that out. */
static void leave_refused(struct watching *watching)
{
    unsigned left = 0;

    for (unsigned i = 0; i < watching->refused_count; i++) {
        struct span span = watching->refused[i];

        leave_in(watching, &span);
        if (is_needed(watching, &span))
            watching->refused[left++] = span;
    }
    watching->refused_count = left;
}

/* While a region is being made, what it touches is needed. One that cannot be watched needs nothing
 * in the end, and no leave follows: the next of another one looks there, or the refusal for which
 * there is no room. The oldest makes room, if each is still needed. */
static void note_refused(struct watching *watching, const struct span *span)
{
    if (watching->refused_count == WATCHING_REFUSED)
        leave_refused(watching);
    if (watching->refused_count == WATCHING_REFUSED)
        memmove(&watching->refused[0], &watching->refused[1],
                --watching->refused_count * sizeof(watching->refused[0]));
    watching->refused[watching->refused_count++] = *span;
}

/* ---- what is called --------------------------------------------------------------------- */

static struct span whole_pages(const struct watching *watching, uint64_t start, uint64_t end)
{
    uint64_t mask = watching->page_size - 1;

    return (struct span){start & ~mask, (end + mask) & ~mask};
}

/* Also where it is watched already: the memory may be new since. */
static bool add(struct watching *watching, const struct span *span)
{
    struct span whole;
    int rc;

    if (!have_room(watching) || !find_whole(watching, span, &whole))
        return false;
    rc = uffd_watch(watching->fd, whole.start, whole.end);
    if (rc == -ENOMEM) /* some of several mappings may be watched */
        leave_now(watching, &whole);
    if (rc)
        return false;
    put_span(watching, whole);
    forget_kept(watching, &whole);
    leave_moved(watching);
    return true;
}

bool watching_add(struct watching *watching, uint64_t start, uint64_t end)
{
    struct span span = whole_pages(watching, start, end);
    bool done;

    pthread_mutex_lock(&watching->lock);
    take_off_unmapped(watching);
    done = add(watching, &span);
    if (!done)
        note_refused(watching, &span);
    pthread_mutex_unlock(&watching->lock);
    return done;
}

/* A span that holds something of what is left; else the gap before the next, which is watched
 * nevertheless if its memory is newer than the change that took it off the spans. */
static struct span next_left(const struct watching *watching, uint64_t start, uint64_t end,
                             bool *recorded)
{
    size_t index = first_behind(watching, start);
    const struct span *span = &watching->spans[index];

    *recorded = index < watching->count && span->start <= start;
    if (*recorded)
        return *span;
    return (struct span){start, index < watching->count && span->start < end ? span->start : end};
}

void watching_leave(struct watching *watching, uint64_t start, uint64_t end, bool unmapped)
{
    struct span rest = whole_pages(watching, start, end), left;
    bool recorded;

    pthread_mutex_lock(&watching->lock);
    take_off_unmapped(watching);
    for (; rest.start < rest.end; rest.start = left.end) {
        left = next_left(watching, rest.start, rest.end, &recorded);
        if (recorded || !unmapped)
            leave(watching, &left);
    }
    leave_moved(watching);
    leave_refused(watching);
    pthread_mutex_unlock(&watching->lock);
}

bool watching_tidy(struct watching *watching)
{
    bool left;

    pthread_mutex_lock(&watching->lock);
    take_off_unmapped(watching);
    leave_moved(watching);
    left = leave_one_kept(watching);
    pthread_mutex_unlock(&watching->lock);
    return left;
}

/* ---- life ------------------------------------------------------------------------------- */

void watching_open(struct watching *watching, int fd,
                   bool (*needed)(void *arg, uint64_t start, uint64_t end), void *arg)
{
    *watching = (struct watching){
        .fd = fd,
        .needed = needed,
        .arg = arg,
        .page_size = (uint64_t)sysconf(_SC_PAGESIZE),
        .maps = maps_keep(),
    };
    pthread_mutex_init(&watching->lock, NULL);
    changes_start(&watching->changes);
}

void watching_close(struct watching *watching)
{
    take_off_unmapped(watching);
    leave_moved(watching);
    while (leave_one_kept(watching))
        ;
    while (watching->count) {
        struct span span = watching->spans[watching->count - 1];

        leave_now(watching, &span);
        take_off(watching, span.start, span.end); /* also what could not be read */
    }
    watching_forget(watching);
    pthread_mutex_destroy(&watching->lock);
}

void watching_forget(struct watching *watching)
{
    owned_fd_close(&watching->maps);
    free(watching->spans);
}
