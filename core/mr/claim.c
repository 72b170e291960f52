/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See claim.h. A trusted claim is used unchecked. A wrong one may lead to a wrong path, or export a
 * dmabuf of other memory. HMREG_DEBUG=claims finds such callers.
 */
#include "core/mr/claim.h"

#include "core/base/error.h"
#include "core/base/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* ---- the attributes --------------------------------------------------------------------- */

int claim_check_foreign(enum hmreg_iface iface, int device, int code)
{
    if ((unsigned)iface > HMREG_IFACE_MAX)
        return hmreg_fail(-EINVAL,
                          "iface is %d; accepted are 0 (system) to 3 (cuda, rocr, ze), and up to "
                          "%d for ifaces whose runtime hmreg does not know",
                          (int)iface, HMREG_IFACE_MAX);
    if (claim_is_foreign(iface) && device < HMREG_DEVICE_ANY)
        return hmreg_fail(code, "device is %d; it must be 0 or more, or HMREG_DEVICE_ANY", device);
    return 0;
}

static int check_iface(const struct hmreg_domain *domain, const struct hmreg_mr_attr *attr)
{
    const struct runtime *runtime;
    int rc = claim_check_foreign(attr->iface, attr->device, -EINVAL);

    if (rc || claim_is_foreign(attr->iface))
        return rc;
    if (attr->iface == HMREG_IFACE_SYSTEM)
        return validate_system_device(attr->device, -EINVAL);
    runtime = context_runtime_named(domain->lib, attr->iface, -EINVAL);
    if (!runtime)
        return -EINVAL;
    if (attr->device != HMREG_DEVICE_ANY && (attr->device < 0 || attr->device >= runtime->devices))
        return hmreg_fail(-EINVAL, "device is %d; %s has %d devices", attr->device,
                          hmreg_iface_name(attr->iface), runtime->devices);
    return 0;
}

static int check_untrusted(const struct hmreg_mr_attr *attr)
{
    if (attr->claim_kind || attr->claim_base || attr->claim_len || attr->claim_identity)
        return hmreg_fail(-EINVAL,
                          "claim_%s is set, and claim_iface is %d; it must be %d "
                          "(HMREG_CLAIM_TRUSTED)",
                          attr->claim_kind   ? "kind"
                          : attr->claim_base ? "base"
                          : attr->claim_len  ? "len"
                                             : "identity",
                          attr->claim_iface, HMREG_CLAIM_TRUSTED);
    return 0;
}

static int check_trusted(const struct hmreg_mr_attr *attr)
{
    if ((unsigned)attr->claim_kind > HMREG_MEM_MANAGED)
        return hmreg_fail(-EINVAL, "claim_kind is %d; accepted are 0 (host) to %d (managed)",
                          (int)attr->claim_kind, HMREG_MEM_MANAGED);
    if (!attr->claim_base != !attr->claim_len)
        return hmreg_fail(
            -EINVAL, "claim_base is %#" PRIx64 " and claim_len %" PRIu64 "; set both or neither",
            attr->claim_base, attr->claim_len);
    if (attr->claim_base + attr->claim_len < attr->claim_base)
        return hmreg_fail(-EINVAL,
                          "claim_base %#" PRIx64 " + claim_len %" PRIu64 " wraps around "
                          "the address space",
                          attr->claim_base, attr->claim_len);
    return 0;
}

int claim_check(const struct hmreg_domain *domain, const struct hmreg_mr_attr *attr)
{
    int rc = 0;

    if (attr->claim_iface < HMREG_CLAIM_NONE || attr->claim_iface > HMREG_CLAIM_TRUSTED)
        return hmreg_fail(-EINVAL,
                          "claim_iface is %d; accepted are 0 (none), 1 (checked) and 2 "
                          "(trusted)",
                          attr->claim_iface);
    if (attr->claim_iface)
        rc = check_iface(domain, attr);
    if (rc)
        return rc;
    return attr->claim_iface == HMREG_CLAIM_TRUSTED ? check_trusted(attr) : check_untrusted(attr);
}

struct claim claim_of(const struct hmreg_mr_attr *attr)
{
    return (struct claim){
        .made = attr->claim_iface,
        .trusted = attr->claim_iface == HMREG_CLAIM_TRUSTED,
        .iface = attr->iface,
        .device = attr->iface == HMREG_IFACE_SYSTEM ? HMREG_DEVICE_ANY : attr->device,
        .kind = attr->claim_kind,
        .base = attr->claim_base,
        .len = attr->claim_len,
        .identity = attr->claim_identity,
    };
}

