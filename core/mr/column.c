/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See column.h.
 */
#include "core/mr/column.h"

#include "core/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define BIT(member) (UINT64_C(1) << (member))

/* ---- moving keys ------------------------------------------------------------------------ */

/* Threads may read the public head meanwhile: each word is stored whole. */
static void store_keys(struct hmreg_mr_keys *to, const struct hmreg_mr_keys *from)
{
    __atomic_store_n(&to->priv, from->priv, __ATOMIC_RELAXED);
    __atomic_store_n(&to->native, from->native, __ATOMIC_RELAXED);
    __atomic_store_n(&to->desc, from->desc, __ATOMIC_RELAXED);
    __atomic_store_n(&to->lkey, from->lkey, __ATOMIC_RELAXED);
    __atomic_store_n(&to->rkey, from->rkey, __ATOMIC_RELAXED);
    __atomic_store_n(&to->key, from->key, __ATOMIC_RELAXED);
}

static void move_registration(struct natives *from, size_t index, struct natives *to, size_t at)
{
    const struct hmreg_mr_keys none = MR_NONE;
    struct mr_note *note = &to->note[at], *before = &from->note[index];
    bool live = before->live;

    if (before->kept) /* undone_retry() ends it in place */
        return;
    note->taken_key = before->taken_key;
    note->key_taken = before->key_taken;
    note->path = before->path;
    note->way = before->way;
    before->live = false;
    store_keys(&to->made[at], &from->made[index]);
    store_keys(&from->made[index], &none);
    note->live = live; /* release: see struct mr_note */
}

static void move_column(struct natives *from, size_t member, struct natives *to, size_t other)
{
    for (size_t i = 0; i < from->ranges; i++) {
        size_t range = member * from->ranges + i, at = other * to->ranges + i;

        to->iov[at] = from->iov[range];
        if (from->parts > 1 && from->note[member * from->parts + i].kept)
            continue;
        to->mappings[at] = from->mappings[range];
        from->mappings[range] = (struct mapping){0};
    }
    for (size_t i = 0; i < from->parts; i++)
        move_registration(from, member * from->parts + i, to, other * to->parts + i);
    natives_set_domain(to, other, from->rail[member].domain);
    natives_set_domain(from, member, NULL);
}

/* Does a registration remain to be ended, because memory was short to move it out? */
static bool has_kept(const struct natives *natives, size_t member)
{
    bool kept = false;

    for (size_t i = 0; i < natives->parts; i++)
        kept |= natives->note[member * natives->parts + i].kept;
    return kept;
}

static bool has_live(const struct natives *natives, size_t member)
{
    bool live = false;

    for (size_t i = 0; i < natives->parts; i++)
        live |= natives->note[member * natives->parts + i].live;
    return live;
}

/* ---- withdrawing ------------------------------------------------------------------------ */

static bool is_outdated(const struct group *group, const struct natives *natives, size_t member)
{
    const struct hmreg_domain *domain = natives->rail[member].domain;

    return domain &&
           (domain != group->members[member] || (atomic_load(&group->withdrawn) & BIT(member)));
}

/* The natives. They stay until natives_leave(), even if the region is resumed meanwhile. */
static struct natives *hold(const struct hmreg_mr *mr)
{
    struct group *group = mr->domain->group;
    struct natives *natives = NULL;

    if (!group || !mr_ext(mr))
        return NULL;
    pthread_mutex_lock(&group->lock);
    natives = mr_natives(mr);
    if (natives)
        atomic_fetch_add(&natives->users, 1);
    pthread_mutex_unlock(&group->lock);
    return natives;
}

/* With the lock held. */
static void push_left(struct hmreg_mr *mr, struct natives *left)
{
    left->next = mr_ext(mr)->left;
    mr_ext(mr)->left = left;
    if (mr->slot_offset)
        atomic_fetch_add(&mr->domain->group->left, 1);
}

/* With the lock held. *left and *missing become NULL if they are used. If the requested
 * registration on a member failed, the member's replacement is tried. */
static int withdraw(struct hmreg_mr *mr, size_t member, struct natives **left,
                    struct hmreg_error **missing)
{
    struct group *group = mr->domain->group;
    struct natives *natives = mr_natives(mr);
    struct mr_rail *rail = &natives->rail[member];

