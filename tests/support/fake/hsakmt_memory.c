/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of the stand-in for libhsakmt: a list of allocated, reserved and locked memory. Memory of
 * a GPU is a memfd, which stands for its dmabuf.
 */
#include "tests/support/fake/hsakmt.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory {
    struct memory *next;
    uint64_t addr; /* or the handle of memory without an address */
    uint64_t len;
    HSA_POINTER_TYPE type;
    HSAuint32 node;
    HsaMemFlags flags;
    int fd; /* -1: none */
    void *user_data;
    HSAuint32 mapped[KMT_MAX_NODES];
    HSAuint32 mapped_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *first;

/* Called with the lock held. */
static struct memory *find(const void *addr)
{
    for (struct memory *memory = first; memory; memory = memory->next)
        if ((uintptr_t)addr - memory->addr < memory->len)
            return memory;
    return NULL;
}

static HSAKMT_STATUS enter(struct memory like)
{
    struct memory *memory = malloc(sizeof(*memory));

    if (!memory)
        return HSAKMT_STATUS_NO_MEMORY;
    *memory = like;
    pthread_mutex_lock(&lock);
    memory->next = first;
    first = memory;
    pthread_mutex_unlock(&lock);
    return HSAKMT_STATUS_SUCCESS;
}

/* Removes the memory at addr from the list; NULL: none begins there. */
static struct memory *leave(const void *addr)
{
    struct memory *gone = NULL;

    pthread_mutex_lock(&lock);
    for (struct memory **at = &first; *at && !gone; at = gone ? at : &(*at)->next)
        if ((*at)->addr == (uintptr_t)addr) {
            gone = *at;
            *at = gone->next;
        }
    pthread_mutex_unlock(&lock);
    return gone;
}

/* ---- allocating ------------------------------------------------------------------------- */

