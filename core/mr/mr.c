/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The state that completion changes, and the accessors of a region: desc, keys, native object,
 * context, pieces and rails, hmreg_mr_query().
 */
#include "core/mr/mr.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/group/nearest.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- natives ---------------------------------------------------------------------------- */

/* Adds `count` elements to the size of an allocation, and returns their offset. */
static size_t place(size_t *size, size_t count, size_t element)
{
    size_t at = *size;

    *size += (count * element + 15) / 16 * 16;
    return at;
}

struct natives *natives_new(size_t members, size_t parts, const struct iovec *ranges, size_t count)
{
    size_t size = (sizeof(struct natives) + 15) / 16 * 16, all = members * parts;
    size_t made = place(&size, all + 1, sizeof(struct hmreg_mr_keys));
    size_t places = place(&size, all, sizeof(struct hmreg_mr_place));
    size_t note = place(&size, all, sizeof(struct mr_note));
    size_t asked = place(&size, count, sizeof(struct iovec));
    size_t iov = place(&size, members * count, sizeof(struct iovec));
    size_t mappings = place(&size, members * count, sizeof(struct mapping));
    size_t rail = place(&size, members, sizeof(struct mr_rail));
    char *room = calloc(1, size);
    struct natives *natives = (struct natives *)room;

    if (!natives)
        return NULL;
    *natives = (struct natives){
        .members = members,
        .parts = parts,
        .ranges = count,
        .made = (struct hmreg_mr_keys *)(room + made) + 1,
        .places = (struct hmreg_mr_place *)(room + places),
        .note = (struct mr_note *)(room + note),
        .asked = (struct iovec *)(room + asked),
        .iov = (struct iovec *)(room + iov),
        .mappings = (struct mapping *)(room + mappings),
        .rail = (struct mr_rail *)(room + rail),
        .users = 1,
    };
    natives->made[-1].priv = natives->places;
    memcpy(natives->asked, ranges, count * sizeof(*ranges));
    for (size_t i = 0; i < members; i++)
        memcpy(&natives->iov[i * count], ranges, count * sizeof(*ranges));
    for (size_t i = 0; i < all; i++) {
        natives->made[i] = MR_NONE;
        natives->note[i].owner = natives;
    }
    return natives;
}

void natives_leave(struct natives *natives)
{
    if (atomic_fetch_sub(&natives->users, 1) > 1)
        return;
    for (size_t i = 0; i < natives->members * natives->ranges; i++)
        mapping_close(&natives->mappings[i]);
    for (size_t i = 0; i < natives->members; i++) {
        free(natives->rail[i].refused.reasons);
        free(natives->rail[i].missing);
    }
    free(natives);
}

void natives_set_domain(struct natives *natives, size_t member, struct hmreg_domain *domain)
{
    struct hmreg_domain *before = atomic_exchange(&natives->rail[member].domain, domain);

    if (domain && natives->counted)
        atomic_fetch_add(&domain->columns, 1);
    if (before && natives->counted)
        atomic_fetch_sub(&before->columns, 1);
}

void natives_uncount(struct natives *natives)
{
    for (size_t i = 0; i < natives->members; i++)
        natives_set_domain(natives, i, NULL);
}

void natives_end(struct natives *natives)
{
    natives_uncount(natives);
    natives_leave(natives);
}

void natives_pass_on(struct natives *from, struct natives *to)
{
    to->order = from->order;
    for (size_t i = 0; i < from->members; i++) {
        struct mr_rail *rail = &from->rail[i];

        natives_set_domain(to, i, rail->domain);
        to->rail[i].withdrawn = rail->withdrawn;
        to->rail[i].refused = rail->refused;
        to->rail[i].missing = rail->missing;
        rail->refused = (struct refusals){0, NULL};
        rail->missing = NULL;
    }
}

