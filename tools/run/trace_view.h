/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A checked copy of a trace file (preload/record_layout.h). The process that wrote it may use any
 * version of hmreg, still write, or be malicious: the file is copied first and checked afterwards,
 * so it can make the numbers wrong and do no other harm.
 */
#ifndef HMREG_TOOLS_RUN_TRACE_VIEW_H
#define HMREG_TOOLS_RUN_TRACE_VIEW_H

#include "preload/record_layout.h"

#include <stdbool.h>

struct view_row {
    struct record_key key; /* every field is valid, or its "unknown" value */
    uint64_t count, bytes, ns, longest_ns, ends, end_ns, end_failures, freed, looked;
    uint64_t live, live_bytes, live_freed; /* this row's live regions */
};

struct view_range {
    uint64_t addr, len, count, again_ns;
    unsigned row; /* index of rows; count: unknown */
};

struct view_reason {
    uint64_t count;
    char slug[33], text[769];
};

struct trace_view {
    int pid, parent;
    uint32_t mode; /* RECORD_MODE_* */
    uint32_t by;   /* RECORD_BY_* */
    bool ended;
    int64_t began;
    uint64_t dropped_rows, dropped_live, dropped_ranges, dropped_names, dropped_reasons,
        unknown_ends;
    uint64_t again, again_ns; /* repeated registrations, of all ranges */
    char rank[17], hmreg[17], program[257];
    char names[RECORD_NAMES][253]; /* "": unknown */
    struct view_reason reasons[RECORD_REASONS];
    unsigned reason_count;
    struct view_row rows[RECORD_ROWS];
    unsigned row_count;
    struct view_range ranges[RECORD_RANGES]; /* ranges registered more than once */
    unsigned range_count;
    uint64_t live, live_bytes; /* all live regions */
};

/* Reads an open file. NULL: why has the reason. free() the result. */
struct trace_view *trace_view_read(int fd, char why[256]);

#endif
