/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks on the drivers' own functions that end memory (hmem/hook_set.h): a call through the
 * loader, through its layers, inside a tracer's callback or past the loader is reported alike. A
 * driver is a library of the process that exports zeGetMemProcAddrTable and the like. So do the
 * loader and its layers, but they export other functions that a driver does not. A driver may also
 * export the functions themselves, at other addresses than its tables name.
 *
 * The placed hooks show which library is a driver's: we make a context of the driver and destroy
 * it, through the loader, and the hook of zeContextDestroy that runs is the library's. Memory of a
 * driver whose library was not found so is not watched.
 *
 * Drivers free the allocation that an address lies in, whichever address of it they are given: an
 * import of a pool's piece is closed so. So the hook asks the driver where the allocation begins.
 * zeContextDestroy may end all memory of a context, and zeModuleDestroy ends the module's
 * variables, which are device memory like any other; no query names either, so both count as the
 * end of all memory. zePhysicalMemDestroy may end mappings and names none: it counts as the end of
 * all virtual memory. Intel's zeVirtualMemSetAccessAttribute maps the range anew. Not watched:
 * imported host memory, which programs unmap.
 */
#include "core/patch/modules.h"
#include "hmem/hook_set.h"
#include "hmem/watched.h"
#include "hmem/ze/ze.h"

#include <dlfcn.h>
#include <level_zero/ze_ddi.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { ALLOCATED = 1, VIRTUAL = 2 };

/* The memory that a call ends, by its arguments. */
enum ends {
    ENDS_SECOND, /* the allocation that contains the second argument */
    ENDS_THIRD,  /* the third */
    ENDS_RANGE,  /* mappings in [second argument, second + third) */
    ENDS_VIRTUAL,
    ENDS_ALL,
    ENDS_CONTEXT, /* all memory */
};

#define TABLE_ROOM 64 /* functions: newer drivers' tables are longer than our header's */

