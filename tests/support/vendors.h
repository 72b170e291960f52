/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The tests' own vendors, for tests of the core: a hmem_table with the real system and
 * three with controlled results. Linked with hmreg_internal: an archive's table is used only if no
 * other object defines one. The fakes of tests/gpu replace a vendor's runtime; these replace a
 * vendor's file in hmem/. Several threads may query; claims are made, renewed and freed by one at a
 * time.
 */
#ifndef TESTS_VENDORS_H
#define TESTS_VENDORS_H

#include <hmreg/hmreg.h>
#include <stdatomic.h>
#include <stdbool.h>

#define VENDOR_CLAIMS 1100

/* What a vendor says of a range, as struct hmem_range has it. */
struct vendor_range {
    int device;
    enum hmreg_mem_kind kind;
    uint64_t identity;
    uint32_t segments;
    uint64_t host_addr; /* of the claim's first byte; 0: no CPU access */
    bool allocated, allocated_if_unnamed, exportable;
};

/* A range a vendor knows. */
struct vendor_claim {
    uint64_t addr;
    size_t len;
    struct vendor_range range;
    int fd;       /* export duplicates this; -1: none */
    char *view;   /* its bytes, for copies and for tests; NULL: at addr */
    bool watched; /* its end is reported */
    bool endless; /* its vendor reports no end of it, but describes what is asked for */
    bool goes_on; /* a segment: a range may continue in the claim that begins at its end */
};

struct vendor {
    bool unloaded; /* its library is not in the process */
    int open_code; /* the result of open, resolve, ...; 0: success */
    int resolve_code;
    int identity_code;
    int export_code;
    int copy_code;
    int alloc_code;
    int free_code;
    bool reports;    /* its watch() promises to report the end of memory */
    bool silent;     /* fails without recording an error, against the contract */
    bool real;       /* its devices are not called simulated */
    bool dmabuf;     /* its devices report export */
    bool coherent;   /* its devices' memory is reached by a coherent link too */
    int pcie_code;   /* the result of an export with the PCIe mapping; 0: as without */
    bool one_by_one; /* no descriptor covers several segments: -EXDEV */
    int devices;
    int split; /* the devices from this one on are of a second driver; 0: all are of one */
    void (*on_open)(void); /* called inside open; NULL: none */
    void (*on_load)(void); /* the same of load; cuda's only */
    /* Called before each query of an address, with no lock held: here threads meet, and memory is
     * freed at a critical moment. NULL: none. */
    void (*hook)(const char *call, uint64_t addr, size_t len);
    unsigned opens, closes, watches, copies; /* number of calls */
    atomic_uint resolves, identities, exports;
    atomic_uint pcie_exports; /* of exports, those with the PCIe mapping */
    struct vendor_claim claims[VENDOR_CLAIMS];
    unsigned count;
};

extern struct vendor vendors[HMREG_IFACE_COUNT]; /* SYSTEM's is not used */

/* Called before each operation of theirs that is about memory, and open and close. Not 0: what it
 * fails with, if it can fail. NULL: nothing is called. */
extern int (*vendor_called)(enum hmreg_iface iface, const char *call, uint64_t addr, size_t len);

/* Resets all vendors: loaded, two devices each, nothing claimed. */
void vendors_reset(void);

/* After that none of their libraries is in the process. */
void vendors_unload(void);
/* The application loads its library. */
void vendor_is_loaded(enum hmreg_iface iface);

/* Claims a range of any memory for a vendor. */
struct vendor_claim *vendor_claim(enum hmreg_iface iface, void *addr, size_t len,
                                  enum hmreg_mem_kind kind, int device);

/* The range was freed and allocated again at the same address: it gets another identity. */
void vendor_renew(struct vendor_claim *claim);

/* Ends the claim that begins at addr: the vendor does not know it any more. Invalidates pointers to
 * the vendor's claims. */
void vendor_unclaim(enum hmreg_iface iface, const void *addr);

/* Memory of a device: the CPU faults on it, copies reach it, a descriptor names it. MANAGED and
 * HOST_PINNED memory the CPU can access. Freed by vendor_memory_free(). */
void *vendor_memory(enum hmreg_iface iface, int device, enum hmreg_mem_kind kind, size_t len);
void vendor_memory_free(void *addr);
/* The bytes of vendor_memory(), read past the vendor. */
char *vendor_view(const void *addr);

#endif
