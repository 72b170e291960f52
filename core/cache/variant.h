/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Variants: the attributes that distinguish regions of equal memory and rights. The cache finds
 * entries by range, rights and variant; a plain hmreg_mr_get() has none. A domain has one object
 * for equal attributes, so entries compare one pointer. It exists as long as an entry or a get uses
 * it.
 */
#ifndef HMREG_CORE_CACHE_VARIANT_H
#define HMREG_CORE_CACHE_VARIANT_H

#include "core/mr/layout.h"
#include "core/explicit/explicit.h"

#include <pthread.h>
#include <stdatomic.h>

/* The attributes that are part of the key. No byte of it is undefined: keys are compared by
 * memcmp(3). */
struct variant_key {
    struct hmreg_mr_attr attr; /* fields that are not part of the key, or of which only the contents
                                  are part, are zero */
    uint64_t flags;
    uint64_t dev, ino, base; /* the caller's dmabuf: its inode, and the address of its first byte */
    uint64_t count;          /* segments of a list; 0: one range, which is not part of the key */
};

/* A segment or range of a list: its addresses and, for a dmabuf, the fields as in a key, else 0. */
struct variant_segment {
    uint64_t start, end;
    uint64_t dev, ino, base;
};

struct variant {
    struct variant_key key;
    const uint8_t *auth_key;                /* key.attr.auth_key_size bytes */
    void *const *endpoints;                 /* key.attr.endpoint_count, as in a request */
    const struct variant_segment *segments; /* key.count, in the caller's order */
    uint64_t len;                           /* of all segments together */
    atomic_uint users;                      /* entries and gets */
};

/* The variants of a domain. */
struct variants {
    pthread_mutex_t lock;
    void *tree; /* for tsearch(3) */
};

void variants_open(struct variants *variants);
/* Call it when no variant is used any more. */
void variants_close(struct variants *variants);

/* Finds or allocates the variant of a get's attributes, which the caller then uses. list: its
 * segments or ranges; NULL: one range, the request's. *out: NULL: equal to a plain get.
 * *identified: false: a caller's dmabuf has no identity. -ENOMEM. */
int variant_get(struct variants *variants, const struct attributes *attributes,
                const struct layout *list, uint64_t flags, struct variant **out, bool *identified);

/* The segment with the lowest address among those that touch [start, end). NULL: none does. */
const struct variant_segment *variant_touching(const struct variant *variant, uint64_t start,
                                               uint64_t end);

/* The origin of an entry's region with this variant, or with NULL of a plain get. NULL: no memory.
 * Free it with free(). */
struct origin *variant_origin(const struct variant *variant, const struct hmreg_mr *entry);
/* origin_complete() for an entry that this thread holds. */
int variant_complete(struct hmreg_mr *entry, bool by_replacement);

/* Both accept NULL. use: the caller already uses it, or holds the lock of caches whose entry uses
 * it. */
void variant_use(struct variant *variant);
void variant_put(struct variants *variants, struct variant *variant);

/* A number that distinguishes variants' requests in a thread's table. */
static inline uint64_t variant_salt(const struct variant *variant)
{
    return (uint64_t)(uintptr_t)variant << 8;
}

#endif
