/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process's table of watched memory, which stubs read.
 */
#ifndef HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STATE_H
#define HMREG_CORE_MONITOR_MEMHOOKS_HOOK_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOOK_GRANULE_SHIFT 21    /* 2 MiB */
#define HOOK_GRANULES      65536 /* addresses 128 GiB apart share a granule */

/* A counted call that may be under way, found by its stack pointer: one of HOOK_PROBES places from
 * the one that a hash of it names. Nothing else is needed when the call has ended, so nothing of
 * ours is read from the thread's stack then. */
struct hook_frame {
    _Atomic uint64_t stack;  /* the stub's stack pointer; 0: free */
    _Atomic uint64_t number; /* the call's number, repeated on its stack while it is under way; 0:
                              * unknown yet, or ended */
};

#define HOOK_FRAMES       1024
#define HOOK_PROBES       8
#define HOOK_FRAME_MARKED 24 /* the mark's place above the stub's stack pointer */
/* A bit of the number: the call has no mark on the stack, whose page the program may discard. */
#define HOOK_FRAME_UNMARKED (UINT64_C(1) << 63)

/* A system call that is about to be made, in the order of its arguments. */
struct hook_call {
    uint64_t number;
    uint64_t args[6];
};

/* Read by the stubs, which depend on its layout. It lies in pages that the kernel wipes in a forked
 * child: there nothing is watched and no hook is called. */
struct hook_state {
    _Atomic(void (*)(const struct hook_call *)) hook; /* NULL: none */
    _Atomic uint64_t inside;                          /* threads inside the hook */
    _Atomic uint32_t watched;                         /* watched ranges */
    uint32_t unused;
    /* Calls that may change mappings (HOOK_COUNTS_CALLS), in the lower HOOK_COUNT_BITS; above them
     * a name of the process, which leaves the highest bit 0. */
    _Atomic uint64_t begun, ended;
    uint64_t unused_too[3];
    _Atomic uint32_t granules[HOOK_GRANULES]; /* watched ranges that touch each granule */
    struct hook_frame frames[HOOK_FRAMES + HOOK_PROBES];
};

/* A call that began in the parent of a fork and ends in the child (a signal handler forked) finds
 * another number of the process at its end than at its beginning. */
#define HOOK_COUNT_BITS 40

/* Memory that a forked child finds zeroed, never freed. NULL: as hook_state_get(). */
void *hook_state_wiped(size_t size);

/* The process's state. NULL: -ENOMEM or -EOPNOTSUPP is recorded as the last error. */
struct hook_state *hook_state_get(void);

/* Begins to count calls in the process of this epoch, if it does not count there yet: calls of
 * earlier hooks may still be under way. */
void hook_state_name(struct hook_state *state, uint64_t epoch);

#endif
