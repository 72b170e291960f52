/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Exports ROCm memory as dmabufs. An allocation's descriptor may cover its neighbours too; the
 * runtime reports the offset. A mapping of the virtual memory API always maps its physical memory
 * from the start (the runtime supports no other), so the offset in the descriptor equals the
 * offset in the mapping.
 */
#include "core/base/error.h"
#include "hmem/dmabuf.h"
#include "hmem/rocr/rocr.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

/* The descriptor must contain [offset, offset+len). -EPROTO. */
static int check_covers(int fd, uint64_t offset, size_t len)
{
    int64_t size = dmabuf_length(fd);

    if (size >= 0 && offset <= (uint64_t)size && len <= (uint64_t)size - offset)
        return 0;
    return hmreg_fail(-EPROTO,
                      "ROCm's descriptor has %" PRId64 " bytes, and the range of %zu bytes is said "
                      "to be at %" PRIu64 " in it",
                      size, len, offset);
}

/* ---- allocations ---------------------------------------------------------------------- */

static int check_exportable(struct hmem *self, const struct rocr_pointer_info *info)
{
    if (!self->dmabuf)
        return hmreg_fail(-EOPNOTSUPP, "%s", self->runtime.lacks);
    /* The runtime crashes on a request to export another process's allocation. */
    if (info->type != ROCR_POINTER_HSA)
        return hmreg_fail(-EOPNOTSUPP,
                          "ROCm cannot export memory that was imported (%s): "
                          "export it where it was allocated",
                          info->type == ROCR_POINTER_IPC ? "by IPC" : "from a descriptor");
    return 0;
}

static int fail_export(struct hmem *self, hsa_status_t status, uint64_t addr, size_t len)
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

/* Duplicates the runtime's descriptor for the caller; closes the original through the runtime. */
static int take_over(struct hmem *self, int vendors, int *out)
{
    int own = fcntl(vendors, F_DUPFD_CLOEXEC, 0);
    int errnum = errno;
    hsa_status_t status = self->api.close_dmabuf(vendors);

    if (own < 0)
        return hmreg_fail_os(errnum, "the dmabuf descriptor cannot be duplicated");
    if (status) {
        close(own);
        return rocr_fail(self, -EIO, status, "ROCm could not close its dmabuf descriptor");
    }
    *out = own;
    return 0;
}

/* Exports an allocation of the runtime. */
static int export_allocated(struct hmem *self, uint64_t addr, size_t len,
                            const struct rocr_pointer_info *info, struct hmreg_dmabuf *out)
{
    int vendors = -1, own = -1;
    uint64_t offset = 0; /* of addr, not of its allocation's base */
    hsa_status_t status;
    int rc = check_exportable(self, info);

    if (rc)
        return rc;
    status = self->api.export_dmabuf((void *)(uintptr_t)addr, len, &vendors, &offset);
    if (status)
        return fail_export(self, status, addr, len);
    rc = take_over(self, vendors, &own);
    if (rc)
        return rc;
    rc = check_covers(own, offset, len);
    if (rc) {
        close(own);
        return rc;
    }
    *out = (struct hmreg_dmabuf){.fd = own, .offset = offset, .length = len};
    return 0;
}

/* ---- memory of the virtual memory API ------------------------------------------------- */

static int export_handle(struct hmem *self, uint64_t start, hsa_amd_vmem_alloc_handle_t *handle,
                         int *out)
{
    hsa_status_t status;
    int fd = -1;

    if (!rocr_virtual_retain(self, start, handle))
        return hmreg_fail(-EFAULT, "the memory mapped at %#" PRIx64 " was unmapped", start);
    status = self->api.vmem_export(&fd, *handle, 0);
    self->api.vmem_release(*handle);
    if (status)
        return rocr_fail(self, -EIO, status, "ROCm could not export the memory mapped at %#" PRIx64,
                         start);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC)) {
        int errnum = errno;

        close(fd);
        return hmreg_fail_os(errnum, "ROCm's descriptor %d is of no use", fd);
    }
    *out = fd;
    return 0;
}

/* Is the exported memory still mapped at the same place? */
static bool is_still(struct hmem *self, const struct rocr_pointer_info *info,
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

static int export_mapped(struct hmem *self, uint64_t addr, size_t len,
                         const struct rocr_pointer_info *info, struct hmreg_dmabuf *out)
{
    uint64_t start = rocr_address(info->agent_base);
    hsa_amd_vmem_alloc_handle_t handle;
    int fd = -1;
    int rc;

    if (!self->api.vmem_export)
        return hmreg_fail(-EOPNOTSUPP,
                          "this ROCm runtime has no hsa_amd_vmem_export_shareable_handle");
    if (len > info->len - (addr - start))
        return hmreg_fail(-EXDEV,
                          "the %zu bytes at %#" PRIx64 " are in several mappings of HSA's virtual "
                          "memory API, and a descriptor names the memory of one",
                          len, addr);
    rc = export_handle(self, start, &handle, &fd);
    if (rc)
        return rc;
    rc = check_covers(fd, addr - start, len);
    if (!rc && !is_still(self, info, handle))
        rc = hmreg_fail(-EFAULT, "the memory mapped at %#" PRIx64 " was replaced", start);
    if (rc) {
        close(fd);
        return rc;
    }
    *out = (struct hmreg_dmabuf){.fd = fd, .offset = addr - start, .length = len};
    return 0;
}

/* ---- either --------------------------------------------------------------------------- */

static int find_exportable(struct hmem *self, uint64_t addr, const struct hmem_range *range,
                           struct rocr_pointer_info *info)
{
    int rc;

    if (range->kind != HMREG_MEM_DEVICE)
        return hmreg_fail(-EOPNOTSUPP, "ROCm has no dmabuf of pinned host memory, "
                                       "which is registered by its address");
    rc = rocr_lookup(self, addr, info);
    if (rc == -HMEM_NOT_MINE)
        return self->shut_down ? rocr_fail_shut_down()
                               : hmreg_fail(-EFAULT, "the memory at %#" PRIx64 " was freed", addr);
    return rc;
}

int rocr_export(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                struct hmreg_dmabuf *out)
{
    struct rocr_pointer_info info;
    int rc = find_exportable(self, addr, range, &info);

    if (rc)
        return rc;
    return (info.type == ROCR_POINTER_VMEM ? export_mapped : export_allocated)(self, addr, len,
                                                                               &info, out);
}
