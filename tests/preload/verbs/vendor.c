/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See vendor.h.
 */
#include "tests/preload/verbs/vendor.h"

#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <level_zero/ze_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vendor {
    const char *name;
    void (*begin)(void);
    bool (*is_begun)(void);
    void *(*alloc)(size_t len);
    void (*free)(void *memory);
    void (*copy)(void *to, const void *from, size_t len);
};
static const struct vendor *vendor;
static void *library;

static void check(const char *name, int result)
{
    if (!result)
        return;
    fprintf(stderr, "%s: %#x\n", name, (unsigned)result);
    exit(1); /* no case may be running */
}

static void *find(const char *name)
{
    void *found = dlsym(library, name);

    check(name, !found);
    return found;
}

/* Calls a vendor's function by its name. */
#define CALL(name, type, ...) check(name, (int)((type)find(name))(__VA_ARGS__))

/* ---- CUDA -------------------------------------------------------------------------------- */

static void cuda_begin(void)
{
    void *context = NULL;

    CALL("cuInit", int (*)(unsigned), 0);
    CALL("cuDevicePrimaryCtxRetain", int (*)(void **, int), &context, 0);
    CALL("cuCtxPushCurrent_v2", int (*)(void *), context);
}

static bool cuda_is_begun(void)
{
    int count = 0;

    return !((int (*)(int *))find("cuDeviceGetCount"))(&count);
}

static void *cuda_alloc(size_t len)
{
    void *memory = NULL;

    CALL("cuMemAlloc_v2", int (*)(void **, size_t), &memory, len);
    return memory;
}

static void cuda_free(void *memory)
{
    CALL("cuMemFree_v2", int (*)(void *), memory);
}

static void cuda_copy(void *to, const void *from, size_t len)
{
    CALL("cuMemcpy", int (*)(void *, const void *, size_t), to, from, len);
}

/* ---- ROCm -------------------------------------------------------------------------------- */

static hsa_agent_t gpu;
static hsa_amd_memory_pool_t pool;

