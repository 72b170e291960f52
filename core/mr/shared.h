/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the registrations of a group's rails share during one call: each range is exported once, and
 * a range of several physical segments is divided once.
 */
#ifndef HMREG_CORE_MR_SHARED_H
#define HMREG_CORE_MR_SHARED_H

#include "core/context/resolve.h"

#include <sys/uio.h>

/* An export, or why there is none. */
struct shared_export {
    struct shared_export *next;
    struct iovec range;
    int rc;
    struct hmreg_dmabuf dmabuf; /* if rc is 0; owned */
    struct hmreg_reason why;    /* else */
};

/* Zeroed at first; used by one thread. */
struct shared {
    struct shared_export *exports;
    /* The pieces of a divided range, from composite_split(); count 0: none was divided yet. */
    size_t count;
    struct iovec *iov;
    struct resolved *found;
};

/* The export of a range. NULL: it was not exported yet. */
const struct shared_export *shared_find(const struct shared *shared, const struct iovec *range);
/* Keeps an export and owns its descriptor, or keeps its failure rc with the reason. -ENOMEM, not
 * recorded: the descriptor is still the caller's. */
int shared_keep(struct shared *shared, const struct iovec *range, int rc,
                const struct hmreg_dmabuf *dmabuf, const struct hmreg_reason *why);

/* Closes all descriptors and frees what is kept. */
void shared_end(struct shared *shared);

#endif
