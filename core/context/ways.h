/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ways of path dmabuf: how a descriptor is mapped (as usual, or through PCIe) and how it is
 * imported (as usual, or for data direct). The configuration decides the order, else the NIC and
 * the device:
 *
 *     NIC               memory behind a coherent link (Grace)     other memory
 *     data direct       data-direct-pcie, data-direct, plain      data-direct, data-direct-pcie,
 *                                                                 plain
 *     PCIe only (EFA)   pcie, plain                               plain
 *     others            plain                                     plain
 *
 * For other pairs way pcie is tried only on request: the descriptor may register and then fail in
 * transfers. hmreg doctor tests each way.
 */
#ifndef HMREG_CORE_CONTEXT_WAYS_H
#define HMREG_CORE_CONTEXT_WAYS_H

#include "core/context/domain.h"

static inline bool way_is_direct(enum hmreg_way way)
{
    return way == HMREG_WAY_DATA_DIRECT || way == HMREG_WAY_DATA_DIRECT_PCIE;
}

static inline bool way_is_pcie(enum hmreg_way way)
{
    return way == HMREG_WAY_PCIE || way == HMREG_WAY_DATA_DIRECT_PCIE;
}

/* The ways to try, at least one, ended by HMREG_WAY_NONE. */
const enum hmreg_way *ways_of(const struct hmreg_domain *domain, enum hmreg_iface iface,
                              int device);

/* Is this way possible, as far as is known before it is tried? 0, or a negative error number with
 * *why filled. callers: the descriptor is the caller's. */
int way_check(const struct hmreg_domain *domain, enum hmreg_way way, bool callers,
              struct hmreg_reason *why);

/* Begins a refusal's text with the way, unless it is the usual one. */
void way_refused(enum hmreg_way way, struct hmreg_reason *why);
/* Logs the way that a region took, unless it is the usual one. */
void way_taken(const struct hmreg_domain *domain, enum hmreg_way way, enum hmreg_iface iface,
               int device);

#endif
