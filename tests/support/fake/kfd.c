/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For LD_PRELOAD: the kernel's /dev/kfd, the GPUs' render nodes and libdrm_amdgpu, for AMD's
 * runtimes that have libhsakmt inside (6.4). They start, with GPUs that do not compute:
 *
 *     HMREG_FAKE_KFD=FOLDER    the topology, as kfd_tree.sh has made it
 *     HMREG_FAKE_KFD_GPUS=2    how many GPUs that has
 *
 * An object of memory is an offset in a sparse file, which stands for a render node. A descriptor
 * of it is another file of its length: the bytes are not the same ones.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED  __attribute__((visibility("default")))
#define FIRST_ID  4711
#define NODE_SIZE (1ll << 40)
#define KFD_SIZE  (NODE_SIZE + 4096) /* by which a descriptor of /dev/kfd is known */

/* The real function behind this library's own. */
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static unsigned gpu_count(void)
{
    const char *gpus = getenv("HMREG_FAKE_KFD_GPUS");

    return gpus ? (unsigned)atoi(gpus) : 0;
}

static int new_file(off_t length)
{
    int fd = memfd_create("kfd", MFD_CLOEXEC);

    if (fd < 0 || !ftruncate(fd, length))
        return fd;
    close(fd);
    return -1;
}

/* ---- files ------------------------------------------------------------------------------ */

static const char *moved(const char *path, char *room, size_t size)
{
    static const char topology[] = "/sys/devices/virtual/kfd/kfd/topology";
    const char *folder = getenv("HMREG_FAKE_KFD");

    if (!folder || strncmp(path, topology, sizeof(topology) - 1))
        return path;
    snprintf(room, size, "%s%s", folder, path + sizeof(topology) - 1);
    return room;
}

EXPORTED int open(const char *path, int flags, ...)
{
    char room[512];
    va_list list;
    mode_t mode;

    va_start(list, flags);
    mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (!strcmp(path, "/dev/kfd"))
        return new_file(KFD_SIZE);
    if (!strncmp(path, "/dev/dri/renderD", strlen("/dev/dri/renderD")))
        return new_file(NODE_SIZE);
    return REAL(open)(moved(path, room, sizeof(room)), flags, mode);
}

EXPORTED FILE *fopen(const char *path, const char *mode)
{
    char room[512];

    return REAL(fopen)(moved(path, room, sizeof(room)), mode);
}

EXPORTED DIR *opendir(const char *path)
{
    char room[512];

    return REAL(opendir)(moved(path, room, sizeof(room)));
}

/* ---- the module ------------------------------------------------------------------------- */

/* Ranges of addresses that no process of x86-64 has, as the module gives them. */
static int apertures(struct kfd_ioctl_get_process_apertures_new_args *args)
{
    struct kfd_process_device_apertures *out =
        (void *)(uintptr_t)args->kfd_process_device_apertures_ptr;

    for (unsigned i = 0; out && i < args->num_of_nodes && i < gpu_count(); i++)
        out[i] = (struct kfd_process_device_apertures){.gpu_id = FIRST_ID + i,
                                                       .lds_base = 0x1000000000000,
                                                       .lds_limit = 0x10000ffffffff,
                                                       .scratch_base = 0x2000000000000,
                                                       .scratch_limit = 0x20000ffffffff,
                                                       .gpuvm_base = 0x1000,
                                                       .gpuvm_limit = 0x7fffffffffff};
    args->num_of_nodes = gpu_count();
    return 0;
}

/* A handle has the object's length, in pages of 4 KiB. */
#define LENGTH_BITS 40

static int allocate(struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
    static _Atomic uint64_t serial = 1, end;

    args->handle = serial++ << LENGTH_BITS | args->size >> 12;
    if (!(args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR))
        args->mmap_offset = atomic_fetch_add(&end, args->size);
    return 0;
}

static int export(struct kfd_ioctl_export_dmabuf_args *args)
{
    int fd = new_file((off_t)(args->handle & ((1ull << LENGTH_BITS) - 1)) << 12);

    args->dmabuf_fd = (uint32_t)fd;
    return fd < 0 ? -1 : 0;
}

static int clocks(struct kfd_ioctl_get_clock_counters_args *args)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    args->system_clock_freq = 1000000000;
    args->system_clock_counter = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    args->cpu_clock_counter = args->gpu_clock_counter = args->system_clock_counter;
    return 0;
}

static int new_event(struct kfd_ioctl_create_event_args *args)
{
    static _Atomic uint32_t last;

    args->event_id = args->event_slot_index = args->event_trigger_data = ++last;
    return 0;
}

/* A wait may end early: the runtime looks at its signals then. */
static int wait_for(struct kfd_ioctl_wait_events_args *args)
{
    usleep(5000);
    args->wait_result = 1; /* the time is over */
    return 0;
}

