/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A simulated libhsa-runtime64.so.1: two GPU agents (HMREG_FAKE_DEVICES of them) and a CPU agent,
 * as strict as the real runtime where that is strict, and as treacherous where it is not:
 *  - before hsa_init every call answers 0x100b, but the one that names statuses;
 *  - an unknown pointer is no error, its type is UNKNOWN; so is one past the bytes asked for;
 *  - for pool memory hostBaseAddress repeats agentBaseAddress though the CPU cannot touch it;
 *  - mapped virtual memory gives the address asked about as its base, whatever the mapping's;
 *  - asked to export memory imported from another process the real runtime follows a null
 *    pointer: this one aborts;
 *  - a GPU that copies from host memory it has no access to faults: this one says MEMORY_FAULT;
 *  - each export makes a descriptor of the whole block; small allocations share blocks;
 *  - deallocation callbacks run when the runtime no longer lists the memory and has not yet reused
 *    its address, with no lock held; withdrawing one takes all of that address and function.
 * FAKE_HSA_5_2: without what came after Debian 12's version.
 *
 * Environment: HMREG_FAKE_HSA_DEVICES, HMREG_FAKE_MEMORY, HMREG_FAKE_FAIL as for every fake.
 * HMREG_FAKE_HSA_DMABUF=0: the driver exports none. HMREG_FAKE_HSA_LARGE_BAR=1: the CPU can touch
 * device memory. HMREG_FAKE_HSA_HIDDEN=1: imported memory is of a device that is not visible, 2:
 * and no visible one reaches it. HMREG_FAKE_HSA_SHORT=n: descriptors have n bytes.
 * HMREG_FAKE_HSA_VMEM_RESERVED=1: as runtime 6.1, mapped virtual memory is called reserved and
 * nothing is said to be registered. HMREG_FAKE_HSA_ONCE=1: as runtime 6.4, it does not start again
 * after its last user has shut it down.
 */
#include "simulated/rocr/rocr_fake.h"

#include <stdlib.h>
#include <string.h>

struct agent agents[MAX_GPUS + 1];
static unsigned references;

bool is_open(void)
{
    bool open;

    fake_lock();
    open = references > 0;
    fake_unlock();
    return open;
}

unsigned gpu_count(void)
{
    return (unsigned)fake_devices("HMREG_FAKE_HSA_DEVICES", MAX_GPUS);
}

/* ---- the runtime --------------------------------------------------------------------- */

/* Unfavourable order: agents without allocations come first. */
static void make_agents(void)
{
    for (unsigned i = 0; i <= MAX_GPUS; i++) {
        struct agent *agent = &agents[i];
        uint32_t fine = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
        uint32_t kernarg = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
        uint32_t coarse = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;

        agent->index = i;
        agent->pools[0] = (struct pool){agent, HSA_AMD_SEGMENT_GROUP, coarse | fine, false};
        agent->pools[1] = (struct pool){agent, HSA_AMD_SEGMENT_GLOBAL, fine | kernarg, true};
        agent->pools[2] = (struct pool){agent, HSA_AMD_SEGMENT_GLOBAL, i ? coarse : fine, true};
    }
}

static bool is_over; /* it started once, and its last user has shut it down */

hsa_status_t hsa_init(void)
{
    hsa_status_t status = HSA_STATUS_SUCCESS;

    MAY_FAIL();
    fake_lock();
    if (is_over && fake_env("HMREG_FAKE_HSA_ONCE", 0))
        status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    else if (!references++)
        make_agents();
    fake_unlock();
    return status;
}

hsa_status_t hsa_shut_down(void)
{
    ENTER();
    fake_lock();
    is_over = !--references && fake_env("HMREG_FAKE_HSA_ONCE", 0);
    fake_unlock();
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char **words)
{
    static const struct {
        int status;
        const char *words;
    } all[] = {
        {HSA_STATUS_SUCCESS, "HSA_STATUS_SUCCESS (simulated)"},
        {HSA_STATUS_ERROR, "HSA_STATUS_ERROR (simulated)"},
        {HSA_STATUS_ERROR_INVALID_ARGUMENT, "HSA_STATUS_ERROR_INVALID_ARGUMENT (simulated)"},
        {HSA_STATUS_ERROR_INVALID_ALLOCATION, "HSA_STATUS_ERROR_INVALID_ALLOCATION (simulated)"},
        {HSA_STATUS_ERROR_INVALID_AGENT, "HSA_STATUS_ERROR_INVALID_AGENT (simulated)"},
        {HSA_STATUS_ERROR_OUT_OF_RESOURCES, "HSA_STATUS_ERROR_OUT_OF_RESOURCES (simulated)"},
        {HSA_STATUS_ERROR_RESOURCE_FREE, "HSA_STATUS_ERROR_RESOURCE_FREE (simulated)"},
        {HSA_STATUS_ERROR_NOT_INITIALIZED, "HSA_STATUS_ERROR_NOT_INITIALIZED (simulated)"},
    };

    MAY_FAIL();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].status != (int)status)
            continue;
        *words = all[i].words;
        return HSA_STATUS_SUCCESS;
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void *value)
{
    ENTER();
    switch ((int)attribute) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
    case HSA_SYSTEM_INFO_VERSION_MINOR:
        *(uint16_t *)value = 1;
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
        *(const char **)value = fake_env("HMREG_FAKE_HSA_ONCE", 0) ? "\"1.15.0\"" : "simulated";
        return HSA_STATUS_SUCCESS;
#ifndef FAKE_HSA_5_2
    case ROCR_INFO_DMABUF_SUPPORTED:
        *(bool *)value = fake_env("HMREG_FAKE_HSA_DMABUF", 1);
        return HSA_STATUS_SUCCESS;
    case ROCR_INFO_VMEM_SUPPORTED:
        *(bool *)value = true;
        return HSA_STATUS_SUCCESS;
    case ROCR_INFO_EXT_VERSION_MAJOR:
        *(uint16_t *)value = 1;
        return HSA_STATUS_SUCCESS;
    case ROCR_INFO_EXT_VERSION_MINOR:
        *(uint16_t *)value = 13;
        return HSA_STATUS_SUCCESS;
#endif
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* ---- agents -------------------------------------------------------------------------- */

const struct agent *agent_of(hsa_agent_t id)
{
    for (unsigned i = 0; i <= gpu_count(); i++)
        if (address(&agents[i]) == id.handle)
            return &agents[i];
    return NULL;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data), void *data)
{
    hsa_status_t status = HSA_STATUS_SUCCESS;

    ENTER();
    if (!callback)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i <= gpu_count() && !status; i++)
        status = callback(agent_id(&agents[i]), data);
    return status;
}

