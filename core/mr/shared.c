/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See shared.h.
 */
#include "core/mr/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

const struct shared_export *shared_find(const struct shared *shared, const struct iovec *range)
{
    const struct shared_export *found = shared->exports;

    while (found &&
           (found->range.iov_base != range->iov_base || found->range.iov_len != range->iov_len))
        found = found->next;
    return found;
}

int shared_keep(struct shared *shared, const struct iovec *range, int rc,
                const struct hmreg_dmabuf *dmabuf, const struct hmreg_reason *why)
{
    struct shared_export *kept = calloc(1, sizeof(*kept));

    if (!kept)
        return -ENOMEM;
    kept->next = shared->exports;
    kept->range = *range;
    kept->rc = rc;
    if (rc)
        kept->why = *why;
    else
        kept->dmabuf = *dmabuf;
    shared->exports = kept;
    return 0;
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
    free(shared->iov);
    free(shared->found);
}
