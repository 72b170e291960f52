/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ofi_fabric.h. libfabric reads its settings from the environment once, when the first
 * fi_getinfo() starts its providers, and has no call that returns them. We read the environment
 * later, so if a program changes a setting after that, we see a value that libfabric does not use.
 */
#include "providers/ofi/ofi_fabric.h"

#include "providers/ofi/ofi_abi.h"

#include <rdma/fabric.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- registrations that race with other calls: docs/threading.md has the functions -------- */

/* A provider of libfabric's own tree has the version major * 100 + minor of libfabric, also where
 * it is loaded into another one (FI_PROVIDER_PATH). Others count from 1. */
static uint32_t libfabric_of(uint32_t prov_version)
{
    uint32_t number = FI_MAJOR(prov_version);

    return number < 100 ? fi_version() : FI_VERSION(number / 100, number % 100);
}

static bool always(const struct fi_info *info)
{
    (void)info;
    return true;
}

static bool is_completion(const struct fi_info *info)
{
    return info->domain_attr->threading == FI_THREAD_COMPLETION;
}

/* 1.18.0 and 1.18.1, as net before them, close without a lock. From 2.0 on each endpoint of a
 * FI_THREAD_COMPLETION domain has an inner domain, whose table of regions is changed without its
 * lock; not under rxm, whose endpoints are of another type. */
static bool races_tcp(const struct fi_info *info)
{
    const struct fi_fabric_attr *attr = info->fabric_attr;

    if (FI_MAJOR(attr->prov_version) == 118 && FI_MINOR(attr->prov_version) < 20)
        return true;
    return is_completion(info) && !strchr(attr->prov_name, ';') &&
           FI_VERSION_GE(libfabric_of(attr->prov_version), FI_VERSION(2, 0));
}

/* A peer's atomic operation looks up its region without the table's lock. */
static bool races_efa(const struct fi_info *info)
{
    return info->caps & FI_ATOMIC;
}

/*
 * shm: a transfer above 4 KiB is one process_vm_readv(2) or _writev(2) by either side (CMA). With
 *   FI_HMEM, whose memory these calls could not reach, or without CMA, each side copies to and
 *   from shared memory itself.
 * tcp, net (1.17's name; later renamed tcp): from the size set, send(2) gets MSG_ZEROCOPY.
 * cxi, opx: before the version given, cxi reads the struct fi_mr_dmabuf as an iovec and so takes
 *   the descriptor for an address; opx refuses the flag. cxi keeps only base_addr + offset of a
 *   dmabuf.
 * tcp, net, sockets, udp, shm: keys are looked up before they are inserted (ofi_mr_map_insert()).
 * efa: from 2.2 on its cache has only the provider's own registrations of buffers without a desc.
 *   The fabric efa-direct honours its flag, the fabric efa ignores it.
 */
static const struct ofi_fabric known[] = {
    {.core = "tcp",
     .cpu = true,
     .refuses_keys = true,
     .races = races_tcp,
     .pins = PINS_IF_SET,
     .setting = "FI_TCP_ZEROCOPY_SIZE",
     .pinner = "MSG_ZEROCOPY; leave FI_TCP_ZEROCOPY_SIZE unset"},
    {.core = "net",
     .cpu = true,
     .refuses_keys = true,
     .races = always,
     .pins = PINS_IF_SET,
     .setting = "FI_NET_ZEROCOPY_SIZE",
     .pinner = "MSG_ZEROCOPY; leave FI_NET_ZEROCOPY_SIZE unset"},
    {.core = "sockets", .cpu = true, .refuses_keys = true, .first_range = true},
    {.core = "udp", .cpu = true, .refuses_keys = true},
    {.core = "shm",
     .cpu = true,
     .refuses_keys = true,
     .first_range = true,
     .pins = PINS_BY_DEFAULT,
     .setting = "FI_SHM_DISABLE_CMA",
     .pinner = "process_vm_readv(2) (CMA); set FI_SHM_DISABLE_CMA=1, or open it with FI_HMEM"},
    {.core = "verbs", .dmabuf = FI_VERSION(1, 20), .caches = true, .locks = true},
    {.core = "efa",
     .dmabuf = FI_VERSION(1, 20),
     .caches = true,
     .bypasses = FI_VERSION(2, 2),
     .relaxed = OFI_EFA_MR_RELAXED_ORDERING,
     .relaxes = FI_VERSION(2, 7),
     .locks = true,
     .races = races_efa},
    {.core = "cxi",
     .dmabuf = FI_VERSION(2, 5),
     .by_address = true,
     .caches = true,
     .races = is_completion},
    {.core = "opx", .dmabuf = FI_VERSION(2, 6), .caches = true, .races = always},
    {.core = "psm"},
    {.core = "psm2"},
    {.core = "psm3"},
    {.core = "usnic", .locks = true},
    {.core = "ucx"},
};

