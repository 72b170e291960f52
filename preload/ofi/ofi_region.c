/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ofi_region.h.
 */
#include "preload/ofi/ofi_region.h"

#include "preload/guard.h"

#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <unistd.h>

struct region {
    struct fid_mr fid; /* must be first: the program has a pointer to it */
    struct fid_mr *native;
    struct hmreg_mr *mr;
    struct ofi_domain *domain;
    bool own_key; /* fid.key stays the program's requested_key: without remote rights no peer uses
                   * the key */
    pid_t pid;
};

static struct region *region_of(const struct fid *fid)
{
    return (struct region *)(uintptr_t)fid;
}

static struct fid *native_of(const struct fid *fid)
{
    return &region_of(fid)->native->fid;
}

/* desc and key may change when the provider's region is bound, enabled or refreshed. */
static void take_keys(struct region *region)
{
    region->fid.mem_desc = region->native->mem_desc;
    if (!region->own_key)
        region->fid.key = region->native->key;
}

/* ---- operations -------------------------------------------------------------------------- */

/* A forked child touches no hmreg region of its parent. */
static int release(struct region *region)
{
    return region->pid == getpid() ? hmreg_mr_close(region->mr) : 0;
}

static int close_region(struct fid *fid)
{
    struct region *region = region_of(fid);
    struct guard guard;
    bool entered = guard_enter(&guard);
    int error = errno, rc;
    struct record_dereg end;
    uint64_t began;

    record_dereg_begin(fid, &end);
    began = record_now();
    rc = release(region);
    record_dereg_done(&end, -rc, record_now() - began);
    if (rc != -EBUSY) {
        atomic_fetch_sub(&region->domain->regions, 1);
        free(region);
    }
    if (entered)
        guard_leave(&guard);
    errno = error;
    return rc;
}

static int bind_region(struct fid *fid, struct fid *object, uint64_t flags)
{
    struct fid *native = native_of(fid);
    int rc = native->ops->bind(native, object, flags);

    take_keys(region_of(fid));
    return rc;
}

static int control_region(struct fid *fid, int command, void *arg)
{
    struct fid *native = native_of(fid);
    int rc = native->ops->control(native, command, arg);

    take_keys(region_of(fid));
    return rc;
}

static int open_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    struct fid *native = native_of(fid);

    return native->ops->ops_open(native, name, flags, ops, context);
}

static int region_tostr(const struct fid *fid, char *buf, size_t len)
{
    struct fid *native = native_of(fid);

    return FI_CHECK_OP(native->ops, struct fi_ops, tostr) ? native->ops->tostr(native, buf, len)
                                                          : -FI_ENOSYS;
}

static int set_ops(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    return fi_set_ops(native_of(fid), name, flags, ops, context);
}

static struct fi_ops region_ops = {
    .size = sizeof(region_ops),
    .close = close_region,
    .bind = bind_region,
    .control = control_region,
    .ops_open = open_ops,
    .tostr = region_tostr,
    .ops_set = set_ops,
};

/* ---- making one -------------------------------------------------------------------------- */

/* Keep the requested key? A program that chooses keys may expect to read its own, unless the
 * provider reports that a region without remote rights has none. */
static bool has_own_key(const struct region *region, const struct ofi_call *call)
{
    return !(call->access & HMREG_ACCESS_REMOTE) && region->native->key != FI_KEY_NOTAVAIL &&
           !(region->domain->mr_mode & (HMREG_MR_PROV_KEY | HMREG_MR_BASIC));
}

struct fid_mr *ofi_region_new(struct ofi_domain *domain, const struct ofi_call *call,
                              struct hmreg_mr *mr)
{
    struct region *region = calloc(1, sizeof(*region));

    if (!region)
        return NULL;
    region->fid.fid =
        (struct fid){.fclass = FI_CLASS_MR, .context = call->context, .ops = &region_ops};
    region->native = hmreg_mr_head_of(mr)->keys->native;
    region->mr = mr;
    region->domain = domain;
    region->pid = getpid();
    region->own_key = has_own_key(region, call);
    region->fid.key = call->requested_key;
    take_keys(region);
    atomic_fetch_add(&domain->regions, 1);
    return &region->fid;
}

struct fid_mr *ofi_region_native(struct fid_mr *mr)
{
    return mr->fid.ops == &region_ops ? region_of(&mr->fid)->native : mr;
}