void mr_ext_free(struct mr_ext *ext)
{
    struct natives *natives;

    if (!ext)
        return;
    natives = atomic_load_explicit(&ext->natives, memory_order_relaxed);
    if (natives)
        natives_end(natives);
    if (ext->before)
        natives_end(ext->before);
    while (ext->left) {
        natives = ext->left;
        ext->left = natives->next;
        natives_end(natives);
    }
    free(ext->handles);
    free(ext->list);
    free(ext);
}

/* ---- one of several --------------------------------------------------------------------- */

struct hmreg_domain *mr_live(const struct hmreg_mr *mr, size_t index)
{
    const struct natives *natives = mr_natives(mr);
    size_t at = natives ? mr_member(mr) * natives->parts + index : 0;

    if (!natives)
        return mr_is_suspended(mr) ? NULL : mr->domain;
    return natives->note[at].live ? natives->rail[at / natives->parts].domain : NULL;
}

size_t mr_explained(const struct hmreg_mr *mr)
{
    const struct natives *natives = mr_natives(mr);
    size_t worst = SIZE_MAX;

    if (!mr_of_group(mr))
        return mr_member(mr);
    for (size_t i = 0; i < natives->members; i++)
        if (natives->note[i * natives->parts].live &&
            (worst == SIZE_MAX ||
             natives->rail[i].refused.count > natives->rail[worst].refused.count))
            worst = i;
    return worst == SIZE_MAX ? 0 : worst;
}

/* The way of the registration that has the path. */
static enum hmreg_way mr_way(const struct hmreg_mr *mr)
{
    const struct natives *natives = mr_natives(mr);

    return natives ? (enum hmreg_way)natives->note[mr_explained(mr) * natives->parts].way
                   : HMREG_WAY_NONE;
}

enum hmreg_path mr_path(const struct hmreg_mr *mr)
{
    const struct natives *natives = mr_natives(mr);

    return natives && mr_is_handle(mr)
               ? (enum hmreg_path)natives->note[mr_member(mr) * natives->parts].path
               : (enum hmreg_path)mr_body(mr)->path;
}

/* ---- the public head -------------------------------------------------------------------- */

/* The places of one registration's range; `before`: the bytes of the region's earlier ranges. */
static struct hmreg_mr_place place_of(const struct hmreg_mr *mr, size_t member, size_t range,
                                      uint64_t before)
{
    const struct natives *natives = mr_natives(mr);
    const struct provider_caps *caps = &natives->rail[member].domain->caps;
    uint64_t asked = (uint64_t)(uintptr_t)natives->asked[range].iov_base;
    uint64_t made = (uint64_t)(uintptr_t)natives->iov[member * natives->ranges + range].iov_base;
    uint64_t iova = mr_ext(mr)->iova + before;
    bool has = mr_ext(mr)->has_iova;
    struct hmreg_mr_place place = {.local = has && caps->local_iova ? iova : made};

    if (has || caps->mr_mode & HMREG_MR_VIRT_ADDR)
        place.remote = has ? iova : made;
    place.local -= asked;
    place.remote -= asked;
    return place;
}

/* Does the domain's shared place describe the region? */
static bool is_common(const struct hmreg_mr *mr, size_t member, const struct hmreg_mr_place *place)
{
    const struct hmreg_mr_place *common = &mr_natives(mr)->rail[member].domain->place;

    return place->local == common->local &&
           place->remote == common->remote - (common->by_offset & mr->node.start);
}

/* Fills the places of the natives on one member. */
static bool find_places_on(const struct hmreg_mr *mr, const struct natives *natives, size_t member)
{
    bool common = natives->parts == 1;
    uint64_t before = 0;

    for (size_t part = 0; part < natives->parts; part++) {
        struct hmreg_mr_place *place = &natives->places[member * natives->parts + part];

        *place = place_of(mr, member, part, before);
        common = common && is_common(mr, member, place);
        before += natives->asked[part].iov_len;
    }
    return common;
}

/* Fills the places of the natives. True: they equal the domain's shared places. */
static bool find_places(const struct hmreg_mr *mr, const struct natives *natives)
{
    bool common = natives->parts == 1;

    for (size_t i = 0; i < natives->members; i++)
        common &= !natives->rail[i].domain || find_places_on(mr, natives, i);
    return common;
}

