/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program of the HSA runtime, linked with -lhsa-runtime64: on each GPU allocates from its pool,
 * copies there and back, asks what a pointer is, exports a dmabuf.
 */
#include "check.h"

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

/* Newer than the header of ROCm 5.2. */
hsa_status_t hsa_amd_portable_export_dmabuf(const void *ptr, size_t size, int *dmabuf,
                                            uint64_t *offset);
hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf);

static unsigned char *sent, *received; /* in memory that GPUs reach */
static hsa_agent_t cpu, gpus[8];
static int gpu_count;

static hsa_status_t list_agent(hsa_agent_t agent, void *data)
{
    hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
    hsa_status_t status = hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);

    (void)data;
    if (!status && type == HSA_DEVICE_TYPE_CPU)
        cpu = agent;
    else if (!status && gpu_count < 8)
        gpus[gpu_count++] = agent;
    return status;
}

static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void *data)
{
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_GROUP;
    uint32_t flags = 0;
    bool may = false;

    hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    if (segment != HSA_AMD_SEGMENT_GLOBAL)
        return HSA_STATUS_SUCCESS;
    hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &may);
    if (!may || flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)
        return HSA_STATUS_SUCCESS;
    memcpy(data, &pool, sizeof(pool));
    return HSA_STATUS_INFO_BREAK;
}

static void *allocate(hsa_agent_t agent)
{
    hsa_amd_memory_pool_t pool = {0};
    void *memory = NULL;

    CHECK(hsa_amd_agent_iterate_memory_pools(agent, find_pool, &pool) == HSA_STATUS_INFO_BREAK);
    SUCCEEDS(hsa_amd_memory_pool_allocate(pool, SIZE, 0, &memory));
    if (gpu_count)
        SUCCEEDS(hsa_amd_agents_allow_access((uint32_t)gpu_count, gpus, NULL, memory));
    return memory;
}

static void ask(const void *memory, hsa_agent_t owner)
{
    hsa_amd_pointer_info_t info = {.size = sizeof(info)};

    SUCCEEDS(hsa_amd_pointer_info((const char *)memory + 100, &info, NULL, NULL, NULL));
    CHECK(info.type == HSA_EXT_POINTER_TYPE_HSA && info.agentOwner.handle == owner.handle);
    CHECK(info.agentBaseAddress == memory && info.sizeInBytes == SIZE);
    SUCCEEDS(hsa_amd_pointer_info(&info, &info, NULL, NULL, NULL));
    CHECK(info.type == HSA_EXT_POINTER_TYPE_UNKNOWN);
}

static void use(hsa_agent_t gpu)
{
    void *memory = allocate(gpu);
    uint64_t offset = 0;
    int fd = -1;

    SUCCEEDS(hsa_memory_copy(memory, sent, SIZE));
    memset(received, 0, SIZE);
    SUCCEEDS(hsa_memory_copy(received, memory, SIZE));
    CHECK(!memcmp(received, sent, SIZE));
    ask(memory, gpu);
    SUCCEEDS(hsa_amd_portable_export_dmabuf(memory, SIZE, &fd, &offset));
    dmabuf_has(dup(fd), offset, sent);
    SUCCEEDS(hsa_amd_portable_close_dmabuf(fd));
    SUCCEEDS(hsa_amd_memory_pool_free(memory));
}

int main(void)
{
    CHECK(hsa_iterate_agents(list_agent, NULL) == HSA_STATUS_ERROR_NOT_INITIALIZED);
    SUCCEEDS(hsa_init());
    SUCCEEDS(hsa_iterate_agents(list_agent, NULL));
    sent = allocate(cpu);
    received = allocate(cpu);
    fill(sent);
    for (int i = 0; i < gpu_count; i++) {
        char name[64] = "";

        SUCCEEDS(hsa_agent_get_info(gpus[i], HSA_AGENT_INFO_NAME, name));
        use(gpus[i]);
        printf("%s: right\n", name);
    }
    SUCCEEDS(hsa_amd_memory_pool_free(sent));
    SUCCEEDS(hsa_amd_memory_pool_free(received));
    SUCCEEDS(hsa_shut_down());
    printf("HSA: %d GPUs\n", gpu_count);
    return 0;
}
