/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A stand-in for libhsakmt.so.1, AMD's library between its runtime and the kernel's driver: with it
 * the real libhsa-runtime64 starts on a machine without /dev/kfd. It shows one CPU node and, with
 * HMREG_FAKE_KMT_GPUS=n, n GPUs (gfx90a). Memory of a GPU is a memfd whose addresses fault when the
 * CPU touches them; it can be allocated, mapped, queried and exported as a dmabuf. Queues do not
 * exist, so nothing runs on such a GPU and nothing is copied by it.
 *
 * HMREG_FAKE_KMT_OPEN_FAILS: the kernel's driver cannot be opened while it is set.
 *
 * It also stands in for the entry points of libdrm_amdgpu that the runtime calls, which the dynamic
 * linker finds here first. Calls that no test needs answer HSAKMT_STATUS_NOT_SUPPORTED
 * (hsakmt_rest.c). Built with the header of libhsakmt-dev, whose structs only grow at their ends.
 */
#include "tests/support/fake/hsakmt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CPU_MEMORY (8ull << 30)
#define GPU_MEMORY (16ull << 30)

static unsigned gpu_count(void)
{
    const char *count = getenv("HMREG_FAKE_KMT_GPUS");
    long gpus = count ? strtol(count, NULL, 10) : 0;

    return gpus < 0 ? 0 : gpus > KMT_MAX_NODES - 1 ? KMT_MAX_NODES - 1 : (unsigned)gpus;
}

/* ---- the driver ------------------------------------------------------------------------- */

