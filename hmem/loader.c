/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * dlopen and dlsym with error texts. We pass the soname alone, so the dynamic linker's rules
 * (LD_LIBRARY_PATH, ld.so.conf, containers' mounts) select the file; we report which.
 */
#include "hmem/loader.h"

#include "core/base/error.h"
#include "core/base/linker_list.h"
#include "core/base/soname.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
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

/* ---- the linker's list ------------------------------------------------------------------ */

static _Atomic uint64_t known; /* the count when it was last read */

/* The linker reports the number with each library; the first one suffices. */
static int read_count(struct dl_phdr_info *info, size_t size, void *count)
{
    *(uint64_t *)count = info->dlpi_adds;
    return 1;
}

uint64_t loader_count(void)
{
    uint64_t count = 0;

    if (linker_list_read(read_count, &count) < 0)
        return atomic_load(&known);
    atomic_store(&known, count);
    return count;
}

struct search {
    const char *soname;
    bool found;
};

static int find_soname(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;
    const char *soname = soname_of(info);

    search->found = soname && strcmp(soname, search->soname) == 0;
    return search->found;
}

bool loader_is_loaded(const char *soname)
{
    struct search search = {.soname = soname};

    return linker_list_read(find_soname, &search) >= 0 && search.found;
}

void *loader_find(const char *soname, const char *name, _Atomic(void *) *found)
{
    void *function = atomic_load(found);
    void *library = function ? NULL : dlopen(soname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);

    if (!library)
        return function;
    function = dlsym(library, name);
    atomic_store(found, function);
    dlclose(library);
    return function;
}
