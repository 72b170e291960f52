/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See region.h. The memory is resolved before, once for all members. A part is registered on one
 * member after the other, so that its memory is exported once. Each registration is made in its
 * final place: in the array of the region's natives or, for plain host memory, in the region's
 * body.
 */
#include "core/mr/region.h"

#include "core/base/error.h"
#include "core/base/out_of_line.h"
#include "core/group/nearest.h"
#include "core/mr/column.h"
#include "core/mr/register.h"
#include "core/mr/room.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BIT(member) (UINT64_C(1) << (member))

/* ---- structs ---------------------------------------------------------------------------- */

static int fail_memory(void)
{
    return hmreg_fail(-ENOMEM, "hmreg has no memory for a region");
}

int region_new(struct hmreg_domain *domain, const struct layout *layout, struct hmreg_mr **out)
{
    struct mr_on_heap *made = calloc(1, sizeof(*made));
    const struct ranges *ranges = &layout->ranges;

    if (!made)
        return fail_memory();
    made->mr.domain = domain;
    made->mr.node.start = made->mr.node.end = (uint64_t)(uintptr_t)ranges->iov->iov_base;
    for (size_t i = 0; i < ranges->count; i++)
        made->mr.node.end += ranges->iov[i].iov_len;
    made->body.iface = (uint8_t)layout->whole.iface;
    made->body.access = (uint16_t)layout->request.access;
    *out = &made->mr;
    return 0;
}

static void forget_extension(struct hmreg_mr *mr)
{
    mr_ext_free(mr_ext(mr));
    mr_body(mr)->extended = false;
}

void region_free(struct hmreg_mr *mr)
{
    forget_extension(mr);
    if (!mr->slot_offset) /* else the cache owns it */
        free(mr);
}

/* The fields of the extension that the caller decides. */
static void describe(struct mr_ext *ext, const struct layout *layout)
{
    const struct hmem_range *memory = &layout->whole.range;

    atomic_store_explicit(&ext->identity, memory->identity, memory_order_relaxed);
    ext->device = memory->device;
    ext->has_iova = layout->request.options.set_iova;
    ext->iova = layout->request.options.iova;
}

static int make_handles(struct hmreg_mr *mr, struct mr_ext *ext)
{
    const struct group *group = mr->domain->group;

    ext->handles = group ? calloc(group->count, sizeof(*ext->handles)) : NULL;
    for (size_t i = 0; ext->handles && i < group->count; i++) {
        struct mr_handle *handle = &ext->handles[i];

        handle->whole = mr;
        handle->member = i;
        handle->mr.domain = group->members[i];
        atomic_store_explicit(&handle->mr.sequence, MR_IS_HANDLE, memory_order_relaxed);
    }
    return group && !ext->handles ? fail_memory() : 0;
}

static int extend(struct filling *filling)
{
    struct mr_ext *ext = calloc(1, sizeof(*ext));

    if (!ext)
        return fail_memory();
    mr_body(filling->mr)->ext = ext;
    mr_body(filling->mr)->extended = filling->extended = true;
    describe(ext, filling->layout);
    return make_handles(filling->mr, ext);
}

/* ---- ends ------------------------------------------------------------------------------- */

/* Deregisters one of an extended region's registrations, if it still exists. */
static int end_one(struct mr_ext *ext, const struct hmreg_mr *mr, size_t index)
{
    struct hmreg_domain *domain = mr_live(mr, index);

    return domain ? native_end(ext->natives, index, domain) : 0;
}

/* The key that a plain region has taken, if any: its own or, without remote rights, the
 * fabric's. */
static uint64_t plain_key(struct hmreg_domain *domain, const struct hmreg_mr_keys *made)
{
    return made->key != HMREG_KEY_NOTAVAIL ? made->key
                                           : domain->ops.requested_key(domain->self, made);
}

