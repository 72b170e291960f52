/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Vendors made in the test, for tests of the core: a hmem_vendors table with the real system and
 * three that answer as they are told. Linked with hmreg_internal: an archive gives its own table
 * only where nobody else has defined one.
 *
 * The fakes of tests/gpu stand for a vendor's runtime; these stand for a vendor's file in hmem/.
 * Several threads may ask; claims are made, renewed and freed by one at a time.
 */
#ifndef TESTS_VENDORS_H
#define TESTS_VENDORS_H

#include "hmem/hmem.h"

#define VENDOR_CLAIMS 96

/* A range a vendor knows. */
struct vendor_claim {
    uint64_t addr;
    size_t len;
    struct hmem_range range;
    int fd;       /* what export hands out a copy of; -1: none */
    char *view;   /* its bytes, for copies and for the test to look at; NULL: at addr */
    bool goes_on; /* a segment: a range may go on in the claim that begins at its end */
};

struct vendor {
    int open_code; /* what open, resolve, ... answer instead of working; 0: they work */
    int resolve_code;
    int identity_code;
    int export_code;
    int copy_code;
    int alloc_code;
    int free_code;
    bool silent;     /* fails without recording an error, against the contract */
    bool dmabuf;     /* its devices say they export */
    bool one_by_one; /* no descriptor is for several segments: -EXDEV */
    int devices;
    void (*on_open)(void); /* called inside open; NULL: nothing */
    /* Called before each question about an address, with nothing locked: here threads meet, and
     * memory is freed at the worst moment. NULL: nothing. */
    void (*hook)(const char *call, uint64_t addr, size_t len);
    unsigned opens, closes, resolves, identities, exports, copies; /* calls so far */
    struct vendor_claim claims[VENDOR_CLAIMS];
    unsigned count;
};

extern struct vendor vendors[HMREG_IFACE_COUNT]; /* SYSTEM's is not used */

/* All vendors as new: present, two devices each, nothing claimed. */
void vendors_reset(void);

/* Makes a vendor know a range, which the test may have from anywhere. */
struct vendor_claim *vendor_claim(enum hmreg_iface iface, void *addr, size_t len,
                                  enum hmreg_mem_kind kind, int device);

/* The range was freed and allocated anew at the same address: it has another identity. */
void vendor_renew(struct vendor_claim *claim);

/* The claim that begins at addr is no more: the vendor does not know it. Pointers to the vendor's
 * claims are stale then. */
void vendor_unclaim(enum hmreg_iface iface, const void *addr);

/* Memory of a device: the CPU faults on it, copies reach it, a descriptor stands for it. MANAGED
 * and HOST_PINNED memory the CPU can touch. Given back by vendor_memory_free(). */
void *vendor_memory(enum hmreg_iface iface, int device, enum hmreg_mem_kind kind, size_t len);
void vendor_memory_free(void *addr);
/* The bytes of vendor_memory(), behind the vendor's back. */
char *vendor_view(const void *addr);

#endif
