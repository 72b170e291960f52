/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The table of regions. An access finds its region by key and is checked in this order: the raw
 * key's serial number, state (enabled, complete, not refreshing, not revoked), authorization key,
 * right, bounds, pages. Only then are bytes copied, with the region marked busy and no lock held.
 * Closing a region removes it from the table first, then waits for accesses in progress: after
 * close no byte of it changes.
 */
#include "providers/loopback/loopback.h"

#include "core/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the table -------------------------------------------------------------------------- */

int compare_keys(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* Compares addresses without dereferencing them: a caller may pass anything as a desc. */
static int compare_desc(const void *left, const void *right)
{
    return ((uintptr_t)left > (uintptr_t)right) - ((uintptr_t)left < (uintptr_t)right);
}

static struct region *find(struct loopback *loopback, uint64_t key)
{
    struct region **found = tfind(&key, &loopback->by_key, compare_keys);

    return found ? *found : NULL;
}

/* Chooses the next free key, so that a freed key is reused as late as possible. Trying one key more
 * than there are regions finds a free one. */
static int choose_key(struct loopback *loopback, uint64_t *key)
{
    for (uint64_t tries = 0; tries <= loopback->keys; tries++) {
        loopback->last_key = loopback->last_key % loopback->max_key + 1;
        *key = loopback->last_key;
        if (!find(loopback, *key))
            return 0;
    }
    return -HMREG_ENOKEY;
}

static int insert_key(struct loopback *loopback, struct region *region)
{
    struct region **found;

    if ((loopback->mr_mode & HMREG_MR_PROV_KEY) && choose_key(loopback, &region->key))
        return -HMREG_ENOKEY;
    region->serial = ++loopback->last_serial;
    found = tsearch(region, &loopback->by_key, compare_keys);
    if (!found)
        return -ENOMEM;
    if (*found != region)
        return -HMREG_ENOKEY;
    loopback->keys++;
    return 0;
}

static int insert(struct loopback *loopback, struct region *region)
{
    int rc = 0;

    pthread_mutex_lock(&loopback->lock);
    if (!tsearch(region, &loopback->by_desc, compare_desc))
        rc = -ENOMEM;
    if (!rc && (region->access & HMREG_ACCESS_REMOTE))
        rc = insert_key(loopback, region);
    if (rc)
        tdelete(region, &loopback->by_desc, compare_desc);
    pthread_mutex_unlock(&loopback->lock);
    if (rc == -HMREG_ENOKEY && (loopback->mr_mode & HMREG_MR_PROV_KEY))
        return hmreg_fail(rc, "all keys of this domain, 1 to %#" PRIx64 ", are in use",
                          loopback->max_key);
    if (rc)
        return hmreg_fail(rc, "the region with key %#" PRIx64 " cannot be published: %s",
                          region->key, hmreg_strerror(rc));
    if (!(region->access & HMREG_ACCESS_REMOTE))
        region->key = HMREG_KEY_NOTAVAIL;
    return 0;
}

bool regions_any(struct loopback *loopback)
{
    bool any;

    pthread_mutex_lock(&loopback->lock);
    any = loopback->by_desc; /* the root, NULL of an empty tree */
    pthread_mutex_unlock(&loopback->lock);
    return any;
}

/* ---- registering ------------------------------------------------------------------------ */

/* A region starts disabled if an object must be bound to it first. */
static bool starts_enabled(const struct loopback *loopback, uint64_t flags)
{
    if (loopback->mr_mode & HMREG_MR_ENDPOINT)
        return false;
    return !((loopback->mr_mode & HMREG_MR_RMA_EVENT) && (flags & HMREG_RMA_EVENT));
}

static int set_auth(const struct loopback *loopback, const struct provider_request *req,
                    struct loopback_auth *out)
{
    *out = loopback->auth;
    if (!req->auth_key_size)
        return 0;
    if (req->auth_key_size > LOOPBACK_AUTH_MAX)
        return hmreg_fail(-EINVAL, "auth_key_size is %zu; this domain takes 1 to %d bytes",
                          req->auth_key_size, LOOPBACK_AUTH_MAX);
    *out = (struct loopback_auth){.size = (uint32_t)req->auth_key_size};
    memcpy(out->bytes, req->auth_key, req->auth_key_size);
    return 0;
}

static void region_free(struct region *region)
{
    pages_free(region->pages, region->count);
    free(region);
}

static int region_fill(struct loopback *loopback, struct region *region,
                       const struct provider_request *req)
{
    int rc = set_auth(loopback, req, &region->auth);

    if (rc)
        return rc;
    region->key = req->requested_key;
    region->access = req->access;
    region->flags = req->flags;
    region->enabled = starts_enabled(loopback, req->flags);
    region->has_iova = req->options.set_iova;
    region->iova = req->options.iova;
    region->count = req->count;
    memcpy(region->iov, req->iov, req->count * sizeof(region->iov[0]));
    if ((loopback->mr_mode & HMREG_MR_MMU_NOTIFY) && req->path == HMREG_PATH_SYSTEM) {
        region->pages = pages_new(region->iov, region->count);
        if (!region->pages)
            return hmreg_fail(-ENOMEM, "hmreg has no memory to note the pages of a region");
    }
    return 0;
}

int region_reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    struct loopback *loopback = self;
    struct region *region = calloc(1, sizeof(*region) + req->count * sizeof(region->iov[0]));
    bool descs = loopback->mr_mode & (HMREG_MR_LOCAL | HMREG_MR_HMEM);
    int rc;

    if (!region)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a loopback region");
    rc = region_fill(loopback, region, req);
    rc = rc ? rc : insert(loopback, region);
    if (rc) {
        region_free(region);
        return rc;
    }
    *out = (struct hmreg_mr_keys){
        .desc = descs ? region : NULL,
        .key = loopback->mr_mode & HMREG_MR_RAW ? HMREG_KEY_NOTAVAIL : region->key,
        .priv = region,
    };
    return 0;
}

