/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The stubs of hooked system calls, by which copies of the library in one process recognize each
 * other's.
 */
#ifndef HMREG_CORE_PATCH_STUB_H
#define HMREG_CORE_PATCH_STUB_H

#include <stdbool.h>
#include <stdint.h>

#define STUB_MAGIC 0x35486d68 /* every layout of header and stub has a number of its own */

/* Lies directly before a stub's entry. */
struct stub_header {
    void *state;
    uint32_t number; /* number of the site's system call; all ones: any */
    int32_t next;    /* distance from our entry to the entry of another copy's stub, where this one
                      * continues; 0: it makes the system call */
    uint32_t unused;
    uint32_t magic;
};

/* Reads a stub's system call number from its header, which may be unmapped. False: it is no stub.
 */
bool stub_number(const uint8_t *stub, long *number);

/* Returns the stub of another copy where a stub continues. NULL: none, or it is no stub. */
const uint8_t *stub_next(const uint8_t *stub);

#endif
