/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Operations on memory without registration: dmabuf export, copy, allocation and freeing.
 */
#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/validate.h"
#include "core/context/resolve.h"
#include "core/contract/provider.h"

#include <errno.h>
#include <stdlib.h>

int hmreg_export_dmabuf(struct hmreg *lib, const void *addr, size_t len, uint64_t flags,
                        struct hmreg_dmabuf *out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    uint64_t at = (uint64_t)(uintptr_t)addr;
    struct resolved found;
    struct runtime *runtime;
    int rc = context_check(lib);

    rc = rc ? rc : validate_pointer(out, "out");
    rc = rc ? rc : validate_range(addr, len);
    rc = rc ? rc : validate_flags(flags, HMREG_EXPORT_PCIE, "flags");
    rc = rc ? rc : resolve_fully(lib, at, len, &found);
    if (rc)
        return rc;
    runtime = context_runtime(lib, found.iface);
    return runtime->ops->export_dmabuf(runtime->self, at, len, &found.range, flags, out);
}

/* ---- copy ------------------------------------------------------------------------------- */

#define BOUNCE_BYTES (256u << 10)

struct end {
    struct resolved found;
    uint64_t addr; /* the address to copy at: the CPU's if there is one */
};

static int find_end(struct hmreg *lib, const void *addr, size_t len, bool written, struct end *out)
{
    int rc = resolve_fully(lib, (uint64_t)(uintptr_t)addr, len, &out->found);

    if (rc)
        return rc;
    if (out->found.iface == HMREG_IFACE_SYSTEM &&
        (written ? out->found.range.read_only : !out->found.range.host_addr))
        return hmreg_fail(-EFAULT, "%s: the memory at %p is not mapped for %s",
                          written ? "dst" : "src", addr, written ? "writing" : "reading");
    out->addr = out->found.range.host_addr ? out->found.range.host_addr : (uint64_t)(uintptr_t)addr;
    return 0;
}

static bool needs_vendor(const struct end *end)
{
    return end->found.range.kind == HMREG_MEM_DEVICE || end->found.range.kind == HMREG_MEM_MANAGED;
}

static int copy_by(struct hmreg *lib, enum hmreg_iface iface, uint64_t dst, uint64_t src,
                   size_t len)
{
    struct runtime *runtime = context_runtime(lib, iface);

    return runtime->ops->copy(runtime->self, dst, src, len);
}

/* Copies between two vendors' memory through a bounce buffer in host memory. */
static int copy_bounced(struct hmreg *lib, const struct end *dst, const struct end *src, size_t len)
{
    char *bounce = malloc(len < BOUNCE_BYTES ? len : BOUNCE_BYTES);
    uint64_t between = (uint64_t)(uintptr_t)bounce;
    int rc = 0;

    if (!bounce)
        return hmreg_fail(-ENOMEM, "hmreg has no memory to copy between two vendors' devices");
    for (size_t done = 0; done < len && !rc;) {
        size_t piece = len - done < BOUNCE_BYTES ? len - done : BOUNCE_BYTES;

        rc = copy_by(lib, src->found.iface, between, src->addr + done, piece);
        if (!rc)
            rc = copy_by(lib, dst->found.iface, dst->addr + done, between, piece);
        done += piece;
    }
    free(bounce);
    return rc;
}

static int check_apart(const void *dst, const void *src, size_t len)
{
    uintptr_t to = (uintptr_t)dst, from = (uintptr_t)src;

    if (to - from >= len && from - to >= len)
        return 0;
    return hmreg_fail(-EINVAL, "dst %p and src %p overlap within their %zu bytes", dst, src, len);
}

int hmreg_copy(struct hmreg *lib, void *dst, const void *src, size_t len)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct end to, from;
    int rc = context_check(lib);

    rc = rc ? rc : validate_range_of("dst", dst, len);
    rc = rc ? rc : validate_range_of("src", src, len);
    rc = rc ? rc : check_apart(dst, src, len);
    rc = rc ? rc : find_end(lib, dst, len, true, &to);
    rc = rc ? rc : find_end(lib, src, len, false, &from);
    if (rc)
        return rc;
    if (!needs_vendor(&to) && !needs_vendor(&from))
        return copy_by(lib, HMREG_IFACE_SYSTEM, to.addr, from.addr, len);
    if (needs_vendor(&to) && needs_vendor(&from) && to.found.iface != from.found.iface)
        return copy_bounced(lib, &to, &from, len);
    return copy_by(lib, needs_vendor(&to) ? to.found.iface : from.found.iface, to.addr, from.addr,
                   len);
}

/* ---- allocation ------------------------------------------------------------------------- */

static int check_alloc(struct hmreg *lib, enum hmreg_iface iface, int device,
                       enum hmreg_mem_kind kind, size_t len, void **out)
{
    int rc = context_check(lib);

    rc = rc ? rc : validate_pointer(out, "out");
    rc = rc ? rc : validate_iface(iface);
    if (rc)
        return rc;
    if ((unsigned)kind > HMREG_MEM_MANAGED)
        return hmreg_fail(-EINVAL, "kind is %d; accepted are 0 (host) to 3 (managed)", (int)kind);
    if (!len)
        return hmreg_fail(-EINVAL, "len is 0; it must be at least 1");
    if (!context_runtime_named(lib, iface, -ENODEV))
        return -ENODEV;
    if (iface == HMREG_IFACE_SYSTEM && (device == -1 || device == 0))
        return 0;
    return context_check_device(lib, iface, device);
}

static void keep_owned(struct hmreg *lib, struct owned *owned)
{
    pthread_mutex_lock(&lib->lock);
    owned->next = lib->owned;
    lib->owned = owned;
    pthread_mutex_unlock(&lib->lock);
}

int hmreg_mem_alloc(struct hmreg *lib, enum hmreg_iface iface, int device, enum hmreg_mem_kind kind,
                    size_t len, void **out)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    int rc = check_alloc(lib, iface, device, kind, len, out);
    struct runtime *runtime;
    struct owned *owned;

    if (rc)
        return rc;
    owned = calloc(1, sizeof(*owned));
    if (!owned)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for its record of an allocation");
    runtime = context_runtime(lib, iface);
    rc = runtime->ops->alloc(runtime->self, device, kind, len, &owned->addr);
    if (rc) {
        free(owned);
        return rc;
    }
    owned->iface = iface;
    owned->kind = kind;
    *out = owned->addr;
    keep_owned(lib, owned);
    return 0;
}

/* Removes memory from the list before it is freed, so that two threads cannot both free it. */
static struct owned *take_owned(struct hmreg *lib, void *addr)
{
    struct owned **link = &lib->owned;
    struct owned *found;

    pthread_mutex_lock(&lib->lock);
    while (*link && (*link)->addr != addr)
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&lib->lock);
    return found;
}

int hmreg_mem_free(struct hmreg *lib, void *addr)
{
    LOGS_FAILURE(hmreg_lib_log(lib));
    struct runtime *runtime;
    struct owned *owned;
    int rc = context_check(lib);

    if (rc || !addr)
        return rc;
    owned = take_owned(lib, addr);
    if (!owned)
        return hmreg_fail(-EINVAL, "addr %p is not from hmreg_mem_alloc(), or freed already", addr);
    runtime = context_runtime(lib, owned->iface);
    rc = runtime->ops->free(runtime->self, addr, owned->kind);
    /* A runtime that shut down (-ENODEV) or was reset (-EFAULT) has released its memory. */
    if (rc && rc != -ENODEV && rc != -EFAULT)
        keep_owned(lib, owned);
    else
        free(owned);
    return rc;
}
