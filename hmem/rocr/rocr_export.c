/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Exports ROCm memory as dmabufs. An allocation's descriptor may cover its neighbours too; the
 * runtime reports the offset. A mapping of the virtual memory API always maps its physical memory
 * from the start (the runtime supports no other), so the offset in the descriptor equals the
 * offset in the mapping.
 *
 * A claimed range costs one question, like any other: the claim does not tell whether the memory is
 * imported or mapped, which decides the call that exports it. The wrong call crashes the runtime.
 */
#include "core/base/dmabuf.h"
#include "hmem/rocr/rocr.h"

#include <unistd.h>

#define EXPORT_FLAG_PCIE 1 /* of hsa_amd_portable_export_dmabuf_v2() */

/* ---- allocations ---------------------------------------------------------------------- */

static int check_exportable(struct rocr_hmem *self, const struct rocr_pointer_info *info)
{
    if (!self->dmabuf)
        return hmreg_fail(-EOPNOTSUPP, "%s", self->base.runtime.lacks);
    /* The runtime crashes on a request to export another process's allocation. */
    if (info->type != ROCR_POINTER_HSA)
        return hmreg_fail(
            -EOPNOTSUPP,
            "ROCm cannot export imported memory (%s): export it in the process that allocated it",
            info->type == ROCR_POINTER_IPC ? "by IPC" : "from a descriptor");
    return 0;
}

static int fail_export(struct rocr_hmem *self, hsa_status_t status, uint64_t addr, size_t len)
{
    switch ((int)status) {
    case HSA_STATUS_ERROR_INVALID_AGENT:
        return rocr_fail(self, -EOPNOTSUPP, status, "ROCm exports no memory of this agent");
    case HSA_STATUS_ERROR_INVALID_ALLOCATION:
        return rocr_fail(self, -EXDEV, status,
                         "the %zu bytes at %#" PRIx64 " are not in one allocation", len, addr);
    }
    return rocr_fail(self, -EIO, status, "ROCm could not export %zu bytes at %#" PRIx64, len, addr);
}

static hsa_status_t call_export(struct rocr_hmem *self, uint64_t addr, size_t len, uint64_t flags,
                                int *fd, uint64_t *offset)
{
    void *at = (void *)(uintptr_t)addr;

    return flags ? self->api.export_dmabuf_v2(at, len, fd, offset, EXPORT_FLAG_PCIE)
                 : self->api.export_dmabuf(at, len, fd, offset);
}

/* Exports an allocation of the runtime, which closes its own descriptor. */
static int export_allocated(struct rocr_hmem *self, uint64_t addr, size_t len,
                            const struct rocr_pointer_info *info, uint64_t flags,
                            struct hmreg_dmabuf *out)
{
    int vendors = -1, own;
    uint64_t offset = 0; /* offset of addr, not of its allocation's base */
    hsa_status_t status;
    int rc = check_exportable(self, info);

    if (rc)
        return rc;
    if (flags && !self->api.export_dmabuf_v2)
        return hmreg_fail(-EOPNOTSUPP,
                          "this ROCm runtime has no hsa_amd_portable_export_dmabuf_v2, which "
                          "exports with the PCIe mapping");
    status = call_export(self, addr, len, flags, &vendors, &offset);
    if (status)
        return fail_export(self, status, addr, len);
    own = dmabuf_duplicate(vendors);
    status = self->api.close_dmabuf(vendors);
    if (own < 0)
        return own;
    if (status) {
        close(own);
        return rocr_fail(self, -EIO, status, "ROCm could not close its dmabuf descriptor");
    }
    return dmabuf_take(own, offset, len, out);
}

/* ---- memory of the virtual memory API ------------------------------------------------- */

static int export_handle(struct rocr_hmem *self, uint64_t start,
                         hsa_amd_vmem_alloc_handle_t *handle, int *out)
{
    hsa_status_t status;
    int fd = -1;

    if (!rocr_virtual_retain(self, start, handle))
        return hmreg_fail(-EFAULT, "the memory mapped at %#" PRIx64 " was unmapped", start);
    status = self->api.vmem_export(&fd, *handle, 0);
    self->api.vmem_release(*handle);
    if (status == HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS)
        return rocr_fail(
            self, -EOPNOTSUPP, status,
            "ROCm cannot export the memory mapped at %#" PRIx64
            ", which was imported from a descriptor: export it in the process that allocated it",
            start);
    if (status)
        return rocr_fail(self, -EIO, status, "ROCm could not export the memory mapped at %#" PRIx64,
                         start);
    *out = fd;
    return 0;
}

/* Is the exported memory still mapped at the same place? */
static bool mapping_is_unchanged(struct rocr_hmem *self, const struct rocr_pointer_info *info,
                                 hsa_amd_vmem_alloc_handle_t exported)
{
    struct rocr_pointer_info now;
    hsa_amd_vmem_alloc_handle_t handle;

    if (!rocr_virtual_retain(self, rocr_address(info->agent_base), &handle))
        return false;
    self->api.vmem_release(handle);
    return handle.handle == exported.handle &&
           rocr_virtual_begins(self, rocr_address(info->agent_base), &now) && now.len == info->len;
}

static int export_mapped(struct rocr_hmem *self, uint64_t addr, size_t len,
                         const struct rocr_pointer_info *info, uint64_t flags,
                         struct hmreg_dmabuf *out)
{
    uint64_t start = rocr_address(info->agent_base);
    hsa_amd_vmem_alloc_handle_t handle;
    struct hmreg_dmabuf taken;
    int fd = -1;
    int rc;

    if (flags)
        return hmreg_fail(-EOPNOTSUPP, "memory of HSA's virtual memory API is exported without the "
                                       "PCIe mapping only");
    if (!self->api.vmem_export)
        return hmreg_fail(-EOPNOTSUPP,
                          "this ROCm runtime has no hsa_amd_vmem_export_shareable_handle");
    if (len > info->len - (addr - start))
        return hmreg_fail(-EXDEV,
                          "the %zu bytes at %#" PRIx64
                          " are in several mappings of HSA's virtual memory API, but a descriptor "
                          "names the memory of only one",
                          len, addr);
    rc = export_handle(self, start, &handle, &fd);
    if (rc)
        return rc;
    rc = dmabuf_take(fd, addr - start, len, &taken);
    if (!rc && !mapping_is_unchanged(self, info, handle)) {
        close(fd);
        rc = hmreg_fail(-EFAULT, "the memory mapped at %#" PRIx64 " was replaced", start);
    }
    if (!rc)
        *out = taken;
    return rc;
}

/* ---- either --------------------------------------------------------------------------- */

int rocr_export(struct hmem *hmem, uint64_t addr, size_t len, const struct hmem_range *range,
                uint64_t flags, struct hmreg_dmabuf *out)
{
    struct rocr_hmem *self = (struct rocr_hmem *)hmem;
    struct rocr_pointer_info info;
    int rc;

    if (range->kind != HMREG_MEM_DEVICE)
        return hmreg_fail(-EOPNOTSUPP, "ROCm has no dmabuf of pinned host memory, "
                                       "which is registered by its address");
    rc = rocr_lookup(self, addr, &info);
    if (!rc && info.type == ROCR_POINTER_VMEM)
        rc = export_mapped(self, addr, len, &info, flags, out);
    else if (!rc)
        rc = export_allocated(self, addr, len, &info, flags, out);
    return vendor_result(hmem, rc, addr);
}