    if (!has_live(natives, member)) {
        natives_set_domain(natives, member, NULL);
        rail->withdrawn = rail->missing;
        return 0;
    }
    if (mr_ext(mr)->suspended) /* its keys are gone; the suspending thread ends its other parts */
        return 0;
    if (!*left || !*missing)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to remove a member from a region");
    move_column(natives, member, *left, 0);
    (*left)->rail->missing = rail->missing;
    rail->missing = *missing;
    *rail->missing = group->about[member].why;
    rail->withdrawn = true;
    push_left(mr, *left);
    *left = NULL;
    *missing = NULL;
    mr_set_column(mr, member);
    return 0;
}

static int withdraw_from(struct hmreg_mr *mr, const struct natives *natives, size_t member)
{
    struct group *group = mr->domain->group;
    struct hmreg_error *missing = malloc(sizeof(*missing));
    struct natives *left = natives_new(1, natives->parts, natives->asked, natives->ranges);
    int rc = 0;

    if (left)
        left->counted = true;
    pthread_mutex_lock(&group->lock);
    if (mr_natives(mr) == natives && is_outdated(group, natives, member))
        rc = withdraw(mr, member, &left, &missing);
    pthread_mutex_unlock(&group->lock);
    if (left)
        natives_end(left);
    free(missing);
    return rc;
}

int column_settle(struct hmreg_mr *mr)
{
    struct natives *natives = hold(mr);
    int rc = 0;

    for (size_t i = 0; natives && i < natives->members; i++)
        if (is_outdated(mr->domain->group, natives, i)) {
            int one = withdraw_from(mr, natives, i);

            rc = rc ? rc : one;
        }
    if (natives)
        natives_leave(natives);
    return rc;
}

/* ---- replacing -------------------------------------------------------------------------- */

/* With the lock held: is there a replacement of the member that was not tried yet? */
static bool is_wanted(const struct group *group, const struct natives *natives, size_t member)
{
    const struct mr_rail *rail = &natives->rail[member];

    return rail->withdrawn && !rail->domain && rail->tried != group->about[member].replaced &&
           !(atomic_load(&group->withdrawn) & BIT(member)) && !has_kept(natives, member);
}

/* With the lock held: the outdated members and, in *wanted, the wanted ones. The thread that
 * suspends a region ends its registrations. */
static uint64_t look(const struct group *group, const struct hmreg_mr *mr, uint64_t *wanted)
{
    const struct natives *natives = mr_natives(mr);
    bool suspended = mr_ext(mr)->suspended, wants = !suspended && !mr_ext(mr)->closing;
    uint64_t outdated = 0;

    *wanted = 0;
    for (size_t i = 0; natives && i < natives->members; i++) {
        if (is_outdated(group, natives, i) && !(suspended && has_live(natives, i)))
            outdated |= BIT(i);
        if (wants && is_wanted(group, natives, i))
            *wanted |= BIT(i);
    }
    return outdated;
}

unsigned column_wanted(const struct hmreg_mr *mr, size_t member, bool by_replacement)
{
    struct group *group = mr_ext(mr) ? mr_lock_columns(mr) : NULL;
    uint64_t wanted = 0;
    unsigned number = 0;

    if (group)
        look(group, mr, &wanted);
    if ((wanted & BIT(member)) && (by_replacement || !group->running || group->replacing != member))
        number = group->about[member].replaced;
    mr_unlock_columns(group);
    return number;
}

bool column_is_current(const struct hmreg_mr *mr)
{
    struct group *group = mr_ext(mr) ? mr_lock_columns(mr) : NULL;
    uint64_t wanted = 0, outdated = group ? look(group, mr, &wanted) : 0;

    mr_unlock_columns(group);
    return !(outdated | wanted);
}

bool column_may_publish_on_group(const struct hmreg_mr *mr)
{
    struct group *group = mr_ext(mr) ? mr_lock_columns(mr) : NULL;
    uint64_t wanted = 0, outdated = group ? look(group, mr, &wanted) : 0;

    if (group && group->running && (wanted & BIT(group->replacing))) {
        group->again = true;
        wanted &= ~BIT(group->replacing);
    }
    mr_unlock_columns(group);
    return !(outdated | wanted);
}

