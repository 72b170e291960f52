/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm, by its HSA runtime (libhsa-runtime64.so.1): memory of hipMalloc and of HSA's own pools.
 *
 * Which memory is whose: pools of GPU agents are device memory; pools of CPU agents, and memory
 * of the process that was locked, are pinned host memory. Managed memory of HIP (svm) is memory
 * of the process with a policy: the runtime answers "unknown", so it resolves as the system's,
 * and that is right: what pins its pages moves them to the host first.
 *
 * HSA has no allocation ids. An allocation gets a serial number of ours, which a deallocation
 * callback ends (serials.h). The callback is refused for imported memory: identity 0.
 */
#include "core/error.h"
#include "hmem/loader.h"
#include "hmem/rocr.h"
#include "hmem/serials.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct loader_symbol symbols[] = {
    LOADER_NEED(struct rocr_api, init, "hsa_init"),
    LOADER_NEED(struct rocr_api, shut_down, "hsa_shut_down"),
    LOADER_NEED(struct rocr_api, status_string, "hsa_status_string"),
    LOADER_NEED(struct rocr_api, system_get_info, "hsa_system_get_info"),
    LOADER_NEED(struct rocr_api, iterate_agents, "hsa_iterate_agents"),
    LOADER_NEED(struct rocr_api, agent_get_info, "hsa_agent_get_info"),
    LOADER_NEED(struct rocr_api, memory_copy, "hsa_memory_copy"),
    LOADER_NEED(struct rocr_api, iterate_pools, "hsa_amd_agent_iterate_memory_pools"),
    LOADER_NEED(struct rocr_api, pool_get_info, "hsa_amd_memory_pool_get_info"),
    LOADER_NEED(struct rocr_api, agent_pool_get_info, "hsa_amd_agent_memory_pool_get_info"),
    LOADER_NEED(struct rocr_api, pool_allocate, "hsa_amd_memory_pool_allocate"),
    LOADER_NEED(struct rocr_api, pool_free, "hsa_amd_memory_pool_free"),
    LOADER_NEED(struct rocr_api, allow_access, "hsa_amd_agents_allow_access"),
    LOADER_NEED(struct rocr_api, register_callback, "hsa_amd_register_deallocation_callback"),
    LOADER_NEED(struct rocr_api, deregister_callback, "hsa_amd_deregister_deallocation_callback"),
    LOADER_NEED(struct rocr_api, pointer_info, "hsa_amd_pointer_info"),
    LOADER_WANT(struct rocr_api, export_dmabuf, "hsa_amd_portable_export_dmabuf"),
    LOADER_WANT(struct rocr_api, close_dmabuf, "hsa_amd_portable_close_dmabuf"),
    LOADER_WANT(struct rocr_api, vmem_retain, "hsa_amd_vmem_retain_alloc_handle"),
    LOADER_WANT(struct rocr_api, vmem_release, "hsa_amd_vmem_handle_release"),
    LOADER_WANT(struct rocr_api, vmem_export, "hsa_amd_vmem_export_shareable_handle"),
    LOADER_WANT(struct rocr_api, vmem_access, "hsa_amd_vmem_get_access"),
};

/* Of the process, as the runtime is: one withdrawal of a callback takes it from all. */
static struct serials allocations = SERIALS_INITIALIZER;
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static _Atomic pid_t users_process;

/* ---- errors -------------------------------------------------------------------------- */

int rocr_fail(struct hmem *self, int code, hsa_status_t status, const char *format, ...)
{
    const char *words = NULL;
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (status == HSA_STATUS_ERROR_NOT_INITIALIZED)
        self->gone = true;
    if (self->gone)
        return rocr_fail_gone();
    if (self->api.status_string(status, &words) != HSA_STATUS_SUCCESS)
        words = NULL;
    return hmreg_fail_vendor(code, "rocr", status, words, "%s", text);
}

int rocr_fail_gone(void)
{
    return hmreg_fail_vendor(-ENODEV, "rocr", HSA_STATUS_ERROR_NOT_INITIALIZED,
                             "HSA_STATUS_ERROR_NOT_INITIALIZED", "the ROCm runtime has shut down");
}

/* ---- open and close ------------------------------------------------------------------ */

