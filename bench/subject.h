/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What can be measured: a cache, or something to compare one with, behind get + put. Below it
 * registration does nothing, or takes a while on purpose. Its state is one per process; threads
 * share it.
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

struct subject {
    const char *who;
    const char *absent;  /* not NULL: why this build cannot measure it */
    int variant;         /* its maker's own */
    size_t most_regions; /* 0: any number */
    /* Makes the cache, with room for this many regions. */
    void *(*open)(const struct subject *self, size_t regions);
    /* NULL: it cannot be had twice in a process. */
    void (*close)(void *state);
    /* get and put of `count` regions base + order[i] * REGION_BYTES, one after the other. */
    void (*hits)(void *state, char *base, const uint32_t *order, size_t count);
    /* The same; once there are `room` regions, each get takes the place of the oldest. What each of
     * these takes, ns. NULL: a limit of the cache does that to hits(). */
    double (*replace_ns)(void *state, char *base, const uint32_t *order, size_t count, size_t room);
    /* Every get of so many regions was remembered, none evicted: else leave(). NULL: no telling. */
    void (*check)(void *state, size_t regions);
};

/* NULL: there are no more. */
const struct subject *subject_at(size_t index);
/* NULL: no such. */
const struct subject *subject_find(const char *who);

/* hmreg by monitor and policy: the default is told by libc's callers, and asks a driver at each hit
 * of device memory; userfaultfd asks the kernel at each hit, notice trusts what it has told; import
 * is told by the application. */
#define WHO_USERFAULT "hmreg userfaultfd"
#define WHO_NOTICE    "hmreg notice"
#define WHO_IMPORT    "hmreg import"
#define WHO_DEFAULT   "hmreg default"
#define WHO_UCX       "UCX"

extern const struct subject subject_hmreg_userfault, subject_hmreg_notice, subject_hmreg_import,
    subject_hmreg_default, subject_hmreg_disabled, subject_ucx, subject_ofi_tcp, subject_ofi_shm,
    subject_getpid, subject_ioctl, subject_loop;

/* How long each registration takes below every subject of this process, spinning; 0 at first. */
extern double registration_ns;

/* How many there were, below every subject of this process. */
extern size_t registrations;

/* What hmreg's subjects are made of. */
struct hmreg;
struct hmreg_domain;
struct hmreg_state {
    struct hmreg *lib;
    struct hmreg_domain *domain;
};
/* Another domain of the same library. */
struct hmreg_domain *hmreg_another_domain(struct hmreg *lib, size_t regions);
/* What the provider that does nothing costs by itself: one registration and deregistration. */
double hmreg_provider_ns(void);
/* After a call that must not fail. */
void hmreg_must(int rc, const char *what);

#endif
