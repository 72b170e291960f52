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
/* Not a failure yet: the driver answers only in a context. Not recorded; cuda_lookup() and
 * cuda_lookup_range() never return it. */
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
/* True if the call may need a context of the memory's device: drivers differ in these results, and
 * other causes have them too. */
bool cuda_may_want_context(unsigned result);

/* While any thread captures a stream to a graph, calls that CUDA counts as unsafe fail and break
 * the capture, unless the calling thread's mode is relaxed. Each operation relaxes it, and restores
 * the mode returned here. */
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
    int device;                   /* -1: none in our list */
    uint64_t start;               /* bounds of the allocation; for virtual memory, of the
                                   * reservation */
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
/* Describes the segment at addr; at: cuda_lookup() of addr. prop: read its properties too. */
int cuda_virtual_segment(struct cuda_hmem *self, uint64_t addr, const struct cuda_lookup *at,
                         bool prop, struct cuda_segment *out);
/* Reads bounds and block of the segment that begins at addr, by two questions. The segment that
 * ends there must be in its reservation. out->size 0: the driver does not report it; call
 * cuda_virtual_segment(). */
int cuda_virtual_follows(struct cuda_hmem *self, uint64_t addr, struct cuda_segment *out);
/* Were both created with the same properties? */
bool cuda_virtual_same(const struct cuda_segment *a, const struct cuda_segment *b);
/* Identities of virtual memory have this bit; the driver's buffer ids, which count, do not. */
#define CUDA_IDENTITY_VIRTUAL (UINT64_C(1) << 63)
/* Extends the identity of a range by one segment. */
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
    int device;                  /* device of the first segment on a device; -1: none */
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
/* May drivers refuse to export this memory? Only an export shows it. */
bool cuda_export_may_fail(const struct cuda_range *range);

/* ---- the end of memory (cuda_hooks.c) ---------------------------------------------------- */

/* Finds the functions that end memory, and tests whether they can be hooked, without hooking them.
 * Adds to the runtime's description the memory whose end is not reported. */
void cuda_complete(struct hmem *self);
/* The operations of hmem.h. The first call of either places the hooks, which serve the process and
 * stay. */
void cuda_prepare_watch(struct hmem *self);
bool cuda_watch(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                const char **why);

/* ---- operations of hmem.h (cuda_resolve.c, cuda_export.c, cuda_memory.c, cuda_sync.c) -- */

VENDOR_OPERATIONS(cuda);
bool cuda_is_same(struct hmem *, uint64_t addr, size_t len, uint64_t identity);
int cuda_sync_memops(struct hmem *, uint64_t addr, int device);

#endif
