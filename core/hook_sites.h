/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Where libc, and whoever stands before it, enters the kernel to change mappings. A site is the
 * five-byte instruction directly before `syscall`: `mov $number,%eax`, or in syscall(2), whose
 * number is an argument, the one that fetches the last argument. Replaced by a jump to a stub
 * (hook_stubs.h), it can be hooked without moving any other instruction, and what comes after the
 * kernel (errno, the heap's end) stays libc's. Only what is found in exactly this form is a site.
 *
 * Others put jumps at the beginning of functions (UCX does when it is loaded), over what may have
 * been a site. Then the file they jump to must enter the kernel in sites only, or by libc's
 * functions.
 */
#ifndef HMREG_CORE_HOOK_SITES_H
#define HMREG_CORE_HOOK_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOOK_SITES_MAX   40
#define HOOK_SITE_SIZE   5
#define HOOK_ANY_CALL    (-1)       /* the number is in %rax when the site is reached */
#define HOOK_STUB_HEADER 24         /* bytes before a stub's entry: see hook_stubs.c */
#define HOOK_STUB_MAGIC  0x31486d68 /* its last four; another layout has another number */

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

/* Is there a jump to a stub, this copy's of the library or another's? */
bool hook_is_stub(const uint8_t *at, long number);

#endif
