/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The opened library: which runtimes are there, and what belongs to it.
 */
#ifndef HMREG_CORE_CONTEXT_CONTEXT_H
#define HMREG_CORE_CONTEXT_CONTEXT_H

#include "core/base/process.h"
#include "core/context/quota.h"
#include "core/context/settings.h"
#include "core/monitor/monitor.h"
#include "core/stats/stats_page.h"
#include "hmem/hmem.h"

#include <pthread.h>
#include <stdatomic.h>

/* One iface: its vendor, if it is built in, and the vendor's state, if it could be opened. */
struct runtime {
    const struct hmem_ops *ops; /* NULL: not built in */
    struct hmem *self;
    bool present;
    int devices;
    char why[256]; /* why it is not present */
};

struct cache_set;

/* Memory of hmreg_mem_alloc(). */
struct owned {
    struct owned *next;
    void *addr;
    enum hmreg_iface iface;
    enum hmreg_mem_kind kind;
};

struct hmreg {
    uint64_t epoch;
    struct settings settings;
    struct runtime runtimes[HMREG_IFACE_COUNT];
    bool vendors;                 /* a runtime is present besides the system's */
    struct monitor *monitor;      /* watches host memory for all caches */
    struct stats_page stats_page; /* where their counters are shown */
    struct quota quota;           /* what they may hold together */
    pthread_mutex_t sets_lock;    /* the list of them, and who visits one */
    pthread_cond_t sets_left;     /* a visitor has gone */
    struct cache_set *sets;
    atomic_uint domains;
    pthread_mutex_t lock; /* owned; never held across a vendor's call */
    struct owned *owned;
};

/* lib is not NULL and belongs to this process: 0, -EINVAL or -EPERM. */
int context_check(const struct hmreg *lib);

/* The runtime of an iface if it is present, else NULL. SYSTEM always is. */
struct runtime *context_runtime(struct hmreg *lib, enum hmreg_iface iface);

/* The PCI address and simulated flag of a device; zeroes for device -1. */
void context_device(struct hmreg *lib, enum hmreg_iface iface, int device, struct hmem_device *out);

/* What serves host memory that is to be cached, which chooses it if the default is not chosen yet.
 * DEFAULT: it could not be chosen now. */
enum hmreg_monitor context_monitor(struct hmreg *lib);

#endif
