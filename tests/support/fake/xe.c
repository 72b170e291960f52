/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For LD_PRELOAD: the GPUs' render nodes and the interface of the kernel's module xe, for Intel's
 * Level Zero driver. It starts, with GPUs that do not compute:
 *
 *     HMREG_FAKE_XE=FOLDER      stands for /dev/dri/by-path: a file pci-0000:23:00.0-render for a
 * GPU HMREG_FAKE_XE_TILES=2     each is a Data Center GPU Max 1550, of two tiles; else an Arc Pro
 * B60
 *
 * A buffer object is a file in memory, and a descriptor of it that file: the bytes are the same.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <drm/drm.h>
#include <drm/xe_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORTED    __attribute__((visibility("default")))
#define NODE_SIZE   ((1ll << 40) + 8192) /* by which a descriptor of a node is known */
#define OFFSET_BITS 40                   /* a mapping's offset: the object's number, the object's */
#define OBJECTS     4096
#define PAGE        65536 /* of the GPUs' memory */

/* The real function behind this library's own. */
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* The number of an object is its descriptor's place here. 0: none. */
static _Atomic int objects[OBJECTS];

static int new_file(off_t length)
{
    int fd = memfd_create("xe", MFD_CLOEXEC);

    if (fd < 0 || !ftruncate(fd, length))
        return fd;
    close(fd);
    return -1;
}

static bool is_node(int fd)
{
    struct stat file;

    return !fstat(fd, &file) && file.st_size == NODE_SIZE;
}

/* ---- files ------------------------------------------------------------------------------ */

static const char nodes[] = "/dev/dri/by-path";

EXPORTED DIR *opendir(const char *path)
{
    const char *folder = getenv("HMREG_FAKE_XE");

    return REAL(opendir)(folder && !strcmp(path, nodes) ? folder : path);
}

EXPORTED int open(const char *path, int flags, ...)
{
    va_list list;
    mode_t mode;

    va_start(list, flags);
    mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return strncmp(path, nodes, sizeof(nodes) - 1) ? REAL(open)(path, flags, mode)
                                                   : new_file(NODE_SIZE);
}

EXPORTED void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (fd >= 0 && is_node(fd)) {
        fd = objects[offset >> OFFSET_BITS];
        offset &= (1ll << OFFSET_BITS) - 1;
    }
    return REAL(mmap)(addr, len, prot, flags, fd, offset);
}

/* ---- what the device is ------------------------------------------------------------------- */

static bool has_tiles(void)
{
    return getenv("HMREG_FAKE_XE_TILES");
}

static uint16_t tiles(void)
{
    return has_tiles() ? 2 : 1;
}

static size_t config(struct drm_xe_query_config *out)
{
    out->num_params = 5;
    out->info[DRM_XE_QUERY_CONFIG_REV_AND_DEVICE_ID] = has_tiles() ? 0x0bd5 : 0xe211;
    out->info[DRM_XE_QUERY_CONFIG_FLAGS] = DRM_XE_QUERY_CONFIG_FLAG_HAS_VRAM;
    out->info[DRM_XE_QUERY_CONFIG_MIN_ALIGNMENT] = PAGE;
    out->info[DRM_XE_QUERY_CONFIG_VA_BITS] = has_tiles() ? 57 : 48;
    out->info[DRM_XE_QUERY_CONFIG_MAX_EXEC_QUEUE_PRIORITY] = 2;
    return sizeof(*out) + 5 * sizeof(out->info[0]);
}

static size_t gt_list(struct drm_xe_query_gt_list *out)
{
    for (uint16_t i = 0; i < tiles(); i++)
        out->gt_list[out->num_gt++] = (struct drm_xe_gt){.tile_id = i,
                                                         .gt_id = i,
                                                         .reference_clock = 19200000,
                                                         .near_mem_regions = 2u << i,
                                                         .far_mem_regions = 1,
                                                         .ip_ver_major = has_tiles() ? 12 : 20,
                                                         .ip_ver_minor = has_tiles() ? 60 : 1,
                                                         .ip_ver_rev = has_tiles() ? 7 : 0};
    return sizeof(*out) + out->num_gt * sizeof(out->gt_list[0]);
}

