/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The loopback provider: the strict reference for what a registration means. A region is an entry
 * in a table by key; an access is looked up, checked against rights and bounds, and copied by
 * hmreg_copy(), which reaches memory of any vendor. Closing a region first takes it out of the
 * table, then waits for accesses under way: after close no byte of it changes.
 */
#include "providers/loopback.h"

#include "core/domain.h"
#include "core/error.h"
#include "core/resolve.h"
#include "core/validate.h"
#include "providers/provider.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN_MODES                                                                                \
    (HMREG_MR_LOCAL | HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY | HMREG_MR_HMEM)
#define MAX_IOV 64
#define KEY_TRIES 65536 /* more than all keys of two bytes */

struct region {
    uint64_t key; /* first: the tree compares it */
    uint64_t access;
    unsigned busy; /* accesses under way */
    size_t count;
    struct iovec iov[];
};

struct loopback {
    struct loopback *next; /* in the process's list */
    struct hmreg *lib;
    uint32_t mr_mode;
    uint64_t max_key;
    uint64_t serial;
    unsigned users; /* threads that found it in the list */
    pthread_mutex_t lock; /* everything below; never held while copying */
    pthread_cond_t idle;
    void *regions; /* tsearch(3) tree of struct region by key, those that peers may reach */
    void *descs;   /* the same by address: all of them, where descs are needed */
    uint64_t next_key;
    struct wire_server *server;
    uint64_t nonce;
};

/* The domains of this process, for peers in it. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t list_idle = PTHREAD_COND_INITIALIZER;
static struct loopback *list;
static uint64_t last_serial;

/* ---- regions ---------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    uint64_t a = ((const struct region *)left)->key, b = ((const struct region *)right)->key;

    return (a > b) - (a < b);
}

/* By address, without looking inside: what a caller passes as a desc may be anything. */
static int compare_desc(const void *left, const void *right)
{
    return ((uintptr_t)left > (uintptr_t)right) - ((uintptr_t)left < (uintptr_t)right);
}

static struct region *find(struct loopback *loopback, uint64_t key)
{
    struct region wanted = {.key = key};
    struct region **found = tfind(&wanted, &loopback->regions, compare);

    return found ? *found : NULL;
}

/* A key of the provider's own choosing; the last one given is the last to come again. False:
 * small keys may all be in use. */
static bool choose_key(struct loopback *loopback, uint64_t *key)
{
    for (int i = 0; i < KEY_TRIES; i++) {
        loopback->next_key = loopback->next_key >= loopback->max_key ? 1 : loopback->next_key + 1;
        *key = loopback->next_key;
        if (!find(loopback, *key))
            return true;
    }
    return false;
}

/* Under the lock. */
static int publish_key(struct loopback *loopback, struct region *region)
{
    struct region **found;

    if ((loopback->mr_mode & HMREG_MR_PROV_KEY) && !choose_key(loopback, &region->key))
        return -HMREG_ENOKEY;
    found = tsearch(region, &loopback->regions, compare);
    if (!found)
        return -ENOMEM;
    return *found == region ? 0 : -HMREG_ENOKEY;
}

static bool needs_descs(const struct loopback *loopback)
{
    return loopback->mr_mode & (HMREG_MR_LOCAL | HMREG_MR_HMEM);
}

static int publish(struct loopback *loopback, struct region *region)
{
    bool remote = region->access & HMREG_ACCESS_REMOTE;
    int rc = 0;

    pthread_mutex_lock(&loopback->lock);
    if (needs_descs(loopback) && !tsearch(region, &loopback->descs, compare_desc))
        rc = -ENOMEM;
    if (!rc && remote)
        rc = publish_key(loopback, region);
    if (rc)
        tdelete(region, &loopback->descs, compare_desc);
    pthread_mutex_unlock(&loopback->lock);
    if (rc)
        return hmreg_fail(rc, "the region with key %#" PRIx64 " cannot be published: %s",
                          region->key, hmreg_strerror(rc));
    if (!remote)
        region->key = HMREG_KEY_NOTAVAIL;
    return 0;
}

static int reg(void *self, const struct provider_request *req, struct provider_mr *out,
               struct hmreg_reason *why)
{
    struct region *region = calloc(1, sizeof(*region) + req->count * sizeof(region->iov[0]));
    int rc;

