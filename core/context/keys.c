/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See keys.h. The trees are libc's tsearch(3). A key in use is itself the pointer that the tree
 * keeps, so it takes one allocation.
 */
#include "core/context/keys.h"

#include "core/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/random.h>

_Static_assert(sizeof(uintptr_t) >= sizeof(uint64_t), "a pointer holds a key");

static const void *as_pointer(uint64_t key)
{
    return (const void *)(uintptr_t)key;
}

static int compare(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)left, b = (uintptr_t)right;

    return (a > b) - (a < b);
}

static void keep(void *key)
{
}

/* All ones means "no key" (FI_KEY_NOTAVAIL) at full size. */
uint64_t keys_largest(uint32_t key_size)
{
    return key_size >= 8 ? HMREG_KEY_NOTAVAIL - 1 : (1ull << (8 * key_size)) - 1;
}

void keys_init(struct keys *keys, uint32_t key_size, uint64_t first, uint64_t last)
{
    uint64_t max = keys_largest(key_size), low = last ? 0 : max / 2 + 1;

    *keys = (struct keys){
        .max = max, .first = last ? first : low, .last = last ? last : max, .low = low};
    pthread_mutex_init(&keys->lock, NULL);
}

void keys_destroy(struct keys *keys)
{
    tdestroy(keys->used, keep);
    tdestroy(keys->mapped, free);
    pthread_mutex_destroy(&keys->lock);
}

/* 1: inserted, 0: the key is in use, or -ENOMEM. */
static int insert(struct keys *keys, uint64_t key)
{
    if (tfind(as_pointer(key), &keys->used, compare))
        return 0;
    if (!tsearch(as_pointer(key), &keys->used, compare))
        return -ENOMEM;
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
        return hmreg_fail(rc, "hmreg has no memory for a key");
    return 0;
}

/* As insert(), for the next free key of [first, last]. */
static int insert_any(struct keys *keys, uint64_t first, uint64_t last, uint64_t *next,
                      uint64_t *out)
{
    uint64_t tries = last - first + 1;
    int rc = 0;

    for (; tries && rc == 0; tries--) {
        *out = *next;
        *next = *next == last ? first : *next + 1;
        rc = insert(keys, *out);
    }
    return rc;
}

/* One call of the kernel for several numbers. False: it failed, with errno. */
static bool draw(struct keys *keys, uint64_t *out)
{
    if (!keys->randoms) {
        if (getrandom(keys->random, sizeof(keys->random), 0) != (ssize_t)sizeof(keys->random))
            return false;
        keys->randoms = sizeof(keys->random) / sizeof(keys->random[0]);
    }
    *out = keys->random[--keys->randoms];
    return true;
}

bool keys_are_random(const struct keys *keys)
{
    return keys->last - keys->first >= UINT32_MAX / 2;
}

static int fail_random(int errnum)
{
    return hmreg_fail_os(errnum, "getrandom(2) returned no random bytes for a key");
}

/* Chooses where the search for a free key starts. */
static bool start_search(struct keys *keys)
{
    uint64_t drawn = 0, count = keys->last - keys->first + 1;

    if (keys->next && !keys_are_random(keys))
        return true;
    if (!draw(keys, &drawn))
        return false;
    keys->next = keys->first + drawn % count;
    return true;
}

int keys_draw(struct keys *keys, uint64_t *out)
{
    int rc = 0;

    pthread_mutex_lock(&keys->lock);
    if (start_search(keys))
        *out = keys->next;
    else
        rc = errno;
    pthread_mutex_unlock(&keys->lock);
    return rc ? fail_random(rc) : 0;
}

int keys_take_any(struct keys *keys, uint64_t *out)
{
    uint64_t key = 0;
    int rc;

    pthread_mutex_lock(&keys->lock);
    if (!start_search(keys)) {
        rc = errno;
        pthread_mutex_unlock(&keys->lock);
        return fail_random(rc);
    }
    rc = insert_any(keys, keys->first, keys->last, &keys->next, &key);
    if (rc == 0 && keys->low)
        rc = insert_any(keys, 0, keys->low - 1, &keys->next_low, &key);
    pthread_mutex_unlock(&keys->lock);
    if (rc == 0)
        return hmreg_fail(-HMREG_ENOKEY,
                          "all keys from %#" PRIx64 " to %#" PRIx64
                          ", which the library may choose in this domain, are in use",
                          keys->low ? 0 : keys->first, keys->last);
    if (rc < 0)
        return hmreg_fail(rc, "hmreg has no memory for a key");
    *out = key;
    return 0;
}

void keys_give(struct keys *keys, uint64_t key)
{
    pthread_mutex_lock(&keys->lock);
    tdelete(as_pointer(key), &keys->used, compare);
    pthread_mutex_unlock(&keys->lock);
}

struct mapped {
    uint64_t key;
    unsigned times;
};

static int compare_mapped(const void *left, const void *right)
{
    uint64_t a = ((const struct mapped *)left)->key, b = ((const struct mapped *)right)->key;

    return (a > b) - (a < b);
}

int keys_map(struct keys *keys, uint64_t key)
{
    struct mapped *node = calloc(1, sizeof(*node));
    struct mapped **found = NULL;

    pthread_mutex_lock(&keys->lock);
    if (node) {
        node->key = key;
        found = tsearch(node, &keys->mapped, compare_mapped);
    }
    if (found)
        (*found)->times++;
    pthread_mutex_unlock(&keys->lock);
    if (!found || *found != node)
        free(node);
    return found ? 0 : hmreg_fail(-ENOMEM, "hmreg has no memory to note a mapped key");
}

int keys_unmap(struct keys *keys, uint64_t key)
{
    const struct mapped wanted = {.key = key};
    struct mapped **found, *gone = NULL;

    pthread_mutex_lock(&keys->lock);
    found = tfind(&wanted, &keys->mapped, compare_mapped);
    if (found && --(*found)->times == 0) {
        gone = *found;
        tdelete(gone, &keys->mapped, compare_mapped);
    }
    pthread_mutex_unlock(&keys->lock);
    free(gone);
    return found ? 0
                 : hmreg_fail(-EINVAL,
                              "key %#" PRIx64 " is not mapped in this domain, or no longer", key);
}
