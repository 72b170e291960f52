/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The opened library, struct hmreg: its settings, the vendor runtimes, the memory monitor, the
 * stats page, the quota of all caches, and the memory of hmreg_mem_alloc().
 */
#ifndef HMREG_CORE_CONTEXT_CONTEXT_H
#define HMREG_CORE_CONTEXT_CONTEXT_H

#include "core/base/process.h"
#include "core/context/quota.h"
#include "core/context/runtimes.h"
#include "core/context/settings.h"
#include "core/context/suspended.h"
#include "core/contract/hmem.h"
#include "core/monitor/monitor.h"
#include "core/stats/stats_page.h"

#include <pthread.h>
#include <stdatomic.h>

struct cache_set;
struct group;

/* Memory of hmreg_mem_alloc(). */
struct owned {
    struct owned *next;
    void *addr;
    enum hmreg_iface iface;
    enum hmreg_mem_kind kind;
};

struct hmreg {
    uint64_t epoch;
    _Atomic uint64_t life; /* of the process, as context_life() last saw it */
    struct hmreg *next;    /* in the process's list, whose lock guards these two */
    unsigned visitors;     /* threads in context_each() */
    struct settings settings;
    struct runtimes runtimes;
    struct monitor *monitor;      /* watches host memory for all caches */
    struct stats_page stats_page; /* shows the caches' counters to other processes */
    struct quota quota;           /* limits all caches together */
    pthread_mutex_t sets_lock;    /* guards the list of cache sets, and the visits to each */
    pthread_cond_t sets_left;     /* a visit to a cache set has ended */
    struct cache_set *sets;
    struct group *groups;       /* guarded by sets_lock */
    struct suspended suspended; /* ranges of hmreg_suspend() */
    bool asleep;                /* true from hmreg_hibernate() to hmreg_thaw(); for the thread whose
                                   turn it is (suspended) */
    atomic_uint domains;
    atomic_bool told_unreadable; /* see explain_warn_unreadable() */
    pthread_mutex_t lock;        /* guards owned; never held across a vendor's call */
    struct owned *owned;
};

/* Why the end of all of a runtime's memory is unreported. */
#define CONTEXT_ENDS_ARE_OFF(lib)                                                                  \
    ((lib)->settings.plain_calls ? "HMREG_SYSCALLS is plain" : "HMREG_DEVICE_MONITOR is off")
#define CONTEXT_REPORTS_NO_END "this runtime never reports the end of memory"

/* Checks that lib is not NULL and belongs to this process. -EINVAL, -EPERM. */
int context_check(const struct hmreg *lib);

/* life_number(). In a new incarnation no cached region of an earlier one serves any more: each ends
 * with its last put. */
uint64_t context_life(struct hmreg *lib);

/* Calls call() for each open library of the process, which stays open meanwhile, until a call does
 * not return 0. Returns that result. No lock is held during the call. */
int context_each(int (*call)(struct hmreg *lib, void *context), void *context);

/* Checks that a valid iface, which the caller names, has this device. -ENODEV. */
int context_check_device(struct hmreg *lib, enum hmreg_iface iface, int device);

/* The runtime of an iface; NULL: not present. SYSTEM is always present. Starts nothing. */
struct runtime *context_runtime(struct hmreg *lib, enum hmreg_iface iface);

/* Likewise for an iface that the caller names: starts its runtime. NULL: it cannot be used, and an
 * error with this code is recorded. */
struct runtime *context_runtime_named(struct hmreg *lib, enum hmreg_iface iface, int code);

/* The PCI address and simulated flag of a device; zeroes for device -1. */
void context_device(struct hmreg *lib, enum hmreg_iface iface, int device, struct hmem_device *out);

/* The monitor for host memory that will be cached. If the default is not resolved yet, chooses a
 * monitor. DEFAULT: none could be chosen now. */
enum hmreg_monitor context_monitor(struct hmreg *lib);

#endif