static size_t mem_regions(struct drm_xe_query_mem_regions *out)
{
    out->mem_regions[out->num_mem_regions++] =
        (struct drm_xe_mem_region){.mem_class = DRM_XE_MEM_REGION_CLASS_SYSMEM,
                                   .min_page_size = 4096,
                                   .total_size = 64ull << 30};
    for (uint16_t i = 0; i < tiles(); i++)
        out->mem_regions[out->num_mem_regions++] =
            (struct drm_xe_mem_region){.mem_class = DRM_XE_MEM_REGION_CLASS_VRAM,
                                       .instance = (uint16_t)(1 + i),
                                       .min_page_size = PAGE,
                                       .total_size = 16ull << 30,
                                       .cpu_visible_size = 16ull << 30};
    return sizeof(*out) + out->num_mem_regions * sizeof(out->mem_regions[0]);
}

static size_t engines(struct drm_xe_query_engines *out)
{
    static const uint16_t classes[] = {DRM_XE_ENGINE_CLASS_COPY, DRM_XE_ENGINE_CLASS_COMPUTE};

    for (uint16_t i = 0; i < 2 * tiles(); i++)
        out->engines[out->num_engines++].instance =
            (struct drm_xe_engine_class_instance){.engine_class = classes[i % 2], .gt_id = i / 2};
    return sizeof(*out) + out->num_engines * sizeof(out->engines[0]);
}

/* The units that each tile has, by their kinds: 20 of 8. */
static size_t topology(char *out)
{
    static const uint16_t kinds[] = {DRM_XE_TOPO_DSS_GEOMETRY, DRM_XE_TOPO_DSS_COMPUTE,
                                     DRM_XE_TOPO_L3_BANK, DRM_XE_TOPO_EU_PER_DSS};
    const size_t size = sizeof(struct drm_xe_query_topology_mask) + 8;

    for (unsigned i = 0; i < 4u * tiles(); i++) {
        struct drm_xe_query_topology_mask *mask = (void *)(out + i * size);

        mask->gt_id = (uint16_t)(i / 4);
        mask->type = kinds[i % 4];
        mask->num_bytes = 8;
        memcpy(mask->mask, i % 4 < 2 ? "\xff\xff\x0f" : "\xff\0\0", 3);
    }
    return 4 * tiles() * size;
}

/* The firmware's table: names, each with the length and the value. The driver wants those that
 * count its units, and divides by them. */
static size_t hwconfig(uint32_t *out)
{
    static const uint32_t table[] = {1,  1, 5, 70, 1, 20, 71, 1, 8,    15, 1, 8,
                                     23, 1, 1, 24, 1, 1,  64, 1, 1024, 73, 1, 128,
                                     11, 1, 4, 10, 1, 8,  83, 1, 1,    62, 1, 8};

    memcpy(out, table, sizeof(table));
    return sizeof(table);
}

static size_t answer(uint32_t query, void *out)
{
    switch (query) {
    case DRM_XE_DEVICE_QUERY_ENGINES:
        return engines(out);
    case DRM_XE_DEVICE_QUERY_MEM_REGIONS:
        return mem_regions(out);
    case DRM_XE_DEVICE_QUERY_CONFIG:
        return config(out);
    case DRM_XE_DEVICE_QUERY_GT_LIST:
        return gt_list(out);
    case DRM_XE_DEVICE_QUERY_HWCONFIG:
        return hwconfig(out);
    case DRM_XE_DEVICE_QUERY_GT_TOPOLOGY:
        return topology(out);
    }
    return 0;
}

/* First it is asked for the size. */
static int query(struct drm_xe_device_query *args)
{
    uint64_t room[128] = {0};
    size_t size = answer(args->query, room);

    errno = EINVAL;
    if (!size || (args->size && args->size != size))
        return -1;
    if (args->size)
        memcpy((void *)(uintptr_t)args->data, room, size);
    args->size = (uint32_t)size;
    return 0;
}

/* ---- objects ------------------------------------------------------------------------------ */

static int new_object(int fd, uint32_t *handle)
{
    for (unsigned i = 1; fd >= 0 && i < OBJECTS; i++) {
        int none = 0;

        if (atomic_compare_exchange_strong(&objects[i], &none, fd)) {
            *handle = i;
            return 0;
        }
    }
    return -1;
}

static int end_object(uint32_t handle)
{
    int fd = handle < OBJECTS ? atomic_exchange(&objects[handle], 0) : 0;

    errno = EINVAL;
    return fd ? close(fd) : -1;
}

