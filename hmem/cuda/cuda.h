/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Internal header of the CUDA vendor: the opened runtime, and the functions that its files call
 * in each other, lowest layer first; cuda.c is the top layer.
 *
 * The driver's results are `unsigned` and named `result`; ours are `int` and named `rc`.
 */
#ifndef HMREG_HMEM_CUDA_CUDA_H
#define HMREG_HMEM_CUDA_CUDA_H

#include "hmem/cuda/cuda_api.h"
#include "hmem/vendor.h"

struct cuda_device {
    int handle;
    bool integrated; /* shares the host's memory */
    struct hmem_device info;
};

struct cuda_hmem {
    struct hmem base;
    struct cuda_api api;
    int version;                 /* 13000: 13.0 */
    struct cuda_device *devices; /* by ordinal */
    size_t page;                 /* the host's page size */
};

/* ---- failures (cuda_error.c) ------------------------------------------------------------ */

/* vendor_fail(), with the driver's name for the result in the text. */
int cuda_fail(struct cuda_hmem *self, int code, unsigned result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Not a failure yet: the driver wants a context to answer. Recorded nowhere; it never leaves
 * cuda_lookup() and cuda_lookup_range(). */
enum { CUDA_NO_CONTEXT = 5000 };
/* A query's failure: -CUDA_NO_CONTEXT; else cuda_fail() with -EIO. */
int cuda_fail_query(struct cuda_hmem *self, unsigned result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* NULL: unknown. */
const char *cuda_result_name(struct hmem *self, int64_t result);
/* Records the failure of a call that starts the driver. -ENODEV: it cannot be used here. -EIO. */
int cuda_fail_start(struct cuda_hmem *self, unsigned result, const char *call);
/* True if the driver, or this memory, does not have the attribute. */
bool cuda_says_no_answer(unsigned result);

/* ---- devices (cuda_devices.c) ----------------------------------------------------------- */

/* -ENODEV: no device. -EIO. */
int cuda_list_devices(struct cuda_hmem *self);

/* ---- contexts (cuda_context.c) ---------------------------------------------------------- */

struct cuda_guard {
    int retained; /* the device whose primary context we retain, -1: none */
};

/* Makes a context current until cuda_leave(): the given one or, if NULL, the device's primary
 * context, which is created only if `create`. Returns the driver's result. */
unsigned cuda_enter(struct cuda_hmem *self, struct cuda_context *context, int device, bool create,
                    struct cuda_guard *guard);
void cuda_leave(struct cuda_hmem *self, struct cuda_guard *guard);
/* True if the driver refused the call because the thread has no usable context. */
bool cuda_wants_context(unsigned result);
/* The same of calls that need a context of the memory's device: drivers differ in how they say so,
 * and other causes have these results too. */
bool cuda_may_want_context(unsigned result);

/* While a stream is being captured to a graph, by whichever thread, calls that CUDA counts as
 * unsafe fail and break the capture, unless the calling thread's mode is relaxed. Each operation
 * makes it so, and restores the mode that this returns. */
unsigned cuda_relax(struct cuda_hmem *self);
void cuda_restore(struct cuda_hmem *self, unsigned mode);

/* ---- segments, virtual memory (cuda_virtual.c) ------------------------------------------- */

enum cuda_sort {
    CUDA_UNKNOWN,  /* not CUDA's */
    CUDA_RESERVED, /* reserved by CUDA, no memory mapped */
    CUDA_HOST,
    CUDA_MANAGED,
    CUDA_PLAIN,   /* device memory of cuMemAlloc: one segment, exported as a whole */
    CUDA_POOL,    /* device memory of a stream-ordered pool */
    CUDA_VIRTUAL, /* device memory mapped into reserved addresses in one or more segments */
};

/* The driver's description of one address. */
struct cuda_lookup {
    enum cuda_sort sort;
    struct cuda_context *context; /* NULL: belongs to no context (pools, virtual memory) */
    uint64_t host;                /* CPU address, 0: none */
    uint64_t id;                  /* the driver's unique buffer id */
    int device;                   /* -1: none that we list */
    uint64_t start;               /* of the allocation; of the reservation for virtual memory */
    uint64_t size;                /* 0: the driver does not report the allocation's size */
};

/* Memory that one call mapped or allocated: one segment of a range. */
struct cuda_segment {
    uint64_t base, size; /* size 0: the driver does not report it */
    uint64_t block;      /* id of the physical memory (virtual memory only), 0: none */
    bool has_prop;
    struct cuda_memory_prop prop; /* virtual memory only, if requested */
    bool cpu;                     /* on the host, and the CPU was given access */
};

/* Reads the segment's bounds by a call that may need a context. */
unsigned cuda_address_range(struct cuda_hmem *self, uint64_t addr, const struct cuda_lookup *at,
                            struct cuda_segment *out);
/* Retains the handle of virtual memory, which the caller releases; 0 for any other memory. */
int cuda_virtual_retain(struct cuda_hmem *self, uint64_t addr, unsigned long long *out);
/* Describes the segment at addr, which at describes. prop: read its properties too. */
int cuda_virtual_segment(struct cuda_hmem *self, uint64_t addr, const struct cuda_lookup *at,
                         bool prop, struct cuda_segment *out);
/* Describes bounds and block of the segment that begins at addr, inside the reservation of the
 * segment that ends there, by two questions. out->size 0: the driver does not say; ask
 * cuda_virtual_segment(). */
int cuda_virtual_follows(struct cuda_hmem *self, uint64_t addr, struct cuda_segment *out);
/* Were both created with the same properties? */
bool cuda_virtual_same(const struct cuda_segment *a, const struct cuda_segment *b);
/* Identities of virtual memory have this bit; the driver's buffer ids, which count, do not. */
#define CUDA_IDENTITY_VIRTUAL (UINT64_C(1) << 63)
/* Continues the identity of a range by one more segment. */
uint64_t cuda_virtual_identity(uint64_t identity, const struct cuda_lookup *at,
                               const struct cuda_segment *segment);

/* ---- addresses and ranges (cuda_lookup.c) ------------------------------------------------ */

/* 0, with CUDA_UNKNOWN for memory that is not CUDA's; -EIO, -ESHUTDOWN. */
int cuda_lookup(struct cuda_hmem *self, uint64_t addr, struct cuda_lookup *out);

/* The driver's description of a range. */
struct cuda_range {
    struct cuda_lookup first; /* at the range's start */
    uint64_t base, end;       /* the allocation, or the mapped segments under the range */
    uint32_t segments;
    uint64_t identity;
    struct cuda_segment segment; /* the first */
    int device;                  /* of the first segment that is on a device, -1: none */
    bool mixed;                  /* the segments differ in device or properties */
    bool on_host;                /* all segments of virtual memory are on the host */
    bool cpu;                    /* the CPU has access to all segments */
};

/* prop: read the properties too. -HMEM_NOT_MINE, -ERANGE, -EIO, -ESHUTDOWN. */
int cuda_lookup_range(struct cuda_hmem *self, uint64_t addr, size_t len, bool prop,
                      struct cuda_range *out);

/* ---- export (cuda_export.c) ------------------------------------------------------------- */

/* Checks, without an export, whether one descriptor can cover the range: 0, or -EOPNOTSUPP, -EXDEV
 * with the reason in *why. */
int cuda_exportable(struct cuda_hmem *self, const struct cuda_range *range,
                    struct hmreg_reason *why);
/* True of memory whose export no driver promises, and some refuse: only an export shows. */
bool cuda_export_unsure(const struct cuda_range *range);

/* ---- the end of memory (cuda_hooks.c) ---------------------------------------------------- */

/* Finds the functions that end memory and tries, without hooking them, whether they can be hooked;
 * says in the runtime's description which memory's end is not reported. */
void cuda_complete(struct hmem *self);
/* hmem.h's; the first call of either places the hooks, which serve the process and stay. */
void cuda_prepare_watch(struct hmem *self);
bool cuda_watch(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                const char **why);

/* ---- operations of hmem.h (cuda_resolve.c, cuda_export.c, cuda_memory.c, cuda_sync.c) -- */

VENDOR_OPERATIONS(cuda);
bool cuda_is_same(struct hmem *, uint64_t addr, size_t len, uint64_t identity);
int cuda_sync_memops(struct hmem *, uint64_t addr, int device);

#endif