static int start(struct hmem *self)
{
    hsa_status_t status = self->api.init();

    if (!status)
        return 0;
    /* Without the driver's device the runtime says "out of resources". */
    if (status != HSA_STATUS_ERROR_OUT_OF_RESOURCES)
        return rocr_fail(self, -EIO, status, "hsa_init failed");
    if (!access("/dev/kfd", R_OK | W_OK))
        return rocr_fail(self, -ENODEV, status, "hsa_init found no AMD GPU behind /dev/kfd");
    if (errno == ENOENT)
        return rocr_fail(self, -ENODEV, status,
                         "hsa_init found no AMD GPU driver: there is no /dev/kfd "
                         "(load amdgpu, or pass the device into this container)");
    return rocr_fail(self, -ENODEV, status,
                     "hsa_init found no AMD GPU driver: /dev/kfd cannot be opened "
                     "(%s; the user may have to join the group render)",
                     hmreg_strerror(errno));
}

/* Export takes both calls, and a driver that can; a runtime too old to be asked is tried. */
static void read_dmabuf_support(struct hmem *self)
{
    bool supported = true;

    if (!self->api.export_dmabuf || !self->api.close_dmabuf) {
        snprintf(self->runtime.lacks, sizeof(self->runtime.lacks),
                 "this ROCm runtime has no hsa_amd_portable_export_dmabuf: device memory cannot "
                 "be exported as a dmabuf; a newer runtime can");
        return;
    }
    if (self->api.system_get_info((hsa_system_info_t)ROCR_INFO_DMABUF_SUPPORTED, &supported))
        supported = true;
    if (!supported)
        snprintf(self->runtime.lacks, sizeof(self->runtime.lacks),
                 "the kernel's AMD driver is too old for ROCm to export dmabufs");
    self->dmabuf = supported;
}

static void read_version(struct hmem *self)
{
    const char *build = NULL;
    uint16_t major = 0, minor = 0;

    if (self->api.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) ||
        self->api.system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor))
        return;
    if (self->api.system_get_info(HSA_AMD_SYSTEM_INFO_BUILD_VERSION, &build))
        build = NULL;
    snprintf(self->runtime.version, sizeof(self->runtime.version), "HSA %u.%u%s%s", major, minor,
             build ? ", build " : "", build ? build : "");
}

/* The driver's descriptor stays with the process that opened it. */
static int check_process(void)
{
    pid_t process = users_process;

    if (!process || process == getpid())
        return 0;
    return hmreg_fail(-ENODEV,
                      "ROCm is in use in process %d, of which this one is a child; "
                      "it works in one of them only",
                      (int)process);
}

static void release(struct hmem *self)
{
    loader_close(self->handle);
    free(self->agents);
    free(self);
}

static int load(struct hmem **out)
{
    struct hmem *self = calloc(1, sizeof(*self));
    int rc;

    if (!self)
        return hmreg_fail(-ENOMEM, "no memory to open ROCm");
    rc = loader_open("rocr", "libhsa-runtime64.so.1", symbols, sizeof(symbols) / sizeof(symbols[0]),
                     &self->api, &self->handle, self->runtime.library,
                     sizeof(self->runtime.library));
    if (!rc)
        rc = start(self);
    if (rc) {
        release(self);
        return rc;
    }
    *out = self;
    return 0;
}

static int open_rocr(struct hmem **out)
{
    struct hmem *self = NULL;
    int rc = check_process();

    rc = rc ? rc : load(&self);
    if (rc)
        return rc;
    read_version(self);
    read_dmabuf_support(self);
    rc = rocr_find_agents(self);
    if (rc) {
        self->api.shut_down();
        release(self);
        return rc;
    }
    pthread_mutex_lock(&users_lock);
    users++;
    users_process = getpid();
    pthread_mutex_unlock(&users_lock);
    *out = self;
    return 0;
}

static void on_end(void *addr, void *slot)
{
    serials_end(slot);
}

static void withdraw(void *self, uint64_t base)
{
    struct hmem *runtime = self;

    if (!runtime->gone)
        runtime->api.deregister_callback((void *)(uintptr_t)base, on_end);
}

static void close_rocr(struct hmem *self)
{
    pthread_mutex_lock(&users_lock);
    if (!--users) {
        serials_forget(&allocations, withdraw, self);
        users_process = 0;
    }
    pthread_mutex_unlock(&users_lock);
    if (!self->gone)
        self->api.shut_down();
    release(self);
}

static void runtime(struct hmem *self, struct hmem_runtime *out)
{
    *out = self->runtime;
}

static int device_count(struct hmem *self)
{
    return self->devices;
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = rocr_gpu(self, index)->info;
}

/* ---- what is at an address ----------------------------------------------------------- */

