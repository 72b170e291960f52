/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm's agents (the CPUs and the GPUs) and their memory pools. We list them once, when we open
 * the runtime: it adds none later.
 */
#include "hmem/rocr/rocr.h"

#include <stdlib.h>
#include <string.h>

struct pool_search {
    struct rocr_hmem *self;
    struct rocr_agent *agent;
};

static hsa_status_t consider_pool(hsa_amd_memory_pool_t id, void *data)
{
    const struct pool_search *search = data;
    __typeof__(hsa_amd_memory_pool_get_info) *get = search->self->api.pool_get_info;
    uint32_t wanted = search->agent->type == HSA_DEVICE_TYPE_GPU
                          ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED
                          : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GROUP;
    struct rocr_pool pool = {.id = id, .valid = true};
    uint32_t flags = 0;
    bool allowed = false;
    hsa_status_t status = get(id, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);

    if (status || segment != HSA_AMD_SEGMENT_GLOBAL)
        return status;
    status = get(id, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    if (!status)
        status = get(id, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
    if (!status)
        status = get(id, HSA_AMD_MEMORY_POOL_INFO_SIZE, &pool.size);
    if (!status && allowed && (flags & wanted) &&
        !(flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) && !search->agent->pool.valid)
        search->agent->pool = pool;
    return status;
}

static hsa_status_t add_agent(hsa_agent_t id, void *data)
{
    struct rocr_hmem *self = data;
    struct rocr_agent agent = {.id = id, .device = -1};
    struct rocr_agent *more;
    hsa_status_t status = self->api.agent_get_info(id, HSA_AGENT_INFO_DEVICE, &agent.type);

    if (status)
        return status;
    more = realloc(self->agents, (self->agent_count + 1) * sizeof(*more));
    if (!more)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    self->agents = more;
    if (agent.type == HSA_DEVICE_TYPE_GPU)
        agent.device = self->base.device_count++;
    self->agents[self->agent_count++] = agent;
    return HSA_STATUS_SUCCESS;
}

const struct rocr_agent *rocr_next_agent(const struct rocr_hmem *self, hsa_device_type_t type,
                                         const struct rocr_agent *after)
{
    for (const struct rocr_agent *agent = after ? after + 1 : self->agents;
         agent < self->agents + self->agent_count; agent++)
        if (agent->type == type)
            return agent;
    return NULL;
}

const struct rocr_agent *rocr_agent(const struct rocr_hmem *self, hsa_agent_t id)
{
    for (size_t i = 0; i < self->agent_count; i++)
        if (self->agents[i].id.handle == id.handle)
            return &self->agents[i];
    return NULL;
}

const struct rocr_agent *rocr_gpu(const struct rocr_hmem *self, int device)
{
    const struct rocr_agent *gpu = rocr_next_agent(self, HSA_DEVICE_TYPE_GPU, NULL);

    while (gpu && gpu->device != device)
        gpu = rocr_next_agent(self, HSA_DEVICE_TYPE_GPU, gpu);
    return gpu;
}

/* BDFID: bus in bits 8 to 15, device in 3 to 7, function in 0 to 2. */
static struct hmreg_pci read_pci(struct rocr_hmem *self, hsa_agent_t id)
{
    struct hmreg_pci pci = {0};
    uint32_t bdf = 0, domain = 0;
    const hsa_agent_info_t bdfid = (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID;
    const hsa_agent_info_t segment = (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN;

    if (self->api.agent_get_info(id, bdfid, &bdf) || self->api.agent_get_info(id, segment, &domain))
        return pci;
    pci.domain = domain;
    pci.bus = (bdf >> 8) & 0xff;
    pci.device = (bdf >> 3) & 0x1f;
    pci.function = bdf & 7;
    pci.valid = 1;
    return pci;
}

/* A CPU can access a GPU's pool only if the BAR covers all of it: only then does the kernel list a
 * link in that direction, and the runtime's answer differs from "never". */
static bool cpu_reaches(struct rocr_hmem *self, const struct rocr_agent *gpu)
{
    const struct rocr_agent *cpu = NULL;
    hsa_amd_memory_pool_access_t access;

    while (gpu->pool.valid && (cpu = rocr_next_agent(self, HSA_DEVICE_TYPE_CPU, cpu))) {
        access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
        if (!self->api.agent_pool_get_info(cpu->id, gpu->pool.id,
                                           HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access) &&
            access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED)
            return true;
    }
    return false;
}

static void describe_gpu(struct rocr_hmem *self, struct rocr_agent *gpu)
{
    const hsa_agent_info_t product = (hsa_agent_info_t)HSA_AMD_AGENT_INFO_PRODUCT_NAME;
    char name[65] = ""; /* the runtime writes 64 bytes, not always a terminator */

    if (self->api.agent_get_info(gpu->id, product, name) || !name[0])
        if (self->api.agent_get_info(gpu->id, HSA_AGENT_INFO_NAME, name))
            name[0] = 0;
    memcpy(gpu->info.name, name, sizeof(gpu->info.name) - 1);
    gpu->info.simulated = strstr(name, "simulated") != NULL;
    gpu->info.pci = read_pci(self, gpu->id);
    gpu->info.memory = gpu->pool.size;
    gpu->info.dmabuf = self->dmabuf;
    gpu->cpu_access = cpu_reaches(self, gpu);
}

int rocr_list_devices(struct rocr_hmem *self)
{
    hsa_status_t status = self->api.iterate_agents(add_agent, self);

    for (size_t i = 0; i < self->agent_count && !status; i++) {
        struct pool_search search = {.self = self, .agent = &self->agents[i]};

        if (search.agent->type == HSA_DEVICE_TYPE_CPU || search.agent->device >= 0)
            status = self->api.iterate_pools(search.agent->id, consider_pool, &search);
    }
    if (status)
        return rocr_fail(self, -EIO, status, "the agents of ROCm and their pools cannot be listed");
    if (!self->base.device_count)
        return hmreg_fail_vendor(-ENODEV, "rocr", 0, NULL,
                                 "ROCm lists no GPU (ROCR_VISIBLE_DEVICES hides them, if set)");
    for (size_t i = 0; i < self->agent_count; i++)
        if (self->agents[i].type == HSA_DEVICE_TYPE_GPU)
            describe_gpu(self, &self->agents[i]);
    return 0;
}