/* Deregisters a region without an extension, unless it is suspended. */
static int end_plain(struct hmreg_mr *mr)
{
    struct mr_body *body = mr_body(mr);
    struct iovec range = mr_asked(mr, 0);
    uint64_t key = 0;
    int rc = 0;

    if (!mr_is_suspended(mr)) {
        if (body->key_taken)
            key = plain_key(mr->domain, &body->made);
        rc = native_end_plain(mr->domain, &body->made, &range, body->key_taken, key);
    }
    if (rc != -EBUSY)
        body->made = MR_SUSPENDED;
    return rc;
}

static int end_column(struct natives *left)
{
    int rc = 0;

    for (size_t i = 0; i < left->parts && rc != -EBUSY; i++)
        if (left->note[i].live)
            rc = native_end(left, i, left->rail->domain);
    return rc;
}

int region_end_left(struct hmreg_mr *mr)
{
    struct natives *left = column_take_left(mr), *next;
    int rc = 0;

    for (; left; left = next) {
        int ended = end_column(left);

        next = left->next;
        rc = ended == -EBUSY || !rc ? ended : rc;
        if (ended == -EBUSY)
            column_leave(mr, left);
        else
            natives_end(left);
    }
    return rc;
}

/* Stops at the first that the fabric is busy with. */
static int end_all(struct mr_ext *ext, struct hmreg_mr *mr)
{
    size_t count = mr_native_count(mr);
    int rc = region_end_left(mr);

    if (rc == -EBUSY)
        return rc;
    for (size_t i = 0; i < count; i++) {
        bool live = mr_live(mr, i);
        int ended = end_one(ext, mr, i);

        if (ended == -EBUSY)
            return ended;
        ext->closing |= live;
        rc = rc ? rc : ended;
    }
    return rc;
}

int region_destroy(struct hmreg_mr *mr)
{
    struct mr_ext *ext = mr_ext(mr);
    struct hmreg_domain *domain = mr->domain;
    int rc;

    atomic_fetch_add(&room_counts()->returned, 1);
    rc = ext ? end_all(ext, mr) : end_plain(mr);
    atomic_fetch_add(&room_counts()->returned, ROOM_ENDED - 1);
    if (rc != -EBUSY)
        region_free(mr);
    undone_wake(domain);
    return rc;
}

/* A withdrawal (column_settle()) moves no column of a suspended region. */
static void set_suspended(struct mr_ext *ext, const struct hmreg_mr *mr, bool suspended)
{
    struct group *group = mr_lock_columns(mr);

    ext->suspended = suspended;
    mr_unlock_columns(group);
}

/* A region counts as suspended before its first registration ends, so that no thread uses a part of
 * it. */
static int suspend_all(struct mr_ext *ext, struct hmreg_mr *mr, bool unbinds)
{
    size_t count = mr_native_count(mr);
    bool before = ext->suspended;
    int rc;

    set_suspended(ext, mr, true);
    if (unbinds)
        mr_unbind(mr);
    rc = region_end_left(mr);
    for (size_t i = 0; i < count; i++) {
        int ended = end_one(ext, mr, i);

        if (ended == -EBUSY && count == 1) {
            set_suspended(ext, mr, before);
            return ended;
        }
        if (ended == -EBUSY)
            native_hide(mr_native(mr, i));
        rc = ended == -EBUSY || !rc ? ended : rc;
    }
    return rc;
}

int region_suspend(struct hmreg_mr *mr, bool unbinds)
{
    struct mr_ext *ext = mr_ext(mr);
    bool was = mr_is_suspended(mr);
    int rc = ext ? suspend_all(ext, mr, unbinds) : end_plain(mr);
    struct group *group = mr_lock_columns(mr);

    if (!was && mr_is_suspended(mr))
        mr_set_head(mr);
    mr_unlock_columns(group);
    undone_wake(mr->domain);
    return rc;
}

/* Deregisters one of the natives, or leaves it to undone_retry(). */
static void undo(struct natives *natives, size_t index, struct hmreg_domain *domain, bool bound)
{
    struct mr_note *note = &natives->note[index];

    if (!note->live)
        return;
    if (bound && !domain_is_lost(domain))
        domain->ops.unbind(domain->self, &natives->made[index]);
    if (native_end(natives, index, domain) == -EBUSY)
        undone_keep(natives, index, domain);
}

