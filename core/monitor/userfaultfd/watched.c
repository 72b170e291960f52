/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See watched.h. A registered range is recorded as a span, since the program may split a watched
 * mapping (mprotect, a hole) and join it again: the parts could not join unless they were
 * unregistered together. So a span is unregistered when no region needs any of it, nor any of the
 * mappings that now overlap it: those may have grown, or have merged with watched neighbours. The
 * kernel's own events remove unmapped memory from the spans. Watched memory that grew in place and
 * was split from its span since is in no span: so adjacent memory is queried, where the kernel
 * answers queries about mappings (Linux 6.11).
 *
 * The mappings are found first and registered afterwards. If another thread replaces a part of a
 * mapping in between, the new mapping there may be split at the old border: then too much is
 * watched, never too little.
 *
 * A mapping may belong to another userfaultfd by now: the program may have registered new memory in
 * a span with its own, and older kernels let any userfaultfd unregister another's memory. So each
 * mapping is registered once more before it is unregistered; that fails with EBUSY if another has
 * registered it.
 *
 * To unregister a mapping the kernel walks its pages, with the address space locked: 20 us for each
 * MiB in memory. So a large mapping without a region stays watched until a few others have lost
 * their regions after it, or the reaper tidies; a program that repeatedly drops its only region in
 * a large heap pays nothing. Meanwhile munmap(2) in the mapping wakes the monitor's thread as if it
 * had a region.
 */
#include "core/monitor/userfaultfd/watched.h"

#include "core/base/maps.h"
#include "core/base/reaper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool touch(const struct span *left, const struct span *right)
{
    return left->start < right->end && right->start < left->end;
}

/* ---- the spans -------------------------------------------------------------------------- */

/* The index of the first span that ends behind an address. */
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

/* Replaces the spans from `first` to `last` - 1 by *by, or by nothing (NULL). */
static void replace(struct watching *watching, size_t first, size_t last, const struct span *by)
{
    struct span *spans = watching->spans;
    size_t more = by ? 1 : 0;

    memmove(&spans[first + more], &spans[last], (watching->count - last) * sizeof(*spans));
    if (by)
        spans[first] = *by;
    watching->count += more - (last - first);
}

/* Adds a span, merged with those it overlaps. There is room for one more. */
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

/* Removes a range from the spans. Without memory to split a span in two, it stays whole. */
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

/* ---- current mappings ------------------------------------------------------------------- */

static bool is_recorded(const struct watching *watching, const struct span *span)
{
    size_t index = first_behind(watching, span->start);

    return index < watching->count && watching->spans[index].start <= span->start &&
           watching->spans[index].end >= span->end;
}

/* Finds the whole mappings that contain a span. If the list of mappings would be read as text and
 * the span is watched already, returns only the span: registering it again changes nothing. False:
 * there is a hole; a mapping of a file, which is never cached, and where a registration would make
 * the kernel map fewer pages at a fault; or the list of mappings cannot be read. */
static bool find_whole(struct watching *watching, const struct span *span, struct span *out)
{
    struct span whole = {UINT64_MAX, span->start};
    struct maps maps;
    struct map map;

    if (watching->maps.fd < 0 && is_recorded(watching, span)) {
        *out = *span;
        return true;
    }
    maps_begin(&maps, &watching->maps);
    while (whole.end < span->end && maps_next(&maps, whole.end, &map) == 1 &&
           map.start <= whole.end && map.anonymous) {
        whole.start = map.start < whole.start ? map.start : whole.start;
        whole.end = map.end;
    }
    maps_end(&maps);
    *out = whole;
    return whole.end >= span->end;
}

/* Calls act() for each mapping that touches a span. */
static void each_mapping(struct watching *watching, const struct span *span,
                         void (*act)(struct watching *watching, const struct map *map, void *arg),
                         void *arg)
{
    struct maps maps;
    struct map map;
    uint64_t at = span->start;

    maps_begin(&maps, &watching->maps);
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
    uffd_leave(watching->fd, map->start, map->end, NULL, NULL);
}

/* ---- unregistering ---------------------------------------------------------------------- */

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

/* Unregisters a span and the mappings that overlap it. False: a region still needs some of it; it
 * becomes one span, to be unregistered together later. *span: set to what was unregistered. */
static bool leave_whole(struct watching *watching, struct span *span)
{
    struct span whole = *span;

    each_mapping(watching, span, widen, &whole);
    if (is_needed(watching, &whole)) {
        put_span(watching, whole);
        return false;
    }
    if (!uffd_leave(watching->fd, whole.start, whole.end, NULL, NULL))
        each_mapping(watching, span, leave_mapping, NULL);
    take_off(watching, whole.start, whole.end);
    *span = whole;
    return true;
}

/* Finds the mapping at an address, if it is watched but in no span: watched memory may grow in
 * place, without an event, and be split then. */
static bool find_grown(struct watching *watching, uint64_t addr, struct span *out)
{
    size_t index = first_behind(watching, addr);
    struct maps maps;
    struct map map;
    bool found;

    if (watching->maps.fd < 0 || (index < watching->count && watching->spans[index].start <= addr))
        return false;
    maps_begin(&maps, &watching->maps);
    found = maps_next(&maps, addr, &map) == 1 && map.start <= addr && map.anonymous;
    maps_end(&maps);
    *out = (struct span){map.start, map.end};
    return found &&
           !uffd_ask_watched(watching->fd, addr & ~(watching->page_size - 1), watching->page_size);
}

/* Finds the span whose first or last byte is at an address, else watched memory there that is in no
 * span. */
static bool find_adjacent(struct watching *watching, uint64_t addr, struct span *out)
{
    size_t index = first_behind(watching, addr);

    if (index < watching->count && watching->spans[index].start <= addr) {
        *out = watching->spans[index];
        return out->start == addr || out->end == addr + 1;
    }
    return find_grown(watching, addr, out) && have_room(watching);
}

