/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The loopback domain: open and close, its peers, and RMA on the initiator's side. loopback.h lists
 * what the other files do.
 */
#include "providers/loopback/loopback.h"

#include "core/base/error.h"
#include "core/base/failure.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_MODES ((HMREG_MR_HMEM << 1) - 1)
#define BASIC_MEANS (HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY)
#define MAX_IOV     64

/* The domains of this process, for their peers. A forked child inherits its parent's but opens no
 * token of these: a thread of the parent may hold the lock. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t list_idle = PTHREAD_COND_INITIALIZER;
static struct loopback *list;
static atomic_ullong last_number;
static int fork_error; /* 0: the fork handler is registered */

static void renew_lock_in_child(void)
{
    list_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    list_idle = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

static __attribute__((constructor)) void handle_forks(void)
{
    fork_error = pthread_atfork(NULL, NULL, renew_lock_in_child);
}

/* ---- raw keys of peers ------------------------------------------------------------------ */

struct mapped_key {
    uint64_t mapped; /* first member: the tree compares it; the local key */
    uint64_t key, serial;
};

static int map_raw(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key)
{
    struct loopback *loopback = self;
    struct mapped_key *made;
    bool kept;

    if (size != LOOPBACK_RAW_BYTES)
        return hmreg_fail(-EINVAL, "key_size is %zu; a raw key of this domain has %d bytes", size,
                          LOOPBACK_RAW_BYTES);
    made = malloc(sizeof(*made));
    if (!made)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a mapped key");
    memcpy(&made->key, raw, 8);
    memcpy(&made->serial, raw + 8, 8);
    pthread_mutex_lock(&loopback->lock);
    made->mapped = ++loopback->last_mapped;
    kept = tsearch(made, &loopback->mapped, compare_keys);
    if (kept)
        *key = made->mapped;
    pthread_mutex_unlock(&loopback->lock);
    if (kept)
        return 0;
    free(made);
    return hmreg_fail(-ENOMEM, "hmreg has no memory for a mapped key");
}

static int unmap_raw(void *self, uint64_t key)
{
    struct loopback *loopback = self;
    struct mapped_key **found, *gone = NULL;

    pthread_mutex_lock(&loopback->lock);
    found = tfind(&key, &loopback->mapped, compare_keys);
    if (found) {
        gone = *found;
        tdelete(gone, &loopback->mapped, compare_keys);
    }
    pthread_mutex_unlock(&loopback->lock);
    free(gone);
    return gone ? 0
                : hmreg_fail(-EINVAL, "key %#" PRIx64 " is not mapped in this domain, or no longer",
                             key);
}

/* Translates the key of a local RMA call to the peer's key. */
static int translate_key(struct loopback *loopback, struct loopback_access *access)
{
    struct mapped_key **found;

    if (!(loopback->mr_mode & HMREG_MR_RAW))
        return 0;
    pthread_mutex_lock(&loopback->lock);
    found = tfind(&access->key, &loopback->mapped, compare_keys);
    if (found) {
        access->key = (*found)->key;
        access->serial = (*found)->serial;
    }
    pthread_mutex_unlock(&loopback->lock);
    if (found)
        return 0;
    return hmreg_fail(-EKEYREJECTED,
                      "key %#" PRIx64 " was not mapped with hmreg_domain_map_raw(), "
                      "which this domain demands (HMREG_MR_RAW)",
                      access->key);
}

/* ---- peers ------------------------------------------------------------------------------ */

/* Finds the process's domain with this number and takes a reference; NULL: closed. */
static struct loopback *hold(uint64_t number)
{
    struct loopback *loopback;

    pthread_mutex_lock(&list_lock);
    for (loopback = list; loopback && loopback->number != number;)
        loopback = loopback->next;
    if (loopback)
        loopback->users++;
    pthread_mutex_unlock(&list_lock);
    return loopback;
}

static void release(struct loopback *loopback)
{
    pthread_mutex_lock(&list_lock);
    if (--loopback->users == 0)
        pthread_cond_broadcast(&list_idle);
    pthread_mutex_unlock(&list_lock);
}

static int access_peer(uint64_t number, const struct loopback_access *access, void *local)
{
    struct loopback *target = hold(number);
    int rc;

    if (!target)
        return hmreg_fail(-EHOSTUNREACH, "the peer's domain is closed");
    rc = loopback_perform(target, access, local);
    release(target);
    return rc;
}

/* LOCAL alone requires registration of system memory only; HMEM alone requires it of memory that a
 * device's runtime allocated. */
static int needs_desc(struct loopback *loopback, const void *local, size_t len, bool *needed)
{
    const uint32_t both = HMREG_MR_LOCAL | HMREG_MR_HMEM;
    uint32_t asked = loopback->mr_mode & both;
    struct hmreg_mem_info info = {.size = sizeof(info)};
    int rc;

    *needed = asked;
    if (!asked || asked == both)
        return 0;
    rc = hmreg_query(loopback->lib, local, len, &info);
    if (!rc)
        *needed = asked & (info.iface == HMREG_IFACE_SYSTEM ? HMREG_MR_LOCAL : HMREG_MR_HMEM);
    return rc;
}

/* Checks that the local buffer of an RMA is registered, if the mode requires it. */
static int check_desc(struct loopback *loopback, void *desc, const void *local, size_t len,
                      bool write)
{
    bool needed = false;
    int rc;

    if (!desc) {
        rc = needs_desc(loopback, local, len, &needed);
        if (!rc && needed)
            rc = hmreg_fail(-EINVAL, "desc is NULL, but this domain needs local memory registered");
        return rc;
    }
    if (!(loopback->mr_mode & (HMREG_MR_LOCAL | HMREG_MR_HMEM)) ||
        region_covers(loopback, desc, write ? HMREG_WRITE : HMREG_READ, (uint64_t)(uintptr_t)local,
                      len))
        return 0;
    return hmreg_fail(-EINVAL,
                      "desc is not of an open, enabled region that covers %zu bytes at %p with %s",
                      len, local, write ? "HMREG_WRITE" : "HMREG_READ");
}

static int check_range(const void *local, size_t len)
{
    if (local && len && (uint64_t)(uintptr_t)local + len >= (uint64_t)(uintptr_t)local)
        return 0;
    return hmreg_fail(-EINVAL, "local: %zu bytes at %p are not a range of memory", len, local);
}

static int rma(struct hmreg_remote *remote, bool write, void *local, size_t len, void *desc,
               uint64_t raddr, uint64_t key)
{
    struct loopback_access access = {.write = write, .key = key, .addr = raddr, .len = len};
    uint64_t number = 0;
    struct loopback *loopback = hmreg_remote_priv(remote, "loopback", &number);
    int rc;

    if (!loopback)
        return hmreg_fail(-EINVAL, "remote is NULL or not of a loopback domain");
    access.auth = &loopback->auth;
    rc = hmreg_lib_check(loopback->lib);
    rc = rc ? rc : check_range(local, len);
    rc = rc ? rc : check_desc(loopback, desc, local, len, write);
    rc = rc ? rc : translate_key(loopback, &access);
    return rc ? rc : access_peer(number, &access, local);
}

int hmreg_loopback_write(struct hmreg_remote *remote, const void *local, size_t len, void *desc,
                         uint64_t raddr, uint64_t key)
{
    return rma(remote, true, (void *)(uintptr_t)local, len, desc, raddr, key);
}

int hmreg_loopback_read(struct hmreg_remote *remote, void *local, size_t len, void *desc,
                        uint64_t raddr, uint64_t key)
{
    return rma(remote, false, local, len, desc, raddr, key);
}

/* ---- the domain ------------------------------------------------------------------------- */

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    if (path == HMREG_PATH_DMABUF)
        return hmreg_refuse(why, -EOPNOTSUPP, "fabric-imports-no-dmabuf",
                            "loopback imports no dmabuf: it copies through the vendor's runtime");
    if (path == HMREG_PATH_PEERMEM && iface >= HMREG_IFACE_COUNT)
        return hmreg_refuse(why, -EOPNOTSUPP, "no-peer-memory",
                            "loopback copies through the vendor's runtime, and hmreg has none for "
                            "%s: pass a dmabuf of the memory",
                            hmreg_iface_name(iface));
    return 0;
}

