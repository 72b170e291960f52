/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A memory region: one registration, and how it came about.
 */
#ifndef HMREG_CORE_MR_H
#define HMREG_CORE_MR_H

#include "core/domain.h"
#include "core/mapping.h"

struct cache_entry;

struct hmreg_mr {
    struct hmreg_domain *domain;
    struct provider_mr made;
    enum hmreg_iface iface;
    int device;
    enum hmreg_path path;
    uint32_t refused;
    struct hmreg_reason *reasons; /* refused paths, in the order tried; NULL: none */
    uint64_t addr;                /* the first range's, the caller's address */
    uint64_t len;                 /* of all ranges */
    uint64_t access;
    uint64_t identity; /* of the first range's allocation */
    void *context;
    bool key_taken;      /* taken_key is in the domain's keys */
    atomic_bool pending; /* registered asynchronously, not complete yet */
    uint64_t taken_key;
    bool cached;               /* remembered by hmreg_mr_get() */
    struct cache_entry *entry; /* came from hmreg_mr_get(); NULL: explicit */
    size_t count;
    struct iovec *iov;        /* count ranges as registered; the mappings' for MAPPED */
    struct iovec *asked;          /* the same as the caller named them */
    struct mapping *mappings; /* count, for MAPPED; else NULL */
    struct hmreg_mr **pieces; /* of a composite: count regions, NULL once closed; made, iov
                                 and mappings are unused then */
    atomic_bool published;    /* the call that registered it has done its part */
    bool closing;             /* a composite that has lost pieces to a close that was busy */
};

/* Where registrations complete in a queue of the fabric's, the event may be read before the call
 * that registered has stored what it got: waits for that. */
void mr_settle(const struct hmreg_mr *mr);

/* The provider's part, with desc and key as they are now. */
struct provider_mr mr_now(const struct hmreg_mr *mr);

/* -EAGAIN while a registration of a region with remote access is not complete. */
int mr_check_complete(const struct hmreg_mr *mr);

/* mr is not NULL, belongs to this process, and is whole: 0, -EINVAL or -EPERM. */
int mr_check(const struct hmreg_mr *mr);

#endif
