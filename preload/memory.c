/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory.h.
 */
#include "preload/memory.h"

#include "preload/engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

/* ---- has the program started a vendor's runtime? ------------------------------------------ */

/* Before its start a runtime has no memory, and hmreg need not be opened to ask. These calls say
 * that it has not been started. */
static bool is_cuda_started(void *function)
{
    void *context = NULL;

    return ((int (*)(void **))function)(&context) != 3; /* CUDA_ERROR_NOT_INITIALIZED */
}

static bool is_rocr_started(void *function)
{
    uint16_t version;

    /* HSA_SYSTEM_INFO_VERSION_MAJOR; HSA_STATUS_ERROR_NOT_INITIALIZED */
    return ((int (*)(int, void *))function)(0, &version) != 0x100b;
}

static bool is_ze_started(void *function)
{
    uint32_t count = 0;

    /* ZE_RESULT_ERROR_UNINITIALIZED */
    return ((int (*)(uint32_t *, void *))function)(&count, NULL) != 0x78000001;
}

static const struct runtime {
    const char *library, *function;
    bool (*is_started)(void *function);
} runtimes[] = {
    {"libcuda.so.1", "cuCtxGetCurrent", is_cuda_started},
    {"libhsa-runtime64.so.1", "hsa_system_get_info", is_rocr_started},
    {"libze_loader.so.1", "zeDriverGet", is_ze_started},
};

#define RUNTIMES (sizeof(runtimes) / sizeof(runtimes[0]))

/* The function of each runtime that was found in the process, where it stays from then on. */
static _Atomic(void *) functions[RUNTIMES];
/* What the dynamic linker had loaded and unloaded when it was last looked for them. */
static _Atomic uint64_t looked;

struct look {
    bool found[RUNTIMES];
    uint64_t changes;
};

static int count_changes(struct dl_phdr_info *info, size_t size, void *arg)
{
    *(uint64_t *)arg = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    struct look *look = arg;

    look->changes = info->dlpi_adds + info->dlpi_subs;
    for (size_t i = 0; i < RUNTIMES; i++)
        if (!strcmp(slash ? slash + 1 : info->dlpi_name, runtimes[i].library))
            look->found[i] = true;
    return 0;
}

/* Only of a library that is there, since a failure would change the program's dlerror(3). */
static void find_function(size_t i)
{
    void *library = dlopen(runtimes[i].library, RTLD_LAZY | RTLD_NOLOAD);

    if (library)
        atomic_store(&functions[i], dlsym(library, runtimes[i].function));
}

static void find_functions(void)
{
    struct look look = {0};
    uint64_t changes = 0;

    dl_iterate_phdr(count_changes, &changes);
    if (atomic_load(&looked) == changes)
        return;
    dl_iterate_phdr(look_at, &look);
    for (size_t i = 0; i < RUNTIMES; i++)
        if (look.found[i] && !atomic_load(&functions[i]))
            find_function(i);
    atomic_store(&looked, look.changes);
}

static bool is_any_started(void)
{
    find_functions();
    for (size_t i = 0; i < RUNTIMES; i++) {
        void *function = atomic_load(&functions[i]);

        if (function && runtimes[i].is_started(function))
            return true;
    }
    return false;
}

/* ---- which memory ------------------------------------------------------------------------ */

bool memory_find(uint64_t addr, uint64_t len, uint8_t *iface, int16_t *device)
{
    struct hmreg_mem_info info = {.size = sizeof(info), .iface = HMREG_IFACE_SYSTEM, .device = -1};
    int error = errno, rc = 0;

    if (is_any_started()) {
        struct hmreg *lib = engine_library();

        /* Of one byte, since the list of host memory's mappings is long. */
        rc = lib && len ? hmreg_query(lib, (void *)(uintptr_t)addr, 1, &info) : -EINVAL;
        if (rc == -EFAULT) /* no runtime's, and not mapped */
            rc = 0;
    }
    errno = error;
    if (rc)
        return false;
    *iface = (uint8_t)info.iface;
    *device = (int16_t)info.device;
    return true;
}
