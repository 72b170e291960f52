/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What stubs read, and what others read of a stub: the process's table of watched memory, and the
 * header before each stub, by which another copy of the library recognizes it.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STATE_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOOK_GRANULE_SHIFT 21    /* 2 MiB */
#define HOOK_GRANULES      65536 /* memory further apart than 128 GiB shares them */

/* A system call that is about to be made, in the order of its arguments. */
struct hook_call {
    uint64_t number;
    uint64_t args[6];
};

/* Read by the stubs, which know its layout. On pages that are wiped in a forked child: there
 * nothing is watched and nobody called. */
struct hook_state {
    _Atomic(void (*)(const struct hook_call *)) hook; /* NULL: nobody */
    _Atomic uint64_t inside;                          /* threads that are in the hook */
    _Atomic uint32_t watched;                         /* ranges */
    uint32_t unused;
    _Atomic uint64_t begun, ended; /* calls that may change what is mapped; HOOK_COUNTS_CALLS */
    uint64_t unused_too[3];
    _Atomic uint32_t granules[HOOK_GRANULES]; /* ranges that touch each */
};

/* The process's state; NULL with -ENOMEM or -EOPNOTSUPP recorded. */
struct hook_state *hook_state_get(void);

#define HOOK_STUB_MAGIC 0x32486d68 /* another layout of header or stub has another number */

/* Directly before a stub's entry. */
struct hook_stub_header {
    struct hook_state *state;
    uint32_t number;  /* of the site's system call; all ones: any */
    uint32_t arch[2]; /* hook_arch.h's */
    uint32_t magic;
};

/* A stub's number by its header, which may be unmapped. False: it is none. */
bool hook_stub_number(const uint8_t *stub, long *number);

#endif
