/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See notice.h.
 */
#include "core/cache/notice.h"

#include "core/base/error.h"
#include "core/base/maps.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* ---- the ranges -------------------------------------------------------------------------- */

/* One range of a get. */
struct segment {
    uint64_t start, end;
    bool in_dmabuf; /* the caller's */
    const struct hmem_range *range;
};

static size_t segment_count(const struct get *get)
{
    return get->list ? get->list->ranges.count : 1;
}

static struct segment segment_of(const struct get *get, size_t index)
{
    const struct layout *list = get->list;
    struct segment segment = {.range = &get->found[index].range};

    if (!list) {
        segment.start = get->want.start;
        segment.end = get->want.end;
        segment.in_dmabuf = get->request->dmabuf;
        return segment;
    }
    segment.start = (uint64_t)(uintptr_t)list->ranges.iov[index].iov_base;
    segment.end = segment.start + list->ranges.iov[index].iov_len;
    segment.in_dmabuf = list->dmabufs && list->dmabufs[index];
    return segment;
}

/* ---- before the registration ------------------------------------------------------------- */

/* Programs unmap host memory that they registered with a runtime. The runtime does not notice that,
 * so its identity proves nothing. */
static bool is_unmappable(const struct get *get, const struct segment *segment)
{
    return get_is_host(get) && segment->range->host_addr == segment->start;
}

/* Is this host memory that the monitor watches: under its own address? */
static bool is_monitors(const struct get *get, const struct segment *segment)
{
    enum hmreg_monitor kind;

    if (!is_unmappable(get, segment))
        return false;
    kind = context_monitor(get->domain->lib);
    return kind != HMREG_MONITOR_DISABLED && kind != HMREG_MONITOR_DEFAULT;
}

/* Is this memory of an iface without a runtime, by its address? hmreg does not learn when it ends,
 * so the region is shared only while it is held. */
static bool is_foreign(const struct get *get, const struct segment *segment)
{
    return claim_is_foreign(get->found->iface) && !segment->in_dmabuf;
}

/* A region of a caller's dmabuf of memory that no runtime knows would keep that memory after its
 * owner has freed it. */
enum hmreg_policy notice_policy(const struct get *get)
{
    bool ends = true;

    for (size_t i = 0; i < segment_count(get); i++) {
        struct segment segment = segment_of(get, i);

        if (is_foreign(get, &segment))
            return HMREG_POLICY_LAST_PUT;
        ends &= !segment.in_dmabuf || segment.range->identity;
    }
    return get->want.policy == HMREG_POLICY_DEFAULT && !ends ? HMREG_POLICY_LAST_PUT
                                                             : get->want.policy;
}

/* Host memory stays while a get holds it, and the fabric or an earlier check has shown that the
 * process may access it. If the application reports changes, this check saves nothing. */
static bool is_held_only(const struct get *get)
{
    return get->want.policy == HMREG_POLICY_LAST_PUT && get->found->iface == HMREG_IFACE_SYSTEM &&
           get_is_host(get) && !get->assumed &&
           monitor_kind(get->set->monitor) != HMREG_MONITOR_IMPORT;
}

bool notice_is_whole(const struct get *get)
{
    bool whole = is_held_only(get);

    for (size_t i = 0; i < segment_count(get); i++) {
        struct segment segment = segment_of(get, i);

        if (is_foreign(get, &segment))
            return true;
        whole &= is_unmappable(get, &segment);
    }
    return whole;
}

/* May the resolved memory be cached at all? */
bool notice_may_cache(const struct get *get, bool host_cacheable)
{
    enum hmreg_iface iface = get->found->iface;
    bool cacheable = iface >= HMREG_IFACE_COUNT || get->domain->lib->settings.watch[iface];

    if (get->want.whole)
        return true;
    for (size_t i = 0; cacheable && i < segment_count(get); i++) {
        struct segment segment = segment_of(get, i);

        cacheable = segment.in_dmabuf || is_foreign(get, &segment) ||
                    (host_cacheable && is_monitors(get, &segment)) ||
                    (segment.range->identity && !is_unmappable(get, &segment));
    }
    return cacheable;
}

