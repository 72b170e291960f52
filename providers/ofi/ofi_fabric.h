/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Properties that libfabric does not report about its providers: how each moves bytes, and so which
 * memory it can access. One row per core provider ("verbs" in "verbs;ofi_rxm"). For an unlisted
 * provider, paths that depend on these properties are refused.
 */
#ifndef HMREG_PROVIDERS_OFI_OFI_FABRIC_H
#define HMREG_PROVIDERS_OFI_OFI_FABRIC_H

#include "core/contract/provider.h"

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether transfers use a system call that needs struct pages, which a CPU mapping of device memory
 * does not have. */
enum ofi_pinning {
    PINS_NEVER = 0,
    PINS_BY_DEFAULT, /* unless its setting is true, or the domain has FI_HMEM */
    PINS_IF_SET,     /* if its setting, a threshold, is set */
};

struct ofi_fabric {
    const char *core;
    bool cpu;        /* moves bytes with the CPU, from inside the process */
    uint32_t dmabuf; /* first libfabric version that imports dmabufs (FI_MR_DMABUF); 0: none */
    bool by_address; /* ignores a dmabuf's descriptor: exports it again, by its address and iface */
    bool caches;     /* uses libfabric's registration cache above the device */
    uint32_t bypasses; /* first libfabric version whose fi_mr_reg() bypasses that cache; 0: none */
    uint64_t relaxed;  /* the provider's flag for a registration with relaxed ordering; 0: none */
    uint32_t relaxes;  /* first libfabric version that has it */
    bool locks;        /* registered host memory counts against RLIMIT_MEMLOCK */
    bool refuses_keys; /* fi_mr_reg() answers -FI_ENOKEY to a requested key that is in use */
    bool first_range;  /* accepts several ranges; peers can access only the first */
    /* Does registering or closing a region race with other calls on the domain, against the
     * threading model of info? NULL: no. */
    bool (*races)(const struct fi_info *info);
    enum ofi_pinning pins;
    const char *setting; /* the environment variable that controls it */
    const char *pinner;  /* the call it uses then, for messages: "...: turn it off with ..." */
};

/* The row for a provider's name as in fi_info; NULL: unknown. name may be NULL. */
const struct ofi_fabric *ofi_fabric_find(const char *name);

/* Do its transfers need struct pages with the current settings? hmem: the domain has FI_HMEM. */
bool ofi_fabric_pins(const struct ofi_fabric *fabric, bool hmem);

/* Is its registration cache on for fi_mr_reg(), by the environment and the provider's version, as
 * in fi_fabric_attr? */
bool ofi_fabric_caches(const struct ofi_fabric *fabric, uint32_t prov_version);

/* The provider's flag for relaxed ordering, in the version of fi_fabric_attr; 0: none. */
uint64_t ofi_fabric_relaxed(const struct ofi_fabric *fabric, uint32_t prov_version);

/* May any thread register and close regions at any time? fabric NULL: unknown. */
bool ofi_fabric_any_thread(const struct ofi_fabric *fabric, const struct fi_info *info);

/* Sets the name and the PCI address of the NIC, as far as the info has them. */
void ofi_fabric_describe_nic(const struct fi_info *info, struct provider_caps *out);

#endif