    if (!region)
        return hmreg_fail(-ENOMEM, "no memory for a loopback region");
    region->key = req->requested_key;
    region->access = req->access;
    region->count = req->count;
    memcpy(region->iov, req->iov, req->count * sizeof(region->iov[0]));
    rc = publish(self, region);
    if (rc) {
        free(region);
        return rc;
    }
    *out = (struct provider_mr){.priv = region, .key = region->key,
                                .desc = needs_descs(self) ? region : NULL};
    return 0;
}

static int dereg(void *self, struct provider_mr *mr)
{
    struct loopback *loopback = self;
    struct region *region = mr->priv;

    pthread_mutex_lock(&loopback->lock);
    tdelete(region, &loopback->descs, compare_desc);
    if (region->key != HMREG_KEY_NOTAVAIL)
        tdelete(region, &loopback->regions, compare);
    while (region->busy)
        pthread_cond_wait(&loopback->idle, &loopback->lock);
    pthread_mutex_unlock(&loopback->lock);
    free(region);
    return 0;
}

/* ---- access ----------------------------------------------------------------------------- */

/* Where an access begins in the region's ranges: index and offset; false if it is outside. */
static bool locate(const struct region *region, bool by_address, uint64_t addr, uint64_t len,
                   size_t *index, uint64_t *offset)
{
    uint64_t begins = 0, total = 0;

    for (size_t i = 0; i < region->count; i++)
        total += region->iov[i].iov_len;
    if (!by_address && (addr >= total || len > total - addr))
        return false;
    for (size_t i = 0; i < region->count; i++) {
        uint64_t base = by_address ? (uint64_t)(uintptr_t)region->iov[i].iov_base : begins;
        uint64_t room = region->iov[i].iov_len;

        begins += room;
        if (addr < base || addr - base >= room)
            continue;
        *index = i;
        *offset = addr - base;
        return !by_address || len <= room - *offset;
    }
    return false;
}

/* The region, marked busy, if the access is granted. */
static int enter(struct loopback *loopback, const struct loopback_access *access,
                 struct region **out, size_t *index, uint64_t *offset)
{
    uint64_t right = access->write ? HMREG_REMOTE_WRITE : HMREG_REMOTE_READ;
    struct region *region;
    int rc = 0;

    pthread_mutex_lock(&loopback->lock);
    region = find(loopback, access->key);
    if (!region)
        rc = -EKEYREJECTED;
    else if (!(region->access & right))
        rc = -EACCES;
    else if (!locate(region, loopback->mr_mode & HMREG_MR_VIRT_ADDR, access->addr, access->len,
                     index, offset))
        rc = -ERANGE;
    else
        region->busy++;
    pthread_mutex_unlock(&loopback->lock);
    *out = region;
    return rc;
}

static void leave(struct loopback *loopback, struct region *region)
{
    pthread_mutex_lock(&loopback->lock);
    if (--region->busy == 0)
        pthread_cond_broadcast(&loopback->idle);
    pthread_mutex_unlock(&loopback->lock);
}

static int explain_denial(int rc, const struct loopback_access *access)
{
    const char *verb = access->write ? "write" : "read";

    switch (rc) {
    case -EKEYREJECTED:
        return hmreg_fail(rc, "the peer has no region with key %#" PRIx64 " (any more)",
                          access->key);
    case -EACCES:
        return hmreg_fail(rc, "the peer's region grants no remote %s", verb);
    default:
        return hmreg_fail(rc, "a %s of %" PRIu64 " bytes at %#" PRIx64 " is outside the peer's region",
                          verb, access->len, access->addr);
    }
}

int loopback_check(struct loopback *loopback, const struct loopback_access *access)
{
    struct region *region;
    size_t index = 0;
    uint64_t offset = 0;
    int rc = enter(loopback, access, &region, &index, &offset);

    if (rc)
        return explain_denial(rc, access);
    leave(loopback, region);
    return 0;
}

/* Copies over as many of the region's ranges as the access covers. */
static int copy_ranges(struct loopback *loopback, const struct region *region, bool write,
                       size_t index, uint64_t offset, char *local, uint64_t len)
{
    int rc = 0;

    for (; len && !rc; index++, offset = 0) {
        char *at = (char *)region->iov[index].iov_base + offset;
        uint64_t room = region->iov[index].iov_len - offset;
        uint64_t piece = len < room ? len : room;

        rc = write ? hmreg_copy(loopback->lib, at, local, piece)
                   : hmreg_copy(loopback->lib, local, at, piece);
        local += piece;
        len -= piece;
    }
    return rc;
}

