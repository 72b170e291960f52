/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fid_domain of the program whose registrations the hook sees, and one such registration: what
 * the hook (libhmreg_hook-fi.so) and the engine (libhmreg-preload-libfabric.so) have in common.
 *
 * The hook needs libc and the recorder only: libfabric loads it into every program that asks it for
 * fabrics. The engine links libhmreg and libfabric; the hook loads it when the program opens a
 * domain.
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
    struct fi_ops_mr *mr; /* the provider's, whose place our copies have */
    struct fi_ops *ops;
    char nic[64];
    bool hmem;          /* opened with FI_HMEM: the fields for it in fi_mr_attr are valid */
    bool verbs;         /* on libibverbs */
    bool below;         /* so, and interposers there see what the provider registers */
    bool lower;         /* opened by another provider (ofi_rxm's on tcp), not by the program */
    _Atomic bool async; /* registrations complete in an event queue */
    uint32_t mr_mode;
    uint32_t api_version;

    const struct ofi_engine *engine; /* NULL: every call is passed on, its memory unknown */
    struct hmreg_domain *hmreg;      /* the engine's, of the process pid; NULL: none */
    bool had_hmreg;                  /* there was one when the program opened the domain */
    pid_t pid;
    _Atomic unsigned regions; /* that the engine made, and the program has not closed */
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

/* Only what is sent, or written to a peer, is certainly not written. */
static inline enum record_rights ofi_rights(const struct ofi_call *call)
{
    if (call->access & HMREG_ACCESS_REMOTE)
        return RECORD_REMOTE;
    return call->access & ~(uint64_t)(HMREG_SEND | HMREG_WRITE) ? RECORD_WRITTEN : RECORD_READ;
}

/* What became of a call that the engine was asked to make. */
enum ofi_answer {
    OFI_PASS,  /* to be passed on */
    OFI_BELOW, /* the same, of device memory that an interposer of libibverbs may take */
    OFI_MADE,  /* registered by hmreg */
};

struct ofi_made {
    struct fid_mr *mr; /* the program's; its close releases what hmreg registered */
    struct hmreg_mr_info info;
};

struct ofi_engine {
    /* Which memory a region has that the provider registered; as memory_find(). */
    bool (*find)(uint64_t addr, uint64_t len, int failure, uint8_t *iface, int16_t *device);
    /* As shadow_memory(). */
    uint64_t (*memory)(uint64_t addr, uint64_t len);
    /* With gpu: opens domain->hmreg. info: the one that the program opened the domain with. */
    void (*open)(struct ofi_domain *domain, const struct fi_info *info);
    /* Before the program closes the domain: closes domain->hmreg, which is NULL then. What cannot
     * be deregistered yet is left to the next such call. */
    void (*flush)(struct ofi_domain *domain);
    /* The domain is gone. */
    void (*forget)(struct ofi_domain *domain);
    /* Before a call is passed on. */
    enum ofi_answer (*before)(struct ofi_domain *domain, const struct ofi_call *call,
                              struct ofi_made *out);
    /* After the provider has refused it with `error`, a positive error number. */
    enum ofi_answer (*after)(struct ofi_domain *domain, const struct ofi_call *call, int error,
                             struct ofi_made *out);
    /* The provider's region behind one that the engine made; any other is the result itself. */
    struct fid_mr *(*native)(struct fid_mr *mr);
};

/* Of libhmreg-preload-libfabric.so. */
#define OFI_ENGINE_LIBRARY "libhmreg-preload-libfabric.so"
#define OFI_ENGINE_SYMBOL  "hmreg_preload_ofi"
extern const struct ofi_engine hmreg_preload_ofi __attribute__((visibility("default")));

#endif
