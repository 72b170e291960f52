/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ranges that hmreg_suspend() has suspended: few, and looked at only by calls that register.
 *
 * A call that registers first makes its region visible in the domain's list of regions, and then
 * asks whether its memory is suspended; hmreg_suspend() first adds the range, and then goes through
 * these lists. So one of them sees the other.
 */
#ifndef HMREG_CORE_CONTEXT_SUSPENDED_H
#define HMREG_CORE_CONTEXT_SUSPENDED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hmreg;

struct suspended_range {
    struct suspended_range *next;
    uint64_t start, end;
};

struct suspended {
    pthread_mutex_t lock; /* guards all but count, which is read without it */
    pthread_cond_t turned;
    bool taken; /* a thread suspends or resumes */
    atomic_uint count;
    struct suspended_range *first;
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

/* Does [start, end) touch a suspended range? but: other than this one, which may be NULL. */
bool suspended_touches(struct suspended *suspended, uint64_t start, uint64_t end,
                       const struct suspended_range *but);

/* -EAGAIN: memory in [start, end) is suspended. Any thread. */
int suspended_check(struct hmreg *lib, uint64_t start, uint64_t end);

#endif