/* ---- members ---------------------------------------------------------------------------- */

/* Keeps the thread's last error as the reason why the region is not registered on a member. */
static int keep_reason(struct filling *filling, size_t member)
{
    struct hmreg_error *missing = malloc(sizeof(*missing));

    if (!missing)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the reasons of a rail");
    hmreg_error_save(missing);
    filling->natives->rail[member].missing = missing;
    if (!filling->missed)
        filling->first_missed = (int)member;
    filling->missed |= BIT(member);
    return 0;
}

/* With the lock held: a member of a group has failed with rc. 0: the region does without the
 * member, or uses its replacement; another part may have failed on it before. A member whose NIC is
 * gone will be withdrawn. */
static int miss(struct filling *filling, size_t member, int rc)
{
    const struct group *group = filling->mr->domain->group;
    const struct nearest_order *order = filling->natives->order;
    struct hmreg_domain *domain = filling->natives->rail[member].domain;
    const struct hmreg_error *first;
    int other;

    if (!filling_wants(filling, member))
        return 0;
    hmreg_fail_at(rc, "rail %zu (%s)", member, domain->caps.fabric);
    /* A shortage says nothing about the rail. */
    if (!(order || group->flags & HMREG_GROUP_PARTIAL || domain_is_lost(domain)) ||
        domain_room(domain, rc) == PROVIDER_ROOM_FULL)
        return rc;
    rc = keep_reason(filling, member);
    if (rc)
        return rc;
    other = order ? nearest_unused(order, filling->rails) : -1;
    if (other >= 0)
        filling->rails |= BIT(other);
    if (filling->rails & ~filling->missed)
        return 0;
    first = filling->natives->rail[filling->first_missed].missing;
    hmreg_error_restore(first);
    return first->code;
}

static int miss_if_group(struct filling *filling, size_t member, int rc)
{
    if (!rc || !filling->mr->domain->group)
        return rc;
    pthread_mutex_lock(&filling->lock);
    rc = miss(filling, member, rc);
    pthread_mutex_unlock(&filling->lock);
    return rc;
}

/* ---- filling ---------------------------------------------------------------------------- */

/* Does the region need no extension? So it is if it is system memory at its own address, without an
 * identity or an iova, completes at once, and has no object bound to it. */
static bool is_plain(const struct layout *layout, const struct hmreg_mr *mr)
{
    const struct request *request = &layout->request;
    const struct hmem_range *memory = &layout->whole.range;
    const struct provider_caps *caps = &mr->domain->caps;

    return layout->joined && request->count == 1 && !mr->domain->group && !mr_ext(mr) &&
           !request->dmabuf && !request->endpoints && layout->whole.iface == HMREG_IFACE_SYSTEM &&
           memory->device == -1 && !memory->identity && !request->options.set_iova &&
           memory->host_addr == (uint64_t)(uintptr_t)request->iov->iov_base &&
           (mr->slot_offset || !(caps->async || caps->pends));
}

static void begin_plain(struct filling *filling)
{
    struct natives_one *one = &filling->one;

    one->asked = one->iov = *filling->layout->request.iov;
    one->note = (struct mr_note){.owner = &one->natives};
    one->rail = (struct mr_rail){.domain = filling->mr->domain};
    one->natives = (struct natives){
        .members = 1,
        .parts = 1,
        .ranges = 1,
        .made = &mr_body(filling->mr)->made,
        .note = &one->note,
        .asked = &one->asked,
        .iov = &one->iov,
        .rail = &one->rail,
    };
    filling->natives = &one->natives;
}