/* With the lock held. Fields of the old member that other threads may be reading move to `made`. */
static void enter(struct hmreg_mr *mr, size_t member, struct natives *made)
{
    struct natives *natives = mr_natives(mr);
    struct mr_rail *rail = &natives->rail[member], *new = &made->rail[member];
    struct hmreg_error *missing = rail->missing;
    struct refusals refused = rail->refused;

    rail->withdrawn = false;
    rail->refused = new->refused;
    rail->missing = NULL;
    new->refused = refused;
    new->missing = missing;
    natives_set_domain(natives, member, new->domain);
    for (size_t i = 0; i < natives->ranges; i++)
        natives->iov[member * natives->ranges + i] = made->iov[member * made->ranges + i];
    mr_set_column(mr, member); /* its places before its keys */
    move_column(made, member, natives, member);
    mr_set_column(mr, member); /* a thread that sees this generation sees the keys */
    push_left(mr, made);
}

int column_enter(struct hmreg_mr *mr, size_t member, struct natives *made)
{
    struct group *group = mr->domain->group;
    bool wanted;

    pthread_mutex_lock(&group->lock);
    wanted = is_wanted(group, mr_natives(mr), member) && !is_outdated(group, made, member);
    if (wanted)
        enter(mr, member, made);
    pthread_mutex_unlock(&group->lock);
    return wanted ? 0 : hmreg_fail(-EAGAIN, "the member was withdrawn again");
}

void column_count(struct hmreg_mr *mr, size_t member, unsigned number, int rc)
{
    struct group *group = mr->domain->group;
    struct group_member *about = &group->about[member];
    struct mr_rail *rail = &mr_natives(mr)->rail[member];

    pthread_mutex_lock(&group->lock);
    if (about->replaced == number && !rc) {
        about->done++;
    } else if (about->replaced == number && is_wanted(group, mr_natives(mr), member)) {
        about->failed++;
        rail->tried = number;
        if (rail->missing)
            hmreg_error_save(rail->missing);
    }
    pthread_mutex_unlock(&group->lock);
}

/* ---- filling ---------------------------------------------------------------------------- */

int column_leave_out(struct group *group, struct natives *natives, size_t member)
{
    struct mr_rail *rail = &natives->rail[member];

    rail->missing = malloc(sizeof(*rail->missing));
    if (!rail->missing)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the reasons of a rail");
    pthread_mutex_lock(&group->lock);
    *rail->missing = group->about[member].why;
    pthread_mutex_unlock(&group->lock);
    rail->withdrawn = true;
    natives_set_domain(natives, member, NULL);
    return 0;
}

int column_restore_reason(const struct natives *natives, uint64_t members)
{
    size_t first = 0;

    while (!(members & BIT(first)))
        first++;
    hmreg_error_restore(natives->rail[first].missing);
    return natives->rail[first].missing->code;
}

/* ---- what is left ----------------------------------------------------------------------- */

bool column_has_left(const struct hmreg_mr *mr)
{
    struct group *group = mr->domain->group;
    bool has;

    if (!group || !mr_ext(mr))
        return false;
    pthread_mutex_lock(&group->lock);
    has = mr_ext(mr)->left && !mr_ext(mr)->suspended;
    pthread_mutex_unlock(&group->lock);
    return has;
}

struct natives *column_take_left(struct hmreg_mr *mr)
{
    struct group *group = mr->domain->group;
    struct natives *left = NULL;

    if (!group || !mr_ext(mr))
        return NULL;
    pthread_mutex_lock(&group->lock);
    left = mr_ext(mr)->left;
    mr_ext(mr)->left = NULL;
    for (struct natives *one = left; one && mr->slot_offset; one = one->next)
        atomic_fetch_sub(&group->left, 1);
    pthread_mutex_unlock(&group->lock);
    return left;
}

void column_leave(struct hmreg_mr *mr, struct natives *left)
{
    struct group *group = mr->domain->group;

    pthread_mutex_lock(&group->lock);
    push_left(mr, left);
    pthread_mutex_unlock(&group->lock);
}