static const struct function {
    const char *name, *table;
    size_t place; /* in the table */
    enum ends ends;
    unsigned kinds;
} functions[] = {
#define ROW(name, table, type, member, ends, kinds)                                                \
    {                                                                                              \
        name, table, offsetof(type, member) / sizeof(void *), ends, kinds                          \
    }
    ROW("zeMemFree", "zeGetMemProcAddrTable", ze_mem_dditable_t, pfnFree, ENDS_SECOND, ALLOCATED),
    ROW("zeMemFreeExt", "zeGetMemProcAddrTable", ze_mem_dditable_t, pfnFreeExt, ENDS_THIRD,
        ALLOCATED),
    ROW("zeMemCloseIpcHandle", "zeGetMemProcAddrTable", ze_mem_dditable_t, pfnCloseIpcHandle,
        ENDS_SECOND, ALLOCATED),
    ROW("zeContextDestroy", "zeGetContextProcAddrTable", ze_context_dditable_t, pfnDestroy,
        ENDS_CONTEXT, ALLOCATED | VIRTUAL),
    ROW("zeModuleDestroy", "zeGetModuleProcAddrTable", ze_module_dditable_t, pfnDestroy, ENDS_ALL,
        ALLOCATED),
    ROW("zeVirtualMemUnmap", "zeGetVirtualMemProcAddrTable", ze_virtual_mem_dditable_t, pfnUnmap,
        ENDS_RANGE, VIRTUAL),
    ROW("zeVirtualMemSetAccessAttribute", "zeGetVirtualMemProcAddrTable", ze_virtual_mem_dditable_t,
        pfnSetAccessAttribute, ENDS_RANGE, VIRTUAL),
    ROW("zeVirtualMemFree", "zeGetVirtualMemProcAddrTable", ze_virtual_mem_dditable_t, pfnFree,
        ENDS_RANGE, VIRTUAL),
    ROW("zePhysicalMemDestroy", "zeGetPhysicalMemProcAddrTable", ze_physical_mem_dditable_t,
        pfnDestroy, ENDS_VIRTUAL, VIRTUAL),
#undef ROW
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

#define LIBRARIES 8

/* A driver's. */
static struct library {
    struct hook_set set; /* first: the set leads to its library */
    void *handle;        /* kept loaded, with the hooks in it */
    ze_pfnMemGetAddressRange_t address_range;
    char name[64];
} libraries[LIBRARIES];
static unsigned library_count; /* with libraries[], under hook_sets_lock() */

static struct watched watched_memory;

/* ---- calls ------------------------------------------------------------------------------ */

/* The start of the allocation that contains an address. False: the driver does not report it. */
static bool find_beginning(struct hook_set *set, unsigned long context, uint64_t *addr)
{
    const struct library *library = (struct library *)set;
    size_t len = 0;
    void *base = NULL;

    if (!*addr)
        return true;
    if (!library->address_range ||
        library->address_range(ze_address(context), ze_address(*addr), &base, &len))
        return false;
    *addr = (uintptr_t)base;
    return true;
}

static unsigned long free_memory(struct hook_set *set, hook_call *original,
                                 const unsigned long arguments[4], uint64_t addr)
{
    bool found = find_beginning(set, arguments[0], &addr);
    struct watched_extent ended = watched_begin_free(&watched_memory, addr);
    unsigned long result;

    if (!found)
        watched_report(watched_all(&watched_memory));
    result = original(arguments[0], arguments[1], arguments[2], arguments[3]);
    watched_end_free(&watched_memory, addr, (unsigned)result, ended);
    if (!found)
        watched_report(watched_all(&watched_memory));
    return result;
}

/* The memory that a call ends, except calls of free_memory(). */
static struct watched_extent ended_by(struct hook_set *set, unsigned ends,
                                      const unsigned long arguments[4])
{
    switch (ends) {
    case ENDS_RANGE:
        return watched_virtual(&watched_memory, arguments[1], arguments[1] + arguments[2]);
    case ENDS_VIRTUAL:
        return watched_all_virtual(&watched_memory);
    case ENDS_CONTEXT:
        if (ze_destroys_ours(set))
            return (struct watched_extent){0, 0};
        break;
    default:
        break;
    }
    return watched_all(&watched_memory);
}

/* Reports again, for memory that was watched during the call. */
static unsigned long make_call(struct hook_set *set, unsigned ends, hook_call *original,
                               const unsigned long arguments[4])
{
    unsigned long result;

    if (ends == ENDS_SECOND || ends == ENDS_THIRD)
        return free_memory(set, original, arguments, arguments[ends == ENDS_SECOND ? 1 : 2]);
    watched_report(ended_by(set, ends, arguments));
    result = original(arguments[0], arguments[1], arguments[2], arguments[3]);
    watched_report(ended_by(set, ends, arguments));
    return result;
}

static void missed(struct hook_set *set)
{
    watched_report(watched_all(&watched_memory));
}

/* ---- finding the drivers' libraries ------------------------------------------------------- */

struct names {
    char *list[LIBRARIES];
    unsigned count;
};

static bool defines(const struct module *module, const char *name)
{
    return module_function(module, name, 0);
}

/* Collects drivers only, neither layers (zelLoaderGetVersion) nor the loader. No library may be
 * loaded or closed meanwhile, so they are opened later. */
static int look_for_driver(const struct module *module, void *arg)
{
    struct names *names = arg;

    if (!module || !module->file[0] || !defines(module, "zeGetMemProcAddrTable") ||
        !defines(module, "zeGetContextProcAddrTable") || defines(module, "zelLoaderGetVersion") ||
        defines(module, "zelLoaderGetVersions") || defines(module, "zeLoaderInit"))
        return 0;
    names->list[names->count] = strdup(module->file);
    names->count += names->list[names->count] != NULL;
    return names->count == LIBRARIES;
}

/* A symbol of the library itself, not of its dependencies. */
static void *symbol_of(void *library, const char *name)
{
    void *found = dlsym(library, name);
    struct link_map *map = NULL;
    Dl_info info;

    if (!found || dlinfo(library, RTLD_DI_LINKMAP, &map) || !dladdr(found, &info))
        return NULL;
    return (uintptr_t)info.dli_fbase == map->l_addr ? found : NULL;
}

/* Fills the table in the newest version that the driver has. NULL, or the reason why it cannot. */
static const char *read_table(void *library, const char *name, void *table[TABLE_ROOM])
{
    ze_result_t (*get)(ze_api_version_t, void *) = NULL;
    ze_result_t result = ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
    void *entry = symbol_of(library, name);

    memcpy(&get, &entry, sizeof(entry));
    for (int minor = 64; get && minor >= 0 && result == ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
         minor--) {
        memset(table, 0, TABLE_ROOM * sizeof(*table));
        result = get((ze_api_version_t)ZE_MAKE_VERSION(1, minor), table);
    }
    if (!get)
        return "the driver has no such function";
    return result ? "the driver refuses" : NULL;
}

/* Finds zeMemGetAddressRange, which hooks of freeing functions call. False: the driver lacks it,
 * and allocations are not reported. */
static bool find_address_range(struct library *library)
{
    static const char name[] = "zeGetMemProcAddrTable";
    void *table[TABLE_ROOM] = {NULL};
    const char *refusal = read_table(library->handle, name, table);
    void *entry = table[offsetof(ze_mem_dditable_t, pfnGetAddressRange) / sizeof(void *)];

    if (refusal || !entry) {
        hook_set_refuse(&library->set, ALLOCATED, "%s: %s", name,
                        refusal ? refusal : "the driver has no zeMemGetAddressRange");
        return false;
    }
    memcpy(&library->address_range, &entry, sizeof(entry));
    return true;
}

/* A function that the driver lacks needs no hook. */
static void add_functions(struct library *library)
{
    unsigned kinds = find_address_range(library) ? ALLOCATED | VIRTUAL : VIRTUAL;
    void *table[TABLE_ROOM] = {NULL};
    const char *read = "", *refusal = NULL;

    for (size_t i = 0; i < FUNCTIONS; i++) {
        const struct function *row = &functions[i];

        if (strcmp(read, row->table) != 0)
            refusal = read_table(library->handle, row->table, table);
        read = row->table;
        if (refusal) {
            hook_set_refuse(&library->set, row->kinds, "%s: %s", row->table, refusal);
            kinds &= ~row->kinds;
        } else {
            hook_set_add(&library->set, row->name, row->ends, row->kinds, table[row->place]);
        }
        hook_set_add(&library->set, row->name, row->ends, row->kinds,
                     symbol_of(library->handle, row->name));
    }
    hook_set_try(&library->set, kinds);
}

static bool is_known(void *handle)
{
    unsigned i = 0;

    while (i < library_count && libraries[i].handle != handle)
        i++;
    return i < library_count;
}

/* Takes a driver's library, unless it is known. */
static void take(const char *path)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    const char *slash = strrchr(path, '/');
    struct library *library = &libraries[library_count];

    if (!handle)
        return;
    if (library_count == LIBRARIES || is_known(handle)) {
        dlclose(handle);
        return;
    }
    library->set = (struct hook_set){.call = make_call, .missed = missed, .ends_all = ENDS_ALL};
    library->handle = handle;
    snprintf(library->name, sizeof(library->name), "%s", slash ? slash + 1 : path);
    add_functions(library);
    library_count++;
}