static bool is_bound(const struct region *region)
{
    bool bound = region->ep;

    for (int i = 0; i < LOOPBACK_COUNTERS_MAX; i++)
        bound = bound || region->counters[i];
    return bound;
}

bool region_is_bound(void *self, const struct hmreg_mr_keys *mr)
{
    struct loopback *loopback = self;
    bool bound;

    pthread_mutex_lock(&loopback->lock);
    bound = is_bound(mr->priv);
    pthread_mutex_unlock(&loopback->lock);
    return bound;
}

int region_dereg(void *self, struct hmreg_mr_keys *mr)
{
    struct loopback *loopback = self;
    struct region *region = mr->priv;

    pthread_mutex_lock(&loopback->lock);
    if (is_bound(region)) {
        pthread_mutex_unlock(&loopback->lock);
        return hmreg_fail(
            -EBUSY, "an endpoint or counter is bound to the region: close the endpoint or counter "
                    "first");
    }
    tdelete(region, &loopback->by_desc, compare_desc);
    if (region->key != HMREG_KEY_NOTAVAIL) {
        tdelete(region, &loopback->by_key, compare_keys);
        loopback->keys--;
    }
    events_forget(loopback, region);
    while (region->busy)
        pthread_cond_wait(&loopback->idle, &loopback->lock);
    pthread_mutex_unlock(&loopback->lock);
    region_free(region);
    return 0;
}

void region_revoke(void *self, struct hmreg_mr_keys *mr)
{
    struct region *region = mr->priv;

    atomic_store(&region->revoked, true);
}

int region_raw_key(void *self, const struct hmreg_mr_keys *mr, uint64_t *base, uint8_t *key,
                   size_t *size)
{
    const struct loopback *loopback = self;
    const struct region *region = mr->priv;
    size_t room = *size;

    *size = LOOPBACK_RAW_BYTES;
    if (room < LOOPBACK_RAW_BYTES)
        return hmreg_fail(-HMREG_ETOOSMALL, "the raw key takes %d bytes, its buffer has %zu",
                          LOOPBACK_RAW_BYTES, room);
    memcpy(key, &region->key, 8);
    memcpy(key + 8, &region->serial, 8);
    *base =
        loopback->mr_mode & HMREG_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)region->iov[0].iov_base : 0;
    if (region->has_iova)
        *base = region->iova;
    return 0;
}

/* ---- binding and enabling --------------------------------------------------------------- */

