/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See shared.h.
 */
#include "core/mr/shared.h"

#include <stdlib.h>
#include <unistd.h>

/* A range that begins in a span lies in it: the spans are the ranges that no piece crosses. */
static bool begins_in(const struct iovec *span, const struct iovec *range)
{
    return (uint64_t)(uintptr_t)range->iov_base - (uint64_t)(uintptr_t)span->iov_base <
           span->iov_len;
}

static const struct iovec *span_of(const struct shared *shared, const struct iovec *range)
{
    for (size_t i = 0; i < shared->span_count; i++)
        if (begins_in(&shared->spans[i], range))
            return &shared->spans[i];
    return range;
}

static struct shared_export *find(const struct shared *shared, const struct iovec *range,
                                  uint64_t flags)
{
    struct shared_export *found = shared->exports;

    while (found && (found->range.iov_base != range->iov_base ||
                     found->range.iov_len != range->iov_len || found->flags != flags))
        found = found->next;
    return found;
}

static struct shared_export *add(struct shared *shared, const struct iovec *range, uint64_t flags)
{
    struct shared_export *added = calloc(1, sizeof(*added));

    if (!added)
        return NULL;
    added->range = *range;
    added->flags = flags;
    added->next = shared->exports;
    shared->exports = added;
    return added;
}

struct shared_export *shared_take(struct shared *shared, const struct iovec *range, uint64_t flags,
                                  bool *mine)
{
    const struct iovec *whole = span_of(shared, range);
    struct shared_export *taken;

    pthread_mutex_lock(&shared->lock);
    taken = find(shared, whole, flags);
    *mine = !taken;
    if (!taken)
        taken = add(shared, whole, flags);
    while (taken && !*mine && !taken->made)
        pthread_cond_wait(&shared->made, &shared->lock);
    pthread_mutex_unlock(&shared->lock);
    return taken;
}

void shared_made(struct shared *shared, struct shared_export *made, int rc,
                 const struct hmreg_dmabuf *dmabuf, const struct hmreg_reason *why)
{
    pthread_mutex_lock(&shared->lock);
    made->rc = rc;
    if (rc)
        made->why = *why;
    else
        made->dmabuf = *dmabuf;
    made->made = true;
    pthread_cond_broadcast(&shared->made);
    pthread_mutex_unlock(&shared->lock);
}

void shared_end(struct shared *shared)
{
    while (shared->exports) {
        struct shared_export *gone = shared->exports;

        shared->exports = gone->next;
        if (!gone->rc)
            close(gone->dmabuf.fd);
        free(gone);
    }
    free(shared->spans);
    free(shared->iov);
    free(shared->found);
    *shared = (struct shared)SHARED_INIT;
}
