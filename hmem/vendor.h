/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Code that all vendors share: opening and closing a runtime, the translation of its failures and
 * its end to our errors, and the names of the operations.
 *
 * Functions within a vendor take its own struct (`struct cuda_hmem`), which begins with the struct
 * hmem that the operations take. If the runtime has shut down, they return -ESHUTDOWN and record
 * nothing; the operations translate it, resolve and identity by vendor_resolved(), the others by
 * vendor_result().
 */
#ifndef HMREG_HMEM_VENDOR_H
#define HMREG_HMEM_VENDOR_H

#include "core/base/error.h"
#include "core/contract/hmem.h"
#include "hmem/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>

struct vendor {
    const char *source; /* in errors: "cuda" */
    const char *name;   /* in their texts: "CUDA" */
    const char *soname;
    int64_t shut_down; /* the result by which the runtime says that it has shut down */
    size_t size, api;  /* size of the vendor's struct; offset of its struct of entry points */
    const struct loader_symbol *symbols;
    size_t symbol_count;
    _Atomic(struct hmem *) *loaded;  /* a runtime's initial state: its library; NULL: not loaded */
    int (*start)(struct hmem *self); /* lists the devices; same errors as open */
    void (*stop)(struct hmem *self); /* also after start failed, or was not called */
    const char *(*result_name)(struct hmem *self, int64_t result); /* NULL: unknown */
};

struct hmem {
    const struct vendor *vendor;
    void *library;
    struct hmem_runtime runtime;         /* its texts come from the functions below, once it is
                                          * started */
    void (*complete)(struct hmem *self); /* adds to them at a query; or NULL */
    int device_count;
    atomic_bool shut_down; /* the runtime must not be called again */
};

/* Loads the library, which is never unloaded, and finds its functions. */
int vendor_load_library(const struct vendor *vendor);
int vendor_load(const struct vendor *vendor, struct hmem **out);
void vendor_unload(struct hmem *self);
void vendor_runtime(struct hmem *self, struct hmem_runtime *out);
int vendor_device_count(struct hmem *self);

/* Adds to the list of features that this version of the runtime lacks. */
void vendor_lacks(struct hmem *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds to the list of memory whose end is not reported; vendor_unreported_begin() empties the
 * list. */
void vendor_unreported(struct hmem *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void vendor_unreported_begin(struct hmem *self);

/* Records a failure that the runtime reported and returns code; -ESHUTDOWN if it has shut down. */
int vendor_fail(struct hmem *self, int code, int64_t result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An operation's result. addr: the memory that was freed if rc is -HMEM_NOT_MINE. */
int vendor_result(struct hmem *self, int rc, uint64_t addr);
/* The result of resolve or identity. */
static inline int vendor_resolved(int rc)
{
    return rc == -ESHUTDOWN ? -HMEM_NOT_MINE : rc;
}

/* -EIO: the allocation that the runtime reports for addr does not contain addr. */
int vendor_check_contains(struct hmem *self, uint64_t addr, uint64_t base, size_t len);
/* -ERANGE: the range leaves its allocation at `end`. */
int vendor_fail_leaves(uint64_t addr, size_t len, uint64_t end, const char *why);

/* Declares the operations that each vendor defines. */
#define VENDOR_OPERATIONS(iface)                                                                   \
    int iface##_resolve(struct hmem *, uint64_t addr, size_t len, struct hmem_range *out);         \
    int iface##_identity(struct hmem *, uint64_t addr, size_t len, uint64_t *out);                 \
    int iface##_export(struct hmem *, uint64_t addr, size_t len, const struct hmem_range *range,   \
                       uint64_t flags, struct hmreg_dmabuf *out);                                  \
    int iface##_copy(struct hmem *, uint64_t dst, uint64_t src, size_t len);                       \
    int iface##_alloc(struct hmem *, int device, enum hmreg_mem_kind kind, size_t len,             \
                      void **out);                                                                 \
    int iface##_free(struct hmem *, void *addr, enum hmreg_mem_kind kind)

/* Defines hmem_<lower>_ops. title, library, end: `name`, `soname` and `shut_down` of struct vendor;
 * then any further operations, as in `.watch = cuda_watch`. */
#define VENDOR_DEFINE(UPPER, lower, title, library, end, ...)                                      \
    static bool lower##_loaded(void)                                                               \
    {                                                                                              \
        return loader_is_loaded(library);                                                          \
    }                                                                                              \
    static const struct loader_symbol lower##_symbols[] = {                                        \
        UPPER##_ENTRIES(LOADER_NEED, LOADER_WANT)};                                                \
    static _Atomic(struct hmem *) lower##_library;                                                 \
    static const struct vendor lower##_vendor = {                                                  \
        .source = #lower,                                                                          \
        .name = (title),                                                                           \
        .soname = (library),                                                                       \
        .shut_down = (end),                                                                        \
        .size = sizeof(struct lower##_hmem),                                                       \
        .api = offsetof(struct lower##_hmem, api),                                                 \
        .symbols = lower##_symbols,                                                                \
        .symbol_count = sizeof(lower##_symbols) / sizeof(lower##_symbols[0]),                      \
        .loaded = &lower##_library,                                                                \
        .start = start,                                                                            \
        .stop = stop,                                                                              \
        .result_name = lower##_result_name,                                                        \
    };                                                                                             \
    static int lower##_load(void)                                                                  \
    {                                                                                              \
        return vendor_load_library(&lower##_vendor);                                               \
    }                                                                                              \
    static int lower##_open(struct hmem **out)                                                     \
    {                                                                                              \
        return vendor_load(&lower##_vendor, out);                                                  \
    }                                                                                              \
    const struct hmem_ops hmem_##lower##_ops = {                                                   \
        .iface = HMREG_IFACE_##UPPER,                                                              \
        .name = #lower,                                                                            \
        .loaded = lower##_loaded,                                                                  \
        .load = lower##_load,                                                                      \
        .open = lower##_open,                                                                      \
        .close = vendor_unload,                                                                    \
        .runtime = vendor_runtime,                                                                 \
        .device_count = vendor_device_count,                                                       \
        .device = device,                                                                          \
        .resolve = lower##_resolve,                                                                \
        .identity = lower##_identity,                                                              \
        .export_dmabuf = lower##_export,                                                           \
        .copy = lower##_copy,                                                                      \
        .alloc = lower##_alloc,                                                                    \
        .free = lower##_free,                                                                      \
        ##__VA_ARGS__,                                                                             \
    }

#endif
