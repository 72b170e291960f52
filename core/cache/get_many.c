/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_mr_get_many() and hmreg_mr_put_many(): gets and puts of many regions in one call.
 *
 * A get takes GET_PORTION ranges at a time, so that no lock is held for longer than the search for
 * that many. What their gets have in common is done once: the thread's view is read and the gate
 * checked (hit_run()); the monitor is asked, for entries that need it (hit_run_out_of_line()); what
 * the thread's table lacks is searched in the caches under one hold of the lock (search()). Ranges
 * that no entry serves are registered one after the other, as by hmreg_mr_get(). So no thread waits
 * for a registration while it has claimed another, and calls in two threads cannot wait for each
 * other.
 *
 * Each region is as current as that of a get that begins with its portion: the gate and the monitor
 * are read before the sequences of all entries, and the changes before that have made the sequences
 * of the entries that they touch even (get_fast.c). The gate is read before the pins are added
 * here; only that both precede the sequence matters.
 */
#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/cache/get_slow.h"
#include "core/cache/hit.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* One call of hmreg_mr_get_many(). */
struct batch {
    struct hmreg_domain *domain;
    const struct iovec *iov;
    size_t count;
    uint64_t access;
    struct hmreg_mr **mrs; /* NULL: not got yet */
    size_t tried;          /* so many elements of it are set */
    bool checked;          /* the arguments are right */
};

/* ---- the thread's table ----------------------------------------------------------------- */

/* Gets regions of the first ranges of iov, as long as the thread's table serves them. Returns of
 * how many. Invalid ranges find nothing. Not inlined: the loop needs all registers. */
static __attribute__((noinline)) size_t hit_run(const struct hmreg_domain *domain,
                                                const struct iovec *iov, size_t count,
                                                uint64_t access, struct hmreg_mr **mrs)
{
    tls_view_pointer view = tls_view_at(domain->place);
    const struct iovec *first = iov, *end = iov + count;
    struct pin_slot *pin_slots = view->pin_slots, *pin_slot = NULL;
    uint32_t *slots = view->slots, mask = view->mask;
    char *entries = view->entries;
    struct hmreg_mr *mr = NULL;

    if (view->serial != domain->serial || !gate_is_open(view->gate))
        return 0;
    for (; iov < end; iov++) {
        uint64_t start = (uintptr_t)iov->iov_base, stop = start + iov->iov_len;
        uint32_t slot = *thread_cache_slot(slots, mask, thread_cache_hash(start));

        mr = mr_at(entries, slot);
        pin_slot = pin_slot_at(pin_slots, slot);
        add_to(&pin_slot->pins, 1);
        barrier_compiler();
        if (unlikely((sequence_of(mr) ^ pin_slot->check) != access) ||
            unlikely(start < mr->node.start) || unlikely(stop <= start) ||
            unlikely(stop > mr->node.end))
            break;
        mark_used(pin_slot);
        *mrs++ = mr;
    }
    if (iov > first)
        count_hits(view->hits, (uint64_t)(iov - first));
    if (iov < end && pin_slot != pin_slots) /* those of a free slot */
        unpin(view->tcache, pin_slot, mr);
    return (size_t)(iov - first);
}

static struct hmreg_mr *hit_one(const struct batch *batch, size_t at)
{
    tls_view_pointer view = tls_view_at(batch->domain->place);
    const struct iovec *iov = &batch->iov[at];

    if (view->serial != batch->domain->serial)
        return NULL;
    return hit_slots(view->tcache, (uintptr_t)iov->iov_base, iov->iov_len, batch->access, 0);
}

/* Sets the elements of ranges that it does not serve to NULL. Returns whether there are any. */
static bool hit_portion(const struct batch *batch, size_t from, size_t to)
{
    bool missing = false;

    for (size_t at = from;; at++) {
        at += hit_run(batch->domain, batch->iov + at, to - at, batch->access, batch->mrs + at);
        if (at == to)
            return missing;
        batch->mrs[at] = hit_one(batch, at);
        missing |= !batch->mrs[at];
    }
}

/* ---- ranges that it does not serve ------------------------------------------------------ */

static struct cache_want want_of(const struct batch *batch, size_t at)
{
    uint64_t start = (uintptr_t)batch->iov[at].iov_base;

    return (struct cache_want){.start = start,
                               .end = start + batch->iov[at].iov_len,
                               .access = batch->access,
                               .more = batch->domain->more_rights,
                               .policy = batch->domain->policy,
                               .exact = batch->domain->flags & HMREG_DOMAIN_EXACT};
}

/* Looks into the thread's table again, for entries that need a check at each hit. */
static unsigned hit_run_out_of_line(const struct batch *batch, size_t from, size_t to, bool *asked)
{
    unsigned missing = 0;

    for (size_t at = from; at < to; at++) {
        struct cache_want want = want_of(batch, at);

        if (batch->mrs[at])
            continue;
        batch->mrs[at] = get_remembered(batch->domain, &want, asked);
        missing += !batch->mrs[at];
    }
    return missing;
}

