/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A memory region: one registration, and how it came about.
 */
#ifndef HMREG_CORE_MR_H
#define HMREG_CORE_MR_H

#include "core/domain.h"
#include "core/mapping.h"

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
    uint64_t identity;            /* of the first range's allocation */
    void *context;
    bool key_taken;               /* made.key is in the domain's keys */
    bool cached;                  /* came from hmreg_mr_get() */
    size_t count;
    struct iovec *iov;            /* count ranges as registered; the mappings' for MAPPED */
    struct mapping *mappings;     /* count, for MAPPED; else NULL */
};

#endif
