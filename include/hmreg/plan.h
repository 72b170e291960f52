/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Plans: how a large range would be registered on a domain, and which limits it meets (libhmreg).
 */
#ifndef HMREG_PLAN_H
#define HMREG_PLAN_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What can limit a registration. */
enum hmreg_plan_kind {
    HMREG_PLAN_MAX_LEN = 0, /* the fabric's longest region: a longer range is split */
    HMREG_PLAN_MAX_MR = 1,  /* the fabric's most regions */
    HMREG_PLAN_MEMLOCK = 2, /* RLIMIT_MEMLOCK: host memory on a fabric that pins it, counted once
                               for each rail of a group */
    HMREG_PLAN_DESCRIPTORS =
        3, /* RLIMIT_NOFILE: an export takes a descriptor until the dmabuf is imported or mapped */
    HMREG_PLAN_CACHE_REGIONS = 4, /* max_regions of the domain's caches */
    HMREG_PLAN_CACHE_BYTES = 5,   /* max_bytes of the domain's caches */
    HMREG_PLAN_MEMORY = 6, /* the memory of the machine and of the process's control groups: host
                              memory on a fabric that pins it */
};
#define HMREG_PLAN_KINDS 7

struct hmreg_plan_limit {
    uint64_t limit;  /* bytes, regions or descriptors; HMREG_LIMIT_NONE: no limit, an unknown limit,
                        or one that does not apply to the plan */
    uint64_t needed; /* needed by the plan, plus the process's present use if the system reports it
                        (MEMLOCK, DESCRIPTORS) */
    uint64_t fits;   /* bytes of the range, in whole regions, for which this limit has room */
    char text[256];  /* a sentence */
};

struct hmreg_plan {
    size_t size;          /* sizeof(struct hmreg_plan) */
    uint64_t len;         /* bytes of the range */
    enum hmreg_path path; /* the path of its regions; HMREG_PATH_NONE: hmreg_domain_explain() has
                             the reasons */
    uint64_t regions;     /* how many regions cover the range */
    uint64_t region_len;  /* bytes of each region except the last: a multiple of 2 MiB, or of the
                             page size, if the fabric's longest region permits */
    uint64_t last_len;    /* bytes of the last region */
    uint64_t exports; /* dmabufs that the registration exports, one after the other; 0 for an iface
                         without a runtime: the caller exports */
    uint64_t pinned;  /* bytes of host memory that the fabric pins; for a group, the sum over
                         its rails */
    uint64_t fits;    /* bytes of the range, in whole regions, that can be registered */
    uint64_t cacheable; /* bytes of `fits` that one cache of the domain can hold */
    struct hmreg_plan_limit limits[HMREG_PLAN_KINDS]; /* indexed by enum hmreg_plan_kind */
};

/*
 * Plans how a range of len bytes of a device's memory would be registered on the domain, and
 * reports which limits it meets. Nothing is registered. iface, device: as for
 * hmreg_domain_explain(). It assumes that the range is one allocation that begins at a page, and
 * that no other region is open on the domain. A plan that does not fit is not an error. Errors of
 * hmreg_domain_explain(); -EINVAL also: len is 0.
 */
int hmreg_domain_plan(struct hmreg_domain *domain, enum hmreg_iface iface, int device, uint64_t len,
                      struct hmreg_plan *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