static int ask(unsigned long request, void *args)
{
    struct kfd_ioctl_get_version_args *version = args;
    struct kfd_ioctl_map_memory_to_gpu_args *map = args;
    struct kfd_ioctl_unmap_memory_from_gpu_args *unmap = args;
    struct kfd_ioctl_get_available_memory_args *available = args;

    switch (request) {
    case AMDKFD_IOC_GET_VERSION:
        *version = (struct kfd_ioctl_get_version_args){1, 17};
        return 0;
    case AMDKFD_IOC_GET_PROCESS_APERTURES_NEW:
        return apertures(args);
    case AMDKFD_IOC_ALLOC_MEMORY_OF_GPU:
        return allocate(args);
    case AMDKFD_IOC_MAP_MEMORY_TO_GPU:
        map->n_success = map->n_devices;
        return 0;
    case AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU:
        unmap->n_success = unmap->n_devices;
        return 0;
    case AMDKFD_IOC_AVAILABLE_MEMORY:
        available->available = 1ull << 30;
        return 0;
    case AMDKFD_IOC_EXPORT_DMABUF:
        return export(args);
    case AMDKFD_IOC_GET_CLOCK_COUNTERS:
        return clocks(args);
    case AMDKFD_IOC_CREATE_EVENT:
        return new_event(args);
    case AMDKFD_IOC_WAIT_EVENTS:
        return wait_for(args);
    case AMDKFD_IOC_ACQUIRE_VM:
    case AMDKFD_IOC_FREE_MEMORY_OF_GPU:
    case AMDKFD_IOC_SET_MEMORY_POLICY:
    case AMDKFD_IOC_SET_TRAP_HANDLER:
    case AMDKFD_IOC_SET_SCRATCH_BACKING_VA:
    case AMDKFD_IOC_DESTROY_EVENT:
    case AMDKFD_IOC_SET_EVENT:
    case AMDKFD_IOC_RESET_EVENT:
        return 0;
    }
    errno = EINVAL;
    return -1;
}

EXPORTED int ioctl(int fd, unsigned long request, ...)
{
    struct stat file;
    va_list list;
    void *args;

    va_start(list, request);
    args = va_arg(list, void *);
    va_end(list);
    return !fstat(fd, &file) && file.st_size == KFD_SIZE ? ask(request, args)
                                                         : REAL(ioctl)(fd, request, args);
}

/* ---- libdrm and libdrm_amdgpu, by the layouts of amdgpu.h ---------------------------------- */

#pragma GCC visibility push(default)
struct import {
    int *bo;
    uint64_t size;
};
int drmOpenRender(int minor);
int drmCommandWriteRead(int fd, unsigned long command, void *data, unsigned long size);
int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, int **device);
int amdgpu_device_deinitialize(int *device);
int amdgpu_device_get_fd(int *device);
int amdgpu_query_gpu_info(int *device, void *info);
const char *amdgpu_get_marketing_name(int *device);
int amdgpu_bo_import(int *device, int type, uint32_t fd, struct import *out);
int amdgpu_bo_export(int *bo, int type, uint32_t *handle);
int amdgpu_bo_va_op(int *bo, uint64_t offset, uint64_t size, uint64_t addr, uint64_t flags,
                    uint32_t op);
int amdgpu_bo_cpu_map(int *bo, void **cpu);
int amdgpu_bo_free(int *bo);
#pragma GCC visibility pop

int drmOpenRender(int minor)
{
    return new_file(NODE_SIZE);
}

/* DRM_AMDGPU_GEM_MMAP only: the offset for the CPU's mapping. */
int drmCommandWriteRead(int fd, unsigned long command, void *data, unsigned long size)
{
    memset(data, 0, size);
    return 0;
}

/* A device, and an object, is a descriptor. */
static int *keep(int fd)
{
    int *kept = malloc(sizeof(*kept));

    if (kept && (*kept = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        return kept;
    free(kept);
    return NULL;
}

static int give_up(int *kept)
{
    close(*kept);
    free(kept);
    return 0;
}

int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, int **device)
{
    *major = 3;
    *minor = 57;
    *device = keep(fd);
    return *device ? 0 : -ENOMEM;
}

int amdgpu_device_deinitialize(int *device)
{
    return give_up(device);
}

int amdgpu_device_get_fd(int *device)
{
    return *device;
}

/* The caller uses the clock's frequency only. */
int amdgpu_query_gpu_info(int *device, void *info)
{
    return 0;
}

const char *amdgpu_get_marketing_name(int *device)
{
    return "simulated AMD GPU";
}

int amdgpu_bo_import(int *device, int type, uint32_t fd, struct import *out)
{
    out->bo = keep((int)fd);
    out->size = (uint64_t)lseek((int)fd, 0, SEEK_END);
    return out->bo ? 0 : -ENOMEM;
}

int amdgpu_bo_export(int *bo, int type, uint32_t *handle)
{
    *handle = (uint32_t)*bo;
    return 0;
}

int amdgpu_bo_va_op(int *bo, uint64_t offset, uint64_t size, uint64_t addr, uint64_t flags,
                    uint32_t op)
{
    return 0;
}

int amdgpu_bo_cpu_map(int *bo, void **cpu)
{
    return -1;
}

int amdgpu_bo_free(int *bo)
{
    return give_up(bo);
}