struct claim claim_of_system(void)
{
    return (struct claim){.made = true,
                          .trusted = true,
                          .iface = HMREG_IFACE_SYSTEM,
                          .device = HMREG_DEVICE_ANY,
                          .kind = HMREG_MEM_HOST};
}

/* ---- taking a claim --------------------------------------------------------------------- */

static int fail_kind(const struct claim *claim, const char *what, const char *accepted)
{
    return hmreg_fail(-EINVAL, "claim_kind is %s; for %s%s it must be %s",
                      hmreg_mem_kind_name(claim->kind), what, hmreg_iface_name(claim->iface),
                      accepted);
}

/* hmreg exports no memory of such an iface, so it does not need its allocation. */
static int check_foreign(const struct claim *claim)
{
    if (claim->kind != HMREG_MEM_DEVICE && claim->kind)
        return fail_kind(claim, "", "device, or 0");
    if (claim->identity)
        return hmreg_fail(-EINVAL,
                          "claim_identity is set; it must be 0 for memory of %s by its address, "
                          "because the region ends with its last put",
                          hmreg_iface_name(claim->iface));
    return 0;
}

/* A caller's dmabuf is exported already, so its allocation does not matter. */
static int check_dmabuf(const struct claim *claim)
{
    if (claim->kind != HMREG_MEM_DEVICE && claim->kind)
        return fail_kind(claim, "a dmabuf of ", "device, or 0");
    if (claim->len)
        return hmreg_fail(-EINVAL,
                          "claim_base and claim_len are set; they must be 0 for a caller's dmabuf");
    return 0;
}

static int check_memory(const struct claim *claim)
{
    bool host = claim->iface == HMREG_IFACE_SYSTEM;

    if (host != (claim->kind == HMREG_MEM_HOST))
        return fail_kind(claim, "", host ? "host" : "device, pinned host or managed");
    if (host && claim->identity)
        return hmreg_fail(-EINVAL, "claim_identity is set; it must be 0 for system memory, because "
                                   "the monitor watches it");
    if (claim->kind != HMREG_MEM_DEVICE)
        return 0;
    if (claim->device == HMREG_DEVICE_ANY)
        return hmreg_fail(
            -EINVAL,
            "device is HMREG_DEVICE_ANY; a trusted claim of device memory must name the device");
    if (!claim->len)
        return hmreg_fail(-EINVAL, "claim_base and claim_len are 0; a trusted claim of device "
                                   "memory must name its allocation");
    return 0;
}

static int check_inside(const struct claim *claim, const struct iovec *range)
{
    uint64_t skip = (uint64_t)(uintptr_t)range->iov_base - claim->base;

    if (!claim->len || (skip < claim->len && range->iov_len <= claim->len - skip))
        return 0;
    return hmreg_fail(-ERANGE,
                      "the %zu bytes at %p are not within the claimed allocation of %" PRIu64
                      " bytes at %#" PRIx64,
                      range->iov_len, range->iov_base, claim->len, claim->base);
}

static void describe(const struct claim *claim, const struct iovec *range, bool in_dmabuf,
                     struct resolved *out)
{
    bool device = in_dmabuf || claim_is_foreign(claim->iface);
    uint64_t addr = (uint64_t)(uintptr_t)range->iov_base;
    enum hmreg_mem_kind kind = device ? HMREG_MEM_DEVICE : claim->kind;

    *out = (struct resolved){
        .iface = claim->iface,
        .range =
            {
                .device = claim->device,
                .kind = kind,
                .alloc_base = claim->base,
                .alloc_len = claim->len,
                .identity = claim->identity,
                .segments = 1,
                .host_addr = kind == HMREG_MEM_DEVICE ? 0 : addr,
                .exportable = kind == HMREG_MEM_DEVICE,
                .claimed = true,
            },
    };
}

/* ---- HMREG_DEBUG=claims ----------------------------------------------------------------- */

static int fail_wrong(const struct iovec *range, const char *field, const char *claimed,
                      const char *found)
{
    return hmreg_fail(-EINVAL,
                      "the trusted claim about the %zu bytes at %p is wrong: %s: the caller claims "
                      "%s, the memory has %s",
                      range->iov_len, range->iov_base, field, claimed, found);
}

static int fail_number(const struct iovec *range, const char *field, bool is_address,
                       uint64_t claimed, uint64_t found)
{
    const char *format = is_address ? "%#" PRIx64 : "%" PRId64;
    char texts[2][32];

    snprintf(texts[0], sizeof(texts[0]), format, claimed);
    snprintf(texts[1], sizeof(texts[1]), format, found);
    return fail_wrong(range, field, texts[0], texts[1]);
}

