/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See vendor_memory.h. Of each vendor the first device.
 */
#include "tests/preload/ofi/vendor_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_ROCR
/* HSA's headers detect this on x86 only. */
#if !defined(LITTLEENDIAN_CPU) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LITTLEENDIAN_CPU
#endif
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#endif
#ifdef WITH_ZE
#include <level_zero/ze_api.h>
#endif

__attribute__((unused)) static void require(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "vendor_memory: %s failed\n", what);
    exit(1);
}

/* By VENDOR_FILE, if that is set, and with VENDOR_APART in a namespace of its own. */
__attribute__((unused)) static void *load(const char *file)
{
    const char *name = getenv("VENDOR_FILE") ? getenv("VENDOR_FILE") : file;
    void *library =
        getenv("VENDOR_APART") ? dlmopen(LM_ID_NEWLM, name, RTLD_NOW) : dlopen(name, RTLD_NOW);

    if (!library)
        fprintf(stderr, "vendor_memory: %s\n", dlerror());
    require(library != NULL, "dlopen");
    return library;
}

/* ---- the host's memory ------------------------------------------------------------------- */

static void *host_alloc(size_t len)
{
    return malloc(len);
}

static void host_write(void *memory, const void *from, size_t len)
{
    memcpy(memory, from, len);
}

static void host_read(void *to, const void *memory, size_t len)
{
    memcpy(to, memory, len);
}

/* ---- CUDA -------------------------------------------------------------------------------- */

#ifdef WITH_CUDA
static struct {
    int (*init)(unsigned);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*current)(void *);
    int (*alloc)(unsigned long long *, size_t);
    int (*release)(unsigned long long);
    int (*to)(unsigned long long, const void *, size_t);
    int (*from)(void *, unsigned long long, size_t);
} cuda;

static void cuda_start(void)
{
    void *library = load("libcuda.so.1"), *context = NULL;
    int device = 0;

    *(void **)&cuda.init = dlsym(library, "cuInit");
    *(void **)&cuda.device = dlsym(library, "cuDeviceGet");
    *(void **)&cuda.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&cuda.current = dlsym(library, "cuCtxSetCurrent");
    *(void **)&cuda.alloc = dlsym(library, "cuMemAlloc_v2");
    *(void **)&cuda.release = dlsym(library, "cuMemFree_v2");
    *(void **)&cuda.to = dlsym(library, "cuMemcpyHtoD_v2");
    *(void **)&cuda.from = dlsym(library, "cuMemcpyDtoH_v2");
    require(!cuda.init(0) && !cuda.device(&device, 0) && !cuda.retain(&context, device) &&
                !cuda.current(context),
            "starting CUDA");
}

static void *cuda_alloc(size_t len)
{
    unsigned long long made = 0;

    if (!cuda.init)
        cuda_start();
    require(!cuda.alloc(&made, len), "cuMemAlloc");
    return (void *)made;
}

static void cuda_release(void *memory)
{
    require(!cuda.release((unsigned long long)memory), "cuMemFree");
}

static void cuda_write(void *memory, const void *from, size_t len)
{
    require(!cuda.to((unsigned long long)memory, from, len), "cuMemcpyHtoD");
}

static void cuda_read(void *to, const void *memory, size_t len)
{
    require(!cuda.from(to, (unsigned long long)memory, len), "cuMemcpyDtoH");
}
#endif

/* ---- ROCm -------------------------------------------------------------------------------- */

#ifdef WITH_ROCR
#define HSA_CALLS(X)                                                                               \
    X(hsa_init)                                                                                    \
    X(hsa_iterate_agents)                                                                          \
    X(hsa_agent_get_info)                                                                          \
    X(hsa_amd_agent_iterate_memory_pools)                                                          \
    X(hsa_amd_memory_pool_get_info)                                                                \
    X(hsa_amd_memory_pool_allocate)                                                                \
    X(hsa_amd_memory_pool_free)                                                                    \
    X(hsa_memory_copy)

static struct {
#define HSA_MEMBER(call) __typeof__(call) *call;
    HSA_CALLS(HSA_MEMBER)
    hsa_agent_t gpu;
    hsa_amd_memory_pool_t pool;
} hsa;

