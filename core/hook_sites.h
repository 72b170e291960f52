/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Where libc, and whoever stands before it, enters the kernel to change mappings. A site is the
 * five-byte instruction directly before `syscall`: `mov $number,%eax`, or in syscall(2), whose
 * number is an argument, the one that fetches the last argument. Replaced by a jump to a stub
 * (hook_stubs.h), it can be hooked without moving any other instruction, and what comes after the
 * kernel (errno, the heap's end) stays libc's. Only what is found in exactly this form is a site.
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

struct hook_sites {
    size_t count;
    struct hook_site site[HOOK_SITES_MAX];
};

/* Everything there is to hook, or -EOPNOTSUPP and which function cannot be, and why. */
int hook_sites_find(struct hook_sites *out);

#endif