static int compare(const struct iovec *range, const struct resolved *claimed,
                   const struct resolved *found)
{
    const struct hmem_range *said = &claimed->range, *is = &found->range;
    bool bounds = said->alloc_len && claimed->iface != HMREG_IFACE_SYSTEM;

    if (claimed->iface != found->iface)
        return fail_wrong(range, "iface", hmreg_iface_name(claimed->iface),
                          hmreg_iface_name(found->iface));
    if (said->device != HMREG_DEVICE_ANY && said->device != is->device)
        return fail_number(range, "device", false, (uint64_t)said->device, (uint64_t)is->device);
    if (said->kind != is->kind)
        return fail_wrong(range, "claim_kind", hmreg_mem_kind_name(said->kind),
                          hmreg_mem_kind_name(is->kind));
    if (bounds && said->alloc_base != is->alloc_base)
        return fail_number(range, "claim_base", true, said->alloc_base, is->alloc_base);
    if (bounds && said->alloc_len != is->alloc_len)
        return fail_number(range, "claim_len", false, said->alloc_len, is->alloc_len);
    return 0;
}

/* The memory of a caller's dmabuf, or of an iface without a runtime, is known only if a runtime
 * knows its address. Claiming iface system leaves the owner open. */
static int compare_unknown(struct hmreg_domain *domain, const struct iovec *range,
                           const struct resolved *claimed)
{
    struct hmreg_error_guard guard;
    struct resolved found;
    int rc;

    if (claimed->iface == HMREG_IFACE_SYSTEM)
        return 0;
    hmreg_error_guard(&guard);
    rc = resolve(domain->lib, (uint64_t)(uintptr_t)range->iov_base, range->iov_len, &found);
    hmreg_error_unguard(&guard, true);
    if (rc || found.iface == HMREG_IFACE_SYSTEM)
        return 0;
    found.range.kind = HMREG_MEM_DEVICE;
    return compare(range, claimed, &found);
}

/* Resolves the whole claimed allocation, which finds the bounds of virtual memory too, then the
 * range. */
static int compare_memory(struct hmreg_domain *domain, const struct iovec *range,
                          const struct resolved *claimed)
{
    bool whole = claimed->range.alloc_len && claimed->iface != HMREG_IFACE_SYSTEM;
    uint64_t addr = (uint64_t)(uintptr_t)range->iov_base;
    struct resolved found;
    int rc = whole
                 ? resolve(domain->lib, claimed->range.alloc_base, claimed->range.alloc_len, &found)
                 : resolve(domain->lib, addr, range->iov_len, &found);

    rc = rc ? rc : compare(range, claimed, &found);
    if (!rc && whole)
        rc = resolve(domain->lib, addr, range->iov_len, &found);
    if (!rc && claimed->range.host_addr != found.range.host_addr &&
        claimed->range.kind != HMREG_MEM_DEVICE)
        rc = fail_number(range, "the CPU's address", true, claimed->range.host_addr,
                         found.range.host_addr);
    return rc;
}

static int check_claimed(struct hmreg_domain *domain, const struct iovec *range,
                         const struct hmreg_mr_dmabuf *dmabuf, const struct resolved *claimed)
{
    int rc = 0;

    if (!dmabuf && !claim_is_foreign(claimed->iface))
        rc = compare_memory(domain, range, claimed);
    else if (!dmabuf || dmabuf->base_addr)
        rc = compare_unknown(domain, range, claimed);
    if (rc)
        dprintf(STDERR_FILENO, "hmreg: HMREG_DEBUG=claims: %s\n", hmreg_last_error()->text);
    return rc;
}

/* ---- a range ---------------------------------------------------------------------------- */

int claim_check_range(const struct claim *claim, const struct iovec *range,
                      const struct hmreg_mr_dmabuf *dmabuf)
{
    int rc = dmabuf                           ? check_dmabuf(claim)
             : claim_is_foreign(claim->iface) ? check_foreign(claim)
                                              : check_memory(claim);

    return rc ? rc : check_inside(claim, range);
}

int claim_take(struct hmreg_domain *domain, const struct claim *claim, const struct iovec *range,
               const struct hmreg_mr_dmabuf *dmabuf, struct resolved *out)
{
    int rc = claim_check_range(claim, range, dmabuf);

    if (rc)
        return rc;
    describe(claim, range, dmabuf, out);
    if (claim->trusted && domain->lib->settings.check_claims)
        rc = check_claimed(domain, range, dmabuf, out);
    if (!rc && out->range.kind == HMREG_MEM_HOST && (domain->caps.mr_mode & HMREG_MR_ALLOCATED))
        rc = resolve_mapped(domain->lib, out->range.host_addr, range->iov_len, &out->range);
    return rc;
}
