/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Variants: what distinguishes regions of the same memory and rights that gets with different
 * attributes made. The cache finds entries by range, rights and variant; a plain hmreg_mr_get() has
 * none. A domain has one object for equal attributes, so entries compare one pointer. It exists as
 * long as an entry or a get uses it.
 */
#ifndef HMREG_CORE_CACHE_VARIANT_H
#define HMREG_CORE_CACHE_VARIANT_H

#include "core/mr/explicit.h"

#include <pthread.h>
#include <stdatomic.h>

/* The attributes that are part of the key. No byte of it is undefined: keys are compared by
 * memcmp(3). */
struct variant_key {
    struct hmreg_mr_attr attr; /* zero where a field is not part of the key, or only its contents */
    uint64_t flags;
    uint64_t dev, ino, base; /* of the caller's dmabuf: its inode, the address of its first byte */
};

struct variant {
    struct variant_key key;
    const uint8_t *auth_key; /* key.attr.auth_key_size bytes */
    atomic_uint users;       /* entries and gets */
};

/* The variants of a domain. */
struct variants {
    pthread_mutex_t lock;
    void *tree; /* for tsearch(3) */
};

void variants_open(struct variants *variants);
/* Call it when no variant is used any more. */
void variants_close(struct variants *variants);

/* Finds or makes the variant of a get's attributes, which the caller then uses. *out: NULL if they
 * are those of a plain get. *identified: false if the caller's dmabuf has no identity. -ENOMEM. */
int variant_get(struct variants *variants, const struct attributes *attributes, uint64_t flags,
                struct variant **out, bool *identified);

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
