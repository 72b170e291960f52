/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See pieces.h. Pieces have one length, so that a caller can compute the piece of an address.
 */
#include "core/mr/pieces.h"

#include "core/base/error.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define LARGE_PAGE (UINT64_C(2) << 20)
#define LEAST      (UINT64_C(64) << 20) /* below that, calls cost more than what they register */
#define CHOSEN     64                   /* more pieces only where max_len demands them */

/* ---- lengths ---------------------------------------------------------------------------- */

/* Pieces begin at large pages where they can, so that the NIC's page tables keep them whole. */
uint64_t pieces_longest(uint64_t max_len)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return max_len >= LARGE_PAGE ? max_len / LARGE_PAGE * LARGE_PAGE
           : max_len >= page     ? max_len / page * page
                                 : max_len;
}

uint64_t pieces_length(uint64_t len, uint64_t max_len)
{
    uint64_t share = (len - 1) / CHOSEN + 1;
    uint64_t piece = ((share - 1) / LARGE_PAGE + 1) * LARGE_PAGE;

    if (piece < LEAST)
        piece = LEAST;
    if (len <= piece && len <= max_len)
        return len;
    return piece <= max_len ? piece : pieces_longest(max_len);
}

/* ---- physical segments ------------------------------------------------------------------ */

/* Exports all of the range without a special mapping, for every piece. -EXDEV, not recorded: no
 * dmabuf contains all of it. -ENOMEM. After another failure the pieces try, and report it. */
static int export_whole(struct hmreg_domain *domain, const struct iovec *range,
                        const struct resolved *found, struct shared *shared)
{
    struct runtime *runtime = context_runtime(domain->lib, found->iface);
    struct shared_export *export;
    struct hmreg_error_guard guard;
    struct hmreg_dmabuf dmabuf;
    bool mine;
    int rc;

    hmreg_error_guard(&guard);
    rc = runtime->ops->export_dmabuf(runtime->self, (uint64_t)(uintptr_t)range->iov_base,
                                     range->iov_len, &found->range, 0, &dmabuf);
    hmreg_error_unguard(&guard, true);
    if (rc)
        return rc == -EXDEV ? rc : 0;
    export = shared_take(shared, range, 0, &mine);
    if (!export) {
        close(dmabuf.fd);
        return hmreg_fail(-ENOMEM, "no memory to share an export");
    }
    shared_made(shared, export, 0, &dmabuf, NULL);
    return 0;
}

/* The range as it is: all of it is exported at once. */
static int take_whole(const struct iovec *range, const struct resolved *found,
                      struct composite *segments)
{
    segments->iov = malloc(sizeof(*segments->iov));
    segments->found = malloc(sizeof(*segments->found));
    if (!segments->iov || !segments->found) {
        free(segments->iov);
        free(segments->found);
        return hmreg_fail(-ENOMEM, "no memory to divide a range");
    }
    *segments->iov = *range;
    *segments->found = *found;
    segments->count = 1;
    return 0;
}

/* Finds the ranges that pieces must not cross. */
static int find_segments(struct hmreg_domain *domain, const struct request *request,
                         const struct resolved *found, struct shared *shared,
                         struct composite *segments)
{
    bool device = found->range.kind == HMREG_MEM_DEVICE && !request->dmabuf;
    int rc = 0;

    if (device && found->range.segments > 1) {
        rc = export_whole(domain, request->iov, found, shared);
        if (rc == -EXDEV) {
            rc = composite_divide(domain, request->iov, segments);
            if (rc != -EXDEV)
                return rc;
            segments->count = 0;
            rc = 0; /* their borders are unknown: the pieces report that no dmabuf contains them */
        }
    }
    return rc ? rc : take_whole(request->iov, found, segments);
}

/* ---- pieces ----------------------------------------------------------------------------- */

static uint64_t count_pieces(const struct composite *segments, uint64_t piece_len)
{
    uint64_t count = 0;

    for (size_t i = 0; i < segments->count; i++)
        count += (segments->iov[i].iov_len - 1) / piece_len + 1;
    return count;
}

