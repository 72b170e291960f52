/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The recorder: the libraries that are loaded into a program report the program's registrations to
 * it, and it counts them in the process's trace file (record_layout.h). One copy serves all of them
 * (libhmreg-record.so), so that the file and the guard against recursion are the process's.
 *
 * Nothing here takes a lock, waits, allocates, changes errno, prints, or fails visibly: without a
 * file the program runs on and nothing is recorded. All of it may be called on any thread. A forked
 * child writes a file of its own from its first call on; it never writes to its parent's.
 *
 * An interposer of a registering call, in full:
 *
 *     if (!record_enter())
 *         return real(...);           // hmreg, or a library below us, made this call
 *     began = record_now();
 *     mr = real(...);
 *     call.ns = record_now() - began;
 *     record_registered(&call);
 *     record_leave();
 *
 * and of a deregistering one:
 *
 *     record_dereg_begin(mr, &end);     // before the handle may be reused by another thread
 *     began = record_now();
 *     error = real(mr);
 *     record_dereg_done(&end, error, record_now() - began);
 */
#ifndef HMREG_PRELOAD_RECORD_H
#define HMREG_PRELOAD_RECORD_H

#include "preload/record_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#pragma GCC visibility push(default)

/* The guard against recursion, one for each thread and all libraries. Inline, as record_now():
 * every call runs them several times, and calls between libraries cost more. */
struct record_guard {
    uintptr_t frame;  /* of the function that called record_enter(); 0: the thread is outside */
    int cancellation; /* the program's setting at that time (guard.h) */
};
extern __thread struct record_guard record_guard __attribute__((tls_model("initial-exec")));

/* Did siglongjmp(3), or an exception out of a signal handler, abandon the call that entered,
 * without record_leave()? frame: of a running function, not below the one that entered. True: marks
 * the thread as outside and restores the program's cancellation (abandoned_call.c). */
bool record_was_abandoned(uintptr_t frame);

/* False: this thread is inside already; pass the call on and do not record it. A function with a
 * frame below the one that entered was called by it, or by a signal handler that interrupted it. */
__attribute__((always_inline)) static inline bool record_enter(void)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    if (record_guard.frame && (frame < record_guard.frame || !record_was_abandoned(frame)))
        return false;
    record_guard.frame = frame;
    return true;
}

static inline void record_leave(void)
{
    record_guard.frame = 0;
}

/* CLOCK_MONOTONIC, ns. */
static inline uint64_t record_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define RECORD_IFACE_UNKNOWN 255

/* One registering call of the program. */
struct record_call {
    enum record_call_kind kind;
    enum record_how how;
    const void *handle; /* the program's ibv_mr or fid_mr; NULL: the call failed */
    const void *scope;  /* the ibv_pd or fid_domain of the registration */
    uint64_t addr, len; /* the sum of all ranges; addr 0: no address, as for a dmabuf */
    uint64_t access;    /* as passed; compared only */
    enum record_rights rights;
    uint8_t iface;      /* enum hmreg_iface, or RECORD_IFACE_UNKNOWN */
    int16_t device;     /* -1: host memory, or unknown */
    uint8_t path;       /* enum hmreg_path; NONE: unknown, or it failed */
    int error;          /* positive errno value of a failure; 0: it succeeded */
    uint64_t ns;        /* how long the real call took */
    const char *nic;    /* the device's or domain's name; NULL: unknown. Copied */
    uint64_t memory;    /* shadow_memory()'s number of the memory; 0: not asked */
    const void *caller; /* __builtin_return_address(0) of the interposer; NULL: unknown */
};
void record_registered(const struct record_call *call);

/* A deregistration: takes the region out of the live ones, and puts it back if the deregistration
 * fails. */
struct record_dereg {
    uint64_t handle, addr, len;
    uint32_t row;
    uint32_t freed;
    bool known, looked;
};
void record_dereg_begin(const void *handle, struct record_dereg *end);
void record_dereg_done(const struct record_dereg *end, int error, uint64_t ns);

/* Puts the region back after a call that changed nothing and is counted separately, such as a
 * failed reregistration. */
void record_dereg_cancel(const struct record_dereg *end);

/* A call was passed on unchanged although the mode asked for more. slug: a stable name of the
 * reason, of at most 31 bytes; text: a sentence for the user, with the remedy. Both are copied; one
 * slug has one text. */
void record_passed_on(const char *slug, const char *text);

/* The process's trace file, made by the first call that records; NULL: it has none. */
const struct record_layout *record_file(void);

#pragma GCC visibility pop

#endif