static int tie_ep(struct loopback *loopback, struct region *region, struct hmreg_loopback_ep *ep,
                  uint64_t flags)
{
    if (flags)
        return hmreg_fail(-HMREG_EBADFLAGS, "flags are %#" PRIx64 "; for an endpoint they are 0",
                          flags);
    if (!(loopback->mr_mode & HMREG_MR_ENDPOINT))
        return hmreg_fail(-EINVAL, "object: this domain binds no endpoints (no HMREG_MR_ENDPOINT)");
    if (region->enabled)
        return hmreg_fail(-HMREG_EOPBADSTATE,
                          "the region is enabled already: bind before hmreg_mr_enable()");
    if (region->ep)
        return hmreg_fail(-EBUSY, "the region is bound to an endpoint already");
    region->ep = ep;
    return 0;
}

static int tie_counter(struct loopback *loopback, struct region *region,
                       struct hmreg_loopback_counter *counter, uint64_t flags)
{
    uint32_t ordered = HMREG_MR_RMA_EVENT | HMREG_MR_ENDPOINT;
    struct hmreg_loopback_counter **place = NULL;

    if (flags != HMREG_REMOTE_WRITE)
        return hmreg_fail(-HMREG_EBADFLAGS,
                          "flags are %#" PRIx64 "; for a counter they are "
                          "HMREG_REMOTE_WRITE",
                          flags);
    if ((loopback->mr_mode & HMREG_MR_RMA_EVENT) && !(region->flags & HMREG_RMA_EVENT))
        return hmreg_fail(-EINVAL, "the region was registered without HMREG_RMA_EVENT, which this "
                                   "domain needs for a counter");
    if ((loopback->mr_mode & ordered) && region->enabled)
        return hmreg_fail(-HMREG_EOPBADSTATE,
                          "the region is enabled already: bind before hmreg_mr_enable()");
    for (int i = 0; i < LOOPBACK_COUNTERS_MAX; i++) {
        if (region->counters[i] == counter)
            return hmreg_fail(-EBUSY, "the region is bound to this counter already");
        if (!region->counters[i])
            place = &region->counters[i];
    }
    if (place) {
        *place = counter;
        return 0;
    }
    return hmreg_fail(-ENOMEM, "the region is bound to %d counters, the most it can have",
                      LOOPBACK_COUNTERS_MAX);
}

int region_bind(void *self, const struct hmreg_mr_keys *mr, void *object, uint64_t flags)
{
    struct loopback *loopback = self;
    struct region *region = mr->priv;
    const struct object *head = object;
    int rc;

    if (head->kind != OBJECT_EP && head->kind != OBJECT_COUNTER)
        return hmreg_fail(-EINVAL, "object is no loopback endpoint or counter");
    if (head->loopback != loopback)
        return hmreg_fail(-EINVAL, "object belongs to another domain");
    pthread_mutex_lock(&loopback->lock);
    rc = head->kind == OBJECT_EP ? tie_ep(loopback, region, object, flags)
                                 : tie_counter(loopback, region, object, flags);
    pthread_mutex_unlock(&loopback->lock);
    return rc;
}

static void untie(const void *node, VISIT which, void *closure)
{
    struct region *region = *(struct region *const *)node;
    const void *object = closure;

    if (which != postorder && which != leaf)
        return;
    if (region->ep == object)
        region->ep = NULL;
    for (int i = 0; i < LOOPBACK_COUNTERS_MAX; i++)
        if (region->counters[i] == object)
            region->counters[i] = NULL;
}

void regions_untie(struct loopback *loopback, const void *object)
{
    pthread_mutex_lock(&loopback->lock);
    twalk_r(loopback->by_desc, untie, (void *)(uintptr_t)object);
    pthread_mutex_unlock(&loopback->lock);
}

void region_unbind(void *self, struct hmreg_mr_keys *mr)
{
    struct loopback *loopback = self;
    struct region *region = mr->priv;

    pthread_mutex_lock(&loopback->lock);
    region->ep = NULL;
    pthread_mutex_unlock(&loopback->lock);
}

