/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A hooked fid_domain and one registering call of the program, shared by the hook
 * (libhmreg_hook-fi.so) and the engine (libhmreg-preload-libfabric.so).
 *
 * The hook needs libc and the recorder only: libfabric loads it into every program that calls
 * fi_getinfo(3). The engine links libhmreg and libfabric; the hook loads it when the program opens
 * a domain.
 */
#ifndef HMREG_PRELOAD_OFI_OFI_DOMAIN_H
#define HMREG_PRELOAD_OFI_OFI_DOMAIN_H

#include "preload/record.h"

#include <hmreg/hmreg.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct ofi_engine;

struct ofi_domain {
    struct fid_domain *fid;
    struct fi_ops_mr *mr; /* the provider's original; fid has our copy */
    struct fi_ops *ops;
    char nic[64];
    bool hmem;          /* opened with FI_HMEM: the fields for it in fi_mr_attr are valid */
    bool verbs;         /* on libibverbs */
    bool on_seen_verbs; /* on libibverbs, and our interposers there see the provider's registrations
                         */
    bool lower;         /* opened by another provider (ofi_rxm's on tcp), not by the program */
    _Atomic bool async; /* registrations complete in an event queue */
    uint32_t mr_mode;
    uint32_t api_version;

    const struct ofi_engine *engine; /* NULL: every call is passed on, its memory unknown */
    struct hmreg_domain *hmreg;      /* the engine's, of the process pid; NULL: none */
    bool had_hmreg;                  /* hmreg was set when the program opened the domain */
    pid_t pid;
    _Atomic unsigned regions; /* made by the engine, not yet closed by the program */
};

/* One registering call of the program, as it made it. */
struct ofi_call {
    enum record_call_kind kind;
    const void *caller;
    const struct iovec *iov; /* NULL with FI_MR_DMABUF */
    size_t count;
    uint64_t access, offset, requested_key, flags;
    void *context;
    const struct fi_mr_attr *attr; /* of fi_mr_regattr(); else NULL */
};

/* The iface that the program claims; FI_HMEM_SYSTEM: none. */
static inline enum fi_hmem_iface ofi_claimed(const struct ofi_domain *domain,
                                             const struct ofi_call *call)
{
    return domain->hmem && call->attr ? call->attr->iface : FI_HMEM_SYSTEM;
}

/* Memory that is only sent, or written to a peer, is certainly not written to. */
static inline enum record_rights ofi_rights(const struct ofi_call *call)
{
    if (call->access & HMREG_ACCESS_REMOTE)
        return RECORD_REMOTE;
    return call->access & ~(uint64_t)(HMREG_SEND | HMREG_WRITE) ? RECORD_WRITTEN : RECORD_READ;
}

/* The engine's answer to a call that it was offered. */
enum ofi_answer {
    OFI_PASS,      /* pass the call on */
    OFI_PASS_SEEN, /* pass it on without the guard: libibverbs' interposer may register the device
                    * memory */
    OFI_MADE,      /* hmreg registered */
};

struct ofi_made {
    struct fid_mr *mr; /* the program's region; its close closes hmreg's */
    struct hmreg_mr_info info;
};

struct ofi_engine {
    /* As memory_find(), for a region that the provider registered. */
    bool (*find)(uint64_t addr, uint64_t len, int failure, uint8_t *iface, int16_t *device);
    /* As shadow_memory(). */
    uint64_t (*memory)(uint64_t addr, uint64_t len);
    /* With --gpu: opens domain->hmreg. info: the program's, for the domain. */
    void (*open)(struct ofi_domain *domain, const struct fi_info *info);
    /* Before the program closes the domain: closes domain->hmreg and sets it to NULL. The next call
     * retries regions that could not be deregistered. */
    void (*flush)(struct ofi_domain *domain);
    /* The domain is gone. */
    void (*forget)(struct ofi_domain *domain);
    /* Offers a call before it is passed on. */
    enum ofi_answer (*before)(struct ofi_domain *domain, const struct ofi_call *call,
                              struct ofi_made *out);
    /* Offers a call that the provider refused with `error`, a positive error number. */
    enum ofi_answer (*after)(struct ofi_domain *domain, const struct ofi_call *call, int error,
                             struct ofi_made *out);
    /* The provider's region behind a region of the engine; any other region is returned itself. */
    struct fid_mr *(*native)(struct fid_mr *mr);
};

/* Symbols of libhmreg-preload-libfabric.so. */
#define OFI_ENGINE_LIBRARY "libhmreg-preload-libfabric.so"
#define OFI_ENGINE_SYMBOL  "hmreg_preload_ofi"
extern const struct ofi_engine hmreg_preload_ofi __attribute__((visibility("default")));

#endif
