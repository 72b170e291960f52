/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The state of a region that completion changes, and the accessors of a region: desc, keys, native
 * object, context, hmreg_mr_query().
 */
#include "core/mr/mr.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/group/group.h"

#include <errno.h>
#include <sched.h>

/* ---- parts ------------------------------------------------------------------------------ */

struct hmreg_mr **mr_parts(const struct hmreg_mr *mr, size_t *count)
{
    *count = mr_rails(mr) ? mr->domain->group->count : mr_count(mr);
    return mr_rails(mr) ? mr_rails(mr) : mr_pieces(mr);
}

const struct hmreg_mr *mr_explained(const struct hmreg_mr *mr, size_t *rail)
{
    const struct hmreg_mr *worst = NULL;

    if (!mr_rails(mr))
        return mr_pieces(mr) && !mr_ext(mr)->refused ? mr_pieces(mr)[0] : mr;
    for (size_t i = 0; i < mr->domain->group->count; i++) {
        const struct hmreg_mr *other = mr_rails(mr)[i];

        if (!other)
            continue;
        other = mr_explained(other, NULL);
        if (worst && mr_ext(other)->refused <= mr_ext(worst)->refused)
            continue;
        worst = other;
        if (rail)
            *rail = i;
    }
    return worst;
}

/* Of the same registration as the path: see mr_explained(). */
static enum hmreg_way mr_way(const struct hmreg_mr *mr)
{
    if (mr_rails(mr))
        mr = mr_explained(mr, NULL);
    if (mr_pieces(mr))
        mr = mr_pieces(mr)[0];
    return mr && mr_ext(mr) ? (enum hmreg_way)mr_ext(mr)->way : HMREG_WAY_NONE;
}

/* ---- publication and completion --------------------------------------------------------- */

void mr_publish(struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;
    struct hmreg_mr *last = mr_pieces(mr) ? mr_pieces(mr)[mr_count(mr) - 1] : mr;

    atomic_fetch_add(&domain->regions, 1);
    domain->ops.published(domain->self, &mr_body(last)->made, mr, hmreg_mr_context(mr));
    if (domain->caps.async)
        atomic_store(&mr_ext(mr)->published, true);
}

void mr_settle(const struct hmreg_mr *mr)
{
    while (mr->domain->caps.async && !atomic_load(&mr_ext(mr)->published))
        sched_yield();
}

struct provider_mr mr_now(const struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;
    struct provider_mr now;

    mr_settle(mr);
    now = mr_body(mr)->made;
    if (domain->caps.async && !mr_pieces(mr))
        domain->ops.look(domain->self, &now);
    if (mr_is_pending(mr))
        now.key = HMREG_KEY_NOTAVAIL;
    return now;
}

void mr_revoke(struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);

    if (!parts)
        mr->domain->ops.revoke(mr->domain->self, &mr_body(mr)->made);
    for (size_t i = 0; parts && i < count; i++)
        if (parts[i])
            mr_revoke(parts[i]);
}

uint64_t mr_local_addr(const struct hmreg_mr *mr, size_t index)
{
    uint64_t addr;

    if (!mr->domain->caps.local_iova || !mr_has_iova(mr))
        return (uint64_t)(uintptr_t)mr_iov(mr, index).iov_base;
    addr = mr_ext(mr)->iova;
    for (size_t i = 0; i < index; i++)
        addr += mr_iov(mr, i).iov_len;
    return addr;
}

void mr_unbind(struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);

    if (!parts)
        mr->domain->ops.unbind(mr->domain->self, &mr_body(mr)->made);
    for (size_t i = 0; parts && i < count; i++)
        if (parts[i]) /* else a try to deregister has ended it already, or it never was */
            mr_unbind(parts[i]);
}

int mr_check_complete(const struct hmreg_mr *mr)
{
    bool keyed = !mr_pieces(mr) && !mr_rails(mr) && !(mr->domain->caps.mr_mode & HMREG_MR_RAW);

    if (!mr_is_pending(mr) && !(keyed && mr_now(mr).key == HMREG_KEY_NOTAVAIL))
        return 0;
    return hmreg_fail(-EAGAIN, "the registration is not complete: read its event first");
}

void hmreg_mr_pending(struct hmreg_mr *mr)
{
    atomic_store(&mr_ext(mr)->pending, true);
}

void hmreg_mr_complete(struct hmreg_mr *mr)
{
    atomic_store(&mr_ext(mr)->pending, false);
}

int mr_check(const struct hmreg_mr *mr)
{
    int rc = validate_pointer(mr, "mr");

    rc = rc ? rc : domain_check(mr->domain);
    if (!rc)
        mr_settle(mr);
    if (!rc && mr_ext(mr) && mr_ext(mr)->closing)
        rc = hmreg_fail(-EINVAL, "mr is partly closed (a part was busy): close it again");
    return rc;
}

/* ---- accessors -------------------------------------------------------------------------- */

void *hmreg_mr_desc(const struct hmreg_mr *mr)
{
    return mr ? mr_now(mr).desc : NULL;
}

uint64_t hmreg_mr_key(const struct hmreg_mr *mr)
{
    return mr ? mr_now(mr).key : HMREG_KEY_NOTAVAIL;
}

uint32_t hmreg_mr_lkey(const struct hmreg_mr *mr)
{
    return mr ? mr_body(mr)->made.lkey : 0;
}

uint32_t hmreg_mr_rkey(const struct hmreg_mr *mr)
{
    return mr ? mr_body(mr)->made.rkey : 0;
}

void *hmreg_mr_native(const struct hmreg_mr *mr)
{
    return mr ? mr_now(mr).native : NULL;
}

void *hmreg_mr_context(const struct hmreg_mr *mr)
{
    return mr && mr_ext(mr) ? mr_ext(mr)->context : NULL;
}

int hmreg_mr_query(const struct hmreg_mr *mr, struct hmreg_mr_info *out)
{
    struct hmreg_mr_info info = {0};
    int rc = mr_check(mr);

    rc = rc ? rc : validate_out(out, offsetof(struct hmreg_mr_info, asks), "struct hmreg_mr_info");
    if (rc)
        return rc;
    info.iface = mr_body(mr)->iface;
    info.device = mr_device(mr);
    info.path = mr_body(mr)->path;
    info.addr = mr_start(mr);
    info.len = mr_len(mr);
    info.access = mr_body(mr)->access;
    info.identity = mr_identity(mr);
    info.local_addr = mr_local_addr(mr_pieces(mr) ? mr_pieces(mr)[0] : mr, 0);
    info.cached = mr_body(mr)->cached;
    info.way = mr_way(mr);
    info.asks = mr_asks(mr);
    info.policy = mr_policy(mr);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}