int region_enable(void *self, const struct hmreg_mr_keys *mr)
{
    struct loopback *loopback = self;
    struct region *region = mr->priv;
    bool ordered = !starts_enabled(loopback, region->flags);
    int rc = 0;

    pthread_mutex_lock(&loopback->lock);
    if (ordered && region->enabled)
        rc = hmreg_fail(-HMREG_EOPBADSTATE, "the region is enabled already");
    else if ((loopback->mr_mode & HMREG_MR_ENDPOINT) && !region->ep)
        rc = hmreg_fail(-HMREG_EOPBADSTATE, "no endpoint is bound to the region yet");
    else
        region->enabled = true;
    pthread_mutex_unlock(&loopback->lock);
    return rc;
}

/* ---- refreshing ------------------------------------------------------------------------- */

/* The index of the region's range that contains the part; region->count: none does. */
static size_t range_of(const struct region *region, uint64_t addr, uint64_t len)
{
    size_t i = 0;

    for (; i < region->count; i++) {
        uint64_t base = (uint64_t)(uintptr_t)region->iov[i].iov_base;

        if (addr >= base && addr - base < region->iov[i].iov_len &&
            len <= region->iov[i].iov_len - (addr - base))
            break;
    }
    return i;
}

static int refresh_parts(struct region *region, const struct iovec *iov, size_t count)
{
    uint64_t hole = 0;

    for (size_t i = 0; region->pages && i < count; i++) {
        uint64_t addr = (uint64_t)(uintptr_t)iov[i].iov_base;
        size_t index = range_of(region, addr, iov[i].iov_len);

        if (pages_refresh(region->pages, index, addr, iov[i].iov_len, &hole))
            return hmreg_fail(-EFAULT, "no page is mapped at %#" PRIx64, hole);
    }
    return 0;
}

int region_refresh(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov,
                   size_t count, uint64_t flags)
{
    struct loopback *loopback = self;
    struct region *region = mr->priv;
    int rc;

    pthread_mutex_lock(&loopback->lock);
    region->refreshing = true;
    while (region->busy)
        pthread_cond_wait(&loopback->idle, &loopback->lock);
    rc = refresh_parts(region, iov ? iov : region->iov, iov ? count : region->count);
    region->refreshing = false;
    pthread_mutex_unlock(&loopback->lock);
    return rc;
}

/* ---- access ----------------------------------------------------------------------------- */

/* Finds where an access begins in the region's ranges: index and offset; false: out of bounds. */
static bool locate(const struct region *region, bool by_address, uint64_t addr, uint64_t len,
                   size_t *index, uint64_t *offset)
{
    uint64_t begins = 0, total = 0;

    if (region->has_iova) {
        if (addr < region->iova)
            return false;
        addr -= region->iova;
    } else if (by_address) {
        *index = range_of(region, addr, len);
        if (*index == region->count)
            return false;
        *offset = addr - (uint64_t)(uintptr_t)region->iov[*index].iov_base;
        return true;
    }
    for (size_t i = 0; i < region->count; i++)
        total += region->iov[i].iov_len;
    if (addr >= total || len > total - addr)
        return false;
    for (*index = 0; addr - begins >= region->iov[*index].iov_len; ++*index)
        begins += region->iov[*index].iov_len;
    *offset = addr - begins;
    return true;
}

bool region_covers(struct loopback *loopback, void *desc, uint64_t right, uint64_t addr,
                   uint64_t len)
{
    struct region **region;
    bool covers = false;

    hmreg_domain_settle(loopback->domain);
    pthread_mutex_lock(&loopback->lock);
    region = tfind(desc, &loopback->by_desc, compare_desc);
    if (region)
        covers = ((*region)->access & right) && (*region)->enabled && !(*region)->pending &&
                 !atomic_load(&(*region)->revoked) &&
                 range_of(*region, addr, len) < (*region)->count;
    pthread_mutex_unlock(&loopback->lock);
    return covers;
}

static bool same_auth(const struct loopback_auth *left, const struct loopback_auth *right)
{
    return left->size == right->size && memcmp(left->bytes, right->bytes, left->size) == 0;
}

/* Are the pages known in all ranges that the access touches? */
static bool pages_there(const struct region *region, size_t index, uint64_t offset, uint64_t len)
{
    for (; region->pages && len; index++, offset = 0) {
        uint64_t room = region->iov[index].iov_len - offset;
        uint64_t piece = len < room ? len : room;
        uint64_t addr = (uint64_t)(uintptr_t)region->iov[index].iov_base + offset;

        if (!pages_known(region->pages, index, addr, piece))
            return false;
        len -= piece;
    }
    return true;
}

