/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See mr_hook.h. A call of the program is offered to the engine, else passed on, and recorded once.
 * The guard of record_enter() is held, so nested calls of hmreg or the provider are passed on
 * unrecorded.
 */
#include "preload/ofi/mr_hook.h"

#include "preload/guard.h"
#include "preload/ofi/ofi_domain.h"
#include "preload/ofi/ops_copy.h"

#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>

#define DMABUF_FLAG HMREG_REG_DMABUF /* FI_MR_DMABUF; libfabric 1.17's header lacks it */

/* fi_mr_attr's mr_iov with that flag. */
struct dmabuf {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr;
};

static struct ofi_domain *domain_of(const struct fid *fid)
{
    return ops_copy_owner(((const struct fid_domain *)fid)->mr);
}

/* ---- the end of a region ----------------------------------------------------------------- */

/* Closes a region that a provider registered. */
static int close_mr(struct fid *fid)
{
    const struct fi_ops *real = ops_copy_original(fid->ops);
    struct record_dereg end;
    struct guard guard;
    uint64_t began;
    int rc;

    if (!guard_enter(&guard))
        return real->close(fid);
    record_dereg_begin(fid, &end);
    began = record_now();
    rc = real->close(fid);
    record_dereg_done(&end, rc < 0 ? -rc : rc, record_now() - began);
    guard_leave(&guard);
    return rc;
}

static void change_mr(void *copy)
{
    struct fi_ops *ops = copy;

    ops->close = close_mr;
}

/* Atomic: a provider with a cache may return one object to two callers at once. */
static void watch_end(struct fid_mr *mr)
{
    struct fi_ops *ops = ops_copy_shared(mr->fid.ops, change_mr);

    if (ops && ops != mr->fid.ops)
        __atomic_store_n(&mr->fid.ops, ops, __ATOMIC_RELEASE);
}

/* ---- what is recorded -------------------------------------------------------------------- */

static uint64_t total(const struct ofi_call *call)
{
    uint64_t sum = 0;

    for (size_t i = 0; call->iov && i < call->count; i++)
        sum += call->iov[i].iov_len;
    return sum;
}

static void describe_range(const struct ofi_call *call, struct record_call *out)
{
    const struct dmabuf *dmabuf = call->attr ? (const void *)call->attr->mr_iov : NULL;

    if (call->iov && call->count) {
        out->addr = (uint64_t)(uintptr_t)call->iov[0].iov_base;
        out->len = total(call);
    } else if (dmabuf && (call->flags & DMABUF_FLAG)) {
        out->addr = dmabuf->base_addr ? (uintptr_t)dmabuf->base_addr + dmabuf->offset : 0;
        out->len = dmabuf->len;
    }
}

/* A provider takes the address of device memory by peer memory if the program claims it, or if the
 * provider is on libibverbs. Otherwise it takes the memory for the host's. */
static uint8_t path_of(const struct ofi_domain *domain, const struct ofi_call *call, uint8_t iface)
{
    bool claimed = ofi_claimed(domain, call) != FI_HMEM_SYSTEM;

    if (call->flags & DMABUF_FLAG)
        return HMREG_PATH_DMABUF;
    return iface != FI_HMEM_SYSTEM && (domain->verbs || claimed) ? HMREG_PATH_PEERMEM
                                                                 : HMREG_PATH_SYSTEM;
}

/* Describes the memory of a call that was passed on: as the program claims it, else as a runtime
 * reports it. */
static void describe_memory(const struct ofi_domain *domain, const struct ofi_call *call,
                            struct record_call *out)
{
    enum fi_hmem_iface claimed = ofi_claimed(domain, call);
    bool known = claimed != FI_HMEM_SYSTEM;

    if (known) {
        out->iface = (uint8_t)claimed;
        out->device = (int16_t)call->attr->device.cuda;
    } else if (call->iov && call->count && domain->engine) {
        known = domain->engine->find(out->addr, call->iov[0].iov_len, out->error, &out->iface,
                                     &out->device);
    }
    if (!out->error && (known || (call->flags & DMABUF_FLAG)))
        out->path = path_of(domain, call, out->iface);
}

static void record(const struct ofi_domain *domain, const struct ofi_call *call,
                   const struct ofi_made *made, enum record_how how, int rc, uint64_t ns)
{
    struct record_call out = {
        .kind = call->kind,
        .how = how,
        .handle = rc ? NULL : made->mr,
        .scope = domain->fid,
        .access = call->access,
        .rights = ofi_rights(call),
        .iface = RECORD_IFACE_UNKNOWN,
        .device = -1,
        .error = rc < 0 ? -rc : rc,
        .ns = ns,
        .nic = domain->nic,
        .caller = call->caller,
    };

    describe_range(call, &out);
    if (how == RECORD_PASSED) {
        describe_memory(domain, call, &out);
    } else {
        out.iface = (uint8_t)made->info.iface;
        out.device = (int16_t)made->info.device;
        out.path = (uint8_t)made->info.path;
    }
    if (!rc && domain->engine)
        out.memory = domain->engine->memory(out.addr, out.len);
    record_registered(&out);
}

/* ---- passing on -------------------------------------------------------------------------- */

/* Replaces a base region that the engine made by the provider's region behind it. Before libfabric
 * 2.0 the struct has no base_mr. */
