/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Settings from the environment: HMREG_* and the variables of fi_mr(3). hmreg_open() reads them
 * once; an invalid value is an error that names the accepted ones.
 */
#ifndef HMREG_CORE_CONTEXT_SETTINGS_H
#define HMREG_CORE_CONTEXT_SETTINGS_H

#include "core/base/log.h"

#include <hmreg/hmreg.h>
#include <stdbool.h>

struct settings {
    uint32_t ifaces;               /* HMREG_IFACE_BIT()s of the runtimes that may be used */
    uint32_t named;                /* of these, the ones that config or HMREG_IFACES names */
    bool started_only;             /* of the others, only those that the application has started */
    enum hmreg_monitor monitor;    /* for host memory */
    bool monitor_if_there;         /* the environment requests a kernel module's monitor */
    const char *monitor_missing;   /* the environment names this unusable monitor; NULL: no */
    bool watch[HMREG_IFACE_COUNT]; /* may regions of this iface's device memory be cached? */
    uint64_t max_regions, max_bytes; /* per cache; one of them 0: no caching */
    uint64_t all_regions, all_bytes; /* for all caches together */
    uint64_t fork_bytes; /* a domain that caches more pinned host memory than this deregisters idle
                            regions before a fork */
    enum hmreg_way ways[HMREG_WAY_COUNT]; /* for path dmabuf, ended by NONE; empty: by the pair */
    enum hmreg_check check[HMREG_IFACE_COUNT]; /* never DEFAULT */
    struct log log;
    bool device_ends;  /* may vendors watch for the end of memory? */
    bool sync_memops;  /* synchronous calls of runtimes finish before they return */
    bool stats;        /* show counters to other processes */
    bool plain_calls;  /* no system call that hmreg-syscalls(7) calls special */
    bool check_puts;   /* detect puts without a matching get */
    bool check_claims; /* compare trusted claims with what the runtimes say */
};

/* Applies the defaults, then the environment, then config (NULL: none). Always sets out->log, for
 * the line of a failure. -EINVAL. */
int settings_read(const struct hmreg_config *config, struct settings *out);

#endif
