/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Queries the ROCm runtime about one address: the kind of memory, its owner, and its CPU and device
 * addresses.
 */
#include "hmem/rocr/rocr.h"

#include <stdlib.h>

static int check_answer(struct rocr_hmem *self, hsa_status_t status, uint64_t addr)
{
    return status ? rocr_fail(self, -EIO, status, "ROCm could not identify the memory at %#" PRIx64,
                              addr)
                  : 0;
}

/* The runtime counts the end address of a reservation as part of it. */
static bool is_its_end(const struct rocr_pointer_info *reserved, uint64_t addr)
{
    return reserved->host_base && reserved->len &&
           addr - rocr_address(reserved->host_base) == reserved->len;
}

int rocr_lookup(struct rocr_hmem *self, uint64_t addr, struct rocr_pointer_info *info)
{
    int rc = atomic_load(&self->base.shut_down)
                 ? -ESHUTDOWN
                 : check_answer(self, rocr_pointer_info(self, addr, info), addr);

    if (rc)
        return rc;
    switch (info->type) {
    case ROCR_POINTER_HSA:
    case ROCR_POINTER_LOCKED:
    case ROCR_POINTER_GRAPHICS:
    case ROCR_POINTER_IPC:
        return 0;
    case ROCR_POINTER_UNKNOWN:
        return -HMEM_NOT_MINE;
    case ROCR_POINTER_RESERVED:
        /* Checked first: runtimes that report mappings as reserved (6.1) leave `registered` 0. */
        if (rocr_virtual_is_mapped(self, addr))
            return hmreg_fail(-EOPNOTSUPP,
                              "%#" PRIx64 " is memory of HSA's virtual memory API, whose mapping "
                              "this runtime does not describe: use a newer runtime",
                              addr);
        if (!info->registered || is_its_end(info, addr))
            return -HMEM_NOT_MINE;
        return hmreg_fail(
            -EFAULT, "nothing is mapped at %#" PRIx64 ": ROCm only reserved the address", addr);
    case ROCR_POINTER_VMEM:
        return rocr_virtual_bounds(self, addr, info);
    }
    return hmreg_fail(-EIO,
                      "ROCm reports that %#" PRIx64 " is of type %u, which hmreg does not know",
                      addr, info->type);
}

int rocr_ask_agents(struct rocr_hmem *self, uint64_t addr, hsa_agent_t **agents, uint32_t *count)
{
    struct rocr_pointer_info info = {.size = sizeof(info)};
    hsa_status_t status;
    int rc;

    *agents = NULL;
    *count = 0;
    status = self->api.pointer_info((void *)(uintptr_t)addr, (hsa_amd_pointer_info_t *)&info,
                                    malloc, count, agents);
    rc = check_answer(self, status, addr);
    if (rc) {
        free(*agents);
        *agents = NULL;
    }
    return rc;
}

/* Imported memory may belong to a device that this process does not see (ROCR_VISIBLE_DEVICES).
 * Then the first GPU that it is mapped on counts as its owner, as in the runtime's own copies. */
static int find_stand_in(struct rocr_hmem *self, uint64_t addr, const struct rocr_agent **out)
{
    const struct rocr_agent *found = NULL;
    hsa_agent_t *agents;
    uint32_t count;
    int rc = rocr_ask_agents(self, addr, &agents, &count);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < count && !found; i++) {
        const struct rocr_agent *agent = rocr_agent(self, agents[i]);

        if (agent && agent->type == HSA_DEVICE_TYPE_GPU)
            found = agent;
    }
    free(agents);
    if (!found)
        return hmreg_fail(
            -EIO,
            "the memory at %#" PRIx64
            " is on a device that this process does not see, and no visible GPU reaches it",
            addr);
    *out = found;
    return 0;
}

int rocr_owner(struct rocr_hmem *self, uint64_t addr, const struct rocr_pointer_info *info,
               const struct rocr_agent **out)
{
    const struct rocr_agent *owner = rocr_agent(self, info->owner);

    if (!info->owner.handle)
        return find_stand_in(self, addr, out);
    if (!owner || (owner->type != HSA_DEVICE_TYPE_CPU && owner->type != HSA_DEVICE_TYPE_GPU))
        return hmreg_fail(
            -EIO, "the memory at %#" PRIx64 " is of an agent that is neither CPU nor GPU", addr);
    *out = owner;
    return 0;
}

/* Locked memory has a host address and, on some GPUs, a different device address. The result is of
 * the same kind as addr. */
uint64_t rocr_base_of(const struct rocr_pointer_info *info, uint64_t addr)
{
    if (info->type == ROCR_POINTER_LOCKED && addr - rocr_address(info->host_base) < info->len)
        return rocr_address(info->host_base);
    return rocr_address(info->agent_base);
}

uint64_t rocr_host_address(const struct rocr_pointer_info *locked, uint64_t addr)
{
    return rocr_address(locked->host_base) + (addr - rocr_base_of(locked, addr));
}

/* For other memory, host_base equals agent_base whether or not the CPU has access. */
uint64_t rocr_cpu_address(struct rocr_hmem *self, const struct rocr_pointer_info *info,
                          const struct rocr_agent *owner, uint64_t addr)
{
    if (info->type == ROCR_POINTER_LOCKED)
        return rocr_host_address(info, addr);
    if (info->type == ROCR_POINTER_VMEM)
        return owner->type == HSA_DEVICE_TYPE_CPU && rocr_virtual_cpu_may(self, addr, owner) ? addr
                                                                                             : 0;
    if (owner->type == HSA_DEVICE_TYPE_CPU)
        return addr;
    return info->type == ROCR_POINTER_HSA && owner->cpu_access ? addr : 0;
}
