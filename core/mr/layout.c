/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See layout.h. A region has several parts for one of three reasons: the caller lists segments that
 * the fabric does not register together; a range is longer than the fabric registers at once, or
 * several threads register it; or no dmabuf contains all of it, as for virtual memory of several
 * devices, or of a driver that exports one allocation at a time.
 */
#include "core/mr/layout.h"

#include "core/base/error.h"
#include "core/base/validate.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE_PAGE (UINT64_C(2) << 20)
#define LEAST                                                                                      \
    (UINT64_C(64) << 20) /* below that, the call costs more than registering its                   \
                            bytes */
#define CHOSEN 64        /* more parts only where max_len demands them */

/* ---- parts ------------------------------------------------------------------------------ */

void layout_init(struct layout *layout, const struct request *request, struct resolved *found)
{
    layout->request = *request;
    layout->whole = *found;
    layout->ranges = (struct ranges){request->count, (struct iovec *)request->iov, found};
    layout->dmabufs = NULL;
    layout->joined = true;
    layout->owned = layout->shares = layout->assumed = layout->modest = false;
    layout->segments = (struct ranges){0, NULL, NULL};
    layout->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    layout->made = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    layout->exports = NULL;
}

size_t layout_parts(const struct layout *layout)
{
    return layout->joined ? 1 : layout->ranges.count;
}

struct request layout_part(const struct layout *layout, const struct ranges *ranges, size_t index)
{
    struct request request = layout->request;

    request.iov = &ranges->iov[index];
    request.count = 1;
    if (ranges == &layout->ranges && layout->dmabufs)
        request.dmabuf = layout->dmabufs[index];
    for (size_t i = 0; i < index && request.options.set_iova; i++)
        request.options.iova += ranges->iov[i].iov_len;
    request.any_key |= index > 0; /* the caller's key is for the first part */
    return request;
}

static void free_ranges(struct ranges *ranges)
{
    free(ranges->iov);
    free(ranges->found);
    *ranges = (struct ranges){0, NULL, NULL};
}

/* A layout's own single range is not on the heap. */
static void free_own_ranges(struct layout *layout)
{
    if (layout->ranges.iov != &layout->one)
        free_ranges(&layout->ranges);
}

void layout_close(struct layout *layout)
{
    while (layout->exports) {
        struct layout_export *gone = layout->exports;

        layout->exports = gone->next;
        if (!gone->rc)
            close(gone->dmabuf.fd);
        free(gone);
    }
    if (layout->segments.count)
        free_ranges(&layout->segments);
}

void layout_free(struct layout *layout)
{
    if (!layout->owned)
        return;
    layout_close(layout);
    free_own_ranges(layout);
    free(layout->dmabufs);
    layout->dmabufs = NULL;
}

/* ---- lists of segments ------------------------------------------------------------------ */

/* Checks a segment, and sets its range and dmabuf. */
static int check_segment(const struct hmreg_segment *segment, size_t index, struct layout *layout)
{
    struct iovec *iov = &layout->ranges.iov[index];

    if (segment->kind == HMREG_SEGMENT_DMABUF) {
        layout->dmabufs[index] = &segment->u.dmabuf;
        return request_from_dmabuf(&segment->u.dmabuf, iov, &(struct dmabuf_file){0});
    }
    *iov = segment->u.memory;
    return validate_range_at("segments", index, iov->iov_base, iov->iov_len);
}

static int allocate_ranges(struct ranges *ranges, size_t count, const char *what)
{
    *ranges = (struct ranges){count, calloc(count, sizeof(*ranges->iov)),
                              calloc(count, sizeof(*ranges->found))};
    return ranges->iov && ranges->found
               ? 0
               : hmreg_fail(-ENOMEM, "hmreg has no memory for %zu %s", count, what);
}

