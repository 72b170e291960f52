/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See undone.h. One registration after the other is taken from the list, so that the fabric is
 * called without the lock.
 */
#include "core/mr/undone.h"

#include "core/base/error.h"
#include "core/group/group.h"

#include <assert.h>
#include <errno.h>

static void append(struct undone *undone, struct hmreg_mr *mr)
{
    mr_ext(mr)->next_undone = NULL;
    pthread_mutex_lock(&undone->lock);
    if (undone->first)
        mr_ext(undone->last)->next_undone = mr;
    else
        undone->first = mr;
    undone->last = mr;
    pthread_mutex_unlock(&undone->lock);
}

/* NULL: there is none, or other threads are trying them. */
static struct hmreg_mr *take(struct undone *undone)
{
    struct hmreg_mr *mr;

    pthread_mutex_lock(&undone->lock);
    mr = undone->first;
    if (mr)
        undone->first = mr_ext(mr)->next_undone;
    pthread_mutex_unlock(&undone->lock);
    return mr;
}

static void add(struct hmreg_mr *mr)
{
    struct undone *undone = &mr->domain->undone;
    size_t count;
    struct hmreg_mr **parts = mr_parts(mr, &count);

    for (size_t i = 0; parts && i < count; i++)
        if (parts[i])
            add(parts[i]);
    if (parts) {
        region_free(mr);
        return;
    }
    assert(mr_ext(mr)); /* parts of a region have it */
    if (region_destroy_one(mr) != -EBUSY)
        return;
    atomic_fetch_add(&undone->count, 1);
    append(undone, mr);
}

void undone_add(struct hmreg_mr *mr)
{
    struct hmreg_error before;

    hmreg_error_save(&before);
    add(mr);
    hmreg_error_restore(&before);
}

static void retry(struct undone *undone, unsigned most)
{
    unsigned tries = atomic_load(&undone->count);
    struct hmreg_mr *mr;

    for (tries = tries < most ? tries : most; tries; tries--) {
        mr = take(undone);
        if (!mr)
            return;
        if (region_destroy_one(mr) == -EBUSY)
            append(undone, mr);
        else
            atomic_fetch_sub(&undone->count, 1);
    }
}

static void retry_quietly(struct undone *undone, unsigned most)
{
    struct hmreg_error before;

    hmreg_error_save(&before);
    retry(undone, most);
    hmreg_error_restore(&before);
}

void undone_retry(struct hmreg_domain *domain, unsigned most)
{
    const struct group *group = domain->group;

    if (atomic_load(&domain->undone.count))
        retry_quietly(&domain->undone, most);
    for (size_t i = 0; group && i < group->count; i++)
        if (atomic_load(&group->members[i]->undone.count))
            retry_quietly(&group->members[i]->undone, most);
}

unsigned undone_left(const struct hmreg_domain *domain)
{
    return atomic_load(&domain->undone.count);
}
