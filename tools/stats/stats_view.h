/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A checked copy of the stats page (core/stats/stats_layout.h) that a library in another process
 * publishes. That process may use any version of hmreg, end at any moment, or be malicious. Every
 * value is copied first and then checked against bounds, so a change of the page during the read
 * can only make the numbers wrong.
 */
#ifndef HMREG_TOOLS_STATS_STATS_VIEW_H
#define HMREG_TOOLS_STATS_STATS_VIEW_H

#include "core/stats/stats_layout.h"

#include <stdbool.h>
#include <time.h>

struct view_domain {
    uint32_t number; /* 0: no domain at this index */
    uint32_t flags;
    bool lost;
    char provider[33], fabric[65];
};

struct view_cache {
    unsigned domain; /* index in domains */
    enum hmreg_iface iface;
    int device;
    bool steady; /* false: every attempt saw a change, or the process died during one */
    uint64_t counts[STATS_COUNTS]; /* STATS_HITS: the sum over all published threads */
    uint64_t times[HMREG_STATS_TIMES];
};

struct view {
    char hmreg[17];   /* the library's version */
    uint32_t monitor; /* enum hmreg_monitor, perhaps a newer value */
    char monitor_why[769];
    uint32_t lost_domains, lost_caches, lost_threads; /* not published for lack of space */
    struct view_domain domains[STATS_DOMAINS];
    unsigned count;
    struct view_cache caches[STATS_BLOCKS];
};

enum view_result {
    VIEW_GOOD,
    VIEW_NONE, /* not a stats page, one under construction, or inherited from another process */
    VIEW_BAD,  /* another format, or impossible contents */
};

/* Reads an open file. pid: the owning process's pid in its own pid namespace. until: the time, in
 * seconds of CLOCK_MONOTONIC, after which no attempt is repeated. why: receives the reason unless
 * the result is VIEW_GOOD. */
enum view_result view_read(int fd, int pid, time_t until, struct view *out, char why[256]);

#endif
