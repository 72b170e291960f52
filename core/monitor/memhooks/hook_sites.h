/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds the places where libc, and code that interposes libc's functions, enters the kernel to
 * change mappings. A site is one instruction there that a jump to a stub (hook_stubs.h) can replace
 * without moving any other instruction; what follows the system call (errno, the heap's end) stays
 * libc's. core/patch/syscalls.h says which instruction that is on each processor.
 *
 * Other libraries put jumps at the beginning of functions (UCX does when it is loaded), possibly
 * over a site. Then the file they jump to must enter the kernel only in sites, or through libc's
 * functions.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_SITES_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_SITES_H

#include "core/patch/syscalls.h"

#define HOOK_SITES_MAX  40
#define HOOK_OTHERS_MAX 9

struct hook_site {
    const char *function;
    struct syscall_site is;
};

/* The beginning of a function with a site, or with another library's jump to code that has sites.
 * Another hook that is put there later would bypass them. */
struct hook_start {
    const uint8_t *at;
    uint8_t bytes[CODE_BRANCH];
};

struct hook_sites {
    size_t count, starts, others;
    const uint8_t *other[HOOK_OTHERS_MAX]; /* code of other libraries that is the target of jumps */
    struct hook_site site[HOOK_SITES_MAX];
    struct hook_start start[HOOK_SITES_MAX];
};

/* Finds all sites. -EOPNOTSUPP: the error text names a function that cannot be hooked, and why.
 * -EBUSY: a file with sites is being unloaded. */
int hook_sites_find(struct hook_sites *out);

#endif
