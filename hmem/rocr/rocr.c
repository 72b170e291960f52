/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ROCm vendor: memory of hipMalloc and of HSA's memory pools, through the HSA runtime
 * (libhsa-runtime64.so.1). rocr.h lists what the other files do.
 */
#include "core/base/error.h"
#include "hmem/loader.h"
#include "hmem/rocr/rocr.h"

#include <errno.h>
#include <pthread.h>
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

/* One per process, like the runtime. */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static _Atomic pid_t users_process;

/* ---- open and close ------------------------------------------------------------------ */

static int start(struct hmem *self)
{
    hsa_status_t status = self->api.init();

    if (!status)
        return 0;
    /* Without the driver's device file the runtime reports "out of resources". */
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

/* Export needs both calls and the driver's support. If the runtime is too old to report the
 * latter, we assume it. */
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

/* The driver's descriptor works only in the process that opened it. */
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

static int rocr_open(struct hmem **out)
{
    struct hmem *self = NULL;
    int rc = check_process();

    rc = rc ? rc : load(&self);
    if (rc)
        return rc;
    read_version(self);
    read_dmabuf_support(self);
    rc = rocr_list_devices(self);
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

static void rocr_close(struct hmem *self)
{
    pthread_mutex_lock(&users_lock);
    if (!--users) {
        rocr_forget(self);
        users_process = 0;
    }
    pthread_mutex_unlock(&users_lock);
    if (!self->shut_down)
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

const struct hmem_ops hmem_rocr_ops = {
    .iface = HMREG_IFACE_ROCR,
    .name = "rocr",
    .open = rocr_open,
    .close = rocr_close,
    .runtime = runtime,
    .device_count = device_count,
    .device = device,
    .resolve = rocr_resolve,
    .identity = rocr_identity,
    .export_dmabuf = rocr_export,
    .copy = rocr_copy,
    .alloc = rocr_alloc,
    .free = rocr_free,
};