/* Can the process access the memory, as the get assumed? Memory without access may be a runtime's
 * reservation, which can become device memory unseen by the monitor. */
static bool ask_is_usable(struct get *get, const struct segment *segment, struct hmem_range *range)
{
    struct runtime *system = context_runtime(get->domain->lib, HMREG_IFACE_SYSTEM);
    uint64_t at = segment->range->host_addr ? segment->range->host_addr : segment->start;
    struct hmreg_error_guard guard;
    int rc;

    range->host_addr = 0;
    range->anonymous = range->of_driver = range->unnamed = range->read_only = false;
    hmreg_error_guard(&guard);
    rc = system->ops->resolve(system->self, at, (size_t)(segment->end - segment->start), range);
    monitor_asked(get->set->monitor, rc == -EFAULT ? 0 : rc); /* EFAULT: a hole in the range */
    hmreg_error_unguard(&guard, rc);
    return range->host_addr &&
           !(get->assumed && range->read_only && (get->request->access & REQUEST_WRITING));
}

static bool is_known_anonymous(const struct get *get, const struct segment *segment)
{
    for (unsigned i = 0; i < MAPPED_KNOWN; i++) {
        const struct mapped_range *mapped = &get->tcache->mapped[i];

        if (mapped->start <= segment->start && segment->end <= mapped->end)
            return monitor_is_unchanged(get->set->monitor, mapped->when);
    }
    return false;
}

/* Replaces the answer for these addresses, else the oldest one. */
static void know_anonymous(struct thread_cache *tcache, const struct hmem_range *range,
                           uint64_t when)
{
    struct mapped_range mapped = {range->alloc_base, range->alloc_base + range->alloc_len, when};
    unsigned at = tcache->mapped_next;

    for (unsigned i = 0; i < MAPPED_KNOWN; i++)
        if (tcache->mapped[i].start < mapped.end && mapped.start < tcache->mapped[i].end)
            at = i;
    tcache->mapped[at] = mapped;
    if (at == tcache->mapped_next)
        tcache->mapped_next = (at + 1) % MAPPED_KNOWN;
}

/* Populates all pages that have a byte of [start, end), for reading. False: the process may not
 * read one of them, or the kernel cannot do this. */
static bool populate(uint64_t start, uint64_t end)
{
    uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1, from = start & ~mask;
    int before = errno, rc;

    do
        rc = madvise((void *)(uintptr_t)from, ((end + mask) & ~mask) - from, MADV_POPULATE_READ);
    while (rc && errno == EINTR);
    errno = before;
    return !rc;
}

/* Reading the list takes at least as long as populating 64 present pages. Beyond that it takes 0.4
 * us for each mapping, populating 0.03 to 0.2 us for each page. */
#define LEAST_MAPPINGS 64

/* If the process may not access the range: will a fabric that pins refuse it? It does so for memory
 * that it may write. Memory that it only reads it may pin by force (before Linux 6.2). Then the
 * pages are populated, if that is less work than reading the list of mappings: the kernel refuses
 * as it would refuse an access. */