static void set_head(struct hmreg_mr *mr, const struct hmreg_mr_keys *keys, size_t count,
                     uint32_t places)
{
    uint64_t number = atomic_fetch_add_explicit(&mr_registrations, 1, memory_order_relaxed) + 1;

    mr->keys = keys;
    mr->count = (uint32_t)count;
    __atomic_store_n(&mr->generation, (uint32_t)number << 2 | places, __ATOMIC_RELEASE);
}

/* For a published region: other threads read its other head fields. */
static void set_generation(struct hmreg_mr *mr, uint32_t places)
{
    uint64_t number = atomic_fetch_add_explicit(&mr_registrations, 1, memory_order_relaxed) + 1;

    __atomic_store_n(&mr->generation, (uint32_t)number << 2 | places, __ATOMIC_RELEASE);
}

static void set_handle(const struct hmreg_mr *mr, size_t member, bool common)
{
    struct hmreg_mr *handle = &mr_ext(mr)->handles[member].mr;
    const struct natives *natives = mr_natives(mr);
    const void *own = &natives->places[member * natives->parts];

    if (natives->rail[member].domain)
        __atomic_store_n(&handle->domain, natives->rail[member].domain, __ATOMIC_RELEASE);
    handle->node.start = common ? mr->node.start : (uint64_t)(uintptr_t)own;
}

void mr_set_column(struct hmreg_mr *mr, size_t member)
{
    const struct natives *natives = mr_natives(mr);
    bool has = natives->rail[member].domain;
    bool common = !has || find_places_on(mr, natives, member);

    if (has)
        set_handle(mr, member, common);
    set_generation(&mr_ext(mr)->handles[member].mr, common ? 0 : 2);
    set_generation(mr, (mr->generation & 3) || !common);
}

void mr_set_head(struct hmreg_mr *mr)
{
    const struct natives *natives = mr_natives(mr);
    bool common;

    if (!natives) {
        set_head(mr, &mr_body(mr)->made, 1, 0);
        return;
    }
    common = find_places(mr, natives);
    set_head(mr, natives->made, mr_native_count(mr), !common);
    for (size_t i = 0; mr_of_group(mr) && i < natives->members; i++) {
        struct hmreg_mr *handle = &mr_ext(mr)->handles[i].mr;

        set_handle(mr, i, common);
        set_head(handle, &natives->made[i * natives->parts], natives->parts, common ? 0 : 2);
    }
}

_Atomic uint64_t mr_registrations;
const char mr_suspended_mark;

/* ---- publication and completion --------------------------------------------------------- */

void mr_publish(struct hmreg_mr *mr)
{
    struct hmreg_domain *domain = mr->domain;

    atomic_fetch_add(&domain->regions, 1);
    domain->ops.published(domain->self, mr_native(mr, mr_parts(mr) - 1), mr, hmreg_mr_context(mr));
    if (domain->caps.async)
        atomic_store(&mr_ext(mr)->published, true);
}

/* Until then the body's bits are written; all regions of an async domain have an extension. */
void mr_settle(const struct hmreg_mr *mr)
{
    while (mr_domain(mr)->caps.async && !atomic_load(&mr_body(mr)->ext->published))
        sched_yield();
}

/* Word by word, as column.c stores those of a rail that is withdrawn meanwhile. */
static struct hmreg_mr_keys load_keys(const struct hmreg_mr_keys *from)
{
    return (struct hmreg_mr_keys){
        .desc = __atomic_load_n(&from->desc, __ATOMIC_RELAXED),
        .key = __atomic_load_n(&from->key, __ATOMIC_RELAXED),
        .lkey = __atomic_load_n(&from->lkey, __ATOMIC_RELAXED),
        .rkey = __atomic_load_n(&from->rkey, __ATOMIC_RELAXED),
        .native = __atomic_load_n(&from->native, __ATOMIC_RELAXED),
        .priv = __atomic_load_n(&from->priv, __ATOMIC_RELAXED),
    };
}

