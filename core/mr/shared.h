/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the registrations of a group's rails share during one call, and those of a job's pieces:
 * each range is exported once for each mapping, and a range of several physical segments is
 * divided once.
 */
#ifndef HMREG_CORE_MR_SHARED_H
#define HMREG_CORE_MR_SHARED_H

#include "core/context/resolve.h"

#include <pthread.h>
#include <sys/uio.h>

/* An export, or why there is none. */
struct shared_export {
    struct shared_export *next;
    struct iovec range;
    uint64_t flags; /* of the export: each mapping is one of its own */
    bool made;      /* else another thread makes it; the fields below are valid if made */
    int rc;
    struct hmreg_dmabuf dmabuf; /* if rc is 0; owned */
    struct hmreg_reason why;    /* else */
};

struct shared {
    pthread_mutex_t lock; /* guards the list and `made` of its elements; not held while exporting */
    pthread_cond_t made;
    struct shared_export *exports;
    /* Ranges that are exported whole for every range in them; owned. */
    size_t span_count;
    struct iovec *spans;
    /* The pieces of a divided range, from composite_split(); count 0: none was divided yet. Used by
     * one thread. */
    size_t count;
    struct iovec *iov;
    struct resolved *found;
};
#define SHARED_INIT                                                                                \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .made = PTHREAD_COND_INITIALIZER                        \
    }

/* The export with these flags that contains a range. If *mine, the caller makes it, of all of the
 * export's range, and calls shared_made(); else it is made, if need be after waiting for the thread
 * that makes it. NULL: no memory; not recorded. */
struct shared_export *shared_take(struct shared *shared, const struct iovec *range, uint64_t flags,
                                  bool *mine);
/* Keeps an export and owns its descriptor, or keeps its failure rc with the reason. */
void shared_made(struct shared *shared, struct shared_export *made, int rc,
                 const struct hmreg_dmabuf *dmabuf, const struct hmreg_reason *why);

/* Closes all descriptors and frees what is kept; shared is as new. */
void shared_end(struct shared *shared);

#endif
