/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of a memory vendor: the whole port on one page.
 *
 * A vendor fills one `struct hmem_ops`, in the source of its name; what is too long for that stands
 * beside it (cuda.c, cuda_lookup.c, ...). It loads its runtime when opened, is asked about
 * addresses, exports dmabufs, copies. It keeps no state about addresses between calls but what it
 * allocated itself. The core calls it; it calls the core only for errors (hmreg_fail, in
 * core/base/error.h).
 *
 * Rules for every operation, unless its comment says otherwise:
 *  - Called from any thread, on several threads at once, with no lock of ours held; never in a
 *    child of the process that opened it (the core sees to that).
 *  - The caller's GPU context, current device and thread state are found again as they were. No
 *    context is created on a device the caller has none on, except by alloc and copy, which may
 *    retain the device's primary context for as long as they need it.
 *  - Arguments are valid: len > 0, addr + len does not wrap, pointers are not NULL.
 *  - The result is 0 or a negative errno, with hmreg_fail() called exactly once by whoever saw
 *    the failure first; outputs change only on success.
 *  - A runtime that has shut down (CUDA_ERROR_DEINITIALIZED and its like) answers -HMEM_NOT_MINE
 *    from resolve, -ENODEV elsewhere, and is not called again.
 */
#ifndef HMREG_HMEM_HMEM_H
#define HMREG_HMEM_HMEM_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* resolve's third answer: this vendor does not know the address. Not an error: no hmreg_fail(). */
#define HMEM_NOT_MINE ENXIO

struct hmem; /* one opened vendor; each vendor defines its own struct behind it */

struct hmem_device {
    char name[64];
    struct hmreg_pci pci;
    uint64_t memory; /* bytes, 0: unknown */
    bool simulated;  /* the name contains "simulated" */
    bool dmabuf;     /* the runtime says this device's memory can be exported */
};

struct hmem_runtime {
    char version[48];
    char library[128]; /* the path it was loaded from */
    char lacks[256];   /* a sentence on what this version lacks, "" where nothing */
};

/* What a range is; filled by resolve. */
struct hmem_range {
    int device; /* index of the device, -1: none (host memory of no device) */
    enum hmreg_mem_kind kind;
    uint64_t alloc_base; /* the allocation (for virtual-memory APIs: the mapped segments under
                            the range, whole; so it has the range's identity. Of one byte:
                            the segment it is in, by which the core makes composites) */
    uint64_t alloc_len;
    uint64_t identity;  /* changes whenever any memory under the range was freed and allocated
                           anew, even at the same address. 0: the vendor cannot tell; device
                           and managed memory is then registered, but never cached, and host
                           memory is left to the monitor */
    uint32_t segments;  /* physical allocations under the range, at least 1 */
    uint64_t host_addr; /* CPU address of the range's start, 0: the CPU cannot touch it */
    bool read_only;     /* the CPU cannot store there (system memory only) */
    bool anonymous;     /* private and without a file: nobody else can change which pages
                           these are (system memory only) */
    bool exportable;    /* export is expected to succeed for this range */
};

struct hmem_ops {
    enum hmreg_iface iface;
    const char *name; /* "cuda" */

    /* Loads the runtime and counts its devices. *out is closed with close().
     * -ENOENT: the library is not installed. -ENODEV: it is, but says there is no device or no
     * driver. -ELIBBAD: it lacks an entry point we cannot do without. -ENOMEM. -EIO: else. */
    int (*open)(struct hmem **out);
    void (*close)(struct hmem *self);

    /* What is loaded; never fails. */
    void (*runtime)(struct hmem *self, struct hmem_runtime *out);
    int (*device_count)(struct hmem *self);
    /* 0 <= index < device_count. Never fails: what cannot be read is left zero. */
    void (*device)(struct hmem *self, int index, struct hmem_device *out);

    /* What is [addr, addr+len)?  -HMEM_NOT_MINE: unknown here. -ERANGE: it starts in memory of
     * this vendor and leaves the allocation; the sentence says at which address.
     * -EFAULT: addresses of this vendor that no memory is mapped at. -EOPNOTSUPP: memory of this
     * vendor whose bounds its runtime does not tell.
     * -EIO: the runtime failed. Managed and pinned memory are mine too. */
    int (*resolve)(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out);

    /* Is the range still what resolve found? Writes what resolve would write as identity, at the
     * least cost. Same errors as resolve; -HMEM_NOT_MINE when it is gone. */
    int (*identity)(struct hmem *self, uint64_t addr, size_t len, uint64_t *out);

    /* A descriptor for the range, as hmreg_export_dmabuf() promises: the caller owns it, it is
     * close-on-exec, offset names addr exactly. range: resolve's answer for the same range.
     * -EOPNOTSUPP: this memory, device or version has no export. -EXDEV: one descriptor cannot
     * name the range, those of its segments may. -EPROTO: the runtime's descriptor does not cover
     * the range. -EFAULT: the memory was freed since resolve. -EIO; a system call's own error. */
    int (*export_dmabuf)(struct hmem *self, uint64_t addr, size_t len,
                         const struct hmem_range *range, struct hmreg_dmabuf *out);

    /* Copies len bytes; each side is this vendor's memory or host memory. Synchronous.
     * -EIO: the vendor's copy failed. -ENOMEM: none to copy by way of the host. */
    int (*copy)(struct hmem *self, uint64_t dst, uint64_t src, size_t len);

    /* Memory for tools and tests. DEVICE must be exportable where the device can.
     * -ENOMEM, -EOPNOTSUPP (no such kind), -EIO. */
    int (*alloc)(struct hmem *self, int device, enum hmreg_mem_kind kind, size_t len, void **out);
    /* addr: from alloc, not yet freed, kind the same. -EIO: it is there still. -EFAULT: the vendor
     * does not know it any more, since its context was reset, or somebody else freed it. */
    int (*free)(struct hmem *self, void *addr, enum hmreg_mem_kind kind);
};

/* The vendors that are built in, in iface order, ended by NULL; system is first and always
 * there (see hmem/hmem.c, made from the list in hmem/CMakeLists.txt). */
extern const struct hmem_ops *const hmem_vendors[];

#endif
