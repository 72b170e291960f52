/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See keys.h. The tree is libc's tsearch(3).
 */
#include "core/context/keys.h"

#include "core/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

void keys_init(struct keys *keys, uint32_t key_size)
{
    *keys = (struct keys){.used = NULL};
    pthread_mutex_init(&keys->lock, NULL);
    /* All ones means "no key" (FI_KEY_NOTAVAIL) at full size. */
    keys->max = key_size >= 8 ? HMREG_KEY_NOTAVAIL - 1 : (1ull << (8 * key_size)) - 1;
    keys->next = keys->max / 2 + 1;
}

void keys_destroy(struct keys *keys)
{
    tdestroy(keys->used, free);
    tdestroy(keys->mapped, free);
    pthread_mutex_destroy(&keys->lock);
}

/* 1: inserted, 0: the key is in use, or -ENOMEM. */
static int insert(struct keys *keys, uint64_t key)
{
    uint64_t *node;

    if (tfind(&key, &keys->used, compare))
        return 0;
    node = malloc(sizeof(*node));
    if (!node)
        return -ENOMEM;
    *node = key;
    if (!tsearch(node, &keys->used, compare)) {
        free(node);
        return -ENOMEM;
    }
    keys->count++;
    return 1;
}

int keys_take(struct keys *keys, uint64_t key)
{
    int rc;

    if (key > keys->max)
        return hmreg_fail(-EKEYREJECTED,
                          "requested_key %#" PRIx64
                          " is too large; this domain takes 0 to %#" PRIx64,
                          key, keys->max);
    pthread_mutex_lock(&keys->lock);
    rc = insert(keys, key);
    pthread_mutex_unlock(&keys->lock);
    if (rc == 0)
        return hmreg_fail(-HMREG_ENOKEY, "requested_key %#" PRIx64 " is in use in this domain",
                          key);
    if (rc < 0)
        return hmreg_fail(rc, "no memory for a key");
    return 0;
}

/* As insert(), for the next free key of [first, last]. Of count + 1 keys at least one is free. */
static int insert_any(struct keys *keys, uint64_t first, uint64_t last, uint64_t *next,
                      uint64_t *out)
{
    uint64_t size = last - first + 1;
    uint64_t tries = keys->count < size ? keys->count + 1 : size;
    int rc = 0;

    for (; tries && rc == 0; tries--) {
        *out = *next;
        *next = *next == last ? first : *next + 1;
        rc = insert(keys, *out);
    }
    return rc;
}

int keys_take_any(struct keys *keys, uint64_t *out)
{
    uint64_t key = 0, middle = keys->max / 2;
    int rc;

    pthread_mutex_lock(&keys->lock);
    rc = insert_any(keys, middle + 1, keys->max, &keys->next, &key);
    if (rc == 0)
        rc = insert_any(keys, 0, middle, &keys->next_low, &key);
    pthread_mutex_unlock(&keys->lock);
    if (rc == 0)
        return hmreg_fail(-HMREG_ENOKEY, "all keys of this domain, 0 to %#" PRIx64 ", are in use",
                          keys->max);
    if (rc < 0)
        return hmreg_fail(rc, "no memory for a key");
    *out = key;
    return 0;
}

void keys_give(struct keys *keys, uint64_t key)
{
    uint64_t **found, *node = NULL;

    pthread_mutex_lock(&keys->lock);
    found = tfind(&key, &keys->used, compare);
    if (found) {
        node = *found;
        tdelete(&key, &keys->used, compare);
        keys->count--;
    }
    pthread_mutex_unlock(&keys->lock);
    free(node);
}

struct mapped {
    uint64_t key; /* first, since compare() reads it */
    unsigned times;
};

int keys_map(struct keys *keys, uint64_t key)
{
    struct mapped *node = calloc(1, sizeof(*node));
    struct mapped **found = NULL;

    pthread_mutex_lock(&keys->lock);
    if (node) {
        node->key = key;
        found = tsearch(node, &keys->mapped, compare);
    }
    if (found)
        (*found)->times++;
    pthread_mutex_unlock(&keys->lock);
    if (!found || *found != node)
        free(node);
    return found ? 0 : hmreg_fail(-ENOMEM, "no memory to note a mapped key");
}

int keys_unmap(struct keys *keys, uint64_t key)
{
    struct mapped **found, *gone = NULL;

    pthread_mutex_lock(&keys->lock);
    found = tfind(&key, &keys->mapped, compare);
    if (found && --(*found)->times == 0) {
        gone = *found;
        tdelete(gone, &keys->mapped, compare);
    }
    pthread_mutex_unlock(&keys->lock);
    free(gone);
    return found ? 0
                 : hmreg_fail(-EINVAL, "key %#" PRIx64 " is not mapped (any more) in this domain",
                              key);
}
