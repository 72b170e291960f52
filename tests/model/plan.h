/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An episode of the model test: a library with random settings, and a sequence of steps on several
 * threads, all drawn from a seed and the episode's number. Each step is valid after any other
 * steps, so any subset of them is an episode, too; that is how a replay is shortened.
 */
#ifndef TESTS_MODEL_PLAN_H
#define TESTS_MODEL_PLAN_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PLAN_STEPS   4000
#define PLAN_THREADS 4
#define PLAN_HOLDS   24 /* regions held at once, by any thread */
#define PLAN_RANGES  16 /* used by gets repeatedly */

enum act {
    ACT_GET,             /* the hold's earlier region is put first */
    ACT_GET_FAILS,       /* the fabric's next registration fails */
    ACT_GET_INVALIDATED, /* the application invalidates during the registration */
    ACT_PUT,             /* by any thread */
    ACT_PEER,            /* a peer writes to a held region, and reads */
    ACT_MAP,             /* host pages are mapped, over existing ones */
    ACT_UNMAP,           /* host pages are unmapped */
    ACT_DROP,            /* host pages are replaced by madvise(2) */
    ACT_MOVE,            /* host pages are moved, over existing ones */
    ACT_FREE,            /* device memory is freed, and allocated at the same address */
    ACT_LEAVE,           /* device memory is freed */
    ACT_INVALIDATE,      /* the application reports a change that did not happen */
    ACT_FLUSH,
    ACT_BUSY,  /* the fabric's next deregistrations answer EBUSY */
    ACT_RENEW, /* the thread ends, another replaces it */
    ACT_FORK,  /* the child uses its parent's objects, then opens a library */
    ACT_COUNT,
};

struct step {
    uint8_t act;
    uint8_t thread;
    uint16_t a;
    uint32_t b;
    uint32_t c;
    uint32_t form; /* of a get or a put */
};

enum plan_fabric { PLAN_PINNING, PLAN_LOOPBACK };

/* The kind of a test case's episodes. */
struct plan_kind {
    const char *name;
    enum hmreg_monitor monitor;
    enum plan_fabric fabric;
    bool host, devices; /* kinds of memory in use */
    bool notice;        /* policy: hits rely on received notices */
    unsigned changes;   /* per thousand steps, of host memory */
};

struct plan {
    const struct plan_kind *kind;
    unsigned long seed, episode;
    unsigned threads;
    uint32_t flags;           /* of the domain's config */
    enum hmreg_rights rights; /* the same */
    enum hmreg_policy policy;
    uint64_t max_regions, max_bytes;
    uint64_t all_regions, all_bytes; /* of all caches together */
    struct step ranges[PLAN_RANGES]; /* as of ACT_GET */
    unsigned count;
    struct step steps[PLAN_STEPS];
    bool keep[PLAN_STEPS]; /* false: left out */
};

void plan_make(struct plan *plan, const struct plan_kind *kind, unsigned long seed,
               unsigned long episode);
void plan_print(const struct plan *plan, FILE *out);

#endif