int layout_gather(struct hmreg_domain *domain, const struct hmreg_segment *segments, size_t count,
                  const struct request *request, struct layout *layout)
{
    struct resolved unknown = {.iface = HMREG_IFACE_SYSTEM};
    int rc;

    layout_init(layout, request, &unknown);
    layout->owned = true;
    count = segments ? count : request->count;
    layout->found = unknown;
    layout->ranges = (struct ranges){1, &layout->one, &layout->found};
    rc = count > 1 ? allocate_ranges(&layout->ranges, count, "segments") : 0;
    if (!rc && segments) {
        layout->dmabufs = calloc(count, sizeof(*layout->dmabufs));
        rc = layout->dmabufs ? 0
                             : hmreg_fail(-ENOMEM, "hmreg has no memory for %zu segments", count);
    } else if (!rc) {
        memcpy(layout->ranges.iov, request->iov, request->count * sizeof(*request->iov));
        layout->request.iov = layout->ranges.iov;
    }
    for (size_t i = 0; segments && i < count && !rc; i++)
        rc = check_segment(&segments[i], i, layout);
    return rc ? rc : request_check_length(domain, layout->ranges.iov, layout->ranges.count);
}

/* Host memory becomes one registration if the fabric takes so many ranges. Device memory does not,
 * so that each segment takes its own best path; nor do dmabufs, since a registration takes a single
 * one.
 */
static bool can_join(const struct hmreg_domain *domain, const struct ranges *ranges)
{
    return ranges->count == 1 || (ranges->found[0].range.kind != HMREG_MEM_DEVICE &&
                                  ranges->count <= domain->caps.iov_limit);
}

static int resolve_segments(struct hmreg_domain *domain, struct layout *layout)
{
    int rc = 0;

    layout->joined = false;
    for (size_t i = 0; i < layout->ranges.count && !rc; i++) {
        struct request request = layout_part(layout, &layout->ranges, i);

        rc = request_resolve(domain, &request, &layout->ranges.found[i]);
        rc = rc ? rc : request_check_same(layout->ranges.found, i, true);
    }
    layout->joined = !rc && can_join(domain, &layout->ranges);
    if (layout->joined) {
        layout->request.iov = layout->ranges.iov;
        layout->request.count = layout->ranges.count;
        layout->request.dmabuf = layout->dmabufs[0];
    }
    if (rc || layout->joined || !(layout->request.flags & HMREG_REG_SINGLE))
        return rc;
    return hmreg_fail(-EXDEV,
                      "flags has HMREG_REG_SINGLE, but %zu segments need one registration each on "
                      "%s: remove the flag, and use hmreg_mr_piece()",
                      layout->ranges.count, domain->caps.fabric);
}

int layout_resolve(struct hmreg_domain *domain, struct layout *layout)
{
    int rc = layout->dmabufs ? resolve_segments(domain, layout)
                             : request_resolve(domain, &layout->request, layout->ranges.found);

    layout->whole = layout->ranges.found[0];
    return rc;
}

struct mr_list *layout_list(const struct layout *layout)
{
    const struct ranges *ranges = &layout->ranges;
    struct mr_list *list = malloc(sizeof(*list) + ranges->count * sizeof(list->segment[0]));

    if (!list)
        return NULL;
    list->len = 0;
    list->count = ranges->count;
    for (size_t i = 0; i < list->count; i++) {
        bool in_dmabuf = layout->dmabufs && layout->dmabufs[i];

        list->segment[i].start = (uint64_t)(uintptr_t)ranges->iov[i].iov_base;
        list->segment[i].end = list->segment[i].start + ranges->iov[i].iov_len;
        list->segment[i].identity = in_dmabuf ? 0 : ranges->found[i].range.identity;
        list->len += ranges->iov[i].iov_len;
    }
    return list;
}

/* ---- physical segments ------------------------------------------------------------------ */

static int fail_changed(uint64_t addr)
{
    return hmreg_fail(-EIO, "the memory at %#" PRIx64 " changed while it was registered", addr);
}

/* Finds the segment at the start of [addr, end). A query of one byte returns the extent of the
 * segment that contains it. -EXDEV, not recorded: the segment itself consists of several
 * (tiles). */
static int find_segment(struct hmreg *lib, uint64_t addr, uint64_t end, struct iovec *iov,
                        struct resolved *found)
{
    const struct hmem_range *range = &found->range;
    uint64_t border;
    int rc = resolve(lib, addr, 1, found);