/* Gives the filling places for its registrations. */
static int make_places(struct filling *filling, const struct ranges *ranges, size_t parts)
{
    const struct hmreg_domain *domain = filling->mr->domain;

    if (parts > 1 && domain->caps.async)
        return hmreg_fail(-EOPNOTSUPP,
                          "%zu segments need one registration each on %s, each with an event in "
                          "the domain's queue: register each segment by itself",
                          ranges->count, domain->caps.fabric);
    filling->ranges = ranges;
    filling->natives = natives_new(group_rails(domain), parts, ranges->iov, ranges->count);
    if (!filling->natives)
        return fail_memory();
    filling->natives->counted = domain->group;
    for (size_t i = 0; i < group_rails(domain); i++)
        natives_set_domain(filling->natives, i, group_rail(filling->mr->domain, i));
    return 0;
}

/* Leaves out withdrawn members. */
static int leave_withdrawn(struct filling *filling)
{
    struct group *group = filling->mr->domain->group;
    uint64_t withdrawn = atomic_load(&group->withdrawn), out = filling->rails & withdrawn;
    const struct nearest_order *order = filling->natives->order;
    int other = -1, rc = 0;

    for (size_t i = 0; i < filling->natives->members && !rc; i++)
        if (out & BIT(i))
            rc = column_leave_out(group, filling->natives, i);
    filling->rails &= ~out;
    if (rc || filling->rails)
        return rc;
    if (order)
        other = nearest_unused(order, out | withdrawn);
    if (other >= 0)
        filling->rails = BIT(other);
    else
        rc = column_restore_reason(filling->natives, out);
    return rc;
}

static int choose_members(struct filling *filling)
{
    const struct layout *layout = filling->layout;
    struct natives *natives = filling->natives;
    int rc = 0;

    filling->rails = layout->request.rails;
    if (!filling->rails)
        rc = nearest_find(filling->mr->domain->group, &layout->whole, layout->ranges.iov->iov_len,
                          &natives->order);
    if (natives->order)
        filling->rails = nearest_rails(natives->order);
    else if (!filling->rails)
        filling->rails = natives->members == 64 ? UINT64_MAX : BIT(natives->members) - 1;
    return rc ? rc : leave_withdrawn(filling);
}

static OUT_OF_LINE int begin_extended(struct filling *filling)
{
    struct layout *layout = filling->layout;
    struct hmreg_mr *mr = filling->mr;
    int rc = 0;

    filling->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (!mr_ext(mr))
        rc = extend(filling);
    rc = rc ? rc : make_places(filling, &layout->ranges, layout_parts(layout));
    if (rc || !mr->domain->group)
        return rc;
    filling_ask_as_group(mr->domain, layout);
    return choose_members(filling);
}

int filling_begin(struct filling *filling, struct layout *layout, struct hmreg_mr *mr)
{
    if (!mr_is_suspended(mr))
        atomic_store_explicit(&mr_body(mr)->context, layout->request.context, memory_order_relaxed);
    filling->layout = layout;
    filling->ranges = &layout->ranges;
    filling->mr = mr;
    filling->natives = NULL;
    filling->extended = false;
    atomic_init(&filling->rails, 1);
    atomic_init(&filling->missed, 0);
    atomic_init(&filling->locked, 0);
    if (!is_plain(layout, mr))
        return begin_extended(filling);
    begin_plain(filling);
    return 0;
}

int filling_part(struct filling *filling, size_t part)
{
    bool divides = false;
    int rc = 0;

    for (size_t i = 0; i < filling->natives->members && !rc; i++) {
        if (filling_wants(filling, i))
            rc = filling_register(filling, i, part);
        divides |= rc == REGISTER_DIVIDES;
        rc = rc == REGISTER_DIVIDES ? 0 : miss_if_group(filling, i, rc);
    }
    return !rc && divides ? REGISTER_DIVIDES : rc;
}

/* Deregisters the registrations on a member. */
static void undo_member(struct filling *filling, size_t member)
{
    struct natives *natives = filling->natives;

    for (size_t i = 0; i < natives->parts; i++)
        undo(natives, member * natives->parts + i, filling->natives->rail[member].domain,
             filling->layout->request.endpoints);
}

