/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fabric of the tests' own: a provider that only counts. It registers memory of any kind by its
 * address, has room for so many regions, fails, is busy or lets threads meet as it is told.
 * The key of a region is the number of its registration, from 1: another key, another one.
 */
#ifndef TESTS_COUNTER_H
#define TESTS_COUNTER_H

#include "providers/provider.h"

#include <stdatomic.h>

struct counter {
    atomic_uint regs, deregs; /* calls, those that failed too */
    atomic_uint regions;      /* registered now */
    atomic_uint most;         /* ... at most, so far */
    atomic_int reg_code;      /* what reg answers instead of working, */
    atomic_int reg_times;     /* so often (-1: always) */
    atomic_int dereg_code;    /* the same for dereg; EBUSY leaves the region as it was */
    atomic_int dereg_times;
    unsigned room; /* more regions are -ENOMEM; 0: no limit */
    bool look;     /* reg looks at the memory, as if it pinned its pages: counter_seen() */
    /* Called by reg before it looks, and by dereg, with nothing locked. NULL: nothing. A case may
     * replace them while the reaper deregisters. */
    void (*_Atomic reg_hook)(const struct provider_request *request);
    void (*_Atomic dereg_hook)(uint64_t key);
};

extern struct counter counter;

/* A domain on it, and all of it as new. config: NULL for defaults. */
struct hmreg_domain *counter_open(struct hmreg *lib, const struct hmreg_domain_config *config);
/* A second domain; nothing is reset. */
struct hmreg_domain *counter_open_more(struct hmreg *lib, const struct hmreg_domain_config *config);

/* The same on a fabric that may be called on any thread, so that the reaper deregisters. */
struct hmreg_domain *counter_open_served(struct hmreg *lib,
                                         const struct hmreg_domain_config *config);

/* The first eight bytes of a region's memory when it was registered. */
uint64_t counter_seen(const struct hmreg_mr *mr);

#endif