struct hmreg_mr_keys mr_current(const struct hmreg_mr *mr, size_t index)
{
    struct hmreg_domain *domain = mr_domain(mr);
    struct hmreg_mr_keys now;

    mr_settle(mr);
    now = load_keys(mr_native(mr, index));
    if (domain->caps.async && !mr_is_suspended(mr))
        domain->ops.look(domain->self, &now);
    if (mr_is_pending(mr))
        now.key = HMREG_KEY_NOTAVAIL;
    return now;
}

struct group *mr_lock_columns(const struct hmreg_mr *mr)
{
    struct group *group = mr_whole(mr)->domain->group;

    if (group)
        pthread_mutex_lock(&group->lock);
    return group;
}

void mr_unlock_columns(struct group *group)
{
    if (group)
        pthread_mutex_unlock(&group->lock);
}

struct hmreg_domain *mr_copy_live(const struct hmreg_mr *mr, size_t index,
                                  struct hmreg_mr_keys *out)
{
    struct group *group = mr_lock_columns(mr);
    struct hmreg_domain *domain = mr_live(mr, index);

    *out = mr_current(mr, index);
    mr_unlock_columns(group);
    return domain;
}

int mr_fail_without(void)
{
    return hmreg_fail(
        -EINVAL,
        "mr is a rail that its region has lost: hmreg_mr_rail() of the region reports the reason");
}

int mr_copy_keys(const struct hmreg_mr *mr, size_t index, struct hmreg_mr_keys *out)
{
    return mr_copy_live(mr, index, out) ? 0 : mr_fail_without();
}

static void revoke_left(struct natives *left)
{
    struct hmreg_domain *domain = left->rail->domain;

    for (size_t i = 0; i < left->parts; i++)
        if (left->note[i].live)
            domain->ops.revoke(domain->self, &left->made[i]);
}

void mr_revoke(struct hmreg_mr *mr)
{
    struct group *group = mr_lock_columns(mr);
    struct hmreg_domain *domain;

    for (size_t i = 0; i < mr_native_count(mr); i++)
        if ((domain = mr_live(mr, i)))
            domain->ops.revoke(domain->self, mr_native(mr, i));
    for (struct natives *left = group ? mr_ext(mr)->left : NULL; left; left = left->next)
        revoke_left(left);
    mr_unlock_columns(group);
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
    struct hmreg_domain *domain;

    for (size_t i = 0; i < mr_native_count(mr); i++)
        if ((domain = mr_live(mr, i)) && !domain_is_lost(domain))
            domain->ops.unbind(domain->self, mr_native(mr, i));
    mr_unbind_left(mr);
}

void mr_unbind_left(struct hmreg_mr *mr)
{
    for (struct natives *left = mr_ext(mr) ? mr_ext(mr)->left : NULL; left; left = left->next)
        for (size_t i = 0; i < left->parts; i++)
            if (left->note[i].live) {
                struct hmreg_domain *domain = left->rail->domain;

                if (!domain_is_lost(domain))
                    domain->ops.unbind(domain->self, &left->made[i]);
            }
}

bool mr_is_bound(const struct hmreg_mr *mr)
{
    struct group *group = mr_lock_columns(mr);
    struct hmreg_domain *domain;
    bool bound = false;

    for (size_t i = 0; i < mr_native_count(mr) && !bound; i++)
        if ((domain = mr_live(mr, i)))
            bound = domain->ops.is_bound(domain->self, mr_native(mr, i));
    mr_unlock_columns(group);
    return bound;
}

