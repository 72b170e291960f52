/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See resolve.h. Several runtimes may know one range of pinned host memory: the first is taken,
 * since all describe the same pages. Device or managed memory has one owner. A range that begins in
 * pinned host memory and extends beyond it is the system's: applications pin buffers in parts, and
 * the pages do not depend on the pinning.
 */
#include "core/context/resolve.h"

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/contract/provider.h"

#include <errno.h>
#include <inttypes.h>

static bool is_pinned_host(const struct resolved *claim)
{
    return claim->range.kind == HMREG_MEM_HOST_PINNED;
}

/* Resolves a second runtime's claim to the memory against the best so far. */
static int settle(struct resolved *best, const struct resolved *claim, uint64_t addr)
{
    if (is_pinned_host(claim))
        return 0;
    if (!is_pinned_host(best))
        return hmreg_fail(-EEXIST, "%s and %s both claim the memory at %#" PRIx64,
                          hmreg_iface_name(best->iface), hmreg_iface_name(claim->iface), addr);
    *best = *claim;
    return 0;
}

/* The piece that the runtime describes from this address on. A runtime that reports no end
 * describes the queried range: bisection finds the longest range that it accepts. */
static int part_at(const struct runtime *runtime, uint64_t at, size_t len, struct hmem_range *part)
{
    int rc = runtime->ops->resolve(runtime->self, at, 1, part);
    size_t accepted = 1;

    if (rc || part->alloc_base + part->alloc_len != at + 1)
        return rc;
    while (len > accepted) {
        size_t longer = accepted + (len - accepted + 1) / 2;
        struct hmem_range whole;

        if (runtime->ops->resolve(runtime->self, at, longer, &whole)) {
            len = longer - 1;
        } else {
            accepted = longer;
            *part = whole;
        }
    }
    return 0;
}

/* For a range that extends beyond the runtime's allocation: does it begin in host memory, at the
 * process's own address, and is the runtime's next piece such memory too? Addresses for devices end
 * with the pinned memory. */
static bool is_host_in_parts(const struct runtime *runtime, uint64_t addr, size_t len)
{
    struct hmem_range part;
    uint64_t at = addr;
    int rc = 0;

    while (at < addr + len) {
        rc = part_at(runtime, at, addr + len - at, &part);
        if (rc || part.kind != HMREG_MEM_HOST_PINNED || part.host_addr != at ||
            part.alloc_base + part.alloc_len <= at)
            break;
        at = part.alloc_base + part.alloc_len;
    }
    return at > addr && (at >= addr + len || rc == -HMEM_NOT_MINE);
}

/* Queries each runtime. *best: the owner found. *failed, *failure: the first query that failed. */
static int ask_runtimes(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *best,
                        int *failed, struct hmreg_error *failure)
{
    for (int iface = HMREG_IFACE_SYSTEM + 1; iface < HMREG_IFACE_COUNT; iface++) {
        struct runtime *runtime = context_runtime(lib, iface);
        struct resolved claim = {.iface = iface};
        int rc = runtime ? runtime->ops->resolve(runtime->self, addr, len, &claim.range)
                         : -HMEM_NOT_MINE;

        if (rc == -HMEM_NOT_MINE)
            continue;
        if (rc && !*failed)
            hmreg_error_save(failure);
        if (rc == -ERANGE && is_host_in_parts(runtime, addr, len))
            continue;
        if (rc)
            *failed = *failed ? *failed : rc;
        else if (best->iface == HMREG_IFACE_SYSTEM)
            *best = claim;
        else if (settle(best, &claim, addr))
            return -EEXIST;
    }
    return 0;
}

