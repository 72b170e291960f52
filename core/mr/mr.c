/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The state of a region that completion changes, and the accessors of a region: desc, keys, native
 * object, context, pieces and rails, hmreg_mr_query().
 */
#include "core/mr/mr.h"

#include "core/base/error.h"
#include "core/base/validate.h"
#include "core/group/nearest.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- the extension ---------------------------------------------------------------------- */

struct mr_ext *mr_ext_new(const struct iovec *iov, size_t count, size_t parts)
{
    struct mr_ext *ext = calloc(1, sizeof(*ext) + 2 * count * sizeof(*iov) +
                                       parts * (sizeof(*ext->keys) + sizeof(*ext->parts)));

    if (!ext)
        return NULL;
    ext->count = count;
    ext->iov = (struct iovec *)(ext + 1);
    ext->asked = ext->iov + count;
    memcpy(ext->iov, iov, count * sizeof(*iov));
    memcpy(ext->asked, iov, count * sizeof(*iov));
    if (!parts)
        return ext;
    ext->part_count = parts;
    ext->keys = (struct hmreg_mr_keys *)(ext->asked + count);
    ext->parts = (struct hmreg_mr **)(ext->keys + parts);
    return ext;
}

void mr_ext_unmap(struct mr_ext *ext)
{
    for (size_t i = 0; ext->mappings && i < ext->count; i++)
        mapping_close(&ext->mappings[i]);
    free(ext->mappings);
    ext->mappings = NULL;
}

void mr_ext_clear(struct mr_ext *ext)
{
    mr_ext_unmap(ext);
    while (ext->missing) {
        struct mr_missing *gone = ext->missing;

        ext->missing = gone->next;
        free(gone);
    }
    free(ext->refused.reasons);
    free(ext->list);
}

void mr_ext_free(struct mr_ext *ext)
{
    if (!ext)
        return;
    mr_ext_clear(ext);
    free(ext->kept);
    free(ext);
}

/* ---- parts ------------------------------------------------------------------------------ */

