/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The struct ibv_mr of cached registrations: of each caller its own, since it may read addr and
 * length, while the region below may be larger and serve other callers too. Found by address, with
 * no lock; nothing here waits, and a forked child may use what it inherited.
 */
#ifndef HMREG_PRELOAD_VERBS_HANDLE_H
#define HMREG_PRELOAD_VERBS_HANDLE_H

#include "preload/verbs/asked.h"

#include <stdatomic.h>

struct handle {
    struct ibv_mr mr; /* first: what the program has */
    /* What drivers read behind an ibv_mr, which is theirs otherwise: 0 is an ordinary region
     * without access, to which no memory window can be bound. */
    uint64_t of_drivers[8];
    /* What it stands for, one of them: */
    struct hmreg_mr *region; /* a cached one */
    struct ibv_mr *real;     /* one of libibverbs, which a reregistration has put here */
    struct asked asked;
    bool revoked; /* its keys end with it: cache_revoke(), not hmreg_mr_put() */
    _Atomic int live;
    struct handle *next_ended; /* of the list of handle_end_later() */
    uint32_t index;
    _Atomic uint32_t next_free;
};

/* A handle whose fields above live are zero. NULL: no memory. */
struct handle *handle_new(void);
/* Its memory is used for later ones. */
void handle_free(struct handle *handle);

/* The handle of this ibv_mr, live or freed. NULL: it is none of ours. */
struct handle *handle_of(struct ibv_mr *mr);

/* Makes a live handle the caller's to end: false if it was freed, or another thread ends it. */
bool handle_take(struct handle *handle);
/* Undoes handle_take(). */
void handle_keep(struct handle *handle);

/* A handle that was taken is put on a list of those that end later. */
void handle_end_later(struct handle *handle);
/* Is there one on the list? */
bool handle_any_ended(void);
/* Takes all of them, linked by next_ended, off the list. */
struct handle *handle_ended(void);

#endif
