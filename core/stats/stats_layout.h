/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The layout of the stats page: the memory file "hmreg-stats" that shows a library's counters to
 * other processes. The library counts in the page itself, so showing costs nothing. A reader takes
 * a copy and checks every field of it.
 *
 * header | domains | blocks, one per cache | rows, one for each thread and cache that had hits
 *
 * Each field that changes is written atomically, in no order with the others. A domain or a block
 * is assigned anew only while its sequence is odd (a seqlock): a copy taken between two equal, even
 * values of the sequence is of one domain or one cache. New fields take spare ones; any other
 * change increments STATS_PAGE_VERSION.
 */
#ifndef HMREG_CORE_STATS_STATS_LAYOUT_H
#define HMREG_CORE_STATS_STATS_LAYOUT_H

#include <hmreg/hmreg.h>
#include <stdatomic.h>
#include <stdint.h>

#define STATS_PAGE_NAME    "hmreg-stats"
#define STATS_PAGE_MAGIC   UINT64_C(0x7374617473676d68) /* "hmgstats", read as little-endian */
#define STATS_PAGE_VERSION 3

enum stats_count {
    /* Since the cache was created. */
    STATS_HITS, /* hits that are not in a row */
    STATS_MISSES,
    STATS_UNCACHED,
    STATS_FAILURES,
    STATS_EVICTED_LIMIT,
    STATS_EVICTED_MEMORY,
    STATS_EVICTED_ROOM,
    STATS_EVICTED_KEYS,
    STATS_INVALIDATIONS,
    STATS_WAITS,
    STATS_REG_NS,
    STATS_REG_LONGEST_NS,
    STATS_REGIONS_MAX,
    STATS_BYTES_MAX,
    /* Now. */
    STATS_REGIONS,
    STATS_BYTES,
    STATS_RETIRED,
    STATS_WAITING,
    STATS_LIMIT_REGIONS,
    STATS_LIMIT_BYTES,
    /* Since the cache was created. */
    STATS_WRONG_PUTS,
    STATS_GAVE_EXPLICIT,
    STATS_GAVE_OTHERS,
    STATS_UNCACHED_FULL,      /* of STATS_UNCACHED: the limit has no room */
    STATS_UNCACHED_UNWATCHED, /* of STATS_UNCACHED: changes of the memory are not reported */
    STATS_COUNTS,
    STATS_COUNTS_ROOM = 36, /* elements of a block's counts; those from STATS_COUNTS on are 0 */
};

/* One cache. */
struct stats_block {
    _Atomic uint32_t sequence;
    _Atomic uint32_t domain; /* 1 + the index of its domain; 0: the block is free */
    _Atomic int32_t iface, device;
    _Atomic uint64_t counts[STATS_COUNTS_ROOM];
    _Atomic uint64_t times[HMREG_STATS_TIMES];
    uint64_t spare[2];
};

/* The hits of one thread in one cache, which only that thread writes. Aligned to 128 bytes, since
 * processors prefetch cache lines in pairs. */
struct stats_row {
    _Alignas(128) _Atomic uint32_t block; /* 1 + the index of its cache's; 0: the row is free */
    uint32_t spare;
    _Atomic uint64_t hits;
};

struct stats_domain {
    _Atomic uint32_t sequence;
    _Atomic uint32_t number; /* from 1, in the order of opening; 0: the domain is free */
    _Atomic uint32_t flags;  /* HMREG_DOMAIN_* */
    _Atomic uint32_t lost;   /* 1: hmreg_domain_lost() */
    char provider[32], fabric[64];
};

#define STATS_DOMAINS 32
#define STATS_BLOCKS  192
#define STATS_ROWS    1024

struct stats_header {
    uint64_t magic;
    uint32_t version;
    uint32_t size;    /* bytes of the whole page: differs if the layout does */
    int32_t pid;      /* the opening process's, in its own pid namespace; a forked child inherits
                         the file */
    uint32_t monitor; /* enum hmreg_monitor */
    char hmreg[16];   /* the library's version */
    /* Domains, caches, and threads with hits that exist now but did not fit the page. */
    _Atomic uint32_t lost_domains, lost_blocks, lost_rows;
    uint32_t spare[19];
    char monitor_why[768]; /* struct hmreg_monitor_info; written before `monitor` */
};

struct stats_layout {
    struct stats_header header;
    struct stats_domain domains[STATS_DOMAINS];
    struct stats_block blocks[STATS_BLOCKS];
    struct stats_row rows[STATS_ROWS];
};

_Static_assert(sizeof(struct stats_header) == 896 && sizeof(struct stats_domain) == 112 &&
                   sizeof(struct stats_block) == 640 && sizeof(struct stats_row) == 128,
               "the layout is the same for every compiler");

#endif