    if (rc)
        return rc;
    border = range->alloc_base + range->alloc_len;
    if (found->iface == HMREG_IFACE_SYSTEM || border <= addr)
        return fail_changed(addr);
    *iov = (struct iovec){(void *)(uintptr_t)addr, (size_t)((border < end ? border : end) - addr)};
    rc = resolve(lib, addr, iov->iov_len, found);
    return rc ? rc : range->segments > 1 ? -EXDEV : 0;
}

/* Doubles the arrays whenever count is a power of two: most ranges have few segments. */
static int make_place(struct ranges *ranges)
{
    size_t count = ranges->count, room = count ? 2 * count : 1;
    struct resolved *found;
    struct iovec *iov;

    if (count == HMREG_SEGMENTS_MAX)
        return hmreg_fail(-EOPNOTSUPP,
                          "the range has more than %d physical segments, the most that a region "
                          "may have: register it in parts",
                          HMREG_SEGMENTS_MAX);
    if (count & (count - 1))
        return 0;
    iov = realloc(ranges->iov, room * sizeof(*iov));
    if (iov)
        ranges->iov = iov;
    found = realloc(ranges->found, room * sizeof(*found));
    if (found)
        ranges->found = found;
    return iov && found
               ? 0
               : hmreg_fail(-ENOMEM, "hmreg has no memory for a region of several segments");
}

int layout_find_segments(struct hmreg *lib, struct layout *layout)
{
    struct ranges *segments = &layout->segments;
    uint64_t start = (uint64_t)(uintptr_t)layout->ranges.iov->iov_base, addr = start;
    uint64_t end = start + layout->ranges.iov->iov_len;
    int rc = 0;

    if (segments->count)
        return 0;
    while (addr < end && !rc) {
        size_t i = segments->count;

        rc = make_place(segments);
        rc = rc ? rc : find_segment(lib, addr, end, &segments->iov[i], &segments->found[i]);
        if (!rc)
            addr += segments->iov[i].iov_len;
        segments->count += !rc;
    }
    if (!rc && segments->count == 1)
        rc = fail_changed(start);
    if (rc)
        free_ranges(segments);
    return rc;
}

/* ---- cutting a range -------------------------------------------------------------------- */

/* Parts begin at large pages if possible, so that the NIC's page tables keep these whole. */
uint64_t layout_longest(uint64_t max_len)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return max_len >= LARGE_PAGE ? max_len / LARGE_PAGE * LARGE_PAGE
           : max_len >= page     ? max_len / page * page
                                 : max_len;
}

int layout_check_length(const struct hmreg_domain *domain, const struct request *request)
{
    const struct iovec *range = request->iov;
    uint64_t max_len = domain->caps.max_len, longest;

    if (range->iov_len <= max_len)
        return 0;
    if (request_is_single(domain, request))
        return hmreg_fail(-EMSGSIZE,
                          "the region is longer than this domain's %" PRIu64
                          " bytes, but must be one registration: get it in parts, or with "
                          "HMREG_REG_PARTS (or HMREG_DOMAIN_PARTS) and use hmreg_mr_piece()",
                          max_len);
    longest = layout_longest(max_len);
    if ((range->iov_len - 1) / longest < HMREG_SEGMENTS_MAX)
        return 0;
    return hmreg_fail(-EMSGSIZE,
                      "the region is longer than %d pieces of %" PRIu64
                      " bytes (this domain's max_len is %" PRIu64
                      "): get it in parts, or register each by hmreg_mr_reg_large()",
                      HMREG_SEGMENTS_MAX, longest, max_len);
}

uint64_t layout_chosen(uint64_t len, uint64_t max_len)
{
    uint64_t share = (len - 1) / CHOSEN + 1;
    uint64_t piece = ((share - 1) / LARGE_PAGE + 1) * LARGE_PAGE;

    if (piece < LEAST)
        piece = LEAST;
    if (len <= piece && len <= max_len)
        return len;
    return piece <= max_len ? piece : layout_longest(max_len);
}

/* Exports the whole range without a special mapping, for every part. -EXDEV, not recorded: no
 * dmabuf contains it. -ENOMEM. After another failure the parts try again, and report theirs. */
