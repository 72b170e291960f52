/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What all caches of a library may hold together, and hold.
 */
#ifndef HMREG_CORE_CONTEXT_QUOTA_H
#define HMREG_CORE_CONTEXT_QUOTA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Its lock is taken inside the caches'. */
struct quota {
    pthread_mutex_t lock;
    uint64_t regions, bytes; /* held; above the limit only where that has been lowered */
    _Atomic uint64_t max_regions, max_bytes; /* written under the lock */
};

void quota_init(struct quota *quota, uint64_t max_regions, uint64_t max_bytes);
void quota_destroy(struct quota *quota);
void quota_change(struct quota *quota, uint64_t max_regions, uint64_t max_bytes);

enum quota_answer {
    QUOTA_TAKEN,
    QUOTA_FULL,  /* not while so much is held */
    QUOTA_NEVER, /* with this limit */
};

/* Is it too much even if nothing else is held? Without the lock: for who would make room. */
bool quota_never_fits(const struct quota *quota, uint64_t bytes);

/* What is to be given back. */
struct quota_owed {
    uint64_t regions, bytes;
};

/* A region of so many bytes is remembered, if there is room; and so many no more. Owed is nothing
 * afterwards. */
enum quota_answer quota_take(struct quota *quota, struct quota_owed *owed, uint64_t bytes);
void quota_give(struct quota *quota, struct quota_owed *owed);

/* Of caches that were not counted so far. */
void quota_add(struct quota *quota, uint64_t regions, uint64_t bytes);

/* May anything be too much? Where not, caches are not counted. */
bool quota_is_limit(const struct quota *quota);

/* Is more held than may be? */
bool quota_is_exceeded(struct quota *quota);

#endif
