/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Loads a vendor's runtime with dlopen: we never link against a vendor's library.
 *
 * A vendor lists its entry points once, each with the offset of the function pointer in its table
 * and whether it is required:
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
 * Loads soname and fills the table's pointers, NULL for missing optional ones (LOADER_WANT).
 * vendor: for messages. path, path_size: receives the path of the loaded file.
 * -ENOENT: not found, or could not be loaded. -ELIBBAD: a required symbol is missing.
 */
int loader_open(const char *vendor, const char *soname, const struct loader_symbol *symbols,
                size_t count, void *table, void **handle, char *path, size_t path_size);

/* Closes the handle. The code stays mapped (RTLD_NODELETE), because the vendors' libraries leave
 * threads and exit handlers behind. */
void loader_close(void *handle);

#endif
