/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The limits of all caches of a library together, and the regions and bytes charged to them.
 */
#ifndef HMREG_CORE_CONTEXT_QUOTA_H
#define HMREG_CORE_CONTEXT_QUOTA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Lock order: a cache's lock, then this one. */
struct quota {
    pthread_mutex_t lock;
    uint64_t regions, bytes;         /* charged */
    uint64_t max_regions, max_bytes; /* constant */
};

void quota_init(struct quota *quota, uint64_t max_regions, uint64_t max_bytes);
void quota_destroy(struct quota *quota);

enum quota_answer {
    QUOTA_TAKEN, /* charged */
    QUOTA_FULL,  /* does not fit until something is evicted */
    QUOTA_NEVER, /* exceeds a limit even if no other region is charged */
};

/* Would a region exceed the limits even if no other were charged? Takes no lock; callers ask before
 * they evict. */
bool quota_never_fits(const struct quota *quota, uint64_t bytes);

/* Charges a region of so many bytes if it fits. */
enum quota_answer quota_take(struct quota *quota, uint64_t bytes);
/* Credits regions that are no longer cached. */
void quota_give(struct quota *quota, uint64_t regions, uint64_t bytes);

/* Is there a limit? If not, caches are not counted. */
bool quota_is_limit(const struct quota *quota);

#endif
