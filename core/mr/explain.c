/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Explains why a region has its path, why a registration found none, and which path a registration
 * would take. People read the reasons, and programs.
 */
#include "core/mr/explain.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/log.h"
#include "core/base/process.h"
#include "core/base/validate.h"
#include "core/context/resolve.h"
#include "core/group/nearest.h"
#include "core/mr/claim.h"
#include "core/mr/mr.h"
#include "core/context/ways.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the last registration of each thread that every path refused ----------------------- */

/* A pthread key, not thread-local data: error.c says why. */
static pthread_key_t kept_key;

static bool make_key(void)
{
    return pthread_key_create(&kept_key, free) == 0;
}

/* The thread's explanation; make: allocates a missing one. NULL: none, or no memory. */
static struct hmreg_explanation *kept_explanation(bool make)
{
    static atomic_int made;
    struct hmreg_explanation *found;

    if (!process_once(&made, make_key))
        return NULL;
    found = pthread_getspecific(kept_key);
    if (found || !make)
        return found;
    found = calloc(1, sizeof(*found));
    if (found && pthread_setspecific(kept_key, found)) {
        free(found);
        found = NULL;
    }
    return found;
}

/* ---- reasons ---------------------------------------------------------------------------- */

static void fill(struct hmreg_explanation *out, enum hmreg_iface iface, int device,
                 enum hmreg_path path, const struct hmreg_reason *reasons, uint32_t count)
{
    *out = (struct hmreg_explanation){
        .size = sizeof(*out),
        .iface = iface,
        .device = device,
        .path = path,
        .refused = count,
    };
    if (count)
        memcpy(out->reasons, reasons, count * sizeof(*reasons));
}

void explain_keep(enum hmreg_iface iface, int device, const struct hmreg_reason *reasons,
                  uint32_t count)
{
    struct hmreg_explanation *out = kept_explanation(true);

    if (out)
        fill(out, iface, device, HMREG_PATH_NONE, reasons, count);
}

const struct hmreg_explanation *explain_kept(void)
{
    return kept_explanation(false);
}

void explain_keep_room(const char *why)
{
    struct hmreg_explanation *out = kept_explanation(false);

    if (out)
        snprintf(out->room_why, sizeof(out->room_why), "%s", why);
}

_Static_assert(HMREG_PATH_COUNT - 1 + HMREG_WAY_COUNT - 2 <= HMREG_REASONS_MAX,
               "each path and way may be refused");

/* The path of the member that stands for the region, and why other paths were refused. */
static void explain_region(struct hmreg_explanation *explanation, const struct hmreg_mr *mr,
                           size_t member)
{
    const struct mr_body *body = mr_body(mr);
    const struct natives *natives = mr_natives(mr);
    const struct refusals *refused = natives ? &natives->rail[member].refused : NULL;

    fill(explanation, body->iface, mr_device(mr),
         natives ? (enum hmreg_path)natives->note[member * natives->parts].path
                 : (enum hmreg_path)body->path,
         refused ? refused->reasons : NULL, refused ? refused->count : 0);
}

/* The questions of hits on a cached region, and the reasons. */
static void explain_hits(struct hmreg_explanation *explanation, const struct hmreg_mr *mr)
{
    explanation->asks = mr_asks(mr);
    explanation->policy = mr_policy(mr);
    if (mr_body(mr)->ask_identity)
        text_write(explanation->asks_why, sizeof(explanation->asks_why), "%s",
                   mr_ext(mr)->asks_why);
}

/* Why the monitor would miss changes of a range, by its present mapping. NULL: it would not, or the
 * memory is not the host's. */
static const char *why_unnoticed(struct hmreg *lib, const struct iovec *range)
{
    uint64_t addr = (uint64_t)(uintptr_t)range->iov_base;
    struct hmem_range mapped;
    struct resolved found;

    if (resolve(lib, addr, range->iov_len, &found) || !resolved_is_host(&found))
        return NULL;
    if (found.range.identity && found.range.allocated)
        return NULL;
    if (found.range.host_addr != addr && !found.range.allocated_if_unnamed)
        return "this is a device's address of host memory that a runtime has pinned, and no "
               "monitor watches such addresses: use the CPU's address";
    if (resolve_mapped(lib, found.range.host_addr, range->iov_len, &mapped))
        return NULL;
    if (!mapped.host_addr)
        return "the process may not read the memory that a runtime pinned";
    if (mapped.anonymous ||
        (found.range.identity &&
         (mapped.of_driver || (found.range.allocated_if_unnamed && mapped.unnamed))))
        return NULL;
    return "the memory is a file's or shared: other processes can change its pages (punch a hole, "
           "truncate the file). This monitor does not detect such changes; the kernel module "
           "hmreg_counter does";
}