static hsa_status_t meet_agent(hsa_agent_t agent, void *data)
{
    hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;

    hsa.hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    if (type == HSA_DEVICE_TYPE_GPU && !hsa.gpu.handle)
        hsa.gpu = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t meet_pool(hsa_amd_memory_pool_t pool, void *data)
{
    hsa_amd_segment_t segment = HSA_AMD_SEGMENT_PRIVATE;
    uint32_t flags = 0;

    hsa.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
    if (segment == HSA_AMD_SEGMENT_GLOBAL)
        hsa.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
    if (flags == HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED)
        hsa.pool = pool;
    return HSA_STATUS_SUCCESS;
}

static void rocr_start(void)
{
    void *library = load("libhsa-runtime64.so.1");

#define HSA_LOAD(call) *(void **)&hsa.call = dlsym(library, #call);
    HSA_CALLS(HSA_LOAD)
    require(!hsa.hsa_init() && !hsa.hsa_iterate_agents(meet_agent, NULL) && hsa.gpu.handle &&
                !hsa.hsa_amd_agent_iterate_memory_pools(hsa.gpu, meet_pool, NULL) &&
                hsa.pool.handle,
            "starting HSA");
}

static void *rocr_alloc(size_t len)
{
    void *made = NULL;

    if (!hsa.hsa_init)
        rocr_start();
    require(!hsa.hsa_amd_memory_pool_allocate(hsa.pool, len, 0, &made),
            "hsa_amd_memory_pool_allocate");
    return made;
}

static void rocr_release(void *memory)
{
    require(!hsa.hsa_amd_memory_pool_free(memory), "hsa_amd_memory_pool_free");
}

static void rocr_copy(void *to, const void *from, size_t len)
{
    require(!hsa.hsa_memory_copy(to, from, len), "hsa_memory_copy");
}
#endif

/* ---- Level Zero -------------------------------------------------------------------------- */

#ifdef WITH_ZE
#define ZE_CALLS(X)                                                                                \
    X(zeInit)                                                                                      \
    X(zeDriverGet)                                                                                 \
    X(zeDeviceGet)                                                                                 \
    X(zeDeviceGetCommandQueueGroupProperties)                                                      \
    X(zeContextCreate)                                                                             \
    X(zeMemAllocDevice)                                                                            \
    X(zeMemFree)                                                                                   \
    X(zeCommandListCreateImmediate)                                                                \
    X(zeCommandListAppendMemoryCopy)

static struct {
#define ZE_MEMBER(call) __typeof__(call) *call;
    ZE_CALLS(ZE_MEMBER)
    ze_device_handle_t device;
    ze_context_handle_t context;
    ze_command_list_handle_t list;
} ze;

/* The first group of queues that copies. */
static uint32_t copy_group(void)
{
    ze_command_queue_group_properties_t groups[8];
    uint32_t count = 8, group = 0;

    memset(groups, 0, sizeof(groups));
    for (uint32_t i = 0; i < count; i++)
        groups[i].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    require(!ze.zeDeviceGetCommandQueueGroupProperties(ze.device, &count, groups),
            "zeDeviceGetCommandQueueGroupProperties");
    while (group < count && !(groups[group].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY))
        group++;
    return group;
}

static void ze_start(void)
{
    const ze_context_desc_t context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .mode = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    void *library = load("libze_loader.so.1");
    ze_driver_handle_t driver = NULL;
    uint32_t one = 1;

#define ZE_LOAD(call) *(void **)&ze.call = dlsym(library, #call);
    ZE_CALLS(ZE_LOAD)
    require(!ze.zeInit(0) && !ze.zeDriverGet(&one, &driver), "starting Level Zero");
    one = 1;
    require(!ze.zeDeviceGet(driver, &one, &ze.device), "zeDeviceGet");
    queue.ordinal = copy_group();
    require(!ze.zeContextCreate(driver, &context, &ze.context) &&
                !ze.zeCommandListCreateImmediate(ze.context, ze.device, &queue, &ze.list),
            "opening a device of Level Zero");
}

static void *ze_alloc(size_t len)
{
    const ze_device_mem_alloc_desc_t wanted = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void *made = NULL;

    if (!ze.zeInit)
        ze_start();
    require(!ze.zeMemAllocDevice(ze.context, &wanted, len, 1, ze.device, &made),
            "zeMemAllocDevice");
    return made;
}

static void ze_release(void *memory)
{
    require(!ze.zeMemFree(ze.context, memory), "zeMemFree");
}

static void ze_copy(void *to, const void *from, size_t len)
{
    require(!ze.zeCommandListAppendMemoryCopy(ze.list, to, from, len, NULL, 0, NULL),
            "zeCommandListAppendMemoryCopy");
}
#endif

/* ---- all --------------------------------------------------------------------------------- */

static const struct vendor vendors[] = {
    {"host", 0, host_alloc, free, host_write, host_read},
#ifdef WITH_CUDA
    {"cuda", 1, cuda_alloc, cuda_release, cuda_write, cuda_read},
#endif
#ifdef WITH_ROCR
    {"rocr", 2, rocr_alloc, rocr_release, rocr_copy, rocr_copy},
#endif
#ifdef WITH_ZE
    {"ze", 3, ze_alloc, ze_release, ze_copy, ze_copy},
#endif
};

const struct vendor *vendor_find(const char *name)
{
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
        if (!strcmp(vendors[i].name, name))
            return &vendors[i];
    return NULL;
}

void vendor_fill(const struct vendor *vendor, void *memory, size_t len, unsigned seed)
{
    unsigned char *bytes = malloc(len);

    for (size_t i = 0; i < len; i++)
        bytes[i] = vendor_byte(seed, i);
    vendor->write(memory, bytes, len);
    free(bytes);
}

size_t vendor_differences(const struct vendor *vendor, const void *memory, size_t len,
                          unsigned seed)
{
    unsigned char *bytes = calloc(1, len);
    size_t differences = 0;

    vendor->read(bytes, memory, len);
    for (size_t i = 0; i < len; i++)
        differences += bytes[i] != vendor_byte(seed, i);
    free(bytes);
    return differences;
}
