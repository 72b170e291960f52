/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of one vendor's device for the plain programs of these tests, by the vendor's own calls:
 * like the programs, it knows nothing of hmreg. The runtime is loaded by dlopen(3).
 */
#ifndef TESTS_PRELOAD_OFI_VENDOR_MEMORY_H
#define TESTS_PRELOAD_OFI_VENDOR_MEMORY_H

#include <stddef.h>

struct vendor {
    const char *name; /* "host", "cuda", "rocr", "ze" */
    int iface;        /* libfabric's FI_HMEM_* */
    /* Each ends the program with a sentence on stderr if it fails. */
    void *(*alloc)(size_t len); /* starts the runtime at the first call */
    void (*release)(void *memory);
    void (*write)(void *memory, const void *from, size_t len); /* from the program's own memory */
    void (*read)(void *to, const void *memory, size_t len);
};

/* NULL: no such vendor, or this build is without it. */
const struct vendor *vendor_find(const char *name);

/* A byte of a pattern. */
static inline unsigned char vendor_byte(unsigned seed, size_t index)
{
    return (unsigned char)(seed * 29 + index * 11 + (index >> 8) * 5 + 1);
}

/* Fill memory with a pattern; count the bytes that differ from it. */
void vendor_fill(const struct vendor *vendor, void *memory, size_t len, unsigned seed);
size_t vendor_differences(const struct vendor *vendor, const void *memory, size_t len,
                          unsigned seed);

#endif