/* ---- which drivers are reported ----------------------------------------------------------- */

static void describe(struct ze_hmem *self)
{
    vendor_unreported_begin(&self->base);
    vendor_unreported(&self->base, "imported host memory (programs unmap it)");
    for (unsigned i = 0; i < library_count; i++) {
        const char *why = hook_set_why(&libraries[i].set, ALLOCATED | VIRTUAL);

        if (why[0])
            vendor_unreported(&self->base, "memory of %s: %s", libraries[i].name, why);
    }
    for (unsigned i = 0; i < self->driver_count; i++)
        if (!library_count || atomic_load(&self->drivers[i].library) == ZE_LIBRARY_UNKNOWN)
            vendor_unreported(&self->base, "memory of driver %u, whose library is not found", i);
}

/* Call once for each start of the runtime, which may have loaded drivers. Caller holds the lock. */
static void find_once(struct ze_hmem *self)
{
    struct names names = {.count = 0};

    if (atomic_load(&self->hooks_found))
        return;
    modules_each(look_for_driver, &names);
    for (unsigned i = 0; i < names.count; i++) {
        take(names.list[i]);
        free(names.list[i]);
    }
    atomic_store(&self->hooks_found, true);
}

void ze_hooks_find(struct ze_hmem *self)
{
    struct hmreg_error_guard guard;

    hmreg_error_guard(&guard);
    if (hook_sets_lock()) {
        find_once(self);
        describe(self);
        hook_sets_unlock();
    }
    hmreg_error_unguard(&guard, true);
}

/* The driver's library in libraries[], counted from 1, after all hooks are placed; or
 * ZE_LIBRARY_UNKNOWN. */
