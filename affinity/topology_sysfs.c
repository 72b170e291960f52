/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reads a topology from sysfs. A device's path names the host bridge and all bridges above it:
 * /sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0.
 */
#include "affinity/topology.h"

#include "core/base/below.h"
#include "core/base/error.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the beginning of a file's first line; false: it cannot be read, or is empty. */
static bool read_line(char *buf, int size, const char *root, const char *path)
{
    FILE *file = below_file(root, path);
    bool got = file && fgets(buf, size, file);

    if (file)
        fclose(file);
    return got;
}

/* Adds the object at ROOT, FOLDER, "/", NAME. Returns an error that ends the reading, or 0. */
typedef int add_fn(struct hmreg_topology *topology, const char *root, const char *folder,
                   const char *name);

/* Calls add() for each name in the folder, in version order. A folder that cannot be read counts as
 * empty, unless no folder below a root can be read. */
static int for_each(struct hmreg_topology *topology, const char *root, const char *folder,
                    add_fn *add)
{
    int fd = below_open(root, folder, O_PATH | O_DIRECTORY), count, rc = 0;
    struct dirent **entries = NULL;

    if (fd < 0 && root[0] && (errno == ENOSYS || errno == EPERM))
        return hmreg_fail_os(errno, "config->root needs the system call openat2, of Linux 5.6");
    if (fd < 0)
        return 0;
    errno = 0;
    count = scandirat(fd, ".", &entries, NULL, versionsort);
    if (count < 0 && errno == ENOMEM)
        rc = hmreg_fail_os(ENOMEM, "hmreg has no memory to read %s%s", root, folder);
    close(fd);
    for (int i = 0; i < count; i++) {
        if (!rc && entries[i]->d_name[0] != '.')
            rc = add(topology, root, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

/* ---- PCI devices ------------------------------------------------------------------------ */

static int node_of(const char *root, const char *folder, const char *name)
{
    char path[PATH_MAX], line[32];
    int node = -1;

    if (snprintf(path, sizeof(path), "%s/%s/numa_node", folder, name) < (int)sizeof(path) &&
        read_line(line, sizeof(line), root, path))
        sscanf(line, "%d", &node);
    return node < 0 ? -1 : node;
}

/* The part of a device's path from the host bridge on: "pci0000:40/..."; NULL: none. */
static char *from_host_bridge(char *path)
{
    char *devices = NULL, *part;

    /* Finds the last "/sys/devices/": the root's own name may contain one. */
    for (char *at = path; (at = strstr(at, "/sys/devices/")); at++)
        devices = at;
    part = devices ? strstr(devices, "/pci") : NULL;
    return part ? part + 1 : NULL;
}

static void set_bridges(struct hmreg_pci_place *place, char *path)
{
    char *rest = NULL, *part = strtok_r(path, "/", &rest);

    snprintf(place->host_bridge, sizeof(place->host_bridge), "%.15s", part ? part : "");
    for (part = strtok_r(NULL, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
        const char *below = rest && *rest ? rest : NULL;
        struct hmreg_pci pci;

        if (below && place->bridge_count < HMREG_BRIDGES_MAX &&
            topology_parse_pci(part, true, &pci))
            place->bridges[place->bridge_count++] = pci;
    }
}

static int add_device(struct hmreg_topology *topology, const char *root, const char *folder,
                      const char *name)
{
    struct topology_device device = {.place = {.size = sizeof(device.place)}};
    char link[PATH_MAX], path[PATH_MAX], *part;

    if (!topology_parse_pci(name, true, &device.pci) ||
        snprintf(link, sizeof(link), "%s/%s", folder, name) >= (int)sizeof(link))
        return 0;
    device.place.numa_node = node_of(root, folder, name);
    part = below_real(root, link, path) ? from_host_bridge(path) : NULL;
    if (part)
        set_bridges(&device.place, part);
    return topology_add_device(topology, &device);
}

/* ---- NICs ------------------------------------------------------------------------------- */

/* The last PCI device on the path: a virtio or auxiliary device is below one. */
static void set_pci(struct topology_nic *nic, char *path)
{
    char *rest = NULL, *part = from_host_bridge(path);
    struct hmreg_pci pci;

    for (part = part ? strtok_r(part, "/", &rest) : NULL; part; part = strtok_r(NULL, "/", &rest))
        if (topology_parse_pci(part, true, &pci))
            nic->pci = pci;
}

static int add_nic(struct hmreg_topology *topology, const char *root, const char *folder,
                   const char *name, bool rdma)
{
    struct topology_nic nic = {.rdma = rdma};
    char link[PATH_MAX], path[PATH_MAX];

    if (snprintf(nic.name, sizeof(nic.name), "%s", name) >= (int)sizeof(nic.name) ||
        snprintf(link, sizeof(link), "%s/%s/device", folder, name) >= (int)sizeof(link))
        return 0;
    if (below_real(root, link, path))
        set_pci(&nic, path);
    return topology_add_nic(topology, &nic);
}

static int add_rdma(struct hmreg_topology *topology, const char *root, const char *folder,
                    const char *name)
{
    return add_nic(topology, root, folder, name, true);
}

static int add_interface(struct hmreg_topology *topology, const char *root, const char *folder,
                         const char *name)
{
    return topology_find_nic(topology, name) ? 0 : add_nic(topology, root, folder, name, false);
}

/* ---- NUMA nodes ------------------------------------------------------------------------- */

static int add_node(struct hmreg_topology *topology, const char *root, const char *folder,
                    const char *name)
{
    int index, used = 0;

    if (sscanf(name, "node%d%n", &index, &used) != 1 || name[used] || index < 0)
        return 0;
    return topology_add_node(topology, index);
}

/* The kernel lists the distances to all nodes, in the order of their numbers. */
static int add_distances(struct hmreg_topology *topology, const char *root, const char *folder,
                         const char *name)
{
    char path[PATH_MAX], line[8192], *at = line, *end;
    struct topology_node *node;
    int index, found = -1;

    if (sscanf(name, "node%d", &index) == 1)
        found = topology_find_node(topology, index);
    if (found < 0 || snprintf(path, sizeof(path), "%s/%s/distance", folder, name) >= PATH_MAX ||
        !read_line(line, sizeof(line), root, path))
        return 0;
    node = &topology->nodes[found];
    if (topology_clear_distances(topology, node))
        return -ENOMEM;
    for (size_t i = 0; i < topology->node_count; i++, at = end) {
        unsigned long distance = strtoul(at, &end, 10);

        node->distances[i] = distance < 256 ? (uint32_t)distance : 0;
    }
    return 0;
}

/* ---- all -------------------------------------------------------------------------------- */

/* A platform with one node, such as a virtual machine, may not report it for each device. */
static void settle_nodes(struct hmreg_topology *topology)
{
    for (size_t i = 0; i < topology->device_count && topology->node_count == 1; i++)
        if (topology->devices[i].place.numa_node < 0)
            topology->devices[i].place.numa_node = topology->nodes[0].index;
}

int topology_read_sysfs(struct hmreg_topology *topology, const char *root)
{
    int rc = for_each(topology, root, "/sys/devices/system/node", add_node);

    rc = rc ? rc : for_each(topology, root, "/sys/devices/system/node", add_distances);
    rc = rc ? rc : for_each(topology, root, "/sys/bus/pci/devices", add_device);
    settle_nodes(topology);
    rc = rc ? rc : for_each(topology, root, "/sys/class/infiniband", add_rdma);
    rc = rc ? rc : for_each(topology, root, "/sys/class/cxi", add_rdma);
    return rc ? rc : for_each(topology, root, "/sys/class/net", add_interface);
}