static int pass_attr(struct ofi_domain *domain, const struct ofi_call *call, struct fid_mr **mr)
{
    union {
        struct fi_mr_attr known;
        char of_2_0[112];
    } attr;
    const size_t base_at = 96;
    struct fid_mr *base;

    if (!domain->engine || FI_VERSION_LT(domain->api_version, FI_VERSION(2, 0)))
        return domain->mr->regattr(&domain->fid->fid, call->attr, call->flags, mr);
    memcpy(attr.of_2_0, call->attr, sizeof(attr.of_2_0));
    memcpy(&base, attr.of_2_0 + base_at, sizeof(base));
    if (base)
        base = domain->engine->native(base);
    memcpy(attr.of_2_0 + base_at, &base, sizeof(base));
    return domain->mr->regattr(&domain->fid->fid, &attr.known, call->flags, mr);
}

static int pass_on(struct ofi_domain *domain, const struct ofi_call *call, struct fid_mr **mr)
{
    struct fid *fid = &domain->fid->fid;

    switch (call->kind) {
    case RECORD_FI_MR_REG:
        return domain->mr->reg(fid, call->iov->iov_base, call->iov->iov_len, call->access,
                               call->offset, call->requested_key, call->flags, mr, call->context);
    case RECORD_FI_MR_REGV:
        return domain->mr->regv(fid, call->iov, call->count, call->access, call->offset,
                                call->requested_key, call->flags, mr, call->context);
    default:
        return pass_attr(domain, call, mr);
    }
}

/* Passes on without the guard, so that libibverbs' interposers record the provider's call as the
 * program's. */
static int pass_below(struct ofi_domain *domain, const struct ofi_call *call, struct fid_mr **mr)
{
    const struct record_guard ours = record_guard;
    int rc;

    record_leave();
    rc = pass_on(domain, call, mr);
    record_guard = ours;
    return rc;
}

/* ---- a call ------------------------------------------------------------------------------ */

static enum ofi_answer ask_before(struct ofi_domain *domain, const struct ofi_call *call,
                                  struct ofi_made *made)
{
    enum ofi_answer answer;
    int error = errno;

    if (!domain->engine)
        return OFI_PASS;
    answer = domain->engine->before(domain, call, made);
    errno = error;
    return answer;
}

static enum ofi_answer ask_after(struct ofi_domain *domain, const struct ofi_call *call, int rc,
                                 struct ofi_made *made)
{
    enum ofi_answer answer;
    int error = errno;

    if (!domain->engine)
        return OFI_PASS;
    answer = domain->engine->after(domain, call, rc < 0 ? -rc : rc, made);
    errno = error;
    return answer;
}

/* Passes a call on; if it fails, offers it to the engine again. *answer: who made the region. The
 * provider writes straight to the program's variable, since an event may name the region at
 * once. */
static int pass_and_rescue(struct ofi_domain *domain, const struct ofi_call *call,
                           struct fid_mr **mr, struct ofi_made *made, enum ofi_answer *answer)
{
    int rc = pass_on(domain, call, mr);

    *answer = rc ? ask_after(domain, call, rc, made) : OFI_PASS;
    if (*answer == OFI_MADE)
        return 0;
    if (!rc) {
        made->mr = *mr;
        watch_end(made->mr);
    }
    return rc;
}

static int registered(struct ofi_domain *domain, const struct ofi_call *call, struct fid_mr **mr)
{
    struct ofi_made made = {.info = {.size = sizeof(made.info)}};
    enum ofi_answer answer;
    struct guard guard;
    uint64_t began;
    int rc = 0;

    if ((domain->lower && domain->on_seen_verbs) || !guard_enter(&guard))
        return pass_on(domain, call, mr);
    began = record_now();
    answer = ask_before(domain, call, &made);
    if (answer == OFI_PASS)
        rc = pass_and_rescue(domain, call, mr, &made, &answer);
    if (answer == OFI_PASS_SEEN)
        rc = pass_below(domain, call, mr);
    else
        record(domain, call, &made, answer == OFI_MADE ? RECORD_MADE : RECORD_PASSED, rc,
               record_now() - began);
    if (answer == OFI_MADE)
        *mr = made.mr;
    guard_leave(&guard);
    return rc;
}

static int hook_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                    uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};
    struct ofi_call call = {
        .kind = RECORD_FI_MR_REG,
        .caller = __builtin_return_address(0),
        .iov = &iov,
        .count = 1,
        .access = access,
        .offset = offset,
        .requested_key = requested_key,
        .flags = flags,
        .context = context,
    };

    return registered(domain_of(fid), &call, mr);
}

static int hook_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                     uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                     void *context)
{
    struct ofi_call call = {
        .kind = RECORD_FI_MR_REGV,
        .caller = __builtin_return_address(0),
        .iov = iov,
        .count = count,
        .access = access,
        .offset = offset,
        .requested_key = requested_key,
        .flags = flags,
        .context = context,
    };

    return registered(domain_of(fid), &call, mr);
}

static int hook_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                        struct fid_mr **mr)
{
    bool by_address = !(flags & DMABUF_FLAG);
    struct ofi_call call = {
        .kind = RECORD_FI_MR_REGATTR,
        .caller = __builtin_return_address(0),
        .iov = by_address ? attr->mr_iov : NULL,
        .count = by_address ? attr->iov_count : 0,
        .access = attr->access,
        .offset = attr->offset,
        .requested_key = attr->requested_key,
        .flags = flags,
        .context = attr->context,
        .attr = attr,
    };

    return registered(domain_of(fid), &call, mr);
}

void mr_hook_change(struct fi_ops_mr *copy)
{
    copy->reg = hook_reg;
    copy->regv = hook_regv;
    copy->regattr = hook_regattr;
}

bool mr_hook_is_ours(const struct fi_ops_mr *ops)
{
    return ops->regattr == hook_regattr;
}
