/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of HSA's virtual memory API: physical memory (a handle) mapped into reserved addresses.
 *
 * The runtime reports that an address is mapped and how long the mapping is, but not where the
 * mapping begins. It can confirm a guess: it retains a handle only at the exact start of a mapping.
 * So a start is correct if the runtime accepts it and the length reaches the address. Some runtimes
 * retain without a lock, concurrently with the application's own mapping, so guesses are few: the
 * address itself; the start computed from mappings below of equal length, or from the end of
 * something else there; then large pages below. If none is accepted we refuse the memory: with a
 * wrong start a descriptor would refer to other bytes.
 *
 * Mappings have no identity: nothing here is cached.
 */
#include "hmem/rocr/rocr.h"

#include <unistd.h>

#define LARGE_PAGE  (2ull << 20)
#define LARGE_PAGES 64 /* tried at most */

hsa_status_t rocr_pointer_info(struct rocr_hmem *self, uint64_t addr,
                               struct rocr_pointer_info *info)
{
    *info = (struct rocr_pointer_info){.size = sizeof(*info)};
    return self->api.pointer_info((void *)(uintptr_t)addr, (hsa_amd_pointer_info_t *)info, NULL,
                                  NULL, NULL);
}

bool rocr_virtual_retain(struct rocr_hmem *self, uint64_t start, hsa_amd_vmem_alloc_handle_t *out)
{
    return self->api.vmem_retain && self->api.vmem_release &&
           !self->api.vmem_retain(out, (void *)(uintptr_t)start);
}

bool rocr_virtual_begins(struct rocr_hmem *self, uint64_t start, struct rocr_pointer_info *info)
{
    struct rocr_pointer_info found;
    hsa_amd_vmem_alloc_handle_t handle;
    bool good;

    if (!rocr_virtual_retain(self, start, &handle))
        return false;
    good = !rocr_pointer_info(self, start, &found) && found.type == ROCR_POINTER_VMEM && found.len;
    self->api.vmem_release(handle);
    if (good) {
        found.agent_base = found.host_base = (void *)(uintptr_t)start;
        *info = found;
    }
    return good;
}

/* Does a mapping begin at start and reach addr? */
static bool reaches(struct rocr_hmem *self, uint64_t start, uint64_t addr,
                    struct rocr_pointer_info *info)
{
    struct rocr_pointer_info found;

    if (!rocr_virtual_begins(self, start, &found) || addr - start >= found.len)
        return false;
    *info = found;
    return true;
}

/* Tries large pages downwards from addr, as far as a mapping of this length may begin. */
static bool search(struct rocr_hmem *self, uint64_t addr, size_t len,
                   struct rocr_pointer_info *info)
{
    uint64_t at = addr & ~(LARGE_PAGE - 1);

    for (unsigned i = 0; i < LARGE_PAGES && at && addr - at < len; i++, at -= LARGE_PAGE)
        if (reaches(self, at, addr, info))
            return true;
    return false;
}

/* Is the address in a mapping of this length? */
static bool is_alike(struct rocr_hmem *self, uint64_t addr, size_t len)
{
    struct rocr_pointer_info found;

    return !rocr_pointer_info(self, addr, &found) && found.type == ROCR_POINTER_VMEM &&
           found.len == len;
}

/* Guesses the start of the mapping at addr. Searches, by doubling and then halving the distance,
 * how far down addresses are in mappings of equal length; such mappings are as far apart as they
 * are long. */
static uint64_t guess(struct rocr_hmem *self, uint64_t addr, size_t len, uint64_t page)
{
    uint64_t alike = 0, other = len, middle; /* distances below addr */

    while (other < addr && is_alike(self, addr - other, len)) {
        alike = other;
        other *= 2;
    }
    while (other - alike > page) {
        middle = alike + ((other - alike) / 2 & ~(page - 1));
        if (middle < addr && is_alike(self, addr - middle, len))
            alike = middle;
        else
            other = middle;
    }
    return addr - alike + alike / len * len;
}

int rocr_virtual_bounds(struct rocr_hmem *self, uint64_t addr, struct rocr_pointer_info *info)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = addr & ~(page - 1);
    size_t len = info->len;

    if (reaches(self, at, addr, info) ||
        (len > page && reaches(self, guess(self, at, len, page), addr, info)) ||
        search(self, addr, len, info))
        return 0;
    return hmreg_fail(-EOPNOTSUPP,
                      "%#" PRIx64
                      " is memory of HSA's virtual memory API, and neither the runtime nor hmreg "
                      "found where its mapping begins: register it from the start of the mapping",
                      addr);
}

static bool agent_may(struct rocr_hmem *self, uint64_t addr, const struct rocr_agent *agent,
                      hsa_access_permission_t *out)
{
    return agent && self->api.vmem_access &&
           !self->api.vmem_access((void *)(uintptr_t)addr, out, agent->id);
}

bool rocr_virtual_is_mapped(struct rocr_hmem *self, uint64_t addr)
{
    hsa_access_permission_t access;

    return agent_may(self, addr, rocr_next_agent(self, HSA_DEVICE_TYPE_GPU, NULL), &access);
}

bool rocr_virtual_cpu_may(struct rocr_hmem *self, uint64_t addr, const struct rocr_agent *cpu)
{
    hsa_access_permission_t access;

    return agent_may(self, addr, cpu, &access) && access == HSA_ACCESS_PERMISSION_RW;
}