HSAKMT_STATUS hsaKmtOpenKFD(void)
{
    return getenv("HMREG_FAKE_KMT_OPEN_FAILS") ? HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED
                                               : HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtCloseKFD(void)
{
    return HSAKMT_STATUS_SUCCESS;
}

/* Runtime 6.1 requires 1.15 for its virtual memory calls. */
HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo *version)
{
    *version =
        (HsaVersionInfo){.KernelInterfaceMajorVersion = 1, .KernelInterfaceMinorVersion = 15};
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRuntimeEnable(void *debug, bool setup)
{
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtRuntimeDisable(void)
{
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetRuntimeCapabilities(HSAuint32 *capabilities)
{
    *capabilities = 0;
    return HSAKMT_STATUS_SUCCESS;
}

/* ---- nodes ------------------------------------------------------------------------------ */

HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties *properties)
{
    *properties = (HsaSystemProperties){.NumNodes = 1 + gpu_count()};
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtReleaseSystemProperties(void)
{
    return HSAKMT_STATUS_SUCCESS;
}

/* The GPUs are at 0000:23:00.0, 0000:24:00.0 and so on. */
static void describe_gpu(HSAuint32 node, HsaNodeProperties *gpu)
{
    static const char name[] = "simulated AMD GPU";

    gpu->NumFComputeCores = 16;
    gpu->NumSIMDPerCU = 4;
    gpu->NumCUPerArray = 4;
    gpu->NumShaderBanks = gpu->NumArrays = 1;
    gpu->MaxWavesPerSIMD = 8;
    gpu->MaxSlotsScratchCU = 32;
    gpu->WaveFrontSize = 64;
    gpu->LDSSizeInKB = 64;
    gpu->NumIOLinks = 1;
    gpu->EngineId.ui32.Major = 9;
    gpu->EngineId.ui32.Stepping = 10;
    gpu->VendorId = 0x1002;
    gpu->DeviceId = 0x740f;
    gpu->LocationId = (0x22 + node) << 8;
    gpu->LocalMemSize = GPU_MEMORY;
    gpu->UniqueID = node;
    memcpy(gpu->AMDName, name, sizeof(name));
    for (size_t i = 0; i < sizeof(name); i++)
        gpu->MarketingName[i] = (HSAuint16)name[i];
#ifdef HMREG_HSAKMT_HAS_XCC
    gpu->NumXcc = 1;
#endif
}

/* Write only the fields of an older runtime's struct: they begin the newer one. */
HSAKMT_STATUS hsaKmtGetNodeProperties(HSAuint32 node, HsaNodeProperties *properties)
{
    if (node > gpu_count())
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    *properties = (HsaNodeProperties){.NumMemoryBanks = 1};
    if (node)
        describe_gpu(node, properties);
    else
        properties->NumCPUCores = 1;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeMemoryProperties(HSAuint32 node, HSAuint32 banks,
                                            HsaMemoryProperties *out)
{
    memset(out, 0, banks * sizeof(*out));
    out->HeapType = node ? HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE : HSA_HEAPTYPE_SYSTEM;
    out->SizeInBytes = node ? GPU_MEMORY : CPU_MEMORY;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeCacheProperties(HSAuint32 node, HSAuint32 processor, HSAuint32 caches,
                                           HsaCacheProperties *out)
{
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32 node, HSAuint32 links,
                                            HsaIoLinkProperties *out)
{
    memset(out, 0, links * sizeof(*out));
    out->IoLinkType = HSA_IOLINKTYPE_PCIEXPRESS;
    out->NodeFrom = node;
    out->Weight = 20;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetClockCounters(HSAuint32 node, HsaClockCounters *out)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    *out = (HsaClockCounters){.SystemClockFrequencyHz = 1000000000};
    out->SystemClockCounter = (HSAuint64)now.tv_sec * 1000000000 + (HSAuint64)now.tv_nsec;
    out->CPUClockCounter = out->GPUClockCounter = out->SystemClockCounter;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetXNACKMode(HSAint32 *enabled)
{
    *enabled = 0;
    return HSAKMT_STATUS_SUCCESS;
}

/* Programs for a GPU are accepted and never run. */
HSAKMT_STATUS hsaKmtSetTrapHandler(HSAuint32 node, void *code, HSAuint64 code_len, void *data,
                                   HSAuint64 data_len)
{
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetMemoryPolicy(HSAuint32 node, HSAuint32 policy, HSAuint32 alternate,
                                    void *addr, HSAuint64 len)
{
    return HSAKMT_STATUS_SUCCESS;
}

/* ---- events: setting one wakes all waiters ------------------------------------------------- */

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t events_set = PTHREAD_COND_INITIALIZER;
static HSAuint32 events; /* number created */

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor *descriptor, bool manual, bool set,
                                HsaEvent **out)
{
    HsaEvent *event = calloc(1, sizeof(*event));

    if (!event)
        return HSAKMT_STATUS_NO_MEMORY;
    pthread_mutex_lock(&events_lock);
    event->EventId = ++events;
    pthread_mutex_unlock(&events_lock);
    event->EventData.EventType = descriptor->EventType;
    *out = event;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent *event)
{
    free(event);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetEvent(HsaEvent *event)
{
    pthread_mutex_lock(&events_lock);
    pthread_cond_broadcast(&events_set);
    pthread_mutex_unlock(&events_lock);
    return HSAKMT_STATUS_SUCCESS;
}

/* A wait may end early, since the runtime then checks its signals. */
static HSAKMT_STATUS wait_a_little(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&events_lock);
    pthread_cond_timedwait(&events_set, &events_lock, &until);
    pthread_mutex_unlock(&events_lock);
    return HSAKMT_STATUS_WAIT_TIMEOUT;
}

HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent *event, HSAuint32 milliseconds)
{
    return wait_a_little();
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent *list[], HSAuint32 count, bool all,
                                         HSAuint32 milliseconds)
{
    return wait_a_little();
}

HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent *event, HSAuint32 milliseconds, uint64_t *age)
{
    return wait_a_little();
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents_Ext(HsaEvent *list[], HSAuint32 count, bool all,
                                             HSAuint32 milliseconds, uint64_t *age)
{
    return wait_a_little();
}