/* Unregisters an adjacent span, unless it is to stay watched for being large. */
static bool leave_next(struct watching *watching, struct span *span)
{
    if (is_needed(watching, span) || is_kept(watching, span))
        return false;
    if (span->end - span->start < WATCHING_LARGE || watching->kept_count == WATCHING_KEPT)
        return leave_whole(watching, span);
    watching->kept[watching->kept_count++] = *span;
    return false;
}

/* Unregisters what remains of spans on both sides of a range that was unregistered or unmapped, and
 * so on outwards: their region may have ended with that range. */
static void leave_adjacent(struct watching *watching, uint64_t start, uint64_t end)
{
    struct span span;

    while (start && find_adjacent(watching, start - 1, &span) && leave_next(watching, &span))
        start = span.start;
    while (find_adjacent(watching, end, &span) && leave_next(watching, &span))
        end = span.end;
}

static void leave_now(struct watching *watching, const struct span *span)
{
    struct span whole = *span;

    if (leave_whole(watching, &whole))
        leave_adjacent(watching, whole.start, whole.end);
}

/* Keeps a large span without a region watched; if there are too many, the oldest is unregistered.
 */
static void keep(struct watching *watching, const struct span *span)
{
    struct span oldest = watching->kept[0];

    if (is_kept(watching, span))
        return;
    reaper_wake(); /* the reaper tidies some time later */
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

/* Removes unmapped memory from the spans. After CHANGE_LOST they stay as they are: too large a span
 * does no harm. */
static void take_off_unmapped(struct watching *watching)
{
    struct change change;

    while (changes_next(&watching->changes, &change))
        if (change.source == CHANGE_KERNEL && change.unmapped) {
            take_off(watching, change.start, change.end);
            leave_adjacent(watching, change.start, change.end);
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

/* Forgets kept spans that have a region again. */
static void forget_kept(struct watching *watching, const struct span *span)
{
    unsigned left = 0;

    for (unsigned i = 0; i < watching->kept_count; i++)
        if (!touch(&watching->kept[i], span))
            watching->kept[left++] = watching->kept[i];
    watching->kept_count = left;
}

/* ---- moves ------------------------------------------------------------------------------ */

/* Returns the end of moved memory. The event reports its old length; it may have grown by the move.
 * The thread that moved it waits meanwhile. If the list of mappings would be read as text, returns
 * `end`: the growth is found later, if it still adjoins the memory when the move is
 * unregistered. */
static uint64_t grown_end(const struct watching *watching, uint64_t start, uint64_t end)
{
    struct maps maps;
    struct map map;

    if (watching->maps.fd < 0)
        return end;
    maps_begin(&maps, &watching->maps);
    if (maps_next(&maps, start, &map) == 1 && map.start <= start && map.end > end)
        end = map.end;
    maps_end(&maps);
    return end;
}

/* If there is no room for the move, the memory stays watched until a region's end unregisters its
 * mapping, or the library is closed. */
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

/* Unregisters the spans that touch a range. */
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

/* The get of a range refused a moment ago may not have noticed yet, and still list its need: the
 * range stays recorded. */
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

/* Records a range that could not be watched. While a get registers a region, needed() reports its
 * range; if the range cannot be watched, the region is not cached, and no watching_leave() follows.
 * The next watching_leave() for another region checks the recorded ranges, as does a refusal that
 * finds the list full. If all are still needed, the oldest is dropped. */
static void note_refused(struct watching *watching, const struct span *span)
{
    if (watching->refused_count == WATCHING_REFUSED)
        leave_refused(watching);
    if (watching->refused_count == WATCHING_REFUSED)
        memmove(&watching->refused[0], &watching->refused[1],
                --watching->refused_count * sizeof(watching->refused[0]));
    watching->refused[watching->refused_count++] = *span;
}

/* ---- the interface ---------------------------------------------------------------------- */

static struct span whole_pages(const struct watching *watching, uint64_t start, uint64_t end)
{
    uint64_t mask = watching->page_size - 1;

    return (struct span){start & ~mask, (end + mask) & ~mask};
}

/* Also registers spans that are watched already: their memory may be new. */
static bool add(struct watching *watching, const struct span *span)
{
    struct span whole;
    int rc;

    if (!have_room(watching) || !find_whole(watching, span, &whole))
        return false;
    rc = uffd_watch(watching->fd, whole.start, whole.end);
    if (rc == -ENOMEM) /* some of the mappings may be registered already */
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

    take_off_unmapped(watching);
    done = add(watching, &span);
    if (!done)
        note_refused(watching, &span);
    return done;
}

/* Returns the span that contains start, or else the gap before the next span. Memory in the gap is
 * watched nevertheless if it is newer than the change that removed the range from the spans. */
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

    take_off_unmapped(watching);
    for (; rest.start < rest.end; rest.start = left.end) {
        left = next_left(watching, rest.start, rest.end, &recorded);
        if (recorded || !unmapped)
            leave(watching, &left);
    }
    leave_moved(watching);
    leave_refused(watching);
}

bool watching_tidy(struct watching *watching)
{
    take_off_unmapped(watching);
    leave_moved(watching);
    return leave_one_kept(watching);
}

/* ---- open and close --------------------------------------------------------------------- */

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
    changes_start(&watching->changes);
}

void watching_reset(struct watching *watching)
{
    watching->count = 0;
    watching->kept_count = watching->refused_count = 0;
    atomic_store(&watching->moves_begin, atomic_load(&watching->moves_end));
    changes_start(&watching->changes);
}

void watching_close(struct watching *watching)
{
    owned_fd_close(&watching->maps);
    free(watching->spans);
}