static int check_answer(struct hmem *self, hsa_status_t status, uint64_t addr)
{
    if (status == HSA_STATUS_ERROR_NOT_INITIALIZED) {
        self->gone = true;
        return -HMEM_NOT_MINE;
    }
    if (status)
        return rocr_fail(self, -EIO, status, "ROCm could not say what is at %#" PRIx64, addr);
    return 0;
}

static int ask(struct hmem *self, uint64_t addr, struct rocr_pointer_info *info)
{
    *info = (struct rocr_pointer_info){.size = sizeof(*info)};
    if (self->gone)
        return -HMEM_NOT_MINE;
    return check_answer(
        self, self->api.pointer_info((void *)(uintptr_t)addr, info, NULL, NULL, NULL), addr);
}

int rocr_look_up(struct hmem *self, uint64_t addr, struct rocr_pointer_info *info)
{
    int rc = ask(self, addr, info);

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
        if (!info->registered)
            return -HMEM_NOT_MINE;
        if (rocr_vmem_is_mapped(self, addr))
            return hmreg_fail(-EOPNOTSUPP,
                              "%#" PRIx64 " is memory of HSA's virtual memory API: this runtime "
                              "tells nothing about its mapping; a newer one does",
                              addr);
        return hmreg_fail(
            -EFAULT, "nothing is mapped at %#" PRIx64 ": ROCm only reserved the address", addr);
    case ROCR_POINTER_VMEM:
        return rocr_vmem_bounds(self, addr, info);
    }
    return hmreg_fail(-EIO, "ROCm says that %#" PRIx64 " is of type %u, which is unknown here",
                      addr, info->type);
}

int rocr_ask_agents(struct hmem *self, uint64_t addr, hsa_agent_t **agents, uint32_t *count)
{
    struct rocr_pointer_info info = {.size = sizeof(info)};
    hsa_status_t status;
    int rc;

    *agents = NULL;
    *count = 0;
    status = self->api.pointer_info((void *)(uintptr_t)addr, &info, malloc, count, agents);
    rc = check_answer(self, status, addr);
    if (rc) {
        free(*agents);
        *agents = NULL;
    }
    return rc;
}

/* Imported memory may belong to a device this process does not see (ROCR_VISIBLE_DEVICES): then
 * the first GPU it is mapped on stands for it, as it does for the runtime's own copies. */
static int find_stand_in(struct hmem *self, uint64_t addr, const struct rocr_agent **out)
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
        return hmreg_fail(-EIO,
                          "the memory at %#" PRIx64 " is of a device that this process "
                          "does not see, and no visible GPU reaches it",
                          addr);
    *out = found;
    return 0;
}