static bool is_pinning_strict(const struct get *get, const struct segment *segment)
{
    uint64_t pages = (segment->end - segment->start) / (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t mappings = maps_read();

    if (!get->domain->caps.pins)
        return false;
    if (get->request->access & REQUEST_WRITING)
        return true;
    return mappings && pages <= (mappings < LEAST_MAPPINGS ? LEAST_MAPPINGS : mappings) &&
           populate(segment->start, segment->end);
}

/* If the process may not access the range as the get assumed: will the fabric refuse it? It need
 * not refuse memory that is paged on demand. */
static bool is_checked_by_fabric(const struct get *get, const struct segment *segment)
{
    return !get->request->options.on_demand && is_pinning_strict(get, segment);
}

/* Can only calls of a runtime change the pages of this memory, which is not private anonymous?
 * Memory that the runtime allocated is a driver's, or shared anonymous memory (CUDA's pinned
 * memory), and ends with its identity. Memory that it may only have pinned is the program's: its
 * identity stays when a hole is punched in a file, or in shared memory by a forked child. */
static bool is_runtimes(const struct segment *segment, const struct hmem_range *mapped)
{
    return segment->range->identity &&
           (mapped->of_driver || (segment->range->allocated_if_unnamed && mapped->unnamed));
}

/* Is the range private anonymous memory that the process can access, or a runtime's own? Other
 * memory may change without an event (truncation, holes punched in a file). Called while the range
 * is watched, so the answer stays valid. The answer is kept until a call that may change mappings
 * begins: a call that began before the question has ended by then, and a later call finds the range
 * watched. mprotect(2) is no such call. */
static bool is_kept(struct get *get, const struct segment *segment)
{
    struct hmem_range range;
    uint64_t when;
    bool quiet;

    if (get->tcache && is_known_anonymous(get, segment) &&
        (!get->assumed || is_checked_by_fabric(get, segment)))
        return true;
    quiet = monitor_is_quiet(get->set->monitor, &when);
    if (!ask_is_usable(get, segment, &range))
        return false;
    if (!range.anonymous)
        return is_runtimes(segment, &range);
    if (get->tcache && quiet)
        know_anonymous(get->tcache, &range, when);
    return true;
}

bool notice_asks_later(const struct get *get)
{
    enum hmreg_monitor kind = monitor_kind(get->set->monitor);

    return (get->domain->caps.mr_mode & HMREG_MR_ALLOCATED) && !get->list &&
           !get->request->dmabuf && !get->request->claim.trusted && kind != HMREG_MONITOR_IMPORT &&
           kind != HMREG_MONITOR_DISABLED;
}

bool notice_is_known(const struct get *get)
{
    const struct request *request = get->request;
    struct segment segment = segment_of(get, 0);

    return get->tcache && !request->dmabuf && !request->claim.made && !request->options.set_iova &&
           is_known_anonymous(get, &segment);
}

/* Why hits must ask for the memory's identity; NULL: they need not, since the runtime will report
 * its end. */
static const char *why_unreported(const struct get *get, const struct segment *segment)
{
    struct runtime *runtime = context_runtime(get->domain->lib, get->found->iface);
    const char *why = "the runtime does not say why";

    if (!get->domain->lib->settings.device_ends)
        return CONTEXT_ENDS_ARE_OFF(get->domain->lib);
    if (!runtime->ops->watch)
        return CONTEXT_REPORTS_NO_END;
    return runtime->ops->watch(runtime->self, segment->start, segment->end - segment->start,
                               segment->range, &why)
               ? NULL
               : why;
}

/* Unless the end of the iface's memory is reported: must hits ask? */
static bool is_checked(const struct get *get)
{
    return get->found->iface >= HMREG_IFACE_COUNT ||
           get->domain->check[get->found->iface] == HMREG_CHECK_ALWAYS;
}

void notice_prepare(struct get *get)
{
    struct hmreg *lib = get->domain->lib;
    struct runtime *runtime;

    if (get->want.whole)
        return;
    if (get_is_host(get))
        monitor_have_thread(get->set->monitor);
    if (!get->found->range.identity || !lib->settings.device_ends || !is_checked(get) ||
        get->request->claim.trusted)
        return;
    runtime = context_runtime(lib, get->found->iface);
    if (runtime->ops->prepare_watch)
        runtime->ops->prepare_watch(runtime->self);
}

/* Must hits ask whether the segment's memory still has its identity? Sets get->asks_why if so. */
static bool must_ask(struct get *get, const struct segment *segment)
{
    const char *why;

    if (!segment->range->identity)
        return false;
    why = why_unreported(get, segment);
    if (why)
        get->asks_why = why;
    return why;
}

/* Makes the monitor watch host memory, for a list all segments. If it cannot watch them all,
 * get->watched says how many it does. */
static bool watch(struct get *get)
{
    size_t count = segment_count(get);

    for (get->watched = 0; get->watched < count; get->watched++) {
        struct segment segment = segment_of(get, get->watched);

        if (!monitor_watch(get->set->monitor, segment.start, segment.end))
            return false;
    }
    get->watched = 0; /* the entry's end unwatches them */
    return true;
}

/* Call after the entry has left the tree: otherwise the segments would count as needed. */
void notice_undo(struct get *get)
{
    if (get->watched)
        cache_set_unwatches(get->set);
    for (size_t i = 0; i < get->watched; i++) {
        struct segment segment = segment_of(get, i);

        monitor_unwatch(get->set->monitor, segment.start, segment.end, false);
    }
    get->watched = 0;
}

/* Any memory whose changes are all counted, if the process can access it. If no runtime is in use,
 * the fabric pins the memory only after it is watched, and may itself refuse it. */
static bool is_counted(struct get *get, const struct segment *segment)
{
    struct hmem_range range;

    return monitor_kind(get->set->monitor) == HMREG_MONITOR_COUNTER &&
           ((get->assumed && !get_asks_runtimes(get) && is_checked_by_fabric(get, segment)) ||
            ask_is_usable(get, segment, &range));
}

/* Host memory that its runtime knows by an identity; the identity proves nothing about the pages.
 * Memory that the runtime itself allocated needs no watch, because the program does not unmap it;
 * nor can it always be watched. The monitor does not watch a device's address of it, which may
 * differ from the CPU's.
 */
static bool is_pinned_noticed(struct get *get, const struct segment *segment, bool watched)
{
    struct hmem_range range;

    if (segment->range->allocated)
        return true;
    if (watched && is_unmappable(get, segment))
        return monitor_kind(get->set->monitor) == HMREG_MONITOR_COUNTER || is_kept(get, segment);
    return segment->range->allocated_if_unnamed && ask_is_usable(get, segment, &range) &&
           range.unnamed;
}

static bool is_change_noticed(struct get *get, const struct segment *segment, bool watched)
{
    if (segment->in_dmabuf || is_foreign(get, segment)) /* another dmabuf has another variant */
        return true;
    if (monitor_kind(get->set->monitor) == HMREG_MONITOR_IMPORT)
        return true;
    if (segment->range->identity)
        return !get_is_host(get) || is_pinned_noticed(get, segment, watched);
    return watched && (is_counted(get, segment) || is_kept(get, segment));
}

/* Hooks shut the gate before the kernel changes the memory, and the module's counts change in time:
 * hits need not ask. */
static bool must_ask_monitor(const struct get *get)
{
    enum hmreg_monitor kind = monitor_kind(get->set->monitor);

    return kind != HMREG_MONITOR_MEMHOOKS && kind != HMREG_MONITOR_COUNTER;
}

bool notice_watch_entry(struct get *get, struct hmreg_mr *mr)
{
    struct mr_body *body = entry_body(mr);
    bool always, watched, asks = false, noticed = true;

    if (get->want.whole)
        return true;
    if (get_is_host(get))
        context_monitor(get->domain->lib);
    always = is_checked(get);
    /* Even if the runtime reports changes: it does not notice that memory which it pinned was
     * unmapped.
     */
    watched = get_is_host(get) && watch(get);
    body->ask_monitor = watched && always && must_ask_monitor(get);
    body->watched = body->monitored = watched;
    for (size_t i = 0; noticed && i < segment_count(get); i++) {
        struct segment segment = segment_of(get, i);

        asks |= always && !get->request->claim.trusted && must_ask(get, &segment);
        noticed = !get->watched && is_change_noticed(get, &segment, watched);
    }
    body->ask_identity = asks;
    return noticed;
}

/* An import of the memory may keep it in the kernel, and no vendor promises that its runtime knows.
 */
bool notice_identity_is_unique(const struct get *get, const struct hmreg_mr *mr)
{
    for (size_t i = 0; entry_body(mr)->ask_identity && i < segment_count(get); i++)
        if (segment_of(get, i).range->id_recurs)
            return false;
    return true;
}

static bool segment_identity_is_valid(struct get *get, size_t index)
{
    struct segment segment = segment_of(get, index);

    return !segment.range->identity ||
           resolve_is_same(get->domain->lib, get->found->iface, segment.start, segment.end,
                           segment.range->identity);
}

bool notice_identity_is_valid(struct get *get)
{
    bool valid = true;

    for (size_t i = 0; valid && !get->request->claim.trusted && i < segment_count(get); i++)
        valid = segment_identity_is_valid(get, i);
    return valid;
}
