/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of HSA's virtual memory API: physical memory (a handle) mapped into reserved addresses.
 *
 * The runtime tells that an address is mapped and how long the mapping is, but not where it
 * begins. It does say yes or no to a guess: a handle is retained at the very start of a mapping
 * and nowhere else, so a start that is accepted, with a length that reaches the address, is proof.
 * Guesses go from the likely to the unlikely: the address itself, the large pages below it that
 * the length allows, and so many small pages. What is not found is refused, since a wrong start
 * would make a descriptor name other bytes.
 *
 * A mapping shows its memory from the beginning (the runtime supports no other), so the offset in
 * a descriptor, which names the physical memory, is the address's in the mapping. Mappings have
 * no identity: nothing here is remembered.
 */
#include "core/error.h"
#include "hmem/rocr.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define LARGE_PAGE  (2ull << 20)
#define SMALL_PAGES 16384 /* so many are tried: 64 MiB of them */

static bool retain(struct hmem *self, uint64_t start, struct rocr_vmem_handle *out)
{
    return self->api.vmem_retain && self->api.vmem_release &&
           !self->api.vmem_retain(out, (void *)(uintptr_t)start);
}

bool rocr_vmem_begins(struct hmem *self, uint64_t start, struct rocr_pointer_info *info)
{
    struct rocr_pointer_info found = {.size = sizeof(found)};
    struct rocr_vmem_handle handle;
    bool good;

    if (!retain(self, start, &handle))
        return false;
    good = !self->api.pointer_info((void *)(uintptr_t)start, &found, NULL, NULL, NULL) &&
           found.type == ROCR_POINTER_VMEM && found.len;
    self->api.vmem_release(handle);
    if (good) {
        found.agent_base = found.host_base = (void *)(uintptr_t)start;
        *info = found;
    }
    return good;
}

/* Does a mapping begin at start that reaches addr? */
static bool reaches(struct hmem *self, uint64_t start, uint64_t addr,
                    struct rocr_pointer_info *info)
{
    struct rocr_pointer_info found;

    if (!rocr_vmem_begins(self, start, &found) || addr - start >= found.len)
        return false;
    *info = found;
    return true;
}

/* Down from addr in steps, as far as a mapping of this length may begin. */
static bool search(struct hmem *self, uint64_t addr, size_t len, uint64_t step, unsigned tries,
                   struct rocr_pointer_info *info)
{
    uint64_t at = addr & ~(step - 1);

    while (tries-- && addr - at < len) {
        if (reaches(self, at, addr, info))
            return true;
        if (at < step)
            return false;
        at -= step;
    }
    return false;
}

int rocr_vmem_bounds(struct hmem *self, uint64_t addr, struct rocr_pointer_info *info)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    size_t len = info->len;

    if (search(self, addr, len, page, 1, info) ||
        search(self, addr, len, LARGE_PAGE, UINT32_MAX, info) ||
        search(self, addr, len, page, SMALL_PAGES, info))
        return 0;
    return hmreg_fail(-EOPNOTSUPP,
                      "%#" PRIx64 " is memory of HSA's virtual memory API: the runtime does not "
                      "tell where its mapping begins, and it was not found: register it from the "
                      "start of the mapping",
                      addr);
}

static bool agent_may(struct hmem *self, uint64_t addr, const struct rocr_agent *agent,
                      hsa_access_permission_t *out)
{
    return agent && self->api.vmem_access &&
           !self->api.vmem_access((void *)(uintptr_t)addr, out, agent->id);
}

bool rocr_vmem_is_mapped(struct hmem *self, uint64_t addr)
{
    hsa_access_permission_t access;

    return agent_may(self, addr, rocr_next_agent(self, HSA_DEVICE_TYPE_GPU, NULL), &access);
}

bool rocr_vmem_cpu_may(struct hmem *self, uint64_t addr, const struct rocr_agent *cpu)
{
    hsa_access_permission_t access;

    return agent_may(self, addr, cpu, &access) && access == HSA_ACCESS_PERMISSION_RW;
}

/* ---- export -------------------------------------------------------------------------- */

static int export_handle(struct hmem *self, uint64_t start, struct rocr_vmem_handle *handle,
                         int *out)
{
    hsa_status_t status;
    int fd = -1;

    if (!retain(self, start, handle))
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

/* Is the memory that was exported mapped there still, and as it was? */
static bool is_still(struct hmem *self, const struct rocr_pointer_info *info,
                     struct rocr_vmem_handle exported)
{
    struct rocr_pointer_info now;
    struct rocr_vmem_handle handle;

    if (!retain(self, rocr_address(info->agent_base), &handle))
        return false;
    self->api.vmem_release(handle);
    return handle.handle == exported.handle &&
           rocr_vmem_begins(self, rocr_address(info->agent_base), &now) && now.len == info->len;
}

int rocr_vmem_export(struct hmem *self, uint64_t addr, size_t len,
                     const struct rocr_pointer_info *info, struct hmreg_dmabuf *out)
{
    uint64_t start = rocr_address(info->agent_base);
    struct rocr_vmem_handle handle;
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
    rc = rocr_check_covers(fd, addr - start, len);
    if (!rc && !is_still(self, info, handle))
        rc = hmreg_fail(-EFAULT, "the memory mapped at %#" PRIx64 " was replaced", start);
    if (rc) {
        close(fd);
        return rc;
    }
    *out = (struct hmreg_dmabuf){.fd = fd, .offset = addr - start, .length = len};
    return 0;
}