static int memory_file(uint64_t len)
{
    int fd = memfd_create("kmt", MFD_CLOEXEC);

    if (fd >= 0 && ftruncate(fd, (off_t)len)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The CPU can access its own memory and memory with HostAccess. A reservation, and memory without
 * an address, are addresses only. */
static void *map(const struct memory *memory)
{
    bool only_address = memory->flags.Value & (KMT_NO_ADDRESS | KMT_ONLY_ADDRESS);
    bool touchable = !only_address && (!memory->node || memory->flags.ui32.HostAccess);
    int protection = touchable ? PROT_READ | PROT_WRITE : PROT_NONE;
    int flags = memory->fd < 0 || only_address ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

    return mmap(NULL, memory->len, protection, flags | MAP_NORESERVE,
                flags & MAP_ANONYMOUS ? -1 : memory->fd, 0);
}

HSAKMT_STATUS hsaKmtAllocMemory(HSAuint32 node, HSAuint64 len, HsaMemFlags flags, void **addr)
{
    bool reservation = flags.Value & KMT_ONLY_ADDRESS;
    struct memory memory = {.len = len, .node = node, .flags = flags, .fd = -1};
    void *mapped;

    memory.type = reservation ? (HSA_POINTER_TYPE)5 : HSA_POINTER_ALLOCATED;
    if (node && !reservation && !flags.ui32.Scratch && (memory.fd = memory_file(len)) < 0)
        return HSAKMT_STATUS_NO_MEMORY;
    mapped = map(&memory);
    if (mapped == MAP_FAILED) {
        if (memory.fd >= 0)
            close(memory.fd);
        return HSAKMT_STATUS_NO_MEMORY;
    }
    memory.addr = (uintptr_t)mapped;
    *addr = mapped;
    return enter(memory);
}

HSAKMT_STATUS hsaKmtFreeMemory(void *addr, HSAuint64 len)
{
    struct memory *memory = leave(addr);

    if (!memory)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    munmap(addr, memory->len);
    if (memory->fd >= 0)
        close(memory->fd);
    free(memory);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtAvailableMemory(HSAuint32 node, HSAuint64 *bytes)
{
    *bytes = 1ull << 30;
    return HSAKMT_STATUS_SUCCESS;
}

/* Locked memory of the process. */
HSAKMT_STATUS hsaKmtRegisterMemoryWithFlags(void *addr, HSAuint64 len, HsaMemFlags flags)
{
    return enter((struct memory){.addr = (uintptr_t)addr,
                                 .len = len,
                                 .type = HSA_POINTER_REGISTERED_USER,
                                 .flags = flags,
                                 .fd = -1});
}

HSAKMT_STATUS hsaKmtDeregisterMemory(void *addr)
{
    struct memory *memory = leave(addr);

    free(memory);
    return memory ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

/* ---- mapping and querying ----------------------------------------------------------------- */

static HSAKMT_STATUS map_to(void *addr, HSAuint64 count, const HSAuint32 *nodes)
{
    struct memory *memory;

    if (count > KMT_MAX_NODES)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    pthread_mutex_lock(&lock);
    memory = find(addr);
    if (memory) {
        for (HSAuint64 i = 0; i < count; i++)
            memory->mapped[i] = nodes[i];
        memory->mapped_count = (HSAuint32)count;
    }
    pthread_mutex_unlock(&lock);
    return memory ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtMapMemoryToGPU(void *addr, HSAuint64 len, HSAuint64 *alternate)
{
    const HSAuint32 one = 1;

    *alternate = (uintptr_t)addr;
    return map_to(addr, 1, &one);
}

HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void *addr, HSAuint64 len, HSAuint64 *alternate,
                                        HsaMemMapFlags flags, HSAuint64 count, HSAuint32 *nodes)
{
    *alternate = (uintptr_t)addr;
    return map_to(addr, count, nodes);
}

HSAKMT_STATUS hsaKmtUnmapMemoryToGPU(void *addr)
{
    return map_to(addr, 0, NULL);
}

HSAKMT_STATUS hsaKmtSetMemoryUserData(const void *addr, void *data)
{
    struct memory *memory;

    pthread_mutex_lock(&lock);
    memory = find(addr);
    if (memory)
        memory->user_data = data;
    pthread_mutex_unlock(&lock);
    return memory ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtQueryPointerInfo(const void *addr, HsaPointerInfo *out)
{
    const struct memory *memory;

    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&lock);
    memory = find(addr);
    if (memory && !(memory->flags.Value & KMT_NO_ADDRESS) && !memory->flags.ui32.Scratch)
        *out = (HsaPointerInfo){.Type = memory->type,
                                .Node = memory->node,
                                .MemFlags = memory->flags,
                                .CPUAddress = (void *)(uintptr_t)memory->addr,
                                .GPUAddress = memory->addr,
                                .SizeInBytes = memory->len,
                                .NMappedNodes = memory->mapped_count,
                                .MappedNodes = memory->mapped,
                                .UserData = memory->user_data};
    pthread_mutex_unlock(&lock);
    return out->Type ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS hsaKmtExportDMABufHandle(void *addr, HSAuint64 len, int *fd, HSAuint64 *offset)
{
    const struct memory *memory;
    int made = -1;

    pthread_mutex_lock(&lock);
    memory = find(addr);
    if (memory && memory->fd >= 0 && (uintptr_t)addr + len <= memory->addr + memory->len) {
        made = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
        *offset = (uintptr_t)addr - memory->addr;
    }
    pthread_mutex_unlock(&lock);
    if (made < 0)
        return memory ? HSAKMT_STATUS_ERROR : HSAKMT_STATUS_INVALID_PARAMETER;
    *fd = made;
    return HSAKMT_STATUS_SUCCESS;
}

/* ---- libdrm_amdgpu ------------------------------------------------------------------------ */

struct kmt_bo {
    int fd;
};

/* A device is its node's number. */
HSAKMT_STATUS hsaKmtGetAMDGPUDeviceHandle(HSAuint32 node, void **handle)
{
    *handle = (void *)(uintptr_t)node;
    return HSAKMT_STATUS_SUCCESS;
}

/* The caller initializes none of it, and uses the clock's frequency only. */
int amdgpu_query_gpu_info(void *device, void *info)
{
    return 0;
}

/* The runtime passes it to drmCommandWriteRead(), and to mmap() for the CPU's access. */
int amdgpu_device_get_fd(void *device)
{
    return 0;
}

int amdgpu_bo_import(void *device, int type, uint32_t fd, struct kmt_import *out)
{
    struct kmt_bo *bo = malloc(sizeof(*bo));

    if (!bo || (bo->fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        free(bo);
        return -1;
    }
    *out = (struct kmt_import){.bo = bo, .size = (uint64_t)lseek(bo->fd, 0, SEEK_END)};
    return 0;
}

int amdgpu_bo_export(struct kmt_bo *bo, int type, uint32_t *handle)
{
    *handle = (uint32_t)bo->fd;
    return 0;
}

int amdgpu_bo_va_op(struct kmt_bo *bo, uint64_t offset, uint64_t size, uint64_t addr,
                    uint64_t flags, uint32_t op)
{
    return 0;
}

int amdgpu_bo_cpu_map(struct kmt_bo *bo, void **cpu)
{
    return -1;
}

int amdgpu_bo_free(struct kmt_bo *bo)
{
    close(bo->fd);
    free(bo);
    return 0;
}

/* DRM_AMDGPU_GEM_MMAP only: the offset in the device's descriptor for the CPU's mapping. */
int drmCommandWriteRead(int fd, unsigned long command, void *data, unsigned long size)
{
    memset(data, 0, size);
    return 0;
}