const struct ofi_fabric *ofi_fabric_find(const char *name)
{
    size_t len;

    if (!name)
        return NULL;
    len = strcspn(name, ";");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i].core) == len && !strncmp(known[i].core, name, len))
            return &known[i];
    return NULL;
}

/* Parses a boolean as libfabric does; any other value means the default, which is off. */
static bool is_on(const char *value)
{
    return !strcasecmp(value, "1") || !strcasecmp(value, "on") || !strcasecmp(value, "true") ||
           !strcasecmp(value, "yes");
}

bool ofi_fabric_pins(const struct ofi_fabric *fabric, bool hmem)
{
    const char *value = fabric->setting ? secure_getenv(fabric->setting) : NULL;

    switch (fabric->pins) {
    case PINS_BY_DEFAULT:
        return !hmem && !(value && is_on(value));
    case PINS_IF_SET:
        return value && strtoull(value, NULL, 0) != SIZE_MAX;
    default:
        return false;
    }
}

static bool is_zero(const char *value)
{
    return value && strtoull(value, NULL, 0) == 0;
}

bool ofi_fabric_caches(const struct ofi_fabric *fabric, uint32_t prov_version)
{
    const char *monitor = secure_getenv("FI_MR_CACHE_MONITOR");

    if (fabric->bypasses && FI_VERSION_GE(libfabric_of(prov_version), fabric->bypasses))
        return false;
    return fabric->caches && !is_zero(secure_getenv("FI_MR_CACHE_MAX_COUNT")) &&
           !is_zero(secure_getenv("FI_MR_CACHE_MAX_SIZE")) &&
           !(monitor && !strcmp(monitor, "disabled"));
}

uint64_t ofi_fabric_relaxed(const struct ofi_fabric *fabric, uint32_t prov_version)
{
    return FI_VERSION_GE(libfabric_of(prov_version), fabric->relaxes) ? fabric->relaxed : 0;
}

/* fi_domain(3): with FI_THREAD_SAFE libfabric serializes all calls; with FI_THREAD_COMPLETION all
 * but those on objects that share a completion queue or counter, as regions do not. With any other
 * model the caller serializes. */
bool ofi_fabric_any_thread(const struct ofi_fabric *fabric, const struct fi_info *info)
{
    if (info->domain_attr->threading != FI_THREAD_SAFE && !(fabric && is_completion(info)))
        return false;
    return !(fabric && fabric->races && fabric->races(info));
}

#define NIC_VERSION FI_VERSION(1, 7) /* from here on fi_info has a nic */

/* A provider may leave parts of info->nic NULL. */
void ofi_fabric_describe_nic(const struct fi_info *info, struct provider_caps *out)
{
    bool has_nic = FI_VERSION_GE(info->fabric_attr->api_version, NIC_VERSION);
    const struct fid_nic *nic = has_nic ? info->nic : NULL;
    const struct fi_bus_attr *bus = nic ? nic->bus_attr : NULL;
    const char *name = nic && nic->device_attr ? nic->device_attr->name : NULL;

    name = name ? name : info->domain_attr->name;
    snprintf(out->nic, sizeof(out->nic), "%s", name ? name : "");
    if (bus && bus->bus_type == FI_BUS_PCI)
        out->pci = (struct hmreg_pci){.domain = bus->attr.pci.domain_id,
                                      .bus = bus->attr.pci.bus_id,
                                      .device = bus->attr.pci.device_id,
                                      .function = bus->attr.pci.function_id,
                                      .valid = 1};
}
