/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The keys of a domain whose users choose keys: each is unique, fits the fabric's key size, and can
 * be reused after its region is closed. Callers tend to choose small keys, so the library takes its
 * own keys from the upper half of the key space, and from the lower half only if the upper half is
 * exhausted. If the caller configures a range, the library uses only that. It draws keys at random,
 * since a peer that guesses a key may need nothing else. Among fewer than 2^31 keys each can be
 * guessed: there the library draws only the first, and counts upwards, so that a freed key is
 * reused as late as possible.
 */
#ifndef HMREG_CORE_CONTEXT_KEYS_H
#define HMREG_CORE_CONTEXT_KEYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct keys {
    pthread_mutex_t lock;
    void *used;   /* a tsearch(3) tree of keys */
    void *mapped; /* mapped keys of peers: a tsearch(3) tree of {key, times mapped} */
    uint64_t max;
    uint64_t first, last;    /* where the library looks for its own keys */
    uint64_t low;            /* then below this key; 0: nowhere */
    uint64_t next, next_low; /* where the next search for a free key starts, in each half */
    uint64_t random[32];     /* random numbers not used yet; getrandom(2) gives so many at once */
    unsigned randoms;
};

/* The largest key of `bytes` bytes. */
uint64_t keys_largest(uint32_t key_size);
/* first, last: the library's own keys, at most the largest; both 0: all keys. */
void keys_init(struct keys *keys, uint32_t key_size, uint64_t first, uint64_t last);
void keys_destroy(struct keys *keys);

/* Takes the key that a caller requests. -EKEYREJECTED: too large. -HMREG_ENOKEY: in use.
 * -ENOMEM. */
int keys_take(struct keys *keys, uint64_t key);

/* Takes a free key; consecutive calls take different keys. -HMREG_ENOKEY: none is free. -ENOMEM. Or
 * getrandom(2)'s error. */
int keys_take_any(struct keys *keys, uint64_t *out);

/* Are keys so large that each is drawn at random? */
bool keys_are_random(const struct keys *keys);
/* A random key, which may be in use. getrandom(2)'s error. */
int keys_draw(struct keys *keys, uint64_t *out);

/* Frees a taken key. */
void keys_give(struct keys *keys, uint64_t key);

/* Counts one mapping of a peer's key. -ENOMEM. */
int keys_map(struct keys *keys, uint64_t key);

/* Removes one mapping of a peer's key. -EINVAL: the key is not mapped. */
int keys_unmap(struct keys *keys, uint64_t key);

#endif
