/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See variant.h.
 */
#include "core/cache/variant.h"

#include "core/base/error.h"
#include "hmem/dmabuf.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------- */

/* Clears what is not part of the key. All other fields are, also those added later: a field that
 * points to something has to be handled as auth_key and dmabuf are. */
static void clear_others(struct hmreg_mr_attr *attr)
{
    size_t padding = offsetof(struct hmreg_mr_attr, device) + sizeof(attr->device);
    size_t end = offsetof(struct hmreg_mr_attr, claim_kind) + sizeof(attr->claim_kind);

    attr->size = 0;
    attr->iov = NULL; /* the range is searched by address */
    attr->iov_count = 0;
    attr->access = 0;
    attr->context = NULL;
    attr->auth_key = NULL;
    memset((char *)attr + padding, 0, offsetof(struct hmreg_mr_attr, dmabuf) - padding);
    memset((char *)attr + end, 0, sizeof(*attr) - end);
    /* A checked claim about memory is checked at each hit. One about a dmabuf says what it is, and
     * so does a trusted one. */
    if (attr->claim_iface == HMREG_CLAIM_NONE ||
        (attr->claim_iface == HMREG_CLAIM_CHECKED && !attr->dmabuf)) {
        attr->claim_iface = HMREG_CLAIM_NONE;
        attr->iface = HMREG_IFACE_SYSTEM;
        attr->device = 0;
    }
    attr->dmabuf = NULL;
}

/* start: the address of the range's first byte. */
static bool fill_key(struct variant_key *key, const struct hmreg_mr_attr *attr, uint64_t flags,
                     uint64_t start)
{
    bool identified = true;

    memset(key, 0, sizeof(*key));
    memcpy(&key->attr, attr, sizeof(*attr));
    clear_others(&key->attr);
    if (attr->set_iova) /* regions that give a byte the same address serve each other's gets */
        key->attr.iova -= start;
    key->flags = flags;
    if (attr->dmabuf) {
        identified = dmabuf_identity(attr->dmabuf->fd, &key->dev, &key->ino);
        key->base = (uint64_t)(uintptr_t)attr->dmabuf->base_addr;
    }
    return identified;
}

/* Byte by byte: no byte of a key is undefined. */
static int compare_keys(const struct variant_key *a, const struct variant_key *b)
{
    const unsigned char *one = (const unsigned char *)a, *other = (const unsigned char *)b;

    return memcmp(one, other, sizeof(*a));
}

static bool is_plain(const struct variant_key *key)
{
    static const struct variant_key plain;

    return !compare_keys(key, &plain);
}

static int compare(const void *one, const void *other)
{
    const struct variant *a = one, *b = other;
    int difference = compare_keys(&a->key, &b->key);

    if (difference || !a->key.attr.auth_key_size)
        return difference;
    return memcmp(a->auth_key, b->auth_key, a->key.attr.auth_key_size);
}

/* ---- variants --------------------------------------------------------------------------- */

void variants_open(struct variants *variants)
{
    *variants = (struct variants){.tree = NULL};
    pthread_mutex_init(&variants->lock, NULL);
}

void variants_close(struct variants *variants)
{
    pthread_mutex_destroy(&variants->lock);
}

static struct variant *copy_of(const struct variant *like)
{
    size_t auth = like->key.attr.auth_key_size;
    struct variant *made = calloc(1, sizeof(*made) + auth);

    if (!made)
        return NULL;
    made->key = like->key;
    if (auth)
        memcpy(made + 1, like->auth_key, auth);
    made->auth_key = (const uint8_t *)(made + 1);
    return made;
}

/* Inserts a copy. NULL: no memory. */
static struct variant *insert(struct variants *variants, const struct variant *like)
{
    struct variant *made = copy_of(like);

    if (made && !tsearch(made, &variants->tree, compare)) {
        free(made);
        made = NULL;
    }
    return made;
}

int variant_get(struct variants *variants, const struct attributes *attributes, uint64_t flags,
                struct variant **out, bool *identified)
{
    struct variant wanted = {.auth_key = attributes->attr.auth_key}, *variant, **found;
    bool known = fill_key(&wanted.key, &attributes->attr, flags,
                          (uint64_t)(uintptr_t)attributes->request.iov->iov_base);

    if (is_plain(&wanted.key)) {
        *out = NULL;
        *identified = true;
        return 0;
    }
    pthread_mutex_lock(&variants->lock);
    found = tfind(&wanted, &variants->tree, compare);
    variant = found ? *found : insert(variants, &wanted);
    variant_use(variant);
    pthread_mutex_unlock(&variants->lock);
    if (!variant)
        return hmreg_fail(-ENOMEM, "no memory for the attributes of a cached region");
    *out = variant;
    *identified = known;
    return 0;
}

void variant_use(struct variant *variant)
{
    if (variant)
        atomic_fetch_add(&variant->users, 1);
}

void variant_put(struct variants *variants, struct variant *variant)
{
    bool last;

    if (!variant)
        return;
    pthread_mutex_lock(&variants->lock);
    last = atomic_fetch_sub(&variant->users, 1) == 1;
    if (last)
        tdelete(variant, &variants->tree, compare);
    pthread_mutex_unlock(&variants->lock);
    if (last)
        free(variant);
}
