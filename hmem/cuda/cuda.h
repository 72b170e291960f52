/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of the CUDA vendor share: the opened runtime, and of each file what the others
 * call. They stand here from the ground up; cuda.c is above them all.
 *
 * Results of the vendor are `unsigned` and named `result`; ours are `int` and named `rc`. Inside
 * the vendor a runtime that has shut down is -ESHUTDOWN, without a sentence: each operation of
 * the contract has its own word for it.
 */
#ifndef HMEM_CUDA_H
#define HMEM_CUDA_H

#include "core/base/error.h"
#include "hmem/cuda/cuda_api.h"
#include "hmem/hmem.h"

#include <stdatomic.h>

struct cuda_device {
    int handle;
    bool integrated; /* shares the host's memory */
    struct hmem_device info;
};

struct hmem {
    struct cuda_api api;
    void *library;
    char path[128];
    int version; /* 13000: 13.0 */
    int count;
    struct cuda_device *devices; /* by ordinal */
    size_t page;                 /* the host's page size */
    atomic_bool gone;            /* the runtime has shut down: not to be called again */
};

/* ---- calls of the driver (cuda_call.c) -------------------------------------------------- */

/* Records the failure of a call of the vendor: `code` with the vendor's name for result and the
 * sentence. A runtime that has shut down: remembered, -ESHUTDOWN, nothing recorded. */
int cuda_fail(struct hmem *self, int code, unsigned result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

struct cuda_guard {
    int retained; /* the device whose primary context is held, -1: none */
};

/* Makes a context current until cuda_leave(): the given one, or with NULL the device's primary
 * context, which is brought to life only if `create`. The vendor's result. */
unsigned cuda_enter(struct hmem *self, struct cuda_context *context, int device, bool create,
                    struct cuda_guard *guard);
void cuda_leave(struct hmem *self, struct cuda_guard *guard);
/* A call refused because the thread has no usable context. */
bool cuda_wants_context(unsigned result);

/* ---- one address (cuda_lookup.c) ---------------------------------------------------------- */

enum cuda_sort {
    CUDA_UNKNOWN,  /* not CUDA's */
    CUDA_RESERVED, /* addresses of CUDA without memory */
    CUDA_HOST,
    CUDA_MANAGED,
    CUDA_PLAIN,   /* device memory of cuMemAlloc: one piece, exported as a whole */
    CUDA_POOL,    /* device memory of a stream-ordered pool */
    CUDA_VIRTUAL, /* device memory mapped into reserved addresses, piece by piece */
};

/* What the runtime says about one address. */
struct cuda_lookup {
    enum cuda_sort sort;
    struct cuda_context *context; /* NULL: of none (pools, virtual memory) */
    uint64_t host;                /* CPU address, 0: none */
    uint64_t id;                  /* the runtime's unique buffer id */
    int device;                   /* -1: none of ours */
    uint64_t start;               /* of the allocation; of the reservation for virtual memory */
    uint64_t size;                /* 0: the runtime does not say, or not of the allocation */
};

/* 0, with CUDA_UNKNOWN for what is not CUDA's; -EIO, -ESHUTDOWN. */
int cuda_lookup(struct hmem *self, uint64_t addr, struct cuda_lookup *out);

/* A piece of memory that was mapped or allocated at once. */
struct cuda_piece {
    uint64_t base, size; /* size 0: the runtime does not say */
    uint64_t block;      /* names the physical memory (virtual memory only), 0: nothing does */
    bool has_prop;
    struct cuda_memory_prop prop; /* virtual memory only, where asked for */
    bool cpu;                     /* on the host, and the CPU was given access */
};

/* The piece at addr, which `at` was the look at. prop: have its properties read too. */
int cuda_piece(struct hmem *self, uint64_t addr, const struct cuda_lookup *at, bool prop,
               struct cuda_piece *out);

/* ---- ranges (cuda_span.c) --------------------------------------------------------------- */

/* What the runtime says about a range. */
struct cuda_span {
    struct cuda_lookup first; /* at the range's start */
    uint64_t base, end;       /* the allocation, or the mapped pieces under the range */
    uint32_t segments;
    uint64_t identity;
    struct cuda_piece piece; /* the first */
    int device;              /* of the first piece that is on one, -1: none */
    bool mixed;              /* pieces on other devices or with other properties follow */
    bool on_host;            /* all pieces of virtual memory are there, */
    bool cpu;                /* and the CPU has access to all */
};

/* -HMEM_NOT_MINE, -ERANGE, -EIO, -ESHUTDOWN. prop: have the properties read too. */
int cuda_span(struct hmem *self, uint64_t addr, size_t len, bool prop, struct cuda_span *out);

/* ---- export (cuda_export.c) ------------------------------------------------------------- */

/* 0, or -EOPNOTSUPP, -EXDEV with the reason why no descriptor can name the span, as far as that
 * is known without asking for one. */
int cuda_exportable(struct hmem *self, const struct cuda_span *span, struct hmreg_reason *why);

int cuda_export(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                struct hmreg_dmabuf *out);

/* ---- resolve (cuda_resolve.c) ----------------------------------------------------------- */

int cuda_resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out);
int cuda_identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out);

/* ---- copies, allocations (cuda_memory.c) ------------------------------------------------ */

int cuda_copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len);
int cuda_alloc(struct hmem *self, int device, enum hmreg_mem_kind kind, size_t len, void **out);
int cuda_free(struct hmem *self, void *addr, enum hmreg_mem_kind kind);

#endif
