/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process's trace file: made at its first use and mapped shared. A forked child makes one of
 * its own at its next use: the kernel wipes struct trace_process at a fork. A fork handler would
 * not do: _Fork(3) and clone(2) do not run it.
 */
#ifndef HMREG_PRELOAD_TRACE_FILE_H
#define HMREG_PRELOAD_TRACE_FILE_H

#include "preload/record_layout.h"

#define TRACE_CALLERS 256

/* State of this process; a forked child finds it zeroed. */
struct trace_process {
    _Atomic int32_t pid;
    _Atomic uint32_t failed; /* no file can be made */
    _Atomic(struct record_layout *) file;
    /* Elements: 48 bits of a caller's address, then 16 bits with the index of its module. */
    _Atomic uint64_t callers[TRACE_CALLERS];
};

/* NULL: no memory. */
struct trace_process *trace_process(void);

/* The process's file. NULL: it has none. May change errno. */
struct record_layout *trace_file(void);

#endif
