/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens topologies and answers from them.
 */
#include "affinity/topology.h"

#include "core/base/error.h"
#include "core/contract/provider.h"

#include <errno.h>
#include <stdlib.h>

/* ---- classes of distance ---------------------------------------------------------------- */

const char *hmreg_distance_name(enum hmreg_distance distance)
{
    static const char *const names[HMREG_DISTANCE_COUNT] = {"X",    "PIX", "PXB", "PHB",
                                                            "NODE", "SYS", "?"};

    return (unsigned)distance < HMREG_DISTANCE_COUNT ? names[distance] : "?";
}

/* ---- opening ---------------------------------------------------------------------------- */

#ifndef HMREG_AFFINITY_HWLOC
int topology_read_hwloc(struct hmreg_topology *topology, const char *xml)
{
    return hmreg_fail(-EOPNOTSUPP, "config->xml needs hwloc, without which this library was built "
                                   "(HMREG_HWLOC)");
}
#endif

static int read_all(struct hmreg_topology *topology, const struct hmreg_topology_config *config)
{
    if (config->xml && config->root)
        return hmreg_fail(-EINVAL, "config has both xml and root; set one of them");
    return config->xml ? topology_read_hwloc(topology, config->xml)
                       : topology_read_sysfs(topology, config->root ? config->root : "");
}

int hmreg_topology_open(struct hmreg *lib, const struct hmreg_topology_config *config,
                        struct hmreg_topology **out)
{
    struct hmreg_topology_config own = {0};
    struct hmreg_topology *topology;
    int rc = lib ? hmreg_lib_check(lib) : 0;

    if (!rc && !out)
        rc = hmreg_fail(-EINVAL, "out is NULL");
    if (!rc && config)
        rc = hmreg_config_copy(&own, sizeof(own), config, "struct hmreg_topology_config");
    if (rc)
        return rc;
    topology = calloc(1, sizeof(*topology));
    if (!topology)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a topology");
    topology->lib = lib;
    rc = read_all(topology, &own);
    if (rc)
        hmreg_topology_close(topology);
    else
        *out = topology;
    return rc;
}

void hmreg_topology_close(struct hmreg_topology *topology)
{
    if (!topology)
        return;
    topology_clear(topology);
    free(topology);
}

/* ---- places ----------------------------------------------------------------------------- */

int hmreg_topology_place(const struct hmreg_topology *topology, const struct hmreg_pci *pci,
                         struct hmreg_pci_place *out)
{
    const struct topology_device *device;
    size_t size;

    if (!topology || !pci || !out)
        return hmreg_fail(-EINVAL, "%s is NULL", !topology ? "topology" : !pci ? "pci" : "out");
    if (!pci->valid)
        return hmreg_fail(-EINVAL, "pci->valid is 0: the PCI address is unknown");
    size = out->size;
    if (size < sizeof(*out))
        return hmreg_fail(-EINVAL, "size of struct hmreg_pci_place is %zu; it must be sizeof, %zu",
                          size, sizeof(*out));
    device = topology_find_place(topology, pci);
    if (!device)
        return hmreg_fail(-ENODEV, "the topology has no PCI device " PCI_FORMAT, PCI_ARGS(pci));
    *out = device->place;
    out->size = size;
    return 0;
}