static int export_whole(struct hmreg *lib, struct layout *layout)
{
    struct runtime *runtime = context_runtime(lib, layout->whole.iface);
    const struct iovec *range = layout->ranges.iov;
    struct layout_export *export;
    struct hmreg_error_guard guard;
    struct hmreg_dmabuf dmabuf;
    bool mine;
    int rc;

    hmreg_error_guard(&guard);
    rc = runtime->ops->export_dmabuf(runtime->self, (uint64_t)(uintptr_t)range->iov_base,
                                     range->iov_len, &layout->whole.range, 0, &dmabuf);
    hmreg_error_unguard(&guard, true);
    if (rc)
        return rc == -EXDEV ? rc : 0;
    export = layout_take_export(layout, range, 0, &mine);
    if (!export) {
        close(dmabuf.fd);
        return hmreg_fail(-ENOMEM, "hmreg has no memory to share an export");
    }
    layout_exported(layout, export, 0, &dmabuf, NULL);
    return 0;
}

/* Finds the ranges that parts must not cross. */
static int find_borders(struct hmreg *lib, struct layout *layout)
{
    const struct hmem_range *memory = &layout->whole.range;
    struct ranges *segments = &layout->segments;
    int rc = 0;

    if (memory->kind == HMREG_MEM_DEVICE && !layout->request.dmabuf && memory->segments > 1)
        rc = export_whole(lib, layout);
    if (rc == -EXDEV) {
        rc = layout_find_segments(lib, layout);
        if (rc != -EXDEV)
            return rc;
        rc = 0; /* their borders are unknown: the parts report that no dmabuf contains them */
    }
    rc = rc ? rc : allocate_ranges(segments, 1, "segment");
    if (rc)
        return rc;
    *segments->iov = *layout->ranges.iov;
    *segments->found = layout->whole;
    return 0;
}

static uint64_t count_pieces(const struct ranges *segments, uint64_t piece_len)
{
    uint64_t count = 0;

    for (size_t i = 0; i < segments->count; i++)
        count += (segments->iov[i].iov_len - 1) / piece_len + 1;
    return count;
}

static int check_count(const struct hmreg_domain *domain, const struct layout *layout,
                       uint64_t piece_len, bool callers)
{
    uint64_t count = count_pieces(&layout->segments, piece_len);

    if (count <= HMREG_SEGMENTS_MAX)
        return 0;
    if (callers)
        return hmreg_fail(-EINVAL,
                          "config->piece_len is %" PRIu64 ", which makes %" PRIu64
                          " pieces; a region has at most %d",
                          piece_len, count, HMREG_SEGMENTS_MAX);
    if (layout->segments.count > 1)
        return hmreg_fail(-EOPNOTSUPP,
                          "the range takes %" PRIu64 " pieces, in %zu physical segments; a region "
                          "has at most %d: register it in parts",
                          count, layout->segments.count, HMREG_SEGMENTS_MAX);
    return hmreg_fail(-EMSGSIZE,
                      "the range takes %" PRIu64 " pieces of this domain's %" PRIu64
                      " bytes; a region has at most %d: register it in parts",
                      count, domain->caps.max_len, HMREG_SEGMENTS_MAX);
}

/* The part of the request's dmabuf from byte skip on. In memory the parts follow the pointers to
 * them. */
static void cut_dmabuf(struct layout *layout, size_t index, uint64_t skip, size_t len)
{
    struct hmreg_mr_dmabuf *first =
        (struct hmreg_mr_dmabuf *)(void *)(layout->dmabufs + layout->ranges.count);

    first[index] = *layout->request.dmabuf;
    first[index].offset += skip;
    first[index].len = len;
    layout->dmabufs[index] = &first[index];
}

