/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The event queue for asynchronous registration. A region registered while a queue is bound to its
 * domain completes when its event is read. Until then it has no key and peers cannot access it, as
 * on a fabric that registers asynchronously.
 */
#include "providers/loopback/loopback.h"

#include "core/base/error.h"

#include <errno.h>
#include <time.h>

void events_published(void *self, struct hmreg_mr_keys *mr, struct hmreg_mr *public, void *context)
{
    struct loopback *loopback = self;
    struct region *region = mr->priv;
    struct hmreg_loopback_eq *eq;

    pthread_mutex_lock(&loopback->lock);
    eq = loopback->eq;
    if (eq) {
        region->public = public;
        region->context = context;
        region->pending = true;
        region->next_event = NULL;
        *eq->end = region;
        eq->end = &region->next_event;
        hmreg_mr_pending(public);
        pthread_cond_signal(&eq->arrived);
    }
    pthread_mutex_unlock(&loopback->lock);
}

/* Removes a region from the queue; NULL removes the first. */
static struct region *take(struct hmreg_loopback_eq *eq, const struct region *wanted)
{
    struct region **link = &eq->first;
    struct region *taken;

    while (wanted && *link && *link != wanted)
        link = &(*link)->next_event;
    taken = *link;
    if (!taken)
        return NULL;
    *link = taken->next_event;
    if (!*link)
        eq->end = link;
    taken->pending = false;
    return taken;
}

void events_forget(struct loopback *loopback, const struct region *region)
{
    if (loopback->eq && region->pending)
        take(loopback->eq, region);
}

/* Waits for an event; the caller holds the lock. 0 or -EAGAIN. */
static int await_event(struct hmreg_loopback_eq *eq, int timeout_ms)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    until.tv_sec += timeout_ms / 1000 + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (!eq->first && timeout_ms && rc != ETIMEDOUT)
        rc = timeout_ms < 0
                 ? pthread_cond_wait(&eq->arrived, &eq->object.loopback->lock)
                 : pthread_cond_timedwait(&eq->arrived, &eq->object.loopback->lock, &until);
    return eq->first ? 0 : -EAGAIN;
}

static int check_read(struct hmreg_loopback_eq *eq, struct hmreg_loopback_event *out,
                      int timeout_ms)
{
    int rc;

    if (!eq)
        return hmreg_fail(-EINVAL, "eq is NULL");
    rc = hmreg_lib_check(eq->object.loopback->lib);
    if (rc)
        return rc;
    if (!out)
        return hmreg_fail(-EINVAL, "out is NULL");
    if (out->size < sizeof(*out))
        return hmreg_fail(-EINVAL, "size of struct hmreg_loopback_event is %zu; it must be sizeof",
                          out->size);
    if (timeout_ms < -1)
        return hmreg_fail(-EINVAL, "timeout_ms is %d; it must be -1 (no limit), 0 or more",
                          timeout_ms);
    return 0;
}

int hmreg_loopback_eq_read(struct hmreg_loopback_eq *eq, struct hmreg_loopback_event *out,
                           int timeout_ms)
{
    struct region *region;
    int rc = check_read(eq, out, timeout_ms);

    if (rc)
        return rc;
    pthread_mutex_lock(&eq->object.loopback->lock);
    rc = await_event(eq, timeout_ms);
    if (!rc) {
        region = take(eq, NULL);
        out->mr = region->public;
        out->context = region->context;
        hmreg_mr_complete(out->mr);
    }
    pthread_mutex_unlock(&eq->object.loopback->lock);
    return rc ? hmreg_fail(rc, "no registration was completed in %d ms", timeout_ms) : 0;
}
