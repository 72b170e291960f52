/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of a memory vendor: the whole port on one page.
 *
 * A vendor fills one `struct hmem_ops` in the source file named after it; longer parts have
 * separate files beside it (cuda.c, cuda_lookup.c, ...). It loads its runtime when opened, resolves
 * addresses, exports dmabufs and copies. Between calls it keeps no state about addresses, except
 * for memory that it allocated itself and for allocation ids (alloc_ids.h). The core calls the
 * vendor; the vendor calls the core only to report errors (hmreg_fail, in core/base/error.h).
 *
 * Rules for every operation, unless its comment says otherwise:
 *  - The core calls it from any thread, concurrently, with no lock of ours held, and never in a
 *    forked child of the process that opened the vendor.
 *  - It restores the caller's GPU context, current device and thread state. It creates no context
 *    on a device where the caller has none; only alloc and copy may retain the device's primary
 *    context, for as long as they need it.
 *  - Arguments are valid: len > 0, addr + len does not wrap, pointers are not NULL.
 *  - It returns 0 or a negative errno value. The function that detects a failure first calls
 *    hmreg_fail(), exactly once per failure. Outputs change only on success.
 *  - After the runtime has shut down (CUDA_ERROR_DEINITIALIZED and its like), resolve returns
 *    -HMEM_NOT_MINE, the others return -ENODEV, and none calls the runtime again.
 */
#ifndef HMREG_CORE_CONTRACT_HMEM_H
#define HMREG_CORE_CONTRACT_HMEM_H

#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* resolve: the address does not belong to this vendor. Not an error: no hmreg_fail(). */
#define HMEM_NOT_MINE ENXIO

struct hmem; /* one opened vendor; each vendor defines its own struct */

/* Receives each range of a vendor's memory that is about to end, or has just ended. It runs inside
 * the runtime's own calls, on any thread, with any lock of the runtime or the application held, in
 * signal handlers and in forked children: it takes no lock, allocates nothing, calls no runtime and
 * preserves errno. */
typedef void (*hmem_listener)(uint64_t start, uint64_t end);

/* Sets the process's listener; the core sets the same one at each opening of the library. */
void hmem_listen(hmem_listener listener);
/* A vendor reports [start, end) to the listener, if there is one. The range may exceed the ended
 * memory: no later get returns cached regions there, and held ones stay until their last put. */
void hmem_ended(uint64_t start, uint64_t end);

struct hmem_device {
    char name[64];
    struct hmreg_pci pci;
    uint64_t memory; /* bytes, 0: unknown */
    bool simulated;  /* the name contains "simulated" */
    bool dmabuf;     /* the runtime reports that this device's memory can be exported */
    bool coherent;   /* a coherent link connects it with the CPU (Grace), so that a NIC may reach
                        its memory by that link or by PCIe */
    /* If an iface has several drivers (Level Zero): the number of the device's driver, in the
     * runtime's order, and the index of that driver's first device. Else 0. */
    unsigned driver, driver_first;
};

struct hmem_runtime {
    char version[48];
    char library[128];    /* the path it was loaded from */
    char lacks[256];      /* a sentence on what this version lacks; "": it lacks nothing */
    char unreported[256]; /* a sentence: whose end is not reported, and why; "": all memory's is */
};

/* Description of a range; filled by resolve. */
struct hmem_range {
    int device; /* index of the device; -1: host memory that belongs to no device */
    enum hmreg_mem_kind kind;
    uint64_t alloc_base; /* the allocation; for virtual-memory APIs the whole mapped segments of the
                            range, which share the range's identity. A range of one byte yields its
                            segment: the core builds composites from these */
    uint64_t alloc_len;
    uint64_t
        identity; /* changes whenever any memory in the range was freed and allocated anew, even at
                     its old address. 0: the vendor cannot detect this; device and managed memory is
                     then registered but never cached, and host memory relies on the monitor */
    bool id_recurs;     /* once this memory is freed, other memory may have its identity */
    uint32_t segments;  /* physical allocations under the range, at least 1 */
    uint64_t host_addr; /* CPU address of the range's start, 0: no CPU access */
    bool read_only;     /* the CPU cannot store there (system memory only) */
    bool anonymous;     /* private and not file-backed: no other process can change which
                           pages back it (system memory only) */
    bool of_driver; /* each mapping is private and not file-backed, or of a character device's file,
                       whose pages are its driver's (system memory only) */
    bool unnamed;   /* as above, or MAP_SHARED | MAP_ANONYMOUS, which forked children share (system
                       memory only) */
    /* For host memory with an identity. Neither: it may be the program's, and the runtime has only
     * pinned it. */
    bool allocated; /* the runtime itself allocated it: only its calls change the pages */
    bool allocated_if_unnamed; /* likewise if the list of mappings shows no file (`unnamed`) */
    bool exportable;           /* export_dmabuf is expected to succeed for this range */
    bool claimed; /* not from resolve, but a caller's trusted claim of device memory: the caller
                     gave device, alloc_base, alloc_len, and its own number or 0 as identity. Only
                     export_dmabuf receives claims */
};

struct hmem_ops {
    enum hmreg_iface iface;
    const char *name; /* "cuda" */

    /* Is the runtime's library in this process? Loads nothing. NULL: it always is. */
    bool (*loaded)(void);

