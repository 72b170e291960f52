/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The tests' own fabric: a provider that only counts. It registers memory of any kind by its
 * address, has room for so many regions, and on request fails, is busy or calls a hook. The key of
 * a region is the number of its registration, from 1: another key means another registration.
 */
#ifndef TESTS_COUNTER_H
#define TESTS_COUNTER_H

#include <hmreg/hmreg.h>
#include <stdatomic.h>
#include <stdbool.h>

struct provider_request; /* hooks do not look into it */

struct counter {
    atomic_uint regs, deregs; /* calls, including failed ones */
    atomic_uint regions;      /* registered now */
    atomic_uint most;         /* the maximum so far */
    atomic_int reg_code;      /* the result of reg, if not 0, */
    atomic_int reg_times;     /* for so many calls (-1: all) */
    atomic_int dereg_code;    /* the same for dereg; EBUSY leaves the region as it was */
    atomic_int dereg_times;
    unsigned room;       /* -ENOMEM beyond this number of regions; 0: no limit */
    uint64_t room_bytes; /* the same of their bytes */
    _Atomic uint64_t bytes;
    int full_code; /* instead of -ENOMEM */
    int says;      /* an enum provider_room, of errors that do not say it themselves */
    bool look;     /* reg reads the memory, as if it pinned its pages: counter_seen() */
    /* reg calls reg_hook first; dereg calls dereg_hook; no lock is held. NULL: none. A case may
     * replace them while the reaper deregisters. */
    void (*_Atomic reg_hook)(const struct provider_request *request);
    void (*_Atomic dereg_hook)(uint64_t key);
    void (*destroy_hook)(void); /* as a domain is destroyed */
    /* Of domains of counter_open_binding(): */
    atomic_uint binds, enables;        /* calls, including failed ones */
    unsigned bind_fails, enable_fails; /* this call, from 1, fails with ready_code; 0: none */
    int ready_code;
};

extern struct counter counter;

/* Resets the counter and opens a domain on it. config: NULL for defaults. */
struct hmreg_domain *counter_open(struct hmreg *lib, const struct hmreg_domain_config *config);
/* Opens a second domain, without a reset. */
struct hmreg_domain *counter_open_more(struct hmreg *lib, const struct hmreg_domain_config *config);
/* The same of one that may be refused. */
int counter_try(struct hmreg *lib, const struct hmreg_domain_config *config,
                struct hmreg_domain **out);

/* Opens a domain with HMREG_MR_ENDPOINT, without a reset. Any pointer is an endpoint. As on
 * loopback, a region that is bound is not deregistered (-EBUSY) before the core unbinds it. */
struct hmreg_domain *counter_open_binding(struct hmreg *lib,
                                          const struct hmreg_domain_config *config);
/* The endpoint of a region of such a domain, if it is enabled; else NULL. */
const void *counter_endpoint(const struct hmreg_mr *mr);

/* Opens a domain with HMREG_MR_ALLOCATED, without a reset. */
struct hmreg_domain *counter_open_allocated(struct hmreg *lib);

/* The same on a fabric that permits calls on any thread, so that the reaper deregisters. */
struct hmreg_domain *counter_open_served(struct hmreg *lib,
                                         const struct hmreg_domain_config *config);

/* The first eight bytes of a region's memory when it was registered. */
uint64_t counter_seen(const struct hmreg_mr *mr);

#endif