/* The runtime writes all 64 bytes. */
static hsa_status_t write_name(void *value, const char *name)
{
    memset(value, 0, 64);
    memcpy(value, name, strlen(name));
    return HSA_STATUS_SUCCESS;
}

/* The GPUs are at 0000:23:00.0, 0001:63:1f.1, 0002:a3:1f.1 and so on. */
static uint32_t bdf_of(const struct agent *agent)
{
    if (!agent->index)
        return 0;
    return (0x23u + 0x40u * (agent->index - 1)) << 8 | (agent->index > 1 ? 0x1fu << 3 | 1u : 0);
}

hsa_status_t hsa_agent_get_info(hsa_agent_t id, hsa_agent_info_t attribute, void *value)
{
    const struct agent *agent;

    ENTER();
    agent = agent_of(id);
    if (!agent)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    switch ((int)attribute) {
    case HSA_AGENT_INFO_DEVICE:
        *(hsa_device_type_t *)value = agent->index ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU;
        return HSA_STATUS_SUCCESS;
    case HSA_AGENT_INFO_NAME:
        return write_name(value, agent->index ? "gfx90a (simulated)" : "CPU (simulated)");
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
        return write_name(value, agent->index ? "AMD GPU (simulated)" : "CPU (simulated)");
    case HSA_AMD_AGENT_INFO_BDFID:
        *(uint32_t *)value = bdf_of(agent);
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_AGENT_INFO_DOMAIN:
        *(uint32_t *)value = agent->index ? agent->index - 1 : 0;
        return HSA_STATUS_SUCCESS;
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

unsigned access_bits(uint32_t count, const hsa_agent_t *list)
{
    unsigned access = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct agent *agent = agent_of(list[i]);

        access |= agent ? bit(agent) : 0;
    }
    return access;
}

/* ---- pools --------------------------------------------------------------------------- */

const struct pool *pool_of(hsa_amd_memory_pool_t id)
{
    for (unsigned i = 0; i <= gpu_count(); i++)
        for (unsigned j = 0; j < POOLS; j++)
            if (address(&agents[i].pools[j]) == id.handle)
                return &agents[i].pools[j];
    return NULL;
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(
    hsa_agent_t id, hsa_status_t (*callback)(hsa_amd_memory_pool_t, void *), void *data)
{
    hsa_status_t status = HSA_STATUS_SUCCESS;
    const struct agent *agent;

    ENTER();
    agent = agent_of(id);
    if (!agent)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    for (unsigned i = 0; i < POOLS && !status; i++)
        status = callback((hsa_amd_memory_pool_t){address(&agent->pools[i])}, data);
    return status;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t id,
                                          hsa_amd_memory_pool_info_t attribute, void *value)
{
    const struct pool *pool;

    ENTER();
    pool = pool_of(id);
    if (!pool)
        return (hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
    switch ((int)attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
        *(hsa_amd_segment_t *)value = pool->segment;
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
        if (pool->segment != HSA_AMD_SEGMENT_GLOBAL)
            return HSA_STATUS_ERROR_INVALID_ARGUMENT;
        *(uint32_t *)value = pool->flags;
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
        *(size_t *)value = fake_device_memory();
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
        *(bool *)value = pool->alloc;
        return HSA_STATUS_SUCCESS;
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

bool has_large_bar(void)
{
    return fake_env("HMREG_FAKE_HSA_LARGE_BAR", 0);
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t id, hsa_amd_memory_pool_t pool_id,
                                                hsa_amd_agent_memory_pool_info_t attribute,
                                                void *value)
{
    const struct agent *agent;
    const struct pool *pool;
    hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;

    ENTER();
    agent = agent_of(id);
    pool = pool_of(pool_id);
    if (!agent || !pool || attribute != HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (agent == pool->agent)
        access = HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
    else if (!agent->index && !has_large_bar())
        access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
    *(hsa_amd_memory_pool_access_t *)value = access;
    return HSA_STATUS_SUCCESS;
}
