/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Loading a vendor's runtime at run time: nothing of a vendor is ever linked.
 *
 * A vendor lists its entry points once, each with the function pointer's place in its table and
 * whether we can do without it:
 *
 *     static const struct loader_symbol symbols[] = {
 *         LOADER_NEED(struct cuda_api, init, "cuInit"),
 *         LOADER_WANT(struct cuda_api, get_handle, "cuMemGetHandleForAddressRange"),
 *     };
 */
#ifndef HMREG_HMEM_LOADER_H
#define HMREG_HMEM_LOADER_H

#include <stdbool.h>
#include <stddef.h>

struct loader_symbol {
    const char *name;
    size_t place; /* offset of the function pointer in the table */
    bool needed;
};
#define LOADER_NEED(table, member, symbol)                                                         \
    {                                                                                              \
        symbol, offsetof(table, member), true                                                      \
    }
#define LOADER_WANT(table, member, symbol)                                                         \
    {                                                                                              \
        symbol, offsetof(table, member), false                                                     \
    }

/*
 * Loads soname and fills the table's pointers, NULL for wanted ones that are missing.
 * vendor: for messages. path, path_size: receives the file that was loaded.
 * -ENOENT: not found, or it could not be loaded. -ELIBBAD: a needed symbol is missing.
 */
int loader_open(const char *vendor, const char *soname, const struct loader_symbol *symbols,
                size_t count, void *table, void **handle, char *path, size_t path_size);

/* Unloads. A runtime that keeps threads or exit handlers of its own survives it: the vendors'
 * libraries do, so they are opened to stay (RTLD_NODELETE). */
void loader_close(void *handle);

#endif