static void destroy(void *self)
{
    struct loopback *loopback = self;
    struct loopback **link = &list;

    pthread_mutex_lock(&list_lock);
    while (*link && *link != loopback)
        link = &(*link)->next;
    if (*link)
        *link = loopback->next;
    while (loopback->users)
        pthread_cond_wait(&list_idle, &list_lock);
    pthread_mutex_unlock(&list_lock);
    pthread_cond_destroy(&loopback->idle);
    pthread_mutex_destroy(&loopback->lock);
    free(loopback);
}

static const struct provider_ops loopback_ops = {
    .name = "loopback",
    .can = can,
    .reg = region_reg,
    .lost = objects_lost,
    .dereg = region_dereg,
    .revoke = region_revoke,
    .bind = region_bind,
    .unbind = region_unbind,
    .is_bound = region_is_bound,
    .enable = region_enable,
    .refresh = region_refresh,
    .bind_domain = objects_bind_domain,
    .published = events_published,
    .raw_key = region_raw_key,
    .map_raw = map_raw,
    .unmap_raw = unmap_raw,
    .objects = objects_count,
    .destroy = destroy,
};

static int check_config(const struct hmreg_loopback_config *config)
{
    uint32_t old = config->mr_mode & (HMREG_MR_BASIC | HMREG_MR_SCALABLE);

    if (config->mr_mode & ~KNOWN_MODES)
        return hmreg_fail(-EINVAL, "loopback->mr_mode has unknown bits %#x; accepted are %#x",
                          config->mr_mode & ~KNOWN_MODES, KNOWN_MODES);
    if (old && config->mr_mode != HMREG_MR_BASIC && config->mr_mode != HMREG_MR_SCALABLE)
        return hmreg_fail(
            -EINVAL, "loopback->mr_mode is %#x; HMREG_MR_BASIC and HMREG_MR_SCALABLE must be alone",
            config->mr_mode);
    if (config->key_size > 8)
        return hmreg_fail(-EINVAL, "loopback->key_size is %u; accepted are 1 to 8, or 0 for 8",
                          config->key_size);
    if (config->iov_limit > MAX_IOV)
        return hmreg_fail(-EINVAL, "loopback->iov_limit is %u; accepted are 1 to %d, or 0 for %d",
                          config->iov_limit, MAX_IOV, MAX_IOV);
    if (config->auth_key_size > LOOPBACK_AUTH_MAX)
        return hmreg_fail(-EINVAL, "loopback->auth_key_size is %zu; accepted are 0 to %d",
                          config->auth_key_size, LOOPBACK_AUTH_MAX);
    if (config->auth_key_size && !config->auth_key)
        return hmreg_fail(-EINVAL, "loopback->auth_key is NULL, auth_key_size is %zu",
                          config->auth_key_size);
    return 0;
}