int loopback_perform(struct loopback *loopback, const struct loopback_access *access, void *local)
{
    struct region *region;
    size_t index = 0;
    uint64_t offset = 0;
    int rc = enter(loopback, access, &region, &index, &offset);

    if (rc)
        return explain_denial(rc, access);
    rc = copy_ranges(loopback, region, access->write, index, offset, local, access->len);
    leave(loopback, region);
    return rc;
}

/* ---- peers ------------------------------------------------------------------------------ */

struct peer {
    struct loopback_address address;
    struct wire_client *client; /* NULL: in this process */
};

static int address(void *self, uint8_t *buf, size_t *size)
{
    struct loopback *loopback = self;
    struct loopback_address here = {.epoch = loopback->lib->epoch, .serial = loopback->serial,
                                    .pid = (uint32_t)getpid()};
    int rc = 0;

    pthread_mutex_lock(&loopback->lock);
    if (!loopback->server)
        rc = wire_server_start(loopback, &loopback->server, &loopback->nonce);
    here.nonce = loopback->nonce;
    pthread_mutex_unlock(&loopback->lock);
    if (rc)
        return rc;
    memcpy(buf, &here, LOOPBACK_ADDRESS_BYTES);
    *size = LOOPBACK_ADDRESS_BYTES;
    return 0;
}

static int remote_open(void *self, const uint8_t *bytes, size_t size, void **out)
{
    struct loopback *loopback = self;
    struct peer *peer;

    if (size != LOOPBACK_ADDRESS_BYTES)
        return hmreg_fail(-EBADMSG, "token: its address has %zu bytes, a loopback one has %d", size,
                          LOOPBACK_ADDRESS_BYTES);
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return hmreg_fail(-ENOMEM, "no memory for a peer");
    memcpy(&peer->address, bytes, size);
    if (peer->address.epoch != loopback->lib->epoch) {
        peer->client = wire_client_new(&peer->address);
        if (!peer->client) {
            free(peer);
            return hmreg_fail(-ENOMEM, "no memory for a peer");
        }
    }
    *out = peer;
    return 0;
}

static void remote_close(void *self, void *remote)
{
    struct peer *peer = remote;

    wire_client_free(peer->client);
    free(peer);
}

/* The domain with this serial in this process, held; NULL: closed. */
static struct loopback *hold(uint64_t serial)
{
    struct loopback *loopback;