int mr_check_complete(const struct hmreg_mr *mr)
{
    bool keyed =
        mr_native_count(mr) == 1 && !mr_of_group(mr) && !(mr->domain->caps.mr_mode & HMREG_MR_RAW);

    if (!mr_is_pending(mr) && !(keyed && mr_current(mr, 0).key == HMREG_KEY_NOTAVAIL))
        return 0;
    return hmreg_fail(-EAGAIN,
                      "the registration of mr, %" PRIu64 " bytes at %#" PRIx64
                      ", is not complete: read its event first",
                      mr_len(mr), mr_start(mr));
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

    rc = rc ? rc : domain_check(mr_domain(mr));
    if (!rc)
        mr_settle(mr);
    if (!rc && mr_ext(mr) && mr_ext(mr)->closing)
        rc = hmreg_fail(-EINVAL, "mr is partly closed (a part was busy): close it again");
    return rc;
}

static int fail_suspended(const struct hmreg_mr *mr)
{
    struct suspended *suspended = &mr->domain->lib->suspended;

    return hmreg_fail(
        -EAGAIN, "mr, of %" PRIu64 " bytes at %#" PRIx64 ", is suspended (%s): use it after %s",
        mr_len(mr), mr_start(mr), suspended_by(suspended), suspended_until(suspended));
}

int mr_check(const struct hmreg_mr *mr)
{
    int rc = mr_check_open(mr);

    if (!rc && mr_is_suspended(mr))
        rc = fail_suspended(mr);
    if (!rc && mr_is_handle(mr) && !mr_live(mr, 0))
        rc = mr_fail_without();
    return rc;
}

int mr_check_usable(const struct hmreg_mr *mr)
{
    int rc = mr_check(mr);

    return rc || !domain_is_lost(mr_domain(mr)) ? rc : domain_fail_lost(mr_domain(mr));
}

/* ---- accessors -------------------------------------------------------------------------- */

/* Records why a region has no descriptor or keys of its own, if it consists of several. */
static void note_parts(const struct hmreg_mr *mr, const char *what)
{
    if (!mr)
        hmreg_fail(-EINVAL, "mr is NULL");
    else if (mr_is_suspended(mr))
        fail_suspended(mr);
    else if (mr_of_group(mr))
        hmreg_fail(-EXDEV, "a group's region has no %s: use its rails (hmreg_mr_rail())", what);
    else if (mr_parts(mr) > 1)
        hmreg_fail(-EXDEV,
                   "the region has %zu pieces and no %s of its own: hmreg_mr_piece() returns "
                   "each piece's; or register with HMREG_REG_SINGLE",
                   mr_count(mr), what);
}

/* The only registration of a region; NULL: it has several. */
static struct hmreg_mr_keys own(const struct hmreg_mr *mr)
{
    if (mr)
        mr_settle(mr);
    return mr && !mr_of_group(mr) && mr_parts(mr) == 1 ? mr_current(mr, 0) : MR_NONE;
}

void *hmreg_mr_desc(const struct hmreg_mr *mr)
{
    void *desc = own(mr).desc;

    if (!desc)
        note_parts(mr, "desc");
    return desc;
}

uint64_t hmreg_mr_key(const struct hmreg_mr *mr)
{
    uint64_t key = own(mr).key;

    if (key == HMREG_KEY_NOTAVAIL)
        note_parts(mr, "key");
    return key;
}

void *hmreg_mr_context(const struct hmreg_mr *mr)
{
    return mr ? atomic_load(&mr_body(mr)->context) : NULL;
}

int hmreg_mr_set_context(const struct hmreg_mr *mr, void *context)
{
    LOGS_FAILURE(mr_log(mr));
    int rc = mr_check_open(mr);
    void *none = NULL;

    rc = rc ? rc : validate_pointer(context, "context");
    if (rc || atomic_compare_exchange_strong(&mr_body(mr)->context, &none, context))
        return rc;
    return hmreg_fail(-EBUSY, "mr has a context already, %p, and keeps it", none);
}