/* Searches the caches for what other threads have registered. */
static void search(const struct batch *batch, size_t from, size_t to, bool asked)
{
    struct cache_want wants[GET_PORTION];
    struct hmreg_mr **mrs[GET_PORTION];
    unsigned count = 0;

    for (size_t at = from; at < to; at++)
        if (!batch->mrs[at]) {
            wants[count] = want_of(batch, at);
            mrs[count++] = &batch->mrs[at];
        }
    get_found(batch->domain, wants, count, asked, mrs);
}

static int get_each(const struct batch *batch, size_t from, size_t to)
{
    int rc = 0;

    for (size_t at = from; at < to && !rc; at++) {
        const struct iovec *iov = &batch->iov[at];

        if (batch->mrs[at])
            continue;
        rc = get_slowly(batch->domain, iov->iov_base, iov->iov_len, batch->access, &batch->mrs[at]);
        if (rc)
            hmreg_fail_at(rc, "iov", at);
    }
    return rc;
}

/* ---- the call --------------------------------------------------------------------------- */

static int check_range(const struct batch *batch, size_t at)
{
    const struct iovec *iov = &batch->iov[at];
    struct request request = {.iov = iov, .count = 1};
    int rc = validate_range(iov->iov_base, iov->iov_len);

    rc = rc ? rc : layout_check_length(batch->domain, &request);
    return rc ? hmreg_fail_at(rc, "iov", at) : 0;
}

static int check(const struct batch *batch)
{
    int rc = domain_check(batch->domain);

    rc = rc ? rc : validate_pointer(batch->iov, "iov");
    rc = rc ? rc : validate_pointer(batch->mrs, "mrs");
    if (!rc && !batch->count)
        rc = hmreg_fail(-EINVAL, "count is 0; it must be at least 1");
    rc = rc ? rc : validate_access(batch->access);
    rc = rc ? rc : get_check(batch->domain);
    assert(rc || batch->iov);
    for (size_t at = 0; at < batch->count && !rc; at++)
        rc = check_range(batch, at);
    return rc;
}

/* Gets the regions of a portion that the thread's table did not serve at once. */
static int get_missing(struct batch *batch, size_t from, size_t to)
{
    const struct request request = {.access = batch->access};
    struct hmreg_domain *domain = batch->domain;
    bool asked = false; /* the monitor, for this portion */
    int rc = batch->checked ? domain_check(domain) : check(batch);
    unsigned missing;

    if (rc)
        return rc;
    batch->checked = true;
    missing = hit_run_out_of_line(batch, from, to, &asked);
    if (missing > 1 && get_may_share(domain, &request) && !(domain->flags & HMREG_DOMAIN_NO_CACHE))
        search(batch, from, to, asked);
    return missing ? get_each(batch, from, to) : 0;
}

/* Puts back what was got. */
static int give_up(struct batch *batch, int rc)
{
    hmreg_mr_put_many(batch->mrs, batch->tried);
    for (size_t at = 0; at < batch->count; at++)
        batch->mrs[at] = NULL;
    return rc;
}

int hmreg_mr_get_many(struct hmreg_domain *domain, const struct iovec *iov, size_t count,
                      uint64_t access, struct hmreg_mr **mrs)
{
    struct batch batch = {domain, iov, count, access, mrs, 0, false};
    int rc = 0;

    /* Bits that are no access rights would be taken for bits of a sequence. */
    if (!domain || !iov || !mrs || !count || access & ~HMREG_ACCESS_ALL) {
        rc = check(&batch);
        return mrs ? give_up(&batch, rc) : rc;
    }
    for (size_t from = 0; from < count && !rc; from = batch.tried) {
        batch.tried = count - from < GET_PORTION ? count : from + GET_PORTION;
        if (hit_portion(&batch, from, batch.tried))
            rc = get_missing(&batch, from, batch.tried);
    }
    return rc ? give_up(&batch, rc) : 0;
}

/* ---- put -------------------------------------------------------------------------------- */

/* Puts regions of one domain from mrs[from] on, which is not NULL, as long as the thread has their
 * pin slots. Returns the index of the first that it did not put. */
static size_t put_run(struct hmreg_mr *const *mrs, size_t from, size_t count)
{
    const struct hmreg_domain *domain = mrs[from]->domain;
    tls_view_pointer view = tls_view_at(domain->place);
    struct pin_slot *pin_slots = view->pin_slots;
    uint32_t room = view->room;
    size_t at;

    if (view->serial != domain->serial)
        return from;
    for (at = from; at < count; at++) {
        struct hmreg_mr *mr = mrs[at];

        if (unlikely(!mr) || unlikely(mr->domain != domain) || unlikely(mr->slot_offset >= room))
            break;
        add_to(&pin_slot_at(pin_slots, mr->slot_offset)->pins, -1u);
        barrier_compiler();
        if (unlikely(sequence_of(mr) % 2 == 0)) {
            put_last(view->tcache, mr); /* which may change the view */
            return at + 1;
        }
    }
    return at;
}

void hmreg_mr_put_many(struct hmreg_mr *const *mrs, size_t count)
{
    for (size_t at = 0; mrs && at < count;) {
        size_t next = mrs[at] ? put_run(mrs, at, count) : at;

        if (next == at)
            hmreg_mr_put(mrs[next++]);
        at = next;
    }
}