static int check_count(const struct hmreg_domain *domain, const struct composite *segments,
                       uint64_t piece_len, bool callers)
{
    uint64_t count = count_pieces(segments, piece_len);

    if (count <= HMREG_SEGMENTS_MAX)
        return 0;
    if (callers)
        return hmreg_fail(-EINVAL,
                          "config->piece_len is %" PRIu64 ", which makes %" PRIu64
                          " pieces; a region has at most %d",
                          piece_len, count, HMREG_SEGMENTS_MAX);
    if (segments->count > 1)
        return hmreg_fail(-EOPNOTSUPP,
                          "the range takes %" PRIu64 " pieces, in %zu physical segments; a region "
                          "has at most %d: register it in parts",
                          count, segments->count, HMREG_SEGMENTS_MAX);
    return hmreg_fail(-EMSGSIZE,
                      "the range takes %" PRIu64 " pieces of this domain's %" PRIu64
                      " bytes; a region has at most %d: register it in parts",
                      count, domain->caps.max_len, HMREG_SEGMENTS_MAX);
}

static int allocate(struct composite *pieces, uint64_t count)
{
    bool in_dmabuf = pieces->whole.dmabuf;

    assert(count);
    pieces->iov = calloc(count, sizeof(*pieces->iov));
    pieces->found = calloc(count, sizeof(*pieces->found));
    if (in_dmabuf)
        pieces->dmabufs = calloc(count, sizeof(*pieces->dmabufs) + sizeof(**pieces->dmabufs));
    if (pieces->iov && pieces->found && (pieces->dmabufs || !in_dmabuf))
        return 0;
    return hmreg_fail(-ENOMEM, "no memory for %" PRIu64 " pieces", count);
}

/* The part of the caller's dmabuf that begins skip bytes behind its start. The parts follow the
 * pointers to them. */
static void cut_dmabuf(struct composite *pieces, uint64_t count, uint64_t skip, size_t len)
{
    struct hmreg_mr_dmabuf *part =
        (struct hmreg_mr_dmabuf *)(void *)(pieces->dmabufs + count) + pieces->count;

    *part = *pieces->whole.dmabuf;
    part->offset += skip;
    part->len = len;
    pieces->dmabufs[pieces->count] = part;
}

static void cut(struct composite *pieces, const struct composite *segments, size_t index,
                uint64_t piece_len, uint64_t count)
{
    const struct iovec *segment = &segments->iov[index];
    uint64_t skip = 0, left = segment->iov_len; /* skip + piece_len may wrap */

    while (left) {
        struct iovec *piece = &pieces->iov[pieces->count];
        struct resolved *found = &pieces->found[pieces->count];

        piece->iov_base =
            (void *)((uintptr_t)segment->iov_base + skip); /* skip may exceed PTRDIFF_MAX */
        piece->iov_len = left < piece_len ? left : piece_len;
        *found = segments->found[index];
        if (found->range.host_addr)
            found->range.host_addr += skip;
        if (pieces->dmabufs)
            cut_dmabuf(pieces, count, skip, piece->iov_len);
        pieces->count++;
        skip += piece->iov_len;
        left -= piece->iov_len;
    }
}

int pieces_divide(struct hmreg_domain *domain, const struct resolved *found, uint64_t piece_len,
                  bool callers, struct shared *shared, struct composite *pieces)
{
    const struct request *request = &pieces->whole;
    struct composite segments = {.count = 0};
    uint64_t count;
    int rc = find_segments(domain, request, found, shared, &segments);

    if (rc)
        return rc;
    shared->spans = segments.iov;
    shared->span_count = segments.count;
    rc = check_count(domain, &segments, piece_len, callers);
    count = rc ? 0 : count_pieces(&segments, piece_len);
    rc = rc ? rc : allocate(pieces, count);
    for (size_t i = 0; !rc && i < segments.count; i++)
        cut(pieces, &segments, i, piece_len, count);
    free(segments.found);
    return rc;
}

void pieces_free(struct composite *pieces)
{
    free(pieces->iov);
    free(pieces->found);
    free(pieces->dmabufs);
}