static hsa_status_t take_gpu(hsa_agent_t agent, void *unused)
{
    hsa_device_type_t type;

    CALL("hsa_agent_get_info", hsa_status_t(*)(hsa_agent_t, hsa_agent_info_t, void *), agent,
         HSA_AGENT_INFO_DEVICE, &type);
    if (type != HSA_DEVICE_TYPE_GPU)
        return HSA_STATUS_SUCCESS;
    gpu = agent;
    return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t take_pool(hsa_amd_memory_pool_t found, void *unused)
{
    hsa_amd_segment_t segment;

    CALL("hsa_amd_memory_pool_get_info",
         hsa_status_t(*)(hsa_amd_memory_pool_t, hsa_amd_memory_pool_info_t, void *), found,
         HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    if (segment != HSA_AMD_SEGMENT_GLOBAL)
        return HSA_STATUS_SUCCESS;
    pool = found;
    return HSA_STATUS_INFO_BREAK;
}

static void rocr_begin(void)
{
    CALL("hsa_init", hsa_status_t(*)(void));
    ((hsa_status_t(*)(hsa_status_t(*)(hsa_agent_t, void *), void *))find("hsa_iterate_agents"))(
        take_gpu, NULL);
    ((hsa_status_t(*)(hsa_agent_t, hsa_status_t(*)(hsa_amd_memory_pool_t, void *), void *))find(
        "hsa_amd_agent_iterate_memory_pools"))(gpu, take_pool, NULL);
}

static bool rocr_is_begun(void)
{
    uint16_t version;

    return !((hsa_status_t(*)(hsa_system_info_t, void *))find("hsa_system_get_info"))(
        HSA_SYSTEM_INFO_VERSION_MAJOR, &version);
}

static void *rocr_alloc(size_t len)
{
    void *memory = NULL;

    CALL("hsa_amd_memory_pool_allocate",
         hsa_status_t(*)(hsa_amd_memory_pool_t, size_t, uint32_t, void **), pool, len, 0, &memory);
    return memory;
}

static void rocr_free(void *memory)
{
    CALL("hsa_amd_memory_pool_free", hsa_status_t(*)(void *), memory);
}

static void rocr_copy(void *to, const void *from, size_t len)
{
    CALL("hsa_memory_copy", hsa_status_t(*)(void *, const void *, size_t), to, from, len);
}

/* ---- Level Zero -------------------------------------------------------------------------- */

static ze_context_handle_t context;
static ze_device_handle_t device;
static ze_command_list_handle_t list;

/* The first group of queues that copies. */
static uint32_t copy_group(void)
{
    ze_command_queue_group_properties_t groups[2] = {
        {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES},
        {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES}};
    uint32_t count = 2, group = 0;

    CALL("zeDeviceGetCommandQueueGroupProperties",
         ze_result_t(*)(ze_device_handle_t, uint32_t *, ze_command_queue_group_properties_t *),
         device, &count, groups);
    while (group + 1 < count && !(groups[group].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY))
        group++;
    return group;
}

static void ze_begin(void)
{
    ze_context_desc_t asked = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .mode = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_driver_handle_t driver;
    uint32_t one = 1;

    CALL("zeInit", ze_result_t(*)(ze_init_flags_t), 0);
    CALL("zeDriverGet", ze_result_t(*)(uint32_t *, ze_driver_handle_t *), &one, &driver);
    one = 1;
    CALL("zeDeviceGet", ze_result_t(*)(ze_driver_handle_t, uint32_t *, ze_device_handle_t *),
         driver, &one, &device);
    CALL("zeContextCreate",
         ze_result_t(*)(ze_driver_handle_t, const ze_context_desc_t *, ze_context_handle_t *),
         driver, &asked, &context);
    queue.ordinal = copy_group();
    CALL("zeCommandListCreateImmediate",
         ze_result_t(*)(ze_context_handle_t, ze_device_handle_t, const ze_command_queue_desc_t *,
                        ze_command_list_handle_t *),
         context, device, &queue, &list);
}

static bool ze_is_begun(void)
{
    uint32_t count = 0;

    return !((ze_result_t(*)(uint32_t *, ze_driver_handle_t *))find("zeDriverGet"))(&count, NULL);
}

static void *ze_alloc(size_t len)
{
    ze_device_mem_alloc_desc_t asked = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void *memory = NULL;

    CALL("zeMemAllocDevice",
         ze_result_t(*)(ze_context_handle_t, const ze_device_mem_alloc_desc_t *, size_t, size_t,
                        ze_device_handle_t, void **),
         context, &asked, len, 0, device, &memory);
    return memory;
}

static void ze_free(void *memory)
{
    CALL("zeMemFree", ze_result_t(*)(ze_context_handle_t, void *), context, memory);
}

static void ze_copy(void *to, const void *from, size_t len)
{
    CALL("zeCommandListAppendMemoryCopy",
         ze_result_t(*)(ze_command_list_handle_t, void *, const void *, size_t, ze_event_handle_t,
                        uint32_t, ze_event_handle_t *),
         list, to, from, len, NULL, 0, NULL);
}

/* ---- the choice -------------------------------------------------------------------------- */

static const struct {
    const char *file;
    struct vendor vendor;
} vendors[] = {
    {"libcuda.so.1", {"cuda", cuda_begin, cuda_is_begun, cuda_alloc, cuda_free, cuda_copy}},
    {"libhsa-runtime64.so.1",
     {"rocr", rocr_begin, rocr_is_begun, rocr_alloc, rocr_free, rocr_copy}},
    {"libze_loader.so.1", {"ze", ze_begin, ze_is_begun, ze_alloc, ze_free, ze_copy}},
};

/* As programs load it: by VENDOR_FILE, if that is set, and with VENDOR_APART in a namespace of its
 * own. */
static void *load(const char *file)
{
    const char *other = getenv("VENDOR_FILE");

    if (getenv("VENDOR_APART"))
        return dlmopen(LM_ID_NEWLM, other ? other : file, RTLD_NOW);
    return dlopen(other ? other : file, RTLD_NOW);
}

bool vendor_load(void)
{
    const char *name = getenv("VENDOR");

    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]) && name && !vendor; i++) {
        if (strcmp(vendors[i].vendor.name, name))
            continue;
        library = load(vendors[i].file);
        check(vendors[i].file, !library);
        vendor = &vendors[i].vendor;
    }
    return vendor;
}

bool vendor_begin(void)
{
    static bool begun;

    if (vendor_load() && !begun) {
        begun = true;
        vendor->begin();
    }
    return vendor;
}

bool vendor_is_begun(void)
{
    return vendor->is_begun();
}

bool vendor_other_is_begun(void)
{
    const char *name = getenv("OTHER");
    void *ours = library;
    bool begun = false;

    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]) && name; i++) {
        if (strcmp(vendors[i].vendor.name, name))
            continue;
        library = dlopen(vendors[i].file, RTLD_NOW);
        check(vendors[i].file, !library);
        begun = vendors[i].vendor.is_begun();
    }
    library = ours;
    return begun;
}

void *vendor_alloc(size_t len)
{
    return vendor->alloc(len);
}

void vendor_free(void *memory)
{
    vendor->free(memory);
}

void vendor_copy(void *to, const void *from, size_t len)
{
    vendor->copy(to, from, len);
}
