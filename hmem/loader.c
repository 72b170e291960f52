/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * dlopen and dlsym with error texts. We pass the soname alone, so the dynamic linker's rules
 * (LD_LIBRARY_PATH, ld.so.conf, containers' mounts) select the file; we report which.
 */
#include "hmem/loader.h"

#include "core/base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static void path_of(void *handle, const char *soname, char *path, size_t path_size)
{
    struct link_map *map = NULL;

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0])
        snprintf(path, path_size, "%s", map->l_name);
    else
        snprintf(path, path_size, "%s", soname);
}

static int fill(const char *vendor, const struct loader_symbol *symbols, size_t count, void *table,
                void *handle, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        void *entry = dlsym(handle, symbols[i].name);

        if (!entry && symbols[i].needed)
            return hmreg_fail_vendor(-ELIBBAD, vendor, 0, NULL,
                                     "%s has no %s: it is too old, or not the vendor's library",
                                     path, symbols[i].name);
        memcpy((void **)table + i, &entry, sizeof(entry));
    }
    return 0;
}

int loader_open(const char *vendor, const char *soname, const struct loader_symbol *symbols,
                size_t count, void *table, void **handle, char *path, size_t path_size)
{
    void *opened = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    int rc;

    if (!opened) {
        const char *words = dlerror();

        return hmreg_fail_vendor(-ENOENT, vendor, 0, words, "%s could not be loaded: %s", soname,
                                 words ? words : "no reason given");
    }
    path_of(opened, soname, path, path_size);
    rc = fill(vendor, symbols, count, table, opened, path);
    if (rc) {
        dlclose(opened);
        return rc;
    }
    *handle = opened;
    return 0;
}

void loader_close(void *handle)
{
    if (handle)
        dlclose(handle);
}
