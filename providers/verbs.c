/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The verbs provider: regions of a protection domain. Host memory by its address; device memory
 * is refused with the reason.
 *
 * The device reaches memory by its virtual address, needs local buffers registered too, chooses
 * the keys and pins the pages, so they must be there. What a key without remote access is varies
 * between drivers (0, or the local key's value): it is hidden.
 *
 * Forks: nothing is called here. Where the kernel does not copy pinned pages for a child by itself
 * (ibv_is_fork_initialized() says IBV_FORK_UNNEEDED where it does), a program that forks calls
 * ibv_fork_init() before anything in it registers memory; a library that did so later, after
 * others have registered, would spoil the accounts that libibverbs keeps from then on.
 */
#include "core/error.h"
#include "providers/provider.h"

#include <hmreg/verbs.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct verbs {
    struct ibv_pd *pd; /* borrowed */
    int max_mr;        /* regions the device has */
    bool iwarp;
};

/* ---- access ----------------------------------------------------------------------------- */

/* What writes into the memory from outside needs LOCAL_WRITE: receives, the answers to reads, and
 * peers' writes (and atomics, which hmreg has no right for). */
static const struct {
    uint64_t right;
    unsigned access;
} rights[] = {
    {HMREG_SEND, 0},
    {HMREG_WRITE, 0},
    {HMREG_RECV, IBV_ACCESS_LOCAL_WRITE},
    {HMREG_READ, IBV_ACCESS_LOCAL_WRITE},
    {HMREG_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
    {HMREG_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE},
};

static unsigned translate_access(const struct verbs *verbs, uint64_t wanted)
{
    unsigned access = 0;

    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
        if (wanted & rights[i].right)
            access |= rights[i].access;
    /* iWARP answers a read by a write to the reader's buffer, by its key. */
    if (verbs->iwarp && (wanted & HMREG_READ))
        access |= IBV_ACCESS_REMOTE_WRITE;
    return access;
}

/* ---- failures --------------------------------------------------------------------------- */

static int fail_nomem(const struct verbs *verbs, size_t len)
{
    struct rlimit limit = {0};
    char words[32] = "unlimited";

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(words, sizeof(words), "%" PRIu64 " bytes", (uint64_t)limit.rlim_cur);
    return hmreg_fail_vendor(-ENOMEM, "verbs", ENOMEM, hmreg_strerror(ENOMEM),
                             "%zu bytes cannot be pinned: the limit of locked memory "
                             "(RLIMIT_MEMLOCK, ulimit -l) is %s, the device's of regions is %d",
                             len, words, verbs->max_mr);
}

/* Words for what else ibv_reg_mr() answers; they vary by driver. */
static const char *advice(int errnum)
{
    switch (errnum) {
    case EFAULT:
        return "its pages cannot be pinned: unmapped, read-only for access that writes, or a "
               "device's without a driver for peer memory";
    case EINVAL:
        return "the device does not take this access or length";
    case EOPNOTSUPP:
        return "the device does not do such registrations";
    case EIO:
    case ENODEV:
        return "the device failed, or is gone";
    default:
        return hmreg_strerror(errnum);
    }
}

static int fail_reg(const struct verbs *verbs, const struct iovec *iov, unsigned access, int errnum)
{
    if (errnum == ENOMEM)
        return fail_nomem(verbs, iov->iov_len);
    return hmreg_fail_vendor(-errnum, "verbs", errnum, hmreg_strerror(errnum),
                             "%s could not register %zu bytes at %p with access %#x: %s",
                             ibv_get_device_name(verbs->pd->context->device), iov->iov_len,
                             iov->iov_base, access, advice(errnum));
}

/* ---- regions ---------------------------------------------------------------------------- */

static int reg(void *self, const struct provider_request *req, struct provider_mr *out,
               struct hmreg_reason *why)
{
    struct verbs *verbs = self;
    unsigned access = translate_access(verbs, req->access);
    struct ibv_mr *mr;

    if (req->auth_key_size)
        return hmreg_fail(-EOPNOTSUPP, "auth_key is set, but verbs has no authorization keys");
    errno = 0;
    mr = ibv_reg_mr(verbs->pd, req->iov[0].iov_base, req->iov[0].iov_len, access);
    if (!mr) /* some drivers fail without a word */
        return fail_reg(verbs, &req->iov[0], access, errno ? errno : EIO);
    *out = (struct provider_mr){
        .native = mr,
        .priv = mr,
        .desc = mr,
        .key = req->access & HMREG_ACCESS_REMOTE ? mr->rkey : HMREG_KEY_NOTAVAIL,
        .lkey = mr->lkey,
        .rkey = mr->rkey,
    };
    return 0;
}

static int dereg(void *self, struct provider_mr *mr)
{
    int errnum = ibv_dereg_mr(mr->priv);

    if (errnum < 0) /* the older convention */
        errnum = errno ? errno : EIO;
    if (errnum == EBUSY)
        return hmreg_fail_vendor(-EBUSY, "verbs", errnum, hmreg_strerror(errnum),
                                 "a memory window is bound to the region: close it again when the "
                                 "window is gone");
    if (errnum)
        return hmreg_fail_vendor(-errnum, "verbs", errnum, hmreg_strerror(errnum),
                                 "the device could not deregister a region: %s",
                                 hmreg_strerror(errnum));
    return 0;
}

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    if (path == HMREG_PATH_MAPPED)
        return hmreg_refuse(why, -EOPNOTSUPP, "fabric-pins-pages",
                            "the pages of a CPU mapping of device memory cannot be pinned, and "
                            "verbs registers by pinning");
    return hmreg_refuse(why, -EOPNOTSUPP, "provider-host-only",
                        "this hmreg version registers host memory only on verbs");
}

