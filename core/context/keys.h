/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The keys of one domain whose users choose them: unique, within the fabric's size, reusable
 * after close. Callers choose from the lower half of the key space by habit; the keys the
 * library chooses for cached regions count upwards in the upper half, so they seldom meet, and
 * come from the lower half only when the upper one is used up.
 */
#ifndef HMREG_CORE_CONTEXT_KEYS_H
#define HMREG_CORE_CONTEXT_KEYS_H

#include <pthread.h>
#include <stdint.h>

struct keys {
    pthread_mutex_t lock;
    void *used;     /* a tsearch(3) tree of uint64_t */
    uint64_t count; /* of used */
    void *mapped;   /* peers' keys made usable here: a tree of {key, how often} */
    uint64_t max;
    uint64_t next, next_low; /* where the search for a free key goes on, in either half */
};

void keys_init(struct keys *keys, uint32_t key_size);
void keys_destroy(struct keys *keys);

/* Takes a caller's key. -EKEYREJECTED: does not fit. -HMREG_ENOKEY: in use. -ENOMEM. */
int keys_take(struct keys *keys, uint64_t key);

/* Takes any free key, another one each time. -HMREG_ENOKEY: none is free. -ENOMEM. */
int keys_take_any(struct keys *keys, uint64_t *out);

/* Gives a taken key back. */
void keys_give(struct keys *keys, uint64_t key);

/* Notes a peer's key as mapped, once more if it is already. -ENOMEM. */
int keys_map(struct keys *keys, uint64_t key);

/* Takes one mapping back. -EINVAL: the key is not mapped. */
int keys_unmap(struct keys *keys, uint64_t key);

#endif