static int judge(const struct loopback *loopback, const struct region *region,
                 const struct loopback_access *access, size_t *index, uint64_t *offset)
{
    uint64_t right = access->write ? HMREG_REMOTE_WRITE : HMREG_REMOTE_READ;

    if (!region || ((loopback->mr_mode & HMREG_MR_RAW) && access->serial != region->serial))
        return -EKEYREJECTED;
    if (!region->enabled || region->pending || region->refreshing || atomic_load(&region->revoked))
        return -EKEYREJECTED;
    if (!same_auth(&region->auth, access->auth) || !(region->access & right))
        return -EACCES;
    if (!locate(region, loopback->mr_mode & HMREG_MR_VIRT_ADDR, access->addr, access->len, index,
                offset))
        return -ERANGE;
    return pages_there(region, *index, *offset, access->len) ? 0 : -EFAULT;
}

static void leave(struct loopback *loopback, struct region *region, bool counts)
{
    pthread_mutex_lock(&loopback->lock);
    for (int i = 0; counts && i < LOOPBACK_COUNTERS_MAX; i++)
        if (region->counters[i])
            atomic_fetch_add(&region->counters[i]->count, 1);
    if (--region->busy == 0)
        pthread_cond_broadcast(&loopback->idle);
    pthread_mutex_unlock(&loopback->lock);
}

static int explain_denial(int rc, const struct loopback_access *access)
{
    const char *verb = access->write ? "write" : "read";

    switch (rc) {
    case -EKEYREJECTED:
        return hmreg_fail(rc, "the peer has no enabled region with key %#" PRIx64 ", or no longer",
                          access->key);
    case -EACCES:
        return hmreg_fail(rc, "the peer's region does not grant remote %s", verb);
    case -EFAULT:
        return hmreg_fail(
            rc, "the peer's region was not refreshed since the pages at %#" PRIx64 " appeared",
            access->addr);
    default:
        return hmreg_fail(rc,
                          "a %s of %" PRIu64 " bytes at %#" PRIx64 " is outside the peer's region",
                          verb, access->len, access->addr);
    }
}

/* HMREG_RMA_PMEM: written bytes are durable when the write completes. For memory without a file
 * msync has no effect. */
static void make_durable(const struct region *region, char *at, uint64_t len)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = (uint64_t)(uintptr_t)at & ~(page - 1);

    if (region->flags & HMREG_RMA_PMEM)
        msync((void *)(uintptr_t)start, (uint64_t)(uintptr_t)at + len - start, MS_SYNC);
}

/* Copies between local memory and all of the region's ranges that the access covers. */
static int copy_ranges(struct loopback *loopback, const struct region *region, bool write,
                       size_t index, uint64_t offset, char *local, uint64_t len)
{
    int rc = 0;

    for (; len && !rc; index++, offset = 0) {
        char *at = (char *)((uintptr_t)region->iov[index].iov_base + offset);
        uint64_t room = region->iov[index].iov_len - offset;
        uint64_t piece = len < room ? len : room;

        rc = write ? hmreg_copy(loopback->lib, at, local, piece)
                   : hmreg_copy(loopback->lib, local, at, piece);
        if (!rc && write)
            make_durable(region, at, piece);
        local = (char *)((uintptr_t)local + piece);
        len -= piece;
    }
    return rc;
}

/* Loopback accesses memory by address, so the cached regions whose memory has changed must be
 * revoked first. The domain is open: a peer holds it, and destroy() waits for such peers. */
int loopback_perform(struct loopback *loopback, const struct loopback_access *access, void *local)
{
    struct region *region;
    size_t index = 0;
    uint64_t offset = 0;
    int rc;

    hmreg_domain_settle(loopback->domain);
    pthread_mutex_lock(&loopback->lock);
    region = find(loopback, access->key);
    rc = judge(loopback, region, access, &index, &offset);
    if (!rc)
        region->busy++;
    pthread_mutex_unlock(&loopback->lock);
    if (rc)
        return explain_denial(rc, access);
    rc = copy_ranges(loopback, region, access->write, index, offset, local, access->len);
    leave(loopback, region, !rc && access->write);
    return rc;
}