static int export(struct drm_prime_handle *args)
{
    args->fd = fcntl(objects[args->handle % OBJECTS], F_DUPFD_CLOEXEC, 0);
    return args->fd < 0 ? -1 : 0;
}

/* The object that is already there, or a new one. */
static int import(struct drm_prime_handle *args)
{
    struct stat asked, file;

    if (fstat(args->fd, &asked))
        return -1;
    for (unsigned i = 1; i < OBJECTS; i++)
        if (objects[i] && !fstat(objects[i], &file) && file.st_ino == asked.st_ino) {
            args->handle = i;
            return 0;
        }
    return new_object(fcntl(args->fd, F_DUPFD_CLOEXEC, 0), &args->handle);
}

/* A mapping is there at once: its fence is an address of the process. */
static int bind(const struct drm_xe_vm_bind *args)
{
    const struct drm_xe_sync *syncs = (const void *)(uintptr_t)args->syncs;

    for (uint32_t i = 0; i < args->num_syncs; i++)
        if (syncs[i].type == DRM_XE_SYNC_TYPE_USER_FENCE)
            *(volatile uint64_t *)(uintptr_t)syncs[i].addr = syncs[i].timeline_value;
    return 0;
}

/* Work ends at once. The fence lies in a page that begins with the counters that the engines would
 * write, each tile its own. */
static int execute(const struct drm_xe_exec *args)
{
    const struct drm_xe_sync *sync = (const void *)(uintptr_t)args->syncs;
    char *page = (char *)(uintptr_t)(sync->addr & ~(uint64_t)4095);

    *(volatile uint64_t *)(uintptr_t)sync->addr = sync->timeline_value;
    for (int i = 0; i < tiles(); i++)
        *(volatile uint32_t *)(void *)(page + 64 * i) = (uint32_t)sync->timeline_value;
    return 0;
}

/* ---- calls -------------------------------------------------------------------------------- */

static int version(struct drm_version *args)
{
    snprintf(args->name, args->name_len, "xe");
    args->name_len = 2;
    return 0;
}

static int ask(unsigned long request, void *args)
{
    static _Atomic uint32_t last;
    struct drm_xe_gem_create *create = args;
    struct drm_xe_gem_mmap_offset *map = args;
    struct drm_xe_vm_create *vm = args;
    struct drm_xe_exec_queue_create *queue = args;

    switch (request) {
    case DRM_IOCTL_VERSION:
        return version(args);
    case DRM_IOCTL_XE_DEVICE_QUERY:
        return query(args);
    case DRM_IOCTL_XE_VM_CREATE:
        vm->vm_id = ++last;
        return 0;
    case DRM_IOCTL_XE_EXEC_QUEUE_CREATE:
        queue->exec_queue_id = ++last;
        return 0;
    case DRM_IOCTL_XE_GEM_CREATE:
        return new_object(new_file((off_t)create->size), &create->handle);
    case DRM_IOCTL_XE_GEM_MMAP_OFFSET:
        map->offset = (uint64_t)map->handle << OFFSET_BITS;
        return 0;
    case DRM_IOCTL_GEM_CLOSE:
        return end_object(((struct drm_gem_close *)args)->handle);
    case DRM_IOCTL_PRIME_HANDLE_TO_FD:
        return export(args);
    case DRM_IOCTL_PRIME_FD_TO_HANDLE:
        return import(args);
    case DRM_IOCTL_XE_VM_BIND:
        return bind(args);
    case DRM_IOCTL_XE_EXEC:
        return execute(args);
    case DRM_IOCTL_XE_VM_DESTROY:
    case DRM_IOCTL_XE_EXEC_QUEUE_DESTROY:
    case DRM_IOCTL_XE_WAIT_USER_FENCE:
        return 0;
    case DRM_IOCTL_XE_EXEC_QUEUE_GET_PROPERTY:
        ((struct drm_xe_exec_queue_get_property *)args)->value = 0;
        return 0;
    }
    errno = EINVAL;
    return -1;
}

EXPORTED int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    void *args;

    va_start(list, request);
    args = va_arg(list, void *);
    va_end(list);
    return is_node(fd) ? ask(request, args) : REAL(ioctl)(fd, request, args);
}
