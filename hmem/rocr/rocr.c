/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ROCm vendor: memory of hipMalloc and of HSA's memory pools, through the HSA runtime
 * (libhsa-runtime64.so.1). rocr.h lists what the other files do.
 */
#include "hmem/rocr/rocr.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One per process, like the runtime. */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static _Atomic pid_t users_process;

/* ---- open and close ------------------------------------------------------------------ */

static int init(struct rocr_hmem *self)
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
static void read_dmabuf_support(struct rocr_hmem *self)
{
    bool supported = true;

    if (!self->api.export_dmabuf || !self->api.close_dmabuf) {
        vendor_lacks(&self->base,
                     "this ROCm runtime has no hsa_amd_portable_export_dmabuf: device memory "
                     "cannot be exported as a dmabuf; a newer runtime can");
        return;
    }
    if (self->api.system_get_info((hsa_system_info_t)ROCR_INFO_DMABUF_SUPPORTED, &supported))
        supported = true;
    if (!supported)
        vendor_lacks(&self->base, "the kernel's AMD driver is too old for ROCm to export dmabufs");
    self->dmabuf = supported;
}

/* Runtime 6.1, build 1.13, is the last known one that starts again after its last user has shut it
 * down. In 6.4, build 1.15, the next user gets HSA_STATUS_ERROR_OUT_OF_RESOURCES. */
static bool build_starts_once(const char *build)
{
    unsigned major = 0, minor = 0;

    return build && sscanf(build + strspn(build, "\""), "%u.%u", &major, &minor) == 2 &&
           (major > 1 || minor > 13);
}

static void read_version(struct rocr_hmem *self)
{
    const char *build = NULL;
    uint16_t major = 0, minor = 0;

    if (self->api.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) ||
        self->api.system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor))
        return;
    if (self->api.system_get_info(HSA_AMD_SYSTEM_INFO_BUILD_VERSION, &build))
        build = NULL;
    self->starts_once = build_starts_once(build);
    snprintf(self->base.runtime.version, sizeof(self->base.runtime.version), "HSA %u.%u%s%s", major,
             minor, build ? ", build " : "", build ? build : "");
}

/* The driver's descriptor works only in the process that opened it. */
static int check_process(void)
{
    pid_t process = users_process;

    if (!process || process == getpid())
        return 0;
    return hmreg_fail(
        -ENODEV,
        "ROCm is in use in process %d, the parent of this one; it works in only one of them",
        (int)process);
}

/* A runtime that starts only once stays open: its next user may be the application. */
static void leave(const struct rocr_hmem *self)
{
    if (!self->starts_once)
        self->api.shut_down();
}

static int start(struct hmem *hmem)
{
    struct rocr_hmem *self = (struct rocr_hmem *)hmem;
    int rc = check_process();

    rc = rc ? rc : init(self);
    if (rc)
        return rc;
    read_version(self);
    read_dmabuf_support(self);
    vendor_unreported(
        hmem, "HSA reports only the end of memory in pools. Each get registers other memory anew: "
              "imported by IPC or from graphics, or mapped by HSA's virtual memory API");
    rc = rocr_list_devices(self);
    if (rc) {
        leave(self);
        return rc;
    }
    pthread_mutex_lock(&users_lock);
    users++;
    users_process = getpid();
    pthread_mutex_unlock(&users_lock);
    self->started = true;
    return 0;
}

static void stop(struct hmem *hmem)
{
    struct rocr_hmem *self = (struct rocr_hmem *)hmem;

    if (self->started) {
        pthread_mutex_lock(&users_lock);
        if (!--users) {
            rocr_forget(self);
            if (!self->starts_once) /* else the driver stays in use in this process */
                users_process = 0;
        }
        pthread_mutex_unlock(&users_lock);
        if (!atomic_load(&hmem->shut_down))
            leave(self);
    }
    free(self->agents);
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = rocr_gpu((struct rocr_hmem *)self, index)->info;
}

static bool started(void)
{
    static _Atomic(void *) found;
    hsa_status_t (*info)(hsa_system_info_t, void *) =
        (hsa_status_t(*)(hsa_system_info_t, void *))loader_find("libhsa-runtime64.so.1",
                                                                "hsa_system_get_info", &found);
    uint16_t major;

    return !info || info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) != HSA_STATUS_ERROR_NOT_INITIALIZED;
}

VENDOR_DEFINE(ROCR, rocr, "ROCm", "libhsa-runtime64.so.1", HSA_STATUS_ERROR_NOT_INITIALIZED,
              .started = started, .watch = rocr_watch);