    pthread_mutex_lock(&list_lock);
    for (loopback = list; loopback && loopback->serial != serial;)
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

static int access_here(const struct peer *peer, const struct loopback_access *access, void *local)
{
    struct loopback *loopback = hold(peer->address.serial);
    int rc;

    if (!loopback)
        return hmreg_fail(-EHOSTUNREACH, "the peer's domain, in this process, is closed");
    rc = loopback_perform(loopback, access, local);
    release(loopback);
    return rc;
}

/* Does the region cover local memory, in one of its ranges, for this use? */
static bool covers(const struct region *region, uint64_t access, uint64_t addr, uint64_t len)
{
    size_t index;
    uint64_t offset;

    return (region->access & access) && locate(region, true, addr, len, &index, &offset);
}

/* The local side of an RMA: is it registered, where the mode demands that? */
static int check_desc(struct loopback *loopback, void *desc, const void *local, size_t len,
                      bool write)
{
    uint64_t addr = (uint64_t)(uintptr_t)local;
    struct resolved found;
    struct region **region;
    bool needed = loopback->mr_mode & HMREG_MR_LOCAL;
    bool good;
    int rc = 0;

    if (!desc && !needed && (loopback->mr_mode & HMREG_MR_HMEM)) {
        rc = resolve(loopback->lib, addr, len, &found);
        needed = !rc && found.range.kind == HMREG_MEM_DEVICE;
    }
    if (rc || (!desc && !needed) || !needs_descs(loopback))
        return rc;
    if (!desc)
        return hmreg_fail(-EINVAL, "desc is NULL, but this domain needs local memory registered");
    pthread_mutex_lock(&loopback->lock);
    region = tfind(desc, &loopback->descs, compare_desc);
    good = region && covers(*region, write ? HMREG_WRITE : HMREG_READ, addr, len);
    pthread_mutex_unlock(&loopback->lock);
    if (good)
        return 0;
    return hmreg_fail(-EINVAL, "desc is not of an open region that covers %zu bytes at %p with %s",
                      len, local, write ? "HMREG_WRITE" : "HMREG_READ");
}

static int rma(struct hmreg_remote *remote, bool write, void *local, size_t len, void *desc,
               uint64_t raddr, uint64_t key)
{
    struct loopback_access access = {.write = write, .key = key, .addr = raddr, .len = len};
    struct hmreg_domain *domain = hmreg_remote_domain(remote);
    struct peer *peer;
    int rc = domain ? domain_check(domain) : hmreg_fail(-EINVAL, "remote is NULL");

    rc = rc ? rc : validate_range(local, len);
    if (rc)
        return rc;
    peer = hmreg_remote_priv(remote, "loopback");
    if (!peer)
        return hmreg_fail(-EINVAL, "remote is not of a loopback domain");
    rc = check_desc(domain->self, desc, local, len, write);
    if (rc)
        return rc;
    if (!peer->client)
        return access_here(peer, &access, local);
    return wire_client_access(peer->client, domain->lib, &access, local);
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
    return 0;
}

static void destroy(void *self)
{
    struct loopback *loopback = self;
    struct loopback **link = &list;

    wire_server_stop(loopback->server);
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
    .reg = reg,
    .dereg = dereg,
    .address = address,
    .remote_open = remote_open,
    .remote_close = remote_close,
    .destroy = destroy,
};

static int check_config(const struct hmreg_loopback_config *config)
{
    if (config->mr_mode & ~KNOWN_MODES)
        return hmreg_fail(-EOPNOTSUPP, "loopback->mr_mode has %#x; accepted are %#x",
                          config->mr_mode & ~KNOWN_MODES, KNOWN_MODES);
    if (config->key_size > 8)
        return hmreg_fail(-EINVAL, "loopback->key_size is %u; accepted are 1 to 8, or 0 for 8",
                          config->key_size);
    if (config->iov_limit > MAX_IOV)
        return hmreg_fail(-EINVAL, "loopback->iov_limit is %u; accepted are 1 to %d, or 0 for %d",
                          config->iov_limit, MAX_IOV, MAX_IOV);
    return 0;
}

static struct loopback *loopback_new(struct hmreg *lib, const struct provider_caps *caps)
{
    struct loopback *loopback = calloc(1, sizeof(*loopback));

    if (!loopback)
        return NULL;
    loopback->lib = lib;
    loopback->mr_mode = caps->mr_mode;
    loopback->max_key =
        caps->key_size == 8 ? HMREG_KEY_NOTAVAIL - 1 : (1ull << (8 * caps->key_size)) - 1;
    pthread_mutex_init(&loopback->lock, NULL);
    pthread_cond_init(&loopback->idle, NULL);
    pthread_mutex_lock(&list_lock);
    loopback->serial = ++last_serial;
    loopback->next = list;
    list = loopback;
    pthread_mutex_unlock(&list_lock);
    return loopback;
}

int hmreg_domain_open_loopback(struct hmreg *lib, const struct hmreg_loopback_config *callers,
                               const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    struct provider_caps caps = {.fabric = "loopback"};
    struct hmreg_loopback_config own = {0};
    struct loopback *loopback;
    int rc = context_check(lib);

    rc = rc ? rc : validate_pointer(out, "out");
    if (!rc && callers)
        rc = validate_copy_in(&own, sizeof(own), callers, sizeof(own),
                              "struct hmreg_loopback_config");
    rc = rc ? rc : check_config(&own);
    if (rc)
        return rc;
    caps.mr_mode = own.mr_mode;
    caps.key_size = own.key_size ? own.key_size : 8;
    caps.iov_limit = own.iov_limit ? own.iov_limit : MAX_IOV;
    caps.max_len = own.max_len ? own.max_len : UINT64_MAX;
    loopback = loopback_new(lib, &caps);
    if (!loopback)
        return hmreg_fail(-ENOMEM, "no memory for a loopback domain");
    return hmreg_domain_create(lib, &loopback_ops, &caps, loopback, config, out);
}
