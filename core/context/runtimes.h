/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The vendors' runtimes of an opened library, and when each is started: at the first need.
 *
 * A call that names a runtime needs it: hmreg_open() with its iface in the configuration, a query
 * of its devices, an allocation, a claim. The runtime is then loaded. A look-up of an address needs
 * it only if its library is in the process already: without the library it owns no memory. The next
 * look-up detects a library that the application loads later. Until the first need no code of a
 * runtime runs in the process, so a fork before it is harmless. If the application does not know
 * hmreg (started_only), look-ups never start a runtime: one that the application has not started
 * owns no memory.
 */
#ifndef HMREG_CORE_CONTEXT_RUNTIMES_H
#define HMREG_CORE_CONTEXT_RUNTIMES_H

#include "core/base/log.h"
#include "core/contract/hmem.h"

#include <pthread.h>
#include <stdatomic.h>

enum runtime_state {
    RUNTIME_UNTRIED, /* may be started */
    RUNTIME_PRESENT,
    RUNTIME_ABSENT, /* not requested, or failed to start: it stays so */
};

/* The runtime of one iface. self and devices are set before the state becomes PRESENT, and do not
 * change until the library is closed. */
struct runtime {
    const struct hmem_ops *ops; /* NULL: not built in */
    struct hmem *self;
    int devices;
    _Atomic enum runtime_state state;
    char why[256]; /* why it is not present; guarded by the lock */
};

struct runtimes {
    struct runtime of[HMREG_IFACE_COUNT];
    uint64_t epoch;
    const struct log *log;
    atomic_uint untried;    /* HMREG_IFACE_BIT()s of the runtimes that may be started */
    bool started_only;      /* see above; set before runtimes_open() */
    atomic_uint waiting;    /* untried runtimes that are loaded and wait for their start */
    atomic_bool vendors;    /* another one than the system's is present */
    _Atomic uint64_t loads; /* libraries_loaded() when no untried runtime was loaded */
    pthread_mutex_t lock;   /* never held across a vendor's call */
};

/* Starts the system's, which cannot fail, and the named runtimes. ifaces: the usable ones; named:
 * the ones that the application or the operator named; both as HMREG_IFACE_BIT() values. epoch: the
 * process's. log: kept. A runtime that cannot be started is no error. */
void runtimes_open(struct runtimes *all, uint32_t ifaces, uint32_t named, uint64_t epoch,
                   const struct log *log);
void runtimes_close(struct runtimes *all);

/* The runtime of an iface; NULL: not present. SYSTEM is always present. Starts nothing. */
static inline struct runtime *runtimes_present(struct runtimes *all, enum hmreg_iface iface)
{
    struct runtime *runtime = &all->of[iface];

    return atomic_load_explicit(&runtime->state, memory_order_acquire) == RUNTIME_PRESENT ? runtime
                                                                                          : NULL;
}

/* Likewise for a caller that has named the iface: loads and starts the runtime if no call has tried
 * to. Keeps the thread's last error. */
struct runtime *runtimes_named(struct runtimes *all, enum hmreg_iface iface);

/* Starts every untried runtime whose library is in the process. Call it before you query the
 * runtimes about an address. -ENOMEM, -EIO: a runtime is loaded, but cannot be queried now. */
int runtimes_notice(struct runtimes *all);

/* Why an iface's runtime is not present; "": it is. */
void runtimes_why(struct runtimes *all, enum hmreg_iface iface, char why[256]);

#endif