/* For host memory that the monitor watches only if it is private and anonymous. */
static void explain_unnoticed(struct hmreg_explanation *explanation, const struct hmreg_mr *mr)
{
    struct hmreg_error_guard guard;
    const char *why = NULL;

    hmreg_error_guard(&guard);
    for (size_t i = 0; !why && i < mr_count(mr); i++) {
        struct iovec range = mr_asked(mr, i);

        why = why_unnoticed(mr->domain->lib, &range);
    }
    hmreg_error_unguard(&guard, true);
    if (why)
        text_write(explanation->uncached_why, sizeof(explanation->uncached_why), "%s", why);
}

/* Finds a range of a region of system memory that the process cannot read now. */
static bool find_unreadable(const struct hmreg_mr *mr, struct iovec *range)
{
    for (size_t i = 0; mr_body(mr)->iface == HMREG_IFACE_SYSTEM && i < mr_count(mr); i++) {
        *range = mr_asked(mr, i);
        if (!resolve_is_readable(mr->domain->lib, range))
            return true;
    }
    return false;
}

void explain_warn_unreadable(const struct hmreg_mr *mr)
{
    struct hmreg *lib = mr->domain->lib;
    const struct log *log = &lib->settings.log;
    struct iovec range;

    if ((mr->domain->caps.mr_mode & HMREG_MR_ALLOCATED) || !log_takes(log, HMREG_LOG_WARN) ||
        atomic_load(&lib->told_unreadable) || mr_path(mr) != HMREG_PATH_SYSTEM ||
        !find_unreadable(mr, &range) || atomic_exchange(&lib->told_unreadable, true))
        return;
    log_say(log, HMREG_LOG_WARN,
            "%zu bytes at %p are registered as host memory, although " RESOLVE_UNREADABLE
            " (further such regions: hmreg_mr_explain())",
            range.iov_len, range.iov_base);
}

/* Why a get's host memory is not cached, or why memory of an iface without a runtime is not kept.
 */
static void explain_uncached(struct hmreg_explanation *explanation, const struct hmreg_mr *mr)
{
    enum hmreg_iface iface = mr_body(mr)->iface;
    struct hmreg_monitor_info info;
    struct iovec range;

    if (mr->slot_offset && claim_is_foreign(iface) && explanation->path == HMREG_PATH_PEERMEM)
        text_write(explanation->uncached_why, sizeof(explanation->uncached_why),
                   "hmreg has no runtime for %s and cannot detect new memory at this address: the "
                   "region ends with its last put under every policy",
                   hmreg_iface_name(iface));
    if (mr_body(mr)->cached || explanation->path != HMREG_PATH_SYSTEM)
        return;
    if (find_unreadable(mr, &range)) {
        text_write(explanation->uncached_why, sizeof(explanation->uncached_why),
                   "%zu bytes at %p: " RESOLVE_UNREADABLE, range.iov_len, range.iov_base);
        return;
    }
    if (!mr->slot_offset)
        return;
    monitor_query(mr->domain->lib->monitor, &info);
    if (info.active == HMREG_MONITOR_MEMHOOKS || info.active == HMREG_MONITOR_USERFAULTFD)
        explain_unnoticed(explanation, mr);
    if (iface == HMREG_IFACE_SYSTEM &&
        (info.active == HMREG_MONITOR_DISABLED || monitor_is_short(mr->domain->lib->monitor)))
        text_write(explanation->uncached_why, sizeof(explanation->uncached_why), "%s", info.why);
}

/* Begins each reason's text with its rail. */
static void name_rail(struct hmreg_explanation *explanation, size_t rail,
                      const struct hmreg_domain *member)
{
    for (uint32_t i = 0; i < explanation->refused; i++) {
        struct hmreg_reason *reason = &explanation->reasons[i];

        text_write(reason->text, sizeof(reason->text), "rail %zu (%s): %s", rail,
                   member->caps.fabric, reason->text);
    }
}

/* Why a region is registered on this member, if the group chose. */
static void explain_rail(struct hmreg_explanation *explanation, const struct hmreg_mr *mr,
                         size_t member)
{
    const struct nearest_order *order = mr_natives(mr) ? mr_natives(mr)->order : NULL;

    if (order)
        nearest_explain(order, member, true, explanation->rail_why, sizeof(explanation->rail_why));
}

int hmreg_mr_explain(const struct hmreg_mr *mr, struct hmreg_explanation *out)
{
    LOGS_FAILURE(mr_log(mr));
    const struct hmreg_explanation *last = mr ? NULL : kept_explanation(false);
    struct hmreg_explanation explanation;
    size_t member;
    int rc = mr ? mr_check(mr) : 0;

    rc = rc ? rc : validate_out(out, sizeof(explanation), "struct hmreg_explanation");
    if (rc)
        return rc;
    if (!mr && !last)
        return hmreg_fail(-ENOENT, "mr is NULL, and no registration of this thread was refused");
    if (mr) {
        member = mr_explained(mr);
        explain_region(&explanation, mr, member);
        explain_rail(&explanation, mr, member);
        explain_hits(&explanation, mr);
        explain_uncached(&explanation, mr);
        if (mr_of_group(mr))
            name_rail(&explanation, member, mr->domain->group->members[member]);
    } else {
        explanation = *last;
    }
    validate_copy_out(out, &explanation, sizeof(explanation));
    return 0;
}

