/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A subject of measurement: a cache, or something to compare it with, behind get + put. The
 * registration below it does nothing, or takes a set time. A process has one state, which its
 * threads share.
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

struct subject {
    const char *who;
    const char *absent;  /* not NULL: why this build cannot measure it */
    int variant;         /* private to the subject's implementation */
    size_t most_regions; /* 0: any number */
    /* Creates the cache with a limit of this many regions. */
    void *(*open)(const struct subject *self, size_t regions);
    /* NULL: a process can open it only once. */
    void (*close)(void *state);
    /* get and put of `count` regions base + order[i] * REGION_BYTES, one after the other. */
    void (*hits)(void *state, char *base, const uint32_t *order, size_t count);
    /* As hits(), but after `room` regions each get replaces the oldest. Returns ns per such get.
     * NULL: the cache has a limit, so hits() evicts. */
    double (*replace_ns)(void *state, char *base, const uint32_t *order, size_t count, size_t room);
    /* get and put of one range. NULL: not of this subject. */
    void (*whole)(void *state, char *base, size_t bytes);
    /* Calls leave() unless all of this many regions are cached and none was evicted. NULL: the
     * subject cannot check that. */
    void (*check)(void *state, size_t regions);
};

/* NULL: no more. */
const struct subject *subject_at(size_t index);
/* NULL: unknown. */
const struct subject *subject_find(const char *who);

/* hmreg by monitor and policy. Default: hooks in libc report changes, and a hit on device memory
 * queries the driver. userfaultfd: each hit checks with the kernel; notice: hits rely on the events
 * received so far. import: the application reports changes. */
#define WHO_USERFAULT  "hmreg userfaultfd"
#define WHO_NOTICE     "hmreg notice"
#define WHO_IMPORT     "hmreg import"
#define WHO_DEFAULT    "hmreg default"
#define WHO_COUNTER    "hmreg counter"
#define WHO_HEAD       "hmreg default, keys of the head"
#define WHO_CALLS      "hmreg default, keys by calls"
#define WHO_GROUP      "hmreg default, group of 8"
#define WHO_EIGHT      "hmreg default, 8 domains"
#define WHO_UCX        "UCX"
#define WHO_UCX_EVENTS "UCX, memory events"
/* What the first get of all needs at least; see bench/opening.h. */
#define WHO_FLOOR "bare hooking"
#define WHO_EMPTY "a library that does nothing"
/* As hmreg_subject, with 64 regions in one call. */

/* A NCCL plugin's registration. */
#define WHO_PLUGIN "plugin on hmreg"
#define WHO_LIST   "plugin with a list"

/* Explicit registration, by libfabric's provider and the memory: the host's, also where it must be
 * mapped, or where simulated runtimes are asked about it; or a simulated device's. */
#define WHO_HOST       "hmreg, host"
#define WHO_CUDA       "hmreg, CUDA simulated"
#define WHO_ROCR       "hmreg, ROCm simulated"
#define WHO_ZE         "hmreg, Level Zero simulated"
#define WHO_TCP_HOST   "tcp, host"
#define WHO_SHM_HOST   "shm, host"
#define WHO_TCP_BASIC  "tcp, host, FI_MR_BASIC"
#define WHO_TCP_ASKING "tcp, host, 3 runtimes simulated"
#define WHO_SHM_ASKING "shm, host, 3 runtimes simulated"
#define WHO_TCP_CUDA   "tcp, CUDA, simulated"
#define WHO_TCP_ROCR   "tcp, ROCm, simulated"
#define WHO_TCP_ZE     "tcp, Level Zero, simulated"

extern const struct subject subject_hmreg_userfault, subject_hmreg_notice, subject_hmreg_import,
    subject_hmreg_default, subject_hmreg_counter, subject_hmreg_head, subject_hmreg_calls,
    subject_hmreg_disabled, subject_hmreg_group, subject_hmreg_eight, subject_ucx,
    subject_ucx_events, subject_ofi_tcp, subject_ofi_basic, subject_ofi_shm, subject_getpid,
    subject_ioctl, subject_loop, subject_empty;

/* How long each registration spins, for every subject of this process, ns; initially 0. */
extern double registration_ns;

/* The number of registrations by all subjects of this process. */
extern size_t registrations;

/* The state of hmreg's subjects. */
struct hmreg;
struct hmreg_domain;
struct hmreg_state {
    struct hmreg *lib;
    struct hmreg_domain *domain;
};
/* Opens another domain of the same library. */
struct hmreg_domain *hmreg_another_domain(struct hmreg *lib, size_t regions);
/* The cost of the empty provider alone: ns per registration and deregistration. */
double hmreg_provider_ns(void);
/* Checks the result of a call that must not fail. */
void hmreg_must(int rc, const char *what);

#endif
