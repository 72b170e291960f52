/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory.h.
 */
#include "preload/memory.h"

#include "core/base/high_fd.h"
#include "core/base/soname.h"
#include "preload/engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define NAME_ROOM 32 /* more than any name below has */

/* ---- what is mapped, by its file ---------------------------------------------------------- */

/* Reads without malloc(3), whose locks a signal handler's thread may hold. */
static bool mapped_have(const char *const *names)
{
    int fd = high_fd(open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC));
    char text[4096 + 1];
    size_t kept = 0;
    bool have = false;
    ssize_t got;

    while (fd >= 0 && !have && (got = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
        size_t len = kept + (size_t)got;

        text[len] = '\0';
        for (const char *const *name = names; *name; name++)
            have = have || strstr(text, *name);
        kept = len < NAME_ROOM ? len : NAME_ROOM; /* a name may continue in the next read */
        memmove(text, text + len - kept, kept);
    }
    if (fd >= 0)
        close(fd);
    return have;
}

static bool mapped_have_runtime(void)
{
    static const char *const names[] = {"/libcuda.so", "/libhsa-runtime64.so", "/libze_loader.so",
                                        NULL};

    return mapped_have(names);
}

/* GPU memory may be a mapping of the driver's file, made without a runtime of the table below. */
static bool mapped_have_device(void)
{
    static const char *const names[] = {
        "/dev/nvidia",          "/dev/kfd",         "/dev/dri/", "/libcuda.so",
        "/libhsa-runtime64.so", "/libze_loader.so", NULL};

    return mapped_have(names);
}

/* ---- has the program started a vendor's runtime? ------------------------------------------ */

/* A runtime has no memory before it starts, so hmreg need not be opened to ask it. These calls
 * detect that a runtime has not started. */
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

/* The function of each runtime found in the process. A runtime once found stays loaded. */
static _Atomic(void *) functions[RUNTIMES];
/* The dynamic linker's count of loads and unloads at the last search. */
static _Atomic uint64_t looked;
/* At the last search a runtime was in another namespace (dlmopen(3)), where these calls do not
 * reach it. */
static atomic_bool elsewhere;

struct look {
    bool found[RUNTIMES];
    uint64_t changes;
    uint64_t files, all; /* in this namespace, and in all namespaces */
};

static int count_changes(struct dl_phdr_info *info, size_t size, void *arg)
{
    *(uint64_t *)arg = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *soname = soname_of(info);
    struct look *look = arg;

    look->changes = info->dlpi_adds + info->dlpi_subs;
    look->all = info->dlpi_adds - info->dlpi_subs;
    look->files++;
    for (size_t i = 0; i < RUNTIMES; i++)
        if (soname && !strcmp(soname, runtimes[i].library))
            look->found[i] = true;
    return 0;
}

/* Call for a loaded library only: a failure would change the program's dlerror(3). */
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
    bool any = false;

    dl_iterate_phdr(count_changes, &changes);
    if (atomic_load(&looked) == changes)
        return;
    dl_iterate_phdr(look_at, &look);
    for (size_t i = 0; i < RUNTIMES; i++) {
        any = any || look.found[i];
        if (look.found[i] && !atomic_load(&functions[i]))
            find_function(i);
    }
    atomic_store(&elsewhere, !any && look.files < look.all && mapped_have_runtime());
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

bool memory_find(uint64_t addr, uint64_t len, int failure, uint8_t *iface, int16_t *device)
{
    struct hmreg_mem_info info = {.size = sizeof(info), .iface = HMREG_IFACE_SYSTEM, .device = -1};
    int error = errno, rc = 0;

    if (is_any_started()) {
        struct hmreg *lib = engine_library();

        /* Queries one byte: a query of the whole range reads the long list of host mappings. */
        rc = lib && len ? hmreg_query(lib, (void *)(uintptr_t)addr, 1, &info) : -EINVAL;
    } else if (atomic_load(&elsewhere) || (failure == EFAULT && mapped_have_device())) {
        rc = -EFAULT;
    }
    errno = error;
    if (rc)
        return false;
    *iface = (uint8_t)info.iface;
    *device = (int16_t)info.device;
    return true;
}