/* *out: in, the system's description; out, the owner's. */
static int resolve_among_vendors(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *out)
{
    struct resolved best = *out;
    struct hmreg_error_guard guard;
    struct hmreg_error failure;
    int failed = 0, rc;

    hmreg_error_guard(&guard);
    rc = ask_runtimes(lib, addr, len, &best, &failed, &failure);
    hmreg_error_unguard(&guard, !rc);
    if (rc)
        return rc;
    /* A runtime whose query failed may own the memory, unless another's device or managed memory
     * was found. */
    if (failed && (best.iface == HMREG_IFACE_SYSTEM || is_pinned_host(&best))) {
        hmreg_error_restore(&failure);
        return failed;
    }
    *out = best;
    return 0;
}

int resolve(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *out)
{
    int rc;

    *out = resolved_as_system(addr);
    rc = runtimes_notice(&lib->runtimes);
    if (rc || !atomic_load(&lib->runtimes.vendors))
        return rc;
    return resolve_among_vendors(lib, addr, len, out);
}

int resolve_mapped(struct hmreg *lib, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct runtime *system = context_runtime(lib, HMREG_IFACE_SYSTEM);

    return system->ops->resolve(system->self, addr, len, out);
}

bool resolve_is_readable(struct hmreg *lib, const struct iovec *range)
{
    struct hmem_range mapped = {.host_addr = 1};
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = resolve_mapped(lib, (uint64_t)(uintptr_t)range->iov_base, range->iov_len, &mapped);
    hmreg_error_unguard(&guard, true);
    return rc != -EFAULT && mapped.host_addr;
}

int resolve_fully(struct hmreg *lib, uint64_t addr, size_t len, struct resolved *out)
{
    int rc = resolve(lib, addr, len, out);

    if (!rc && out->iface == HMREG_IFACE_SYSTEM)
        rc = resolve_mapped(lib, addr, len, &out->range);
    return rc;
}

int hmreg_query(struct hmreg *lib, const void *addr, size_t len, struct hmreg_mem_info *out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct hmreg_mem_info info = {0};
    struct hmem_device device;
    struct resolved found;
    int rc = context_check(lib);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_mem_info");
    rc = rc ? rc : validate_range(addr, len);
    rc = rc ? rc : resolve_fully(lib, (uint64_t)(uintptr_t)addr, len, &found);
    if (!rc && found.iface == HMREG_IFACE_SYSTEM && !found.range.host_addr)
        rc = hmreg_fail(-EFAULT, "%zu bytes at %p: " RESOLVE_UNREADABLE, len, addr);
    if (rc)
        return rc;
    context_device(lib, found.iface, found.range.device, &device);
    info.iface = found.iface;
    info.device = found.range.device;
    info.pci = device.pci;
    info.kind = found.range.kind;
    info.flags = (found.range.host_addr ? HMREG_MEM_INFO_CPU_ACCESS : 0) |
                 (found.range.exportable ? HMREG_MEM_INFO_EXPORTABLE : 0) |
                 (device.simulated ? HMREG_MEM_INFO_SIMULATED : 0);
    info.segments = found.range.segments;
    info.alloc_base = found.range.alloc_base;
    info.alloc_len = found.range.alloc_len;
    info.identity = found.range.identity;
    info.host_addr = found.range.host_addr;
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

/* ---- identities ------------------------------------------------------------------------- */

/* For a vendor without is_same. If its call fails, the answer is no: the caller then resolves the
 * memory anew and gets the reason. */
static __attribute__((noinline)) bool has_identity(struct runtime *runtime, uint64_t start,
                                                   uint64_t end, uint64_t identity)
{
    struct hmreg_error_guard guard;
    uint64_t now = 0;
    int rc;

    hmreg_error_guard(&guard);
    rc = runtime->ops->identity(runtime->self, start, (size_t)(end - start), &now);
    hmreg_error_unguard(&guard, rc);
    return !rc && now == identity;
}

bool resolve_is_same(struct hmreg *lib, enum hmreg_iface iface, uint64_t start, uint64_t end,
                     uint64_t identity)
{
    struct runtime *runtime = context_runtime(lib, iface);

    return runtime->ops->is_same
               ? runtime->ops->is_same(runtime->self, start, (size_t)(end - start), identity)
               : has_identity(runtime, start, end, identity);
}