static void undo_natives(struct filling *filling)
{
    struct hmreg_error before;

    if (!filling->natives || filling->natives == &filling->one.natives)
        return;
    hmreg_error_save(&before);
    for (size_t i = 0; i < filling->natives->members; i++)
        undo_member(filling, i);
    natives_end(filling->natives);
    filling->natives = NULL;
    hmreg_error_restore(&before);
}

/* The region needs several registrations on each member. If it must be one registration, this
 * fails. */
static int check_divided(struct filling *filling, size_t member)
{
    const struct request *request = &filling->layout->request;

    if (!filling_wants(filling, member) ||
        !request_is_single(filling->natives->rail[member].domain, request))
        return 0;
    return hmreg_fail(-EXDEV,
                      "the %zu bytes at %p must be one registration here, but no single dmabuf "
                      "contains them for another member: register each allocation by itself",
                      request->iov->iov_len, request->iov->iov_base);
}

/* No dmabuf contains the range: its parts are the physical segments under it, on each member, so
 * that the region never covers only a part of the range. Keeps why the whole was refused. */
static int divide(struct filling *filling)
{
    struct layout *layout = filling->layout;
    struct natives *whole = filling->natives;
    int rc = layout_find_segments(filling->mr->domain->lib, layout);

    if (rc == -EXDEV)
        return register_refused(filling->mr->domain, layout, whole);
    rc = rc ? rc : make_places(filling, &layout->segments, layout->segments.count);
    if (rc) {
        filling->natives = whole;
        return rc;
    }
    natives_pass_on(whole, filling->natives);
    for (size_t i = 0; i < whole->members; i++)
        for (size_t j = 0; j < whole->parts; j++)
            undo(whole, i * whole->parts + j, whole->rail[i].domain, false);
    natives_end(whole);
    for (size_t i = 0; i < filling->natives->members && !rc; i++)
        rc = miss_if_group(filling, i, check_divided(filling, i));
    return rc;
}

static int fill_parts(struct filling *filling)
{
    int rc = 0;

    for (size_t i = 0; i < filling->natives->parts && !rc; i++)
        rc = filling_part(filling, i);
    if (rc != REGISTER_DIVIDES)
        return rc;
    rc = divide(filling);
    return rc ? rc : fill_parts(filling);
}

/* Registers on a member that replaced another, and binds the registrations. */
static int complete(struct filling *filling, size_t member)
{
    void *const *endpoints = filling->layout->request.endpoints;
    struct natives *natives = filling->natives;
    struct hmreg_domain *domain = natives->rail[member].domain;
    size_t first = member * natives->parts;
    int rc = 0;

    for (size_t i = 0; i < natives->parts && !rc; i++)
        if (!natives->note[first + i].live)
            rc = filling_register(filling, member, i);
    for (size_t i = 0; i < natives->parts && !rc && endpoints && endpoints[member]; i++) {
        struct hmreg_mr_keys *made = &natives->made[first + i];

        rc = domain_is_lost(domain) ? domain_fail_lost(domain) : 0;
        rc = rc ? rc : domain->ops.bind(domain->self, made, endpoints[member], 0);
        rc = rc ? rc : domain->ops.enable(domain->self, made);
    }
    return rc;
}

/* Completes each member, and ends those that the region does without. */
static int complete_all(struct filling *filling)
{
    uint64_t before, done = 0;
    int rc = 0;

    do {
        before = filling->rails;
        for (size_t i = 0; i < filling->natives->members && !rc; i++) {
            if (filling_wants(filling, i) && !(done & BIT(i)))
                rc = miss_if_group(filling, i, complete(filling, i));
            done |= BIT(i) & filling->rails;
            if (!filling_wants(filling, i))
                undo_member(filling, i);
        }
    } while (!rc && filling->rails != before);
    return rc;
}

/* If the fabric changed a plain region's key, the region gets an extension, which keeps the key to
 * give back. If memory is short, deregisters the region. If the fabric is busy with it, keeps it
 * without the requested key, which stays used. */