    /* For a runtime whose library is in this process: has the application or hmreg started it?
     * Starts nothing. NULL: unknown. */
    bool (*started)(void);

    /* Loads the runtime's library, so that open need not use the dynamic linker. On any number of
     * threads. Errors: as open. NULL: there is nothing to load. */
    int (*load)(void);

    /* Loads the runtime and counts its devices. The caller closes *out with close().
     * -ENOENT: the library is not installed. -ENODEV: it reports no device or no driver.
     * -ELIBBAD: it lacks a required entry point. -ENOMEM. -EIO: any other failure. */
    int (*open)(struct hmem **out);
    void (*close)(struct hmem *self);

    /* Describes the loaded runtime; never fails. */
    void (*runtime)(struct hmem *self, struct hmem_runtime *out);
    int (*device_count)(struct hmem *self);
    /* 0 <= index < device_count. Never fails: fields that cannot be read are zero. */
    void (*device)(struct hmem *self, int index, struct hmem_device *out);

    /* Describes [addr, addr+len). Managed and pinned host memory belong to the vendor too.
     * -HMEM_NOT_MINE: not this vendor's. -ERANGE: the range starts in this vendor's memory and
     * extends beyond the allocation; the error text names the address where it does. -EFAULT: this
     * vendor's addresses, with no memory mapped there. -EOPNOTSUPP: this vendor's memory, whose
     * bounds its runtime does not report. -EIO: the runtime failed. */
    int (*resolve)(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out);

    /* Writes the identity that resolve would write, at the least cost; the core compares it to
     * detect reallocation. Same errors as resolve; -HMEM_NOT_MINE: the memory is gone. */
    int (*identity)(struct hmem *self, uint64_t addr, size_t len, uint64_t *out);

    /* Would identity write this one? Cheaper than identity if the vendor can; records no error.
     * NULL: as identity. */
    bool (*is_same)(struct hmem *self, uint64_t addr, size_t len, uint64_t identity);

    /* Makes watch()'s calls of the dynamic linker. Another thread may hold the linker's locks and
     * wait for this one: call it while this thread holds nothing that others wait for. NULL:
     * watch() needs none.
     */
    void (*prepare_watch)(struct hmem *self);

    /* Will the end of this memory be reported? range: resolve's result for it, with an identity.
     * true: from before the call returns, each way in which any part of this memory can end calls
     * hmem_ended() with a range that contains the part, before its addresses can be reused. The
     * core compares the identity once more after the call, which detects earlier ends. false: hits
     * ask for the identity (hmem_ended() may still be called), and *why has the reason, a string
     * that stays as long as the process; why may be NULL. Never fails and records no error. NULL:
     * always false. */
    bool (*watch)(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                  const char **why);

    /* Exports the range as a dmabuf, as hmreg_export_dmabuf() promises: the caller owns the
     * descriptor, it is close-on-exec, and offset locates addr exactly. range: resolve's result for
     * the range, or a claim; with a claim the runtime is asked only for other facts that the export
     * needs. flags: HMREG_EXPORT_PCIE, or 0; a vendor that does not support them refuses.
     * -EOPNOTSUPP: this memory, device or version has no export, or none with these flags. -EXDEV:
     * one descriptor cannot cover the range; one per segment may. -EPROTO: the runtime's descriptor
     * does not cover the range. -EFAULT: the memory was freed since resolve. -EIO; a system call's
     * error. */
    int (*export_dmabuf)(struct hmem *self, uint64_t addr, size_t len,
                         const struct hmem_range *range, uint64_t flags, struct hmreg_dmabuf *out);

    /* Makes the runtime's synchronous calls complete their writes to this device memory before they
     * return, until it is freed. NULL: the runtime has no such setting. -EOPNOTSUPP: not for this
     * memory or version.
     * -EFAULT: the memory was freed since resolve. -EIO. */
    int (*sync_memops)(struct hmem *self, uint64_t addr, int device);

    /* Copies len bytes; each side is this vendor's memory or host memory. Synchronous.
     * -EIO: the vendor's copy failed. -ENOMEM: no memory for a bounce buffer on the host. */
    int (*copy)(struct hmem *self, uint64_t dst, uint64_t src, size_t len);

    /* Allocates memory for tools and tests. Kind DEVICE yields exportable memory where the device
     * supports export. -ENOMEM, -EOPNOTSUPP (no such kind), -EIO. */
    int (*alloc)(struct hmem *self, int device, enum hmreg_mem_kind kind, size_t len, void **out);
    /* addr: returned by alloc for the same kind, not yet freed. -EIO: the memory is still
     * allocated. -EFAULT: the vendor no longer knows addr, because its context was reset or other
     * code freed it. */
    int (*free)(struct hmem *self, void *addr, enum hmreg_mem_kind kind);
};

/* The core's whole view of hmem. */
extern const struct hmem_table {
    /* The built-in vendors in iface order, terminated by NULL; system comes first and is always
     * present (hmem/hmem.c, generated from the list in hmem/CMakeLists.txt). */
    const struct hmem_ops *const *vendors;
    void (*listen)(hmem_listener listener); /* hmem_listen() */
    /* The number of libraries that this process has loaded so far, unloaded ones included: while it
     * stays, loaded() of every vendor stays too. Never 0. */
    uint64_t (*libraries_loaded)(void);
} hmem_table;

#endif
