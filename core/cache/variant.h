/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Variants: what distinguishes regions of the same memory and rights that gets with different
 * attributes made. The cache finds entries by range, rights and variant; a plain hmreg_mr_get() has
 * none. A domain has one object for equal attributes, so entries compare one pointer. It exists as
 * long as an entry or a get uses it.
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
    struct hmreg_mr_attr attr; /* zero where a field is not part of the key, or only its contents */
    uint64_t flags;
    uint64_t dev, ino, base; /* of the caller's dmabuf: its inode, the address of its first byte */
    uint64_t count;          /* segments of a list; 0: one range, which is not part of the key */
};

/* A segment or range of a list: its addresses, and of a dmabuf the same as in a key, else 0. */
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

/* Finds or makes the variant of a get's attributes, which the caller then uses. list: its segments
 * or ranges; NULL: it has one range, the request's. *out: NULL if a plain get has the same
 * attributes. *identified: false if a dmabuf of the caller's has no identity. -ENOMEM. */
int variant_get(struct variants *variants, const struct attributes *attributes,
                const struct layout *list, uint64_t flags, struct variant **out, bool *identified);

/* The segment with the lowest address among those that touch [start, end). NULL: none does. */
const struct variant_segment *variant_touching(const struct variant *variant, uint64_t start,
                                               uint64_t end);

/* How the region of an entry was asked for, of this variant; NULL: of none. NULL: no memory. Free
 * it with free(). */
struct origin *variant_origin(const struct variant *variant, const struct hmreg_mr *entry);
/* origin_complete() of an entry that this thread keeps. */
int variant_complete(struct hmreg_mr *entry, bool by_replacement);

/* Both accept NULL. use: the caller uses it already, or holds the lock of the caches, of which an
 * entry uses it. */
void variant_use(struct variant *variant);
void variant_put(struct variants *variants, struct variant *variant);

/* Distinguishes the requests of variants in a thread's table. */
static inline uint64_t variant_salt(const struct variant *variant)
{
    return (uint64_t)(uintptr_t)variant << 8;
}

#endif
