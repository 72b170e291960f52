/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Loads a vendor's runtime with dlopen: we never link against a vendor's library.
 *
 * A vendor lists its entry points once, as a macro, from which come the struct of function pointers
 * and the list of symbols, in the same order:
 *
 *     #define ZE_ENTRIES(NEED, WANT)                              must have it; may lack it
 *         NEED(init, zeInit)
 *         WANT(device_pci, zeDevicePciGetPropertiesExt)
 *     struct ze_api { ZE_ENTRIES(LOADER_MEMBER, LOADER_MEMBER) };
 *     static const struct loader_symbol symbols[] = {ZE_ENTRIES(LOADER_NEED, LOADER_WANT)};
 */
#ifndef HMREG_HMEM_LOADER_H
#define HMREG_HMEM_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loader_symbol {
    const char *name;
    bool needed;
};
#define LOADER_MEMBER(member, symbol)    __typeof__(symbol) *member;
#define LOADER_NEED(member, symbol, ...) {#symbol, true},
#define LOADER_WANT(member, symbol, ...) {#symbol, false},

/*
 * Loads soname and fills the table, a struct of `count` function pointers: NULL for missing
 * optional ones (LOADER_WANT). vendor: for messages. path, path_size: receives the path of the
 * loaded file.
 * -ENOENT: not found, or could not be loaded. -ELIBBAD: a required symbol is missing. The library
 * stays loaded (RTLD_NODELETE), because the vendors' libraries leave threads and exit handlers
 * behind. Waits for a thread that is in dlopen(3).
 */
int loader_open(const char *vendor, const char *soname, const struct loader_symbol *symbols,
                size_t count, void *table, void **handle, char *path, size_t path_size);

/* The two functions below read the dynamic linker's list. fork(2) waits for them, so no child
 * inherits the lock that the linker takes for it. They wait for no thread that is in dlopen(3),
 * whose constructors may fork. A child made without fork(2) while a thread of its parent read the
 * list never reads it: no runtime starts there. */

/* The number of libraries that were ever loaded, as last read; grows with each. */
uint64_t loader_count(void);
/* Is a library with that soname in this process, loaded by hmreg or by other code? False too if the
 * list cannot be read. */
bool loader_is_loaded(const char *soname);

/* A function of a library in this process; NULL: the library is not there, or lacks it. *found
 * keeps the library loaded.
 */
void *loader_find(const char *soname, const char *name, _Atomic(void *) *found);

#endif
