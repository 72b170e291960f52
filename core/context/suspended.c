/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See suspended.h.
 */
#include "core/context/suspended.h"

#include "core/base/error.h"

#include <errno.h>
#include <stdlib.h>

void suspended_open(struct suspended *suspended)
{
    pthread_mutex_init(&suspended->lock, NULL);
    pthread_cond_init(&suspended->turned, NULL);
}

void suspended_close(struct suspended *suspended)
{
    while (suspended->first) {
        struct suspended_range *gone = suspended->first;

        suspended->first = gone->next;
        free(gone);
    }
    pthread_cond_destroy(&suspended->turned);
    pthread_mutex_destroy(&suspended->lock);
}

void suspended_take_turn(struct suspended *suspended)
{
    pthread_mutex_lock(&suspended->lock);
    while (suspended->taken)
        pthread_cond_wait(&suspended->turned, &suspended->lock);
    suspended->taken = true;
    pthread_mutex_unlock(&suspended->lock);
}

void suspended_end_turn(struct suspended *suspended)
{
    pthread_mutex_lock(&suspended->lock);
    suspended->taken = false;
    pthread_cond_signal(&suspended->turned);
    pthread_mutex_unlock(&suspended->lock);
}

/* With the lock held: the link to this range, or to NULL. */
static struct suspended_range **find(struct suspended *suspended, uint64_t start, uint64_t end)
{
    struct suspended_range **link = &suspended->first;

    while (*link && ((*link)->start != start || (*link)->end != end))
        link = &(*link)->next;
    return link;
}

bool suspended_has(struct suspended *suspended, uint64_t start, uint64_t end)
{
    bool has;

    pthread_mutex_lock(&suspended->lock);
    has = *find(suspended, start, end);
    pthread_mutex_unlock(&suspended->lock);
    return has;
}

bool suspended_add(struct suspended *suspended, uint64_t start, uint64_t end)
{
    struct suspended_range *added = malloc(sizeof(*added));

    if (!added)
        return false;
    pthread_mutex_lock(&suspended->lock);
    *added = (struct suspended_range){suspended->first, start, end};
    suspended->first = added;
    suspended->recent[atomic_load(&suspended->changes) % SUSPENDED_RECENT] = *added;
    atomic_fetch_add(&suspended->changes, 1);
    atomic_fetch_add(&suspended->count, 1);
    if (suspended_is_all(added))
        atomic_store(&suspended->all, true);
    pthread_mutex_unlock(&suspended->lock);
    return true;
}

void suspended_remove(struct suspended *suspended, uint64_t start, uint64_t end)
{
    struct suspended_range **link, *gone;

    pthread_mutex_lock(&suspended->lock);
    link = find(suspended, start, end);
    gone = *link;
    *link = gone->next;
    if (suspended_is_all(gone))
        atomic_store(&suspended->all, false);
    atomic_fetch_sub(&suspended->count, 1);
    pthread_mutex_unlock(&suspended->lock);
    free(gone);
}

bool suspended_touches(struct suspended *suspended, uint64_t start, uint64_t end,
                       const struct suspended_range *but)
{
    bool touches = false;

    if (!atomic_load(&suspended->count))
        return false;
    pthread_mutex_lock(&suspended->lock);
    for (const struct suspended_range *range = suspended->first; range && !touches;
         range = range->next)
        touches = suspended_overlaps(range, start, end) &&
                  !(but && range->start == but->start && range->end == but->end);
    pthread_mutex_unlock(&suspended->lock);
    return touches;
}

/* Has a suspension since touched the range? Perhaps: there were more than it remembers. */
static bool was_touched(struct suspended *suspended, uint64_t start, uint64_t end, uint64_t since)
{
    uint64_t now;
    bool touched;

    if (atomic_load(&suspended->changes) == since)
        return false;
    pthread_mutex_lock(&suspended->lock);
    now = atomic_load(&suspended->changes);
    touched = now - since > SUSPENDED_RECENT;
    for (uint64_t i = since; i < now && !touched; i++) {
        touched = suspended_overlaps(&suspended->recent[i % SUSPENDED_RECENT], start, end);
    }
    pthread_mutex_unlock(&suspended->lock);
    return touched;
}

int suspended_check(struct suspended *suspended, const struct iovec *iov, size_t count,
                    uint64_t since)
{
    if (!atomic_load(&suspended->count) && atomic_load(&suspended->changes) == since)
        return 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t start = (uint64_t)(uintptr_t)iov[i].iov_base, end = start + iov[i].iov_len;

        if (suspended_touches(suspended, start, end, NULL) ||
            was_touched(suspended, start, end, since))
            return hmreg_fail(-EAGAIN,
                              "memory of the %zu bytes at %p is suspended (%s): try again after %s",
                              iov[i].iov_len, iov[i].iov_base, suspended_by(suspended),
                              suspended_until(suspended));
    }
    return 0;
}