int hmreg_mr_query(const struct hmreg_mr *mr, struct hmreg_mr_info *out)
{
    LOGS_FAILURE(mr_log(mr));
    struct hmreg_mr_info info = {0};
    struct group *group;
    int rc = mr_check_open(mr);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_mr_info");
    if (rc)
        return rc;
    group = mr_lock_columns(mr);
    info.iface = mr_body(mr)->iface;
    info.device = mr_device(mr);
    info.path = mr_path(mr);
    info.addr = mr_start(mr);
    info.len = mr_len(mr);
    info.access = mr_body(mr)->access;
    info.identity = mr_identity(mr);
    info.local_addr = mr_local_addr(mr, 0);
    info.cached = mr_body(mr)->cached;
    info.way = mr_way(mr);
    info.asks = mr_asks(mr);
    info.policy = mr_policy(mr);
    mr_unlock_columns(group);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

/* ---- parts, to callers ------------------------------------------------------------------ */

static void describe_piece(const struct hmreg_mr *mr, size_t index, struct hmreg_piece_info *out)
{
    const struct natives *natives = mr_natives(mr);
    size_t part = mr_parts(mr) > 1 ? index : 0;
    struct hmreg_mr_keys now = mr_of_group(mr) ? MR_NONE : mr_current(mr, part);

    *out = (struct hmreg_piece_info){
        .local_addr = mr_local_addr(mr, index),
        .len = mr_iov(mr, index).iov_len,
        .desc = now.desc,
        .key = now.key,
        .native = now.native,
        .path = mr_path(mr),
        .way = mr_way(mr),
    };
    if (natives && !mr_of_group(mr)) {
        const struct mr_note *note = &natives->note[mr_member(mr) * natives->parts + part];

        out->path = (enum hmreg_path)note->path;
        out->way = (enum hmreg_way)note->way;
    }
}

int hmreg_mr_piece(const struct hmreg_mr *mr, size_t index, struct hmreg_piece_info *out)
{
    LOGS_FAILURE(mr_log(mr));
    struct hmreg_piece_info info;
    struct group *group;
    int rc = mr_check(mr);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_piece_info");
    if (rc)
        return rc;
    if (index >= mr_count(mr))
        return hmreg_fail(-ENOENT, "index is %zu; the region has %zu pieces", index, mr_count(mr));
    group = mr_lock_columns(mr);
    describe_piece(mr, index, &info);
    mr_unlock_columns(group);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

/* Why a requested rail is missing. */
static bool column_missing(struct group *group, const struct natives *natives, size_t rail,
                           struct hmreg_error *out)
{
    bool missing;

    pthread_mutex_lock(&group->lock);
    missing = natives->rail[rail].missing;
    if (missing)
        *out = *natives->rail[rail].missing;
    pthread_mutex_unlock(&group->lock);
    return missing;
}

/* Records why there is no such rail. */
static void fail_rail(const struct hmreg_mr *mr, size_t rail)
{
    const struct natives *natives = mr_natives(mr);
    struct hmreg_error missing = {0};
    char why[192];

    if (rail < group_rails(mr->domain) &&
        column_missing(mr->domain->group, natives, rail, &missing)) {
        hmreg_error_restore(&missing);
        return;
    }
    if (rail >= group_rails(mr->domain)) {
        hmreg_fail(-ENOENT, "rail is %zu; the region's domain has %zu rails", rail,
                   group_rails(mr->domain));
    } else if (natives->order) {
        nearest_explain(natives->order, rail, false, why, sizeof(why));
        hmreg_fail(-ENOENT, "%s", why);
    } else {
        hmreg_fail(-ENOENT, "rail %zu was not requested: the attribute `rails` lacks its bit",
                   rail);
    }
}

struct hmreg_mr *hmreg_mr_rail(const struct hmreg_mr *mr, size_t rail)
{
    bool is_group, has;

    if (mr_check(mr))
        return NULL;
    is_group = mr_of_group(mr);
    has = rail < group_rails(mr->domain) && (!is_group || mr_live(mr, rail * mr_parts(mr)));
    if (!has)
        fail_rail(mr, rail);
    return !has ? NULL : is_group ? &mr_ext(mr)->handles[rail].mr : (struct hmreg_mr *)mr;
}