/* Expands the two legacy modes. */
static uint32_t modern_mode(uint32_t mr_mode)
{
    if (mr_mode == HMREG_MR_BASIC)
        return BASIC_MEANS;
    return mr_mode == HMREG_MR_SCALABLE ? 0 : mr_mode;
}

static void describe(const struct hmreg_loopback_config *config, struct provider_caps *out)
{
    *out = (struct provider_caps){
        .fabric = "loopback",
        .mr_mode = modern_mode(config->mr_mode),
        .key_size = config->key_size ? config->key_size : 8,
        .iov_limit = config->iov_limit ? config->iov_limit : MAX_IOV,
        .max_len = config->max_len ? config->max_len : UINT64_MAX,
        .flags = HMREG_RMA_EVENT | HMREG_RMA_PMEM,
        .any_thread = true,
        .pends = true,
        /* The CPU copies in order, faults pages in, and has no atomics. */
        .orderings = PROVIDER_VALUE(HMREG_ORDERING_STRICT) | PROVIDER_VALUE(HMREG_ORDERING_RELAXED),
        .atomics = PROVIDER_VALUE(HMREG_CHOICE_OFF),
        .on_demand = PROVIDER_VALUE(HMREG_CHOICE_OFF) | PROVIDER_VALUE(HMREG_CHOICE_ON),
        .iova = true,
        .number = atomic_fetch_add(&last_number, 1) + 1,
    };
    if (out->mr_mode & HMREG_MR_RAW)
        out->key_size = LOOPBACK_RAW_BYTES;
}

/* NULL: no memory for the domain, or none for the fork handler when the library was loaded. */
static struct loopback *loopback_new(struct hmreg *lib, const struct hmreg_loopback_config *config,
                                     const struct provider_caps *caps)
{
    uint32_t key_size = caps->key_size < 8 ? caps->key_size : 8;
    struct loopback *loopback = fork_error ? NULL : calloc(1, sizeof(*loopback));

    if (!loopback)
        return NULL;
    loopback->lib = lib;
    loopback->number = caps->number;
    loopback->mr_mode = caps->mr_mode;
    loopback->max_key = key_size == 8 ? HMREG_KEY_NOTAVAIL - 1 : (1ull << (8 * key_size)) - 1;
    loopback->auth.size = (uint32_t)config->auth_key_size;
    if (config->auth_key_size)
        memcpy(loopback->auth.bytes, config->auth_key, config->auth_key_size);
    pthread_mutex_init(&loopback->lock, NULL);
    pthread_cond_init(&loopback->idle, NULL);
    return loopback;
}

int hmreg_domain_open_loopback(struct hmreg *lib, const struct hmreg_loopback_config *callers,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_loopback_config own = {0};
    struct provider_caps caps;
    struct loopback *loopback;
    int rc = 0;

    if (callers)
        rc = hmreg_config_copy(&own, sizeof(own), callers, "struct hmreg_loopback_config");
    rc = rc ? rc : check_config(&own);
    if (rc)
        return rc;
    describe(&own, &caps);
    loopback = loopback_new(lib, &own, &caps);
    if (!loopback)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a loopback domain");
    rc = hmreg_domain_create(lib, &loopback_ops, &caps, loopback, config, out);
    if (rc)
        return rc;
    loopback->domain = *out;
    pthread_mutex_lock(&list_lock);
    loopback->next = list;
    list = loopback;
    pthread_mutex_unlock(&list_lock);
    return 0;
}