static int find_library(struct ze_hmem *self, const struct ze_driver *driver)
{
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_context_handle_t context = NULL;
    struct library *found;

    if (self->api.context_create(driver->handle, &desc, &context))
        return ZE_LIBRARY_UNKNOWN;
    found = ze_destroy_context(self, context);
    return found ? (int)(found - libraries) + 1 : ZE_LIBRARY_UNKNOWN;
}

/* Places all hooks, also those that other code has changed. False: another thread is placing
 * hooks. */
static bool place_all(struct ze_hmem *self)
{
    if (!hook_sets_lock())
        return false;
    find_once(self);
    for (unsigned i = 0; i < library_count; i++)
        hook_set_place(&libraries[i].set);
    describe(self);
    hook_sets_unlock();
    atomic_store(&self->hooks_placed, true);
    return true;
}

/* The kinds of the driver's memory that are reported now. No lock is held while the driver is
 * called: a tracer's callback may come here again. */
static unsigned reported_now(struct ze_hmem *self, struct ze_driver *driver)
{
    int library = atomic_load(&driver->library);
    struct hook_set *set;

    if (library == ZE_LIBRARY_UNASKED) {
        if (!atomic_load(&self->hooks_placed) && !place_all(self))
            return 0;
        library = find_library(self, driver);
        atomic_store(&driver->library, library);
        if (library == ZE_LIBRARY_UNKNOWN)
            ze_hooks_find(self); /* describes */
    }
    if (library == ZE_LIBRARY_UNKNOWN)
        return 0;
    set = &libraries[library - 1].set;
    if (!hook_set_is_whole(set) && !place_all(self))
        return 0;
    return atomic_load(&set->reported);
}

/* ---- watching --------------------------------------------------------------------------- */

/* Drivers refuse the query for memory outside of reservations; after any other failure the kind is
 * unknown. */
static unsigned kind_of(struct ze_hmem *self, const struct ze_lookup *found)
{
    ze_memory_access_attribute_t access;
    size_t reserved = 0;
    ze_result_t result;

    if (!self->api.virtual_access)
        return 0;
    result = self->api.virtual_access(found->driver->context, ze_address(found->base), found->len,
                                      &access, &reserved);
    if (result)
        return result == ZE_RESULT_ERROR_INVALID_ARGUMENT && found->segments == 1 ? ALLOCATED : 0;
    return VIRTUAL;
}

/* Why memory of this kind is not reported. */
static const char *why_not(const struct ze_driver *driver, unsigned kind)
{
    int library = atomic_load(&driver->library);

    if (library == ZE_LIBRARY_UNASKED)
        return HOOK_SETS_BUSY;
    if (library == ZE_LIBRARY_UNKNOWN)
        return "the library of its driver, which has the functions to hook, is not found";
    return kind ? hook_set_why(&libraries[library - 1].set, kind)
                : "the driver does not report whether it is virtual memory";
}

/* NULL: it is watched; else why it is not. */
static const char *watch(struct ze_hmem *self, uint64_t addr, size_t len)
{
    struct ze_lookup found = {0};
    unsigned kind, now;

    if (ze_lookup_range(self, addr, len, &found))
        return "the driver does not report the kind of memory";
    if (found.type == ZE_TYPE_HOST_IMPORTED)
        return "imported host memory ends when the program unmaps it";
    now = reported_now(self, found.driver);
    kind = kind_of(self, &found);
    if (!(kind & now))
        return why_not(found.driver, kind);
    if (kind == ALLOCATED && !watched_add(&watched_memory, found.base, found.base + found.len))
        return WATCHED_NOT;
    if (kind == VIRTUAL)
        watched_add_virtual(&watched_memory, addr, addr + len);
    return NULL;
}

void ze_prepare_watch(struct hmem *hmem)
{
    struct ze_hmem *self = (struct ze_hmem *)hmem;
    struct hmreg_error_guard guard;

    if (atomic_load(&self->hooks_placed))
        return;
    hmreg_error_guard(&guard);
    (void)place_all(self);
    hmreg_error_unguard(&guard, true);
}

bool ze_watch(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
              const char **why)
{
    struct hmreg_error_guard guard;
    const char *refusal;

    hmreg_error_guard(&guard);
    refusal = watch((struct ze_hmem *)self, addr, len);
    hmreg_error_unguard(&guard, true);
    if (refusal && why)
        *why = refusal;
    return !refusal;
}
