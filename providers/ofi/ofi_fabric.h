/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What libfabric does not tell about its providers: how each moves bytes, and so which memory it
 * can reach. One row a core provider ("verbs" of "verbs;ofi_rxm"). One that is not listed is not
 * guessed at: paths that depend on the answer are refused.
 */
#ifndef HMREG_PROVIDERS_OFI_OFI_FABRIC_H
#define HMREG_PROVIDERS_OFI_OFI_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

/* Through which the kernel must find the pages of a transfer, which a mapping of device memory
 * does not have. */
enum ofi_pinning {
    PINS_NEVER = 0,
    PINS_BY_DEFAULT, /* unless its setting is true, or the domain has FI_HMEM */
    PINS_IF_SET,     /* if its setting, a threshold, is set */
};

struct ofi_fabric {
    const char *core;
    bool cpu;         /* moves bytes with the CPU, from inside the process */
    uint32_t dmabuf;  /* the first libfabric in which it imports dmabufs (FI_MR_DMABUF); 0: none */
    bool caches;      /* puts libfabric's registration cache above the device */
    bool first_range; /* takes regions of several ranges, and lets peers reach the first only */
    enum ofi_pinning pins;
    const char *setting; /* the environment variable that decides about it */
    const char *pinner;  /* what it uses then, for messages: "...: turn it off with ..." */
};

/* The row of a provider's name as fi_info has it; NULL: unknown. name may be NULL. */
const struct ofi_fabric *ofi_fabric_find(const char *name);

/* Does it need pages, as it was set up? hmem: the domain has FI_HMEM. */
bool ofi_fabric_pins(const struct ofi_fabric *fabric, bool hmem);

/* Has it a cache of registrations that is on, as far as the environment tells? */
bool ofi_fabric_caches(const struct ofi_fabric *fabric);

#endif
