/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process's trace file: made at its first use, mapped shared, and given up by a forked child,
 * whose next use makes another. The memory that says so is wiped by the kernel at a fork, so that
 * no fork handler is needed, which _Fork(3) and clone(2) would not run.
 */
#ifndef HMREG_PRELOAD_TRACE_FILE_H
#define HMREG_PRELOAD_TRACE_FILE_H

#include "preload/record_layout.h"

#define TRACE_CALLERS 256

/* What this process remembers; a forked child finds it zeroed. */
struct trace_process {
    _Atomic int32_t pid;
    _Atomic uint32_t failed; /* no file can be made */
    _Atomic(struct record_layout *) file;
    /* Of a caller's address, its low 48 bits, and in the low 16 bits the index of its module. */
    _Atomic uint64_t callers[TRACE_CALLERS];
};

/* NULL: no memory. */
struct trace_process *trace_process(void);

/* The process's file. NULL: it has none. May change errno. */
struct record_layout *trace_file(void);

#endif
