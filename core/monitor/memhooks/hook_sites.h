/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds where libc, and whoever stands before it, enters the kernel to change mappings. A site is
 * one instruction there that a jump to a stub (hook_stubs.h) can replace without moving any other
 * instruction; what comes after the kernel (errno, the heap's end) stays libc's. hook_arch.h says
 * which instruction that is on which processor.
 *
 * Other libraries put jumps at the beginning of functions (UCX does when it is loaded), over what
 * may have been a site. Then the file they jump to must enter the kernel in sites only, or by
 * libc's functions.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_SITES_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_SITES_H

#include "core/monitor/memhooks/hook_arch.h"

#define HOOK_SITES_MAX 40

struct hook_site {
    const char *function;
    uint8_t *at;
    long number;    /* of the system call, or HOOK_ANY_CALL */
    int protection; /* PROT_*, of the segment it is in */
};

/* The beginning of a function that jumps to somebody else's hook, whose way to the kernel leads
 * past sites only as long as the jump is there. */
struct hook_jump {
    const uint8_t *at;
    uint8_t bytes[HOOK_SITE_SIZE];
};

struct hook_sites {
    size_t count, jumps;
    struct hook_site site[HOOK_SITES_MAX];
    struct hook_jump jump[HOOK_SITES_MAX];
};

/* Everything there is to hook, or -EOPNOTSUPP and which function cannot be, and why. */
int hook_sites_find(struct hook_sites *out);

/* Is there a jump to a stub for this system call, this copy's of the library or another's? */
bool hook_is_stub(const uint8_t *at, long number);

#endif
