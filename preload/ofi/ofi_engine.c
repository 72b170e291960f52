/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * --gpu for libfabric: chooses the calls of the program that hmreg makes in the provider's place.
 * See ofi_domain.h. Records for the user why other calls were passed on.
 *
 * The provider is tried first for memory that the program claims for a device's iface (FI_HMEM):
 * many providers have paths of their own. hmreg tries its paths if the provider refuses, and for
 * device memory that the program registers as if it were the host's. First come dmabuf and peer
 * memory. If peers address the region from 0, a CPU mapping follows, which fabrics that move data
 * with the CPU read and write for a peer. (The program's own transfers name its own address, which
 * such a fabric cannot use.)
 */
#include "preload/engine.h"
#include "preload/memory.h"
#include "preload/mode.h"
#include "preload/ofi/ofi_region.h"
#include "preload/shadow.h"

#include <errno.h>
#include <hmreg/ofi.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HINTS (HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY)

/* ---- the domain -------------------------------------------------------------------------- */

static bool has_virtual_addresses(const struct ofi_domain *domain)
{
    return domain->mr_mode & (HMREG_MR_VIRT_ADDR | HMREG_MR_BASIC);
}

struct opening {
    const struct ofi_domain *domain;
    const struct fi_info *info;
};

static int open_on_domain(struct hmreg *lib, void *object, const struct hmreg_domain_config *given,
                          const void *context, struct hmreg_domain **out)
{
    const struct opening *opening = context;
    struct hmreg_domain_config config = *given;

    if (!has_virtual_addresses(opening->domain))
        config.order[2] = HMREG_PATH_MAPPED;
    return hmreg_domain_open_ofi(lib, object, opening->info, &config, out);
}

static void open_domain(struct ofi_domain *domain, const struct fi_info *info)
{
    struct opening opening = {domain, info};

    if (preload_mode()->gpu)
        domain->hmreg = engine_domain(domain->fid, NULL, open_on_domain, &opening);
}

static void flush_domain(struct ofi_domain *domain)
{
    engine_flush(domain->fid);
    domain->hmreg = NULL;
}

static void forget_domain(struct ofi_domain *domain)
{
    engine_forget(domain->fid);
}

/* May hmreg register anything here? */
static bool is_usable(const struct ofi_domain *domain)
{
    return domain->hmreg && !atomic_load(&domain->async) && domain->pid == getpid();
}

/* ---- registrations ----------------------------------------------------------------------- */

static struct hmreg_mr_attr attr_of(const struct ofi_domain *domain, const struct ofi_call *call)
{
    bool chooses = !(domain->mr_mode & (HMREG_MR_PROV_KEY | HMREG_MR_BASIC));
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr),
        .iov = call->iov,
        .iov_count = call->count,
        .access = call->access,
        .offset = call->offset,
        .requested_key = chooses ? call->requested_key : 0,
        .context = call->context,
    };

    if (call->attr) {
        attr.auth_key_size = call->attr->auth_key_size;
        attr.auth_key = call->attr->auth_key_size ? call->attr->auth_key : NULL;
    }
    return attr;
}

static bool has_range(const struct ofi_call *call)
{
    return call->iov && call->count && call->iov[0].iov_len;
}

/* Is the memory a device's? False if that is unknown. memory_find() answers at once in a process
 * without a runtime. */
static bool is_device_memory(const struct ofi_call *call)
{
    const struct iovec *iov = call->iov;
    struct hmreg_mem_info info = {.size = sizeof(info)};
    uint8_t iface = HMREG_IFACE_SYSTEM;
    struct hmreg *lib;
    int16_t device;

    if (!has_range(call) ||
        !memory_find((uintptr_t)iov->iov_base, iov->iov_len, 0, &iface, &device) ||
        iface == HMREG_IFACE_SYSTEM)
        return false;
    lib = engine_library();
    return lib && !hmreg_query(lib, iov->iov_base, iov->iov_len, &info) &&
           info.kind == HMREG_MEM_DEVICE;
}

/* How to pass on device memory that hmreg could not register: where libibverbs' interposers see the
 * provider's ibv_reg_mr(), they may register it. */
static enum ofi_answer refused(const struct ofi_domain *domain)
{
    return domain->on_seen_verbs ? OFI_PASS_SEEN : OFI_PASS;
}

/* Did only the addresses rule a CPU mapping out? The fabric moves data with the CPU. */
static bool needs_offsets(const struct ofi_domain *domain, int rc)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    return rc == -EOPNOTSUPP && has_virtual_addresses(domain) && !hmreg_mr_explain(NULL, &why) &&
           why.refused && strstr(why.reasons[0].text, "with the CPU");
}

static void device_refused(const struct ofi_domain *domain, int rc)
{
    if (needs_offsets(domain, rc))
        record_passed_on("virtual-addresses",
                         "peers of this domain address device memory by the program's virtual "
                         "addresses, which its CPU mapping does not have: call fi_getinfo(3) "
                         "without FI_MR_VIRT_ADDR, so that peers count from 0");
    else
        engine_refused(rc, "device-memory-refused");
}

static enum ofi_answer register_device(struct ofi_domain *domain, const struct ofi_call *call,
                                       struct ofi_made *out)
{
    struct hmreg_mr_attr attr = attr_of(domain, call);
    struct hmreg_mr *mr = NULL;
    int rc;

    /* On libibverbs without FI_HMEM hmreg has no path. */
    if (domain->on_seen_verbs && !domain->hmem)
        return OFI_PASS_SEEN;
    rc = hmreg_mr_regattr(domain->hmreg, &attr, call->flags & ~HINTS, &mr);
    if (rc) {
        device_refused(domain, rc);
        return refused(domain);
    }
    if (hmreg_mr_head_of(mr)->count > 1) {
        record_passed_on(
            "device-memory-in-pieces",
            "the range spans several allocations of the device, but a libfabric region "
            "is one registration: register each allocation by itself");
        hmreg_mr_close(mr);
        return refused(domain);
    }
    out->mr = ofi_region_new(domain, call, mr);
    if (!out->mr) {
        hmreg_mr_close(mr);
        return OFI_PASS;
    }
    hmreg_mr_query(mr, &out->info);
    return OFI_MADE;
}

/* ---- the hook's calls -------------------------------------------------------------------- */

static enum ofi_answer before(struct ofi_domain *domain, const struct ofi_call *call,
                              struct ofi_made *out)
{
    if (is_usable(domain) && !ofi_claimed(domain, call) && is_device_memory(call))
        return register_device(domain, call, out);
    return OFI_PASS;
}

/* Does the error come from the request? Then hmreg would get it too. */
static bool is_of_request(int error)
{
    return error == FI_ENOKEY || error == FI_EAGAIN || error == EMFILE || error == ENFILE;
}

static enum ofi_answer after(struct ofi_domain *domain, const struct ofi_call *call, int error,
                             struct ofi_made *out)
{
    if (is_usable(domain) && ofi_claimed(domain, call) && has_range(call) && error != ENOMEM &&
        !is_of_request(error))
        return register_device(domain, call, out);
    return OFI_PASS;
}

const struct ofi_engine hmreg_preload_ofi = {
    .find = memory_find,
    .memory = shadow_memory,
    .open = open_domain,
    .flush = flush_domain,
    .forget = forget_domain,
    .before = before,
    .after = after,
    .native = ofi_region_native,
};