static int keep_key(struct filling *filling)
{
    struct hmreg_domain *domain = filling->mr->domain;
    struct natives *plain = filling->natives;
    const struct mr_note note = *plain->note;
    struct hmreg_mr_keys made = *plain->made;
    int rc = make_places(filling, filling->ranges, 1);

    rc = rc ? rc : extend(filling);
    if (!rc) {
        *filling->natives->made = made;
        *filling->natives->note = note;
        filling->natives->note->owner = filling->natives;
        return 0;
    }
    filling_undo(filling);
    if (domain_is_lost(domain) || domain->ops.dereg(domain->self, plain->made) == -EBUSY) {
        filling->natives = plain;
        plain->note->key_taken = false;
        return 0;
    }
    *plain->made = MR_SUSPENDED; /* a resumed region was suspended before */
    keys_give(&domain->keys, note.taken_key);
    return rc;
}

/* The region owns the natives from now on. */
static void take_over(struct filling *filling)
{
    struct mr_body *body = mr_body(filling->mr);
    const struct mr_note *note = filling->natives->note;
    struct mr_ext *ext = mr_ext(filling->mr);
    struct group *group = mr_lock_columns(filling->mr);

    if (ext) {
        describe(ext, filling->layout);
        if (ext->before)
            natives_end(ext->before);
        ext->before = mr_natives(filling->mr);
        if (ext->before)
            natives_uncount(ext->before);
        atomic_store_explicit(&ext->natives, filling->natives, memory_order_release);
        ext->suspended = false;
        note += mr_explained(filling->mr) * filling->natives->parts;
    }
    if (body->path != note->path)
        body->path = note->path;
    if (body->key_taken != (!ext && note->key_taken))
        body->key_taken = !body->key_taken;
    mr_set_head(filling->mr);
    mr_unlock_columns(group);
}

/* The fabric has registered the region meanwhile, in its last call. A plain region that cannot be
 * ended for want of memory (-EBUSY) is kept. */
static int end_of_lost(struct filling *filling)
{
    struct hmreg_domain *domain = filling->mr->domain;
    struct natives *natives = filling->natives;
    const struct mr_note *note = natives->note;

    if (!domain_is_lost(domain))
        return 0;
    if (natives == &filling->one.natives) {
        if (native_end_plain(domain, natives->made, natives->iov, note->key_taken,
                             note->taken_key) == -EBUSY)
            return 0;
        *natives->made = MR_SUSPENDED; /* a resumed region was suspended before */
    }
    return domain_fail_lost(domain);
}

int filling_end(struct filling *filling)
{
    const struct natives *natives = filling->natives;
    int rc = 0;

    if (natives != &filling->one.natives)
        rc = complete_all(filling);
    else if (natives->note->key_taken &&
             natives->note->taken_key != plain_key(filling->mr->domain, natives->made))
        rc = keep_key(filling);
    rc = rc ? rc : end_of_lost(filling);
    if (!rc)
        take_over(filling);
    return rc;
}

void filling_undo(struct filling *filling)
{
    undo_natives(filling);
    if (!filling->extended)
        return;
    forget_extension(filling->mr);
    filling->extended = false;
}

int region_fill(struct layout *layout, struct hmreg_mr *mr)
{
    uint64_t flags = layout->request.flags; /* the caller's layout, used again in the get's next
                                               round */
    struct hmreg_error_guard guard;
    struct filling filling;
    int rc;

    hmreg_error_guard(&guard); /* neither the refusal of a path nor a key in use is a failure */
    rc = filling_begin(&filling, layout, mr);
    rc = rc ? rc : fill_parts(&filling);
    rc = rc ? rc : filling_end(&filling);
    if (rc)
        filling_undo(&filling);
    layout->request.flags = flags;
    layout_close(layout);
    hmreg_error_unguard(&guard, !rc);
    return rc;
}

void region_settle_rails(struct hmreg_domain *domain)
{
    for (size_t i = 0; i < group_rails(domain); i++)
        if (domain_is_lost(group_rail(domain, i)))
            lost_settle(group_rail(domain, i));
}
