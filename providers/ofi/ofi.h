/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the sources of the libfabric provider share: a domain, the state of a region, and how
 * libfabric is called. ofi_bind.c has what changes a region's state.
 */
#ifndef HMREG_PROVIDERS_OFI_OFI_H
#define HMREG_PROVIDERS_OFI_OFI_H

#include "core/base/device_folder.h"
#include "core/contract/provider.h"
#include "providers/ofi/ofi_fabric.h"
#include "providers/ofi/ofi_serial.h"

#include <pthread.h>
#include <stdatomic.h>

struct ofi {
    struct hmreg *lib;
    struct fid_domain *domain;       /* the caller's */
    const struct ofi_fabric *fabric; /* NULL: unknown */
    char name[64];
    uint32_t api_version; /* that the application passed to fi_getinfo() */
    bool hmem;
    bool pins;  /* the fabric needs struct pages under a mapping */
    bool auth;  /* it supports authorization keys */
    bool async; /* regions complete through an event queue */
    uint32_t mr_mode;
    uint64_t relaxed;            /* the provider's flag for relaxed ordering; 0: it has none */
    struct device_folder folder; /* the NIC's */
    struct ofi_serial *serial;   /* for each call of libfabric; NULL: any thread may call it */
    pthread_mutex_t lock;        /* protects the pointers to the regions' states */
};

/* A region's state. */
struct state {
    bool keyed; /* it has remote access */
    bool event; /* HMREG_RMA_EVENT */
    /* Or about to be: */
    atomic_bool bound;   /* to an endpoint */
    atomic_bool counted; /* bound to a counter */
    atomic_bool enabled;
};
#define STATEFUL (HMREG_MR_ENDPOINT | HMREG_MR_RMA_EVENT)

/* Some providers return positive error numbers. */
int ofi_negative(int rc);
/* The result of a libfabric call: 0, or its error number, recorded. */
int ofi_check(const struct ofi *ofi, int result, const char *call);
int ofi_leave(const struct ofi *ofi, int result, const char *call);

/* CALL(): one call of libfabric, alone on the fid_domain where its threading model demands that;
 * its result as ofi_check() has it. */
#define CALL(ofi, call, name) (ofi_serial_enter((ofi)->serial), ofi_leave(ofi, call, name))

/* Operations of the provider: see core/contract/provider.h. */
int ofi_bind(void *self, const struct hmreg_mr_keys *mr, void *object, uint64_t flags);
bool ofi_is_bound(void *self, const struct hmreg_mr_keys *mr);
int ofi_enable(void *self, const struct hmreg_mr_keys *mr);
int ofi_refresh(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov, size_t count,
                uint64_t flags);

#endif