/* Cuts one segment. *at: the next part. */
static void cut(struct layout *layout, size_t segment, uint64_t piece_len, size_t *at)
{
    const struct iovec *all = &layout->segments.iov[segment];
    uint64_t skip = 0, left = all->iov_len; /* skip + piece_len may wrap */

    while (left) {
        struct iovec *piece = &layout->ranges.iov[*at];
        struct resolved *found = &layout->ranges.found[*at];

        /* skip may exceed PTRDIFF_MAX */
        piece->iov_base = (void *)((uintptr_t)all->iov_base + skip);
        piece->iov_len = left < piece_len ? left : piece_len;
        *found = layout->segments.found[segment];
        if (found->range.host_addr)
            found->range.host_addr += skip;
        if (layout->dmabufs)
            cut_dmabuf(layout, *at, skip, piece->iov_len);
        ++*at;
        skip += piece->iov_len;
        left -= piece->iov_len;
    }
}

int layout_cut(struct hmreg_domain *domain, struct layout *layout, uint64_t piece_len, bool callers)
{
    size_t count, at = 0;
    int rc = find_borders(domain->lib, layout);

    rc = rc ? rc : check_count(domain, layout, piece_len, callers);
    if (rc) {
        layout_close(layout);
        return rc;
    }
    count = (size_t)count_pieces(&layout->segments, piece_len);
    assert(count && !layout->owned);
    layout->owned = layout->shares = true;
    layout->joined = false;
    rc = allocate_ranges(&layout->ranges, count, "pieces");
    if (!rc && layout->request.dmabuf) {
        layout->dmabufs = calloc(count, sizeof(*layout->dmabufs) + sizeof(**layout->dmabufs));
        rc = layout->dmabufs ? 0 : hmreg_fail(-ENOMEM, "hmreg has no memory for %zu pieces", count);
    }
    for (size_t i = 0; !rc && i < layout->segments.count; i++)
        cut(layout, i, piece_len, &at);
    return rc;
}

/* ---- shared exports --------------------------------------------------------------------- */

/* The segment that contains a range, else the range. */
static const struct iovec *whole_of(const struct ranges *segments, const struct iovec *range)
{
    for (size_t i = 0; i < segments->count; i++) {
        const struct iovec *segment = &segments->iov[i];
        uint64_t skip =
            (uint64_t)(uintptr_t)range->iov_base - (uint64_t)(uintptr_t)segment->iov_base;

        if (skip < segment->iov_len && range->iov_len <= segment->iov_len - skip)
            return segment;
    }
    return range;
}

static struct layout_export *find_export(const struct layout *layout, const struct iovec *range,
                                         uint64_t flags)
{
    struct layout_export *found = layout->exports;

    while (found && (found->replaced || found->range.iov_base != range->iov_base ||
                     found->range.iov_len != range->iov_len || found->flags != flags))
        found = found->next;
    return found;
}

static struct layout_export *add_export(struct layout *layout, const struct iovec *range,
                                        uint64_t flags)
{
    struct layout_export *added = calloc(1, sizeof(*added));

    if (!added)
        return NULL;
    added->range = *range;
    added->flags = flags;
    added->next = layout->exports;
    layout->exports = added;
    return added;
}

struct layout_export *layout_take_export(struct layout *layout, const struct iovec *range,
                                         uint64_t flags, bool *mine)
{
    const struct iovec *whole = whole_of(&layout->segments, range);
    struct layout_export *taken;

    pthread_mutex_lock(&layout->lock);
    taken = find_export(layout, whole, flags);
    *mine = !taken;
    if (!taken)
        taken = add_export(layout, whole, flags);
    while (taken && !*mine && !taken->made)
        pthread_cond_wait(&layout->made, &layout->lock);
    pthread_mutex_unlock(&layout->lock);
    return taken;
}

void layout_exported(struct layout *layout, struct layout_export *made, int rc,
                     const struct hmreg_dmabuf *dmabuf, const struct hmreg_reason *why)
{
    pthread_mutex_lock(&layout->lock);
    made->rc = rc;
    if (rc)
        made->why = *why;
    else
        made->dmabuf = *dmabuf;
    made->made = true;
    pthread_cond_broadcast(&layout->made);
    pthread_mutex_unlock(&layout->lock);
}

void layout_replace_export(struct layout *layout, const struct iovec *range, uint64_t flags)
{
    struct layout_export *old;

    pthread_mutex_lock(&layout->lock);
    old = find_export(layout, whole_of(&layout->segments, range), flags);
    if (old)
        old->replaced = true;
    pthread_mutex_unlock(&layout->lock);
}