int rocr_find_owner(struct hmem *self, uint64_t addr, const struct rocr_pointer_info *info,
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

/* Locked memory has two addresses: the process's own and, on some GPUs, another for the device.
 * The base is of the sort that was asked about. */
static uint64_t base_of(const struct rocr_pointer_info *info, uint64_t addr)
{
    if (info->type == ROCR_POINTER_LOCKED && addr - rocr_address(info->host_base) < info->len)
        return rocr_address(info->host_base);
    return rocr_address(info->agent_base);
}

uint64_t rocr_host_address(const struct rocr_pointer_info *locked, uint64_t addr)
{
    return rocr_address(locked->host_base) + (addr - base_of(locked, addr));
}

/* host_base of other memory repeats agent_base, whether or not the CPU can touch it. */
static uint64_t cpu_address(struct hmem *self, const struct rocr_pointer_info *info,
                            const struct rocr_agent *owner, uint64_t addr)
{
    if (info->type == ROCR_POINTER_LOCKED)
        return rocr_host_address(info, addr);
    if (info->type == ROCR_POINTER_VMEM)
        return owner->type == HSA_DEVICE_TYPE_CPU && rocr_vmem_cpu_may(self, addr, owner) ? addr
                                                                                          : 0;
    if (owner->type == HSA_DEVICE_TYPE_CPU)
        return addr;
    return info->type == ROCR_POINTER_HSA && owner->cpu_access ? addr : 0;
}

static int check_bounds(const struct hmem_range *range, uint64_t addr, size_t len)
{
    uint64_t end = range->alloc_base + range->alloc_len;

    if (addr < range->alloc_base || addr >= end)
        return hmreg_fail(-EIO,
                          "ROCm describes %#" PRIx64 " as memory from %#" PRIx64 " to %#" PRIx64
                          ", which does not contain it",
                          addr, range->alloc_base, end);
    if (len > end - addr)
        return hmreg_fail(
            -ERANGE, "the range of %zu bytes at %#" PRIx64 " leaves its allocation at %#" PRIx64,
            len, addr, end);
    return 0;
}

/* Mappings that follow one another without a gap are one range: a GPU's if any is, and the CPU's
 * to touch only if all are. */
static void walk_mappings(struct hmem *self, struct hmem_range *range, uint64_t addr, size_t len,
                          const struct rocr_agent **owner)
{
    struct rocr_pointer_info next;
    uint64_t end = range->alloc_base + range->alloc_len;

    while (addr + len > end && rocr_vmem_begins(self, end, &next)) {
        const struct rocr_agent *agent = rocr_agent(self, next.owner);

        if (agent && agent->type == HSA_DEVICE_TYPE_GPU && (*owner)->type != agent->type)
            *owner = agent;
        if (!agent || !cpu_address(self, &next, agent, end))
            range->host_addr = 0;
        range->segments++;
        range->alloc_len += next.len;
        end += next.len;
    }
}

/* ---- identity ------------------------------------------------------------------------ */

static bool is_still(struct hmem *self, const struct rocr_pointer_info *before)
{
    struct rocr_pointer_info now = {.size = sizeof(now)};

    return !self->api.pointer_info(before->agent_base, &now, NULL, NULL, NULL) &&
           now.type == before->type && now.agent_base == before->agent_base &&
           now.len == before->len;
}

/* A number for an allocation met for the first time. The callback is for whatever is at the base
 * when it is registered: the question after it shows that this is the same memory still. A slot
 * that is not entered is collected when its callback comes. */
static uint64_t number_allocation(struct hmem *self, const struct rocr_pointer_info *info)
{
    struct serial *slot = serials_draw(&allocations, rocr_address(info->agent_base), info->len);

    if (!slot)
        return 0;
    if (self->api.register_callback(info->agent_base, on_end, slot)) {
        serials_end(slot);
        return 0;
    }
    return is_still(self, info) ? serials_enter(&allocations, slot) : 0;
}

static uint64_t number_of(struct hmem *self, const struct rocr_pointer_info *info, uint64_t addr,
                          size_t len)
{
    uint64_t number;

    /* Only the runtime's own allocations have callbacks. */
    if (info->type != ROCR_POINTER_HSA)
        return 0;
    number = serials_find(&allocations, addr, len);
    return number ? number : number_allocation(self, info);
}

/* ---- resolve ------------------------------------------------------------------------- */

static int resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct hmem_range range = {.device = -1, .kind = HMREG_MEM_HOST_PINNED, .segments = 1};
    const struct rocr_agent *owner = NULL;
    struct rocr_pointer_info info;
    int rc = rocr_look_up(self, addr, &info);

    rc = rc ? rc : rocr_find_owner(self, addr, &info, &owner);
    if (rc)
        return rc;
    range.alloc_base = base_of(&info, addr);
    range.alloc_len = info.len;
    range.host_addr = cpu_address(self, &info, owner, addr);
    if (info.type == ROCR_POINTER_VMEM)
        walk_mappings(self, &range, addr, len, &owner);
    rc = check_bounds(&range, addr, len);
    if (rc)
        return rc;
    if (owner->type == HSA_DEVICE_TYPE_GPU && info.type != ROCR_POINTER_LOCKED) {
        range.device = owner->device;
        range.kind = HMREG_MEM_DEVICE;
        range.exportable = info.type == ROCR_POINTER_VMEM
                               ? self->api.vmem_export && range.segments == 1
                               : self->dmabuf && info.type == ROCR_POINTER_HSA;
    }
    range.identity = number_of(self, &info, addr, len);
    *out = range;
    return 0;
}

/* While no callback came the memory is what it was: no need to ask the runtime. */
static int identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    struct hmem_range range;
    uint64_t number = self->gone ? 0 : serials_find(&allocations, addr, len);
    int rc = number ? 0 : resolve(self, addr, len, &range);

    if (rc)
        return rc;
    *out = number ? number : range.identity;
    return 0;
}

const struct hmem_ops hmem_rocr_ops = {
    .iface = HMREG_IFACE_ROCR,
    .name = "rocr",
    .open = open_rocr,
    .close = close_rocr,
    .runtime = runtime,
    .device_count = device_count,
    .device = device,
    .resolve = resolve,
    .identity = identity,
    .export_dmabuf = rocr_export_dmabuf,
    .copy = rocr_copy,
    .alloc = rocr_alloc,
    .free = rocr_free,
};
