/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What one library of another process shows of its counters (core/stats/stats_layout.h), copied and
 * checked. The other process may be of any version, may die meanwhile, or mean harm: nothing in its
 * file is believed before it is copied and found within bounds, and nothing it does to the file
 * while it is read can do more than make the numbers wrong.
 */
#ifndef HMREG_TOOLS_STATS_STATS_VIEW_H
#define HMREG_TOOLS_STATS_STATS_VIEW_H

#include "core/stats/stats_layout.h"

#include <stdbool.h>

struct view_domain {
    uint32_t number; /* 0: there is none at this index */
    uint32_t flags;
    char provider[33], fabric[65];
};

struct view_cache {
    unsigned domain; /* an index */
    enum hmreg_iface iface;
    int device;
    bool steady; /* false: it changed each time it was looked at, or its process died in a change */
    uint64_t counts[STATS_COUNTS]; /* STATS_HITS: of all threads that are shown */
    uint64_t times[HMREG_STATS_TIMES];
};

struct view {
    char hmreg[17];                                   /* the library's version */
    uint32_t monitor;                                 /* enum hmreg_monitor, perhaps a later one */
    uint32_t lost_domains, lost_caches, lost_threads; /* that it had no room to show */
    struct view_domain domains[STATS_DOMAINS];
    unsigned count;
    struct view_cache caches[STATS_BLOCKS];
};

enum view_result {
    VIEW_GOOD,
    VIEW_NONE, /* no library's, one that is just being made, or inherited from another process */
    VIEW_BAD,  /* of another format, or what is in it cannot be */
};

/* Looks at an open file; pid: the process's that has it, as it knows itself. why: a sentence,
 * unless it is good. */
enum view_result view_read(int fd, int pid, struct view *out, char why[256]);

#endif
