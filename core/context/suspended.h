/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ranges that hmreg_suspend() and hmreg_hibernate() have suspended: few, and only calls that
 * register look at them.
 *
 * Such a call first makes its region visible in the domain's list of regions, and then checks
 * whether its memory is suspended. hmreg_suspend() first adds the range, and then goes through
 * these lists. So one of them sees the other.
 */
#ifndef HMREG_CORE_CONTEXT_SUSPENDED_H
#define HMREG_CORE_CONTEXT_SUSPENDED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct suspended_range {
    struct suspended_range *next;
    uint64_t start, end;
};

/* The range of hmreg_hibernate(): all regions, also regions without an address. */
#define SUSPENDED_ALL ((struct suspended_range){NULL, 0, UINT64_MAX})
static inline bool suspended_is_all(const struct suspended_range *range)
{
    return !range->start && range->end == UINT64_MAX;
}

static inline bool suspended_overlaps(const struct suspended_range *range, uint64_t start,
                                      uint64_t end)
{
    return suspended_is_all(range) || (range->start < end && start < range->end);
}

/* The latest suspensions, as far as they are remembered. */
#define SUSPENDED_RECENT 16

struct suspended {
    pthread_mutex_t lock; /* guards all; count and changes are read without it */
    pthread_cond_t turned;
    bool taken; /* a thread suspends or resumes */
    atomic_uint count;
    atomic_bool all; /* SUSPENDED_ALL is among them */
    struct suspended_range *first;
    _Atomic uint64_t changes; /* suspensions so far */
    struct suspended_range recent[SUSPENDED_RECENT];
};

void suspended_open(struct suspended *suspended);
void suspended_close(struct suspended *suspended);

/* One thread at a time suspends or resumes: take waits for its turn. */
void suspended_take_turn(struct suspended *suspended);
void suspended_end_turn(struct suspended *suspended);

/* The next three are for the thread whose turn it is. */
bool suspended_has(struct suspended *suspended, uint64_t start, uint64_t end);
/* False: no memory. */
bool suspended_add(struct suspended *suspended, uint64_t start, uint64_t end);
void suspended_remove(struct suspended *suspended, uint64_t start, uint64_t end);

/* Does [start, end) touch a suspended range other than `but`, which may be NULL? */
bool suspended_touches(struct suspended *suspended, uint64_t start, uint64_t end,
                       const struct suspended_range *but);

/* The names of the two calls, for an error's text: the first begins the suspension, the second ends
 * it. */
static inline const char *suspended_by(struct suspended *suspended)
{
    return atomic_load(&suspended->all) ? "hmreg_hibernate()" : "hmreg_suspend()";
}
static inline const char *suspended_until(struct suspended *suspended)
{
    return atomic_load(&suspended->all) ? "hmreg_thaw()" : "hmreg_resume()";
}

/* The number of suspensions so far. A call reads it before it resolves its memory. */
static inline uint64_t suspended_since(struct suspended *suspended)
{
    return atomic_load(&suspended->changes);
}

/* -EAGAIN: memory of one of the ranges is suspended, or was since: the call's knowledge of it may
 * be outdated. Any thread. */
int suspended_check(struct suspended *suspended, const struct iovec *iov, size_t count,
                    uint64_t since);

#endif
