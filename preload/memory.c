/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory.h.
 */
#include "preload/memory.h"

#include "preload/engine.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

/* ---- which memory ------------------------------------------------------------------------ */

static const char *const runtimes[] = {"libcuda.so.1", "libhsa-runtime64.so.1",
                                       "libze_loader.so.1"};

/* What the dynamic linker has loaded and unloaded so far, and whether a runtime was among it. */
static _Atomic uint64_t looked; /* twice the count, plus 1 if there is a runtime */

struct look {
    bool found;
    uint64_t changes;
};

static bool is_runtime(const char *path)
{
    const char *slash = strrchr(path, '/');

    for (unsigned i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
        if (!strcmp(slash ? slash + 1 : path, runtimes[i]))
            return true;
    return false;
}

static int count_changes(struct dl_phdr_info *info, size_t size, void *arg)
{
    *(uint64_t *)arg = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct look *look = arg;

    look->changes = info->dlpi_adds + info->dlpi_subs;
    look->found = look->found || is_runtime(info->dlpi_name);
    return 0;
}

static bool has_runtime(void)
{
    uint64_t known = atomic_load_explicit(&looked, memory_order_relaxed), changes = 0;
    struct look look = {0};

    dl_iterate_phdr(count_changes, &changes);
    if (known / 2 == changes)
        return known % 2;
    dl_iterate_phdr(look_at, &look);
    atomic_store_explicit(&looked, look.changes * 2 + look.found, memory_order_relaxed);
    return look.found;
}

bool memory_find(uint64_t addr, uint64_t len, uint8_t *iface, int16_t *device)
{
    struct hmreg_mem_info info = {.size = sizeof(info), .iface = HMREG_IFACE_SYSTEM, .device = -1};
    int error = errno, rc = 0;

    if (has_runtime()) {
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