const struct hmreg_mr *mr_explained(const struct hmreg_mr *mr, size_t *rail)
{
    const struct hmreg_mr *worst = NULL;

    if (!mr_rails(mr))
        return mr_pieces(mr) && !mr_ext(mr)->refused.count ? mr_pieces(mr)[0] : mr;
    for (size_t i = 0; i < mr->domain->group->count; i++) {
        const struct hmreg_mr *other = mr_rails(mr)[i];

        if (!other)
            continue;
        other = mr_explained(other, NULL);
        if (worst && mr_ext(other)->refused.count <= mr_ext(worst)->refused.count)
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

_Atomic uint64_t mr_registrations;
const char mr_suspended_mark;

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

struct provider_mr mr_current_registration(const struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;
    struct provider_mr now;

    mr_settle(mr);
    now = mr_body(mr)->made;
    if (domain->caps.async && !mr_pieces(mr) && !mr_is_suspended(mr))
        domain->ops.look(domain->self, &now);
    if (mr_is_pending(mr))
        now.keys.key = HMREG_KEY_NOTAVAIL;
    return now;
}

void mr_revoke(struct hmreg_mr *mr)
{
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);

    if (!parts && !mr_is_suspended(mr))
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

    if (!parts && !mr_is_suspended(mr))
        mr->domain->ops.unbind(mr->domain->self, &mr_body(mr)->made);
    for (size_t i = 0; parts && i < count; i++)
        if (parts[i]) /* else a try to deregister has ended it already, or it never was */
            mr_unbind(parts[i]);
}

int mr_check_complete(const struct hmreg_mr *mr)
{
    bool keyed = !mr_pieces(mr) && !mr_rails(mr) && !(mr->domain->caps.mr_mode & HMREG_MR_RAW);

    if (!mr_is_pending(mr) &&
        !(keyed && mr_current_registration(mr).keys.key == HMREG_KEY_NOTAVAIL))
        return 0;
    return hmreg_fail(-EAGAIN,
                      "the registration of mr, %" PRIu64 " bytes at %#" PRIx64
                      ", is not complete: read its event first",
                      mr_len(mr), mr->node.start);
}

void hmreg_mr_pending(struct hmreg_mr *mr)
{
    atomic_store(&mr_ext(mr)->pending, true);
}

void hmreg_mr_complete(struct hmreg_mr *mr)
{
    atomic_store(&mr_ext(mr)->pending, false);
}

int mr_check_open(const struct hmreg_mr *mr)
{
    int rc = validate_pointer(mr, "mr");

    rc = rc ? rc : domain_check(mr->domain);
    if (!rc)
        mr_settle(mr);
    if (!rc && mr_ext(mr) && mr_ext(mr)->closing)
        rc = hmreg_fail(-EINVAL, "mr is partly closed (a part was busy): close it again");
    return rc;
}

static int fail_suspended(const struct hmreg_mr *mr)
{
    return hmreg_fail(-EAGAIN,
                      "mr, of %" PRIu64 " bytes at %#" PRIx64
                      ", is suspended (hmreg_suspend()): use it after hmreg_resume()",
                      mr_len(mr), mr->node.start);
}

int mr_check(const struct hmreg_mr *mr)
{
    int rc = mr_check_open(mr);

    return !rc && mr_is_suspended(mr) ? fail_suspended(mr) : rc;
}

/* ---- accessors -------------------------------------------------------------------------- */

/* Records why a region has no descriptor or keys of its own, if it consists of several. */
static void note_parts(const struct hmreg_mr *mr, const char *what)
{
    if (!mr)
        hmreg_fail(-EINVAL, "mr is NULL");
    else if (mr_is_suspended(mr))
        fail_suspended(mr);
    else if (mr_rails(mr))
        hmreg_fail(-EXDEV, "a group's region has no %s: its rails have, see hmreg_mr_rail()", what);
    else if (mr_pieces(mr))
        hmreg_fail(-EXDEV,
                   "the region has %zu pieces and no %s of its own: hmreg_mr_piece() returns "
                   "each piece's; or register with HMREG_REG_SINGLE",
                   mr_count(mr), what);
}

void *hmreg_mr_desc(const struct hmreg_mr *mr)
{
    void *desc = mr ? mr_current_registration(mr).keys.desc : NULL;

    if (!desc)
        note_parts(mr, "desc");
    return desc;
}

uint64_t hmreg_mr_key(const struct hmreg_mr *mr)
{
    uint64_t key = mr ? mr_current_registration(mr).keys.key : HMREG_KEY_NOTAVAIL;

    if (key == HMREG_KEY_NOTAVAIL)
        note_parts(mr, "key");
    return key;
}

uint32_t hmreg_mr_lkey(const struct hmreg_mr *mr)
{
    uint32_t lkey = mr ? mr_body(mr)->made.keys.lkey : HMREG_VERBS_KEY_NOTAVAIL;

    if (lkey == HMREG_VERBS_KEY_NOTAVAIL)
        note_parts(mr, "lkey");
    return lkey;
}

uint32_t hmreg_mr_rkey(const struct hmreg_mr *mr)
{
    uint32_t rkey = mr ? mr_body(mr)->made.keys.rkey : HMREG_VERBS_KEY_NOTAVAIL;

    if (rkey == HMREG_VERBS_KEY_NOTAVAIL)
        note_parts(mr, "rkey");
    return rkey;
}

void *hmreg_mr_native(const struct hmreg_mr *mr)
{
    void *native = mr ? mr_current_registration(mr).native : NULL;

    if (!native)
        note_parts(mr, "native object");
    return native;
}

void *hmreg_mr_context(const struct hmreg_mr *mr)
{
    return mr && mr_ext(mr) ? mr_ext(mr)->context : NULL;
}

int hmreg_mr_query(const struct hmreg_mr *mr, struct hmreg_mr_info *out)
{
    struct hmreg_mr_info info = {0};
    int rc = mr_check_open(mr);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_mr_info");
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

/* ---- parts, to callers ------------------------------------------------------------------ */

static void describe_piece(const struct hmreg_mr *mr, size_t index, struct hmreg_piece_info *out)
{
    const struct hmreg_mr *owner = mr_pieces(mr) ? mr_pieces(mr)[index] : mr;
    size_t range = mr_pieces(mr) ? 0 : index;
    struct provider_mr now = mr_current_registration(owner);

    *out = (struct hmreg_piece_info){
        .local_addr = mr_local_addr(owner, range),
        .len = mr_iov(owner, range).iov_len,
        .desc = now.keys.desc,
        .key = mr_is_pending(mr) ? HMREG_KEY_NOTAVAIL : now.keys.key,
        .native = now.native,
        .path = mr_body(owner)->path,
        .way = mr_way(owner),
    };
}

int hmreg_mr_piece(const struct hmreg_mr *mr, size_t index, struct hmreg_piece_info *out)
{
    struct hmreg_piece_info info;
    int rc = mr_check(mr);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_piece_info");
    if (rc)
        return rc;
    if (index >= mr_count(mr))
        return hmreg_fail(-ENOENT, "index is %zu; the region has %zu pieces", index, mr_count(mr));
    describe_piece(mr, index, &info);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

static const struct mr_missing *find_missing(const struct hmreg_mr *mr, size_t rail)
{
    const struct mr_missing *missing = mr_ext(mr)->missing;

    while (missing && missing->rail != rail)
        missing = missing->next;
    return missing;
}

/* Records why there is no such rail. */
static void fail_rail(const struct hmreg_mr *mr, size_t rail)
{
    const struct mr_missing *missing;
    char why[192];

    if (rail >= hmreg_group_count(mr->domain)) {
        hmreg_fail(-ENOENT, "rail is %zu; the region's domain has %zu", rail,
                   hmreg_group_count(mr->domain));
        return;
    }
    missing = find_missing(mr, rail);
    if (missing) {
        hmreg_error_restore(&missing->error);
    } else if (mr_ext(mr)->order) {
        nearest_explain(mr_ext(mr)->order, rail, false, why, sizeof(why));
        hmreg_fail(-ENOENT, "%s", why);
    } else {
        hmreg_fail(-ENOENT, "rail %zu was not asked for: rails of the attributes lacks its bit",
                   rail);
    }
}

struct hmreg_mr *hmreg_mr_rail(const struct hmreg_mr *mr, size_t rail)
{
    struct hmreg_mr *found = NULL;

    if (mr_check(mr))
        return NULL;
    if (rail < hmreg_group_count(mr->domain))
        found = mr_rails(mr) ? mr_rails(mr)[rail] : (struct hmreg_mr *)mr;
    if (!found)
        fail_rail(mr, rail);
    return found;
}