/* ---- the domain ------------------------------------------------------------------------- */

static void destroy(void *self)
{
    free(self);
}

static const struct provider_ops verbs_ops = {
    .name = "verbs",
    .can = can,
    .reg = reg,
    .dereg = dereg,
    .destroy = destroy,
};

static void describe(const struct ibv_pd *pd, const struct ibv_device_attr *limits,
                     struct provider_caps *out)
{
    *out = (struct provider_caps){
        .mr_mode = HMREG_MR_LOCAL | HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY,
        .key_size = sizeof(uint32_t),
        .iov_limit = 1,
        .max_len = limits->max_mr_size ? limits->max_mr_size : UINT64_MAX,
    };
    snprintf(out->fabric, sizeof(out->fabric), "%s", ibv_get_device_name(pd->context->device));
}

int hmreg_domain_open_verbs(struct hmreg *lib, struct ibv_pd *pd,
                            const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    struct ibv_device_attr limits = {.max_mr_size = 0};
    struct provider_caps caps;
    struct verbs *verbs;
    int rc;

    if (!lib || !pd || !out)
        return hmreg_fail(-EINVAL, "%s is NULL", !lib ? "lib" : !pd ? "pd" : "out");
    rc = ibv_query_device(pd->context, &limits);
    if (rc)
        return hmreg_fail_vendor(-EIO, "verbs", rc, hmreg_strerror(rc),
                                 "the limits of %s could not be read: %s",
                                 ibv_get_device_name(pd->context->device), hmreg_strerror(rc));
    describe(pd, &limits, &caps);
    verbs = calloc(1, sizeof(*verbs));
    if (!verbs)
        return hmreg_fail(-ENOMEM, "no memory for a verbs domain");
    verbs->pd = pd;
    verbs->max_mr = limits.max_mr;
    verbs->iwarp = pd->context->device->transport_type == IBV_TRANSPORT_IWARP;
    return hmreg_domain_create(lib, &verbs_ops, &caps, verbs, config, out);
}
