/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What an episode of the model test does: a library set up in some way, and a sequence of steps on
 * several threads, all of it drawn from a seed and the episode's number. Steps say what to do in
 * terms that have a meaning whatever happened before, so any subset of them is an episode, too:
 * that is what a replay is shortened by.
 */
#ifndef TESTS_MODEL_PLAN_H
#define TESTS_MODEL_PLAN_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PLAN_STEPS   4000
#define PLAN_THREADS 4
#define PLAN_HOLDS   24 /* regions that are held at once, by any thread */
#define PLAN_RANGES  16 /* that gets ask for again and again */

enum act {
    ACT_GET,        /* what the hold had is put first */
    ACT_GET_FAILS,  /* the same, when the fabric's next registration fails */
    ACT_GET_TOLD,   /* the same, and the application invalidates while it is registered */
    ACT_PUT,        /* by whatever thread */
    ACT_PEER,       /* a peer writes to a held region, and reads */
    ACT_MAP,        /* host pages anew, over whatever is there */
    ACT_UNMAP,      /* host pages go */
    ACT_DROP,       /* host pages are exchanged by madvise(2) */
    ACT_MOVE,       /* host pages are moved elsewhere, over whatever is there */
    ACT_FREE,       /* device memory is freed, and allocated at the same address */
    ACT_LEAVE,      /* device memory is freed */
    ACT_INVALIDATE, /* the application says so, though nothing changes */
    ACT_FLUSH,
    ACT_LIMITS,     /* other limits, of each cache */
    ACT_ALL_LIMITS, /* and of all together */
    ACT_BUSY,       /* the fabric's next deregistrations answer EBUSY */
    ACT_RENEW,      /* the thread ends, another takes its place */
    ACT_FORK,       /* the child tries what it may not, and starts afresh */
    ACT_COUNT,
};

struct step {
    uint8_t act;
    uint8_t thread;
    uint16_t a;
    uint32_t b;
    uint32_t c;
};

enum plan_fabric { PLAN_PINNING, PLAN_LOOPBACK };

/* What kind of episodes a test case has. */
struct plan_kind {
    const char *name;
    enum hmreg_monitor monitor;
    enum plan_fabric fabric;
    bool host, devices; /* memory there is */
    bool notice;        /* policy: caches trust notices */
    unsigned changes;   /* in a thousand steps, of host memory */
};

struct plan {
    const struct plan_kind *kind;
    unsigned long seed, episode;
    unsigned threads;
    uint32_t flags; /* of the domain */
    uint64_t max_regions, max_bytes;
    struct step ranges[PLAN_RANGES]; /* as of ACT_GET */
    unsigned count;
    struct step steps[PLAN_STEPS];
    bool keep[PLAN_STEPS]; /* the others are left out */
};

void plan_make(struct plan *plan, const struct plan_kind *kind, unsigned long seed,
               unsigned long episode);
void plan_print(const struct plan *plan, FILE *out);

#endif