/* Would this path work for the device's memory? Registers nothing. The caller exports memory of an
 * iface without a runtime as a dmabuf, or registers its address on path peermem. */
static int foresee(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                   struct hmreg_reason *why)
{
    struct hmem_device info = {.dmabuf = true};

    if (!claim_is_foreign(iface))
        context_device(domain->lib, iface, device, &info);
    if (why->path != HMREG_PATH_PEERMEM && !info.dmabuf)
        return hmreg_refuse(why, -EOPNOTSUPP, "no-dmabuf-export",
                            "this device's runtime does not export dmabufs");
    return domain->ops.can(domain->self, why->path, iface, device, why);
}

/* Would one of the domain's ways of path dmabuf work? Adds those that would not as refused. */
static bool foresee_ways(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                         struct hmreg_explanation *out)
{
    const enum hmreg_way *way = ways_of(domain, iface, device);

    for (; *way != HMREG_WAY_NONE; way++) {
        struct hmreg_reason *why = &out->reasons[out->refused];

        why->path = HMREG_PATH_DMABUF;
        if (way_check(domain, *way, false, why) == 0)
            return true;
        way_refused(*way, why);
        out->refused++;
    }
    return false;
}

static void foresee_one(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                        struct hmreg_explanation *out)
{
    fill(out, iface, device, HMREG_PATH_NONE, NULL, 0);
    for (const enum hmreg_path *path = domain->order; *path != HMREG_PATH_NONE; path++) {
        struct hmreg_reason *why = &out->reasons[out->refused];

        why->path = *path;
        if (foresee(domain, iface, device, why)) {
            out->refused++;
            continue;
        }
        if (*path == HMREG_PATH_DMABUF && !foresee_ways(domain, iface, device, out))
            continue;
        out->reasons[out->refused] = (struct hmreg_reason){0};
        out->path = *path;
        return;
    }
}

/* A member without any path is worse than one with a path. */
static bool fares_worse(const struct hmreg_explanation *one, const struct hmreg_explanation *other)
{
    if (!one->path != !other->path)
        return !one->path;
    return one->refused > other->refused;
}

/* A member that was lost while the library hibernated has no fabric to ask, then and later. */
static int check_awake(struct hmreg_domain *domain)
{
    size_t rails = group_rails(domain), asleep = 0;

    for (size_t i = 0; i < rails; i++) {
        struct hmreg_domain *rail = group_rail(domain, i);

        if (!domain_is_lost(rail) && domain_check_awake(rail))
            return -EAGAIN;
        asleep += atomic_load(&rail->asleep);
    }
    return asleep < rails ? 0 : domain_fail_lost(group_rail(domain, 0));
}

/* The worst member of a group: one without a path, or with the most refused paths. */
static int foresee_all(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                       struct hmreg_explanation *out)
{
    const struct resolved memory = {.iface = iface,
                                    .range = {.device = device, .kind = HMREG_MEM_DEVICE}};
    const struct nearest_order *order;
    struct hmreg_explanation other;
    size_t worst = HMREG_GROUP_MAX;
    int rc;

    if (!domain->group) {
        foresee_one(domain, iface, device, out);
        return 0;
    }
    rc = nearest_find(domain->group, &memory, 1, &order);
    if (rc)
        return rc;
    for (size_t i = 0; i < domain->group->count; i++) {
        if (!group_registers_on(order ? nearest_rails(order) : 0, i) ||
            atomic_load(&domain->group->members[i]->asleep))
            continue;
        foresee_one(domain->group->members[i], iface, device, &other);
        if (worst < HMREG_GROUP_MAX && !fares_worse(&other, out))
            continue;
        *out = other;
        worst = i;
    }
    if (worst == HMREG_GROUP_MAX)
        return hmreg_fail(-ENODEV, "the nearest members of the group are lost");
    name_rail(out, worst, domain->group->members[worst]);
    if (order)
        nearest_explain(order, worst, true, out->rail_why, sizeof(out->rail_why));
    return 0;
}

int hmreg_domain_explain(struct hmreg_domain *domain, enum hmreg_iface iface, int device,
                         struct hmreg_explanation *out)
{
    LOGS_FAILURE(domain_log(domain));
    struct hmreg_explanation explanation;
    struct hmreg_error before;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_out(out, sizeof(explanation), "struct hmreg_explanation");
    rc = rc ? rc : claim_check_foreign(iface, device, -ENODEV);
    if (!rc && !claim_is_foreign(iface))
        rc = domain_check_device(domain, iface, device);
    rc = rc ? rc : check_awake(domain);
    if (rc)
        return rc;
    hmreg_error_save(&before);
    if (iface == HMREG_IFACE_SYSTEM)
        fill(&explanation, iface, -1, HMREG_PATH_SYSTEM, NULL, 0);
    else
        rc = foresee_all(domain, iface, device, &explanation);
    if (rc)
        return rc;
    hmreg_error_restore(&before);
    validate_copy_out(out, &explanation, sizeof(explanation));
    return 0;
}
