/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The NICs of this machine, and NCCL's devices: each NIC, then those that NCCL fuses of several.
 * A device and the library are open while something uses them, so that nothing is left when NCCL
 * unloads the plugin, which before version 11 it does without notice.
 */
#include "plugin.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NICS 16

const struct transport *transport;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct hmreg *lib;
static struct nic nics[MOST_NICS];
static struct device devices[2 * MOST_NICS];
static int nic_count, device_count;

/* ---- opening and closing, with the lock -------------------------------------------------- */

static void log_line(enum hmreg_log_level level, const char *text, void *context)
{
    (void)context;
    if (nccl_logger && level <= HMREG_LOG_INFO)
        nccl_logger(level <= HMREG_LOG_WARN ? NCCL_LOG_WARN : NCCL_LOG_INFO, NCCL_LOG_NET, "hmreg",
                    0, "%s", text);
}

/* The group stays open for the next user while a region is registered. */
static void close_all(struct device *device)
{
    if (hmreg_domain_close(device->domain))
        return;
    device->domain = NULL;
    for (int i = 0; i < device->rails; i++) {
        transport->nic_close(device->native[i]);
        device->native[i] = NULL;
    }
    if (!hmreg_close(lib))
        lib = NULL; /* else another device has domains */
}

static int open_all(struct device *device)
{
    const struct hmreg_config config = {.size = sizeof(config), .log = log_line};
    const struct hmreg_group_config group = {
        .size = sizeof(group), .flags = HMREG_GROUP_OWNS_MEMBERS, .domain = &reg_policy};
    struct hmreg_domain *member[RAILS] = {NULL};
    int rc = lib ? 0 : hmreg_open(&config, &lib);

    for (int i = 0; i < device->rails && !rc; i++)
        rc = transport->nic_open(device->nic[i], lib, &device->native[i], &member[i]);
    rc = rc ? rc : hmreg_group_open(lib, member, (size_t)device->rails, &group, &device->domain);
    for (int i = 0; i < device->rails && rc; i++)
        hmreg_domain_close(member[i]);
    if (rc)
        close_all(device);
    return rc;
}

int device_open(int index, struct device **out)
{
    int rc = -ENODEV;

    pthread_mutex_lock(&lock);
    if (index >= 0 && index < device_count) {
        *out = &devices[index];
        rc = (*out)->domain ? 0 : open_all(*out);
        (*out)->users += !rc;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void device_close(struct device *device)
{
    pthread_mutex_lock(&lock);
    if (!--device->users)
        close_all(device);
    pthread_mutex_unlock(&lock);
}

/* ---- what there is ----------------------------------------------------------------------- */

/* HMREG_NCCL_FABRIC: "verbs", or "libfabric/PROVIDER". */
static int find_nics(void)
{
    const char *wanted = getenv("HMREG_NCCL_FABRIC");
    int rc;

    transport = wanted && !strncmp(wanted, "libfabric/", 10) ? &ofi_transport : &verbs_transport;
    rc = transport->find(nics, MOST_NICS);
    if (rc <= 0)
        return rc ? rc : -ENODEV;
    for (int i = 0; i < rc; i++) {
        devices[i].rails = 1;
        devices[i].nic[0] = &nics[i];
    }
    device_count = nic_count = rc;
    return 0;
}

int net_devices(int *count)
{
    int rc;

    pthread_mutex_lock(&lock);
    rc = nic_count ? 0 : find_nics();
    *count = device_count;
    pthread_mutex_unlock(&lock);
    return nccl_result(rc, "finding NICs");
}

static int fuse(int *members, int *index)
{
    struct device *device = &devices[device_count];

    if (members[0] < 1 || members[0] > transport->rails || device_count == 2 * MOST_NICS)
        return -EINVAL;
    for (int i = 0; i < members[0]; i++) {
        if (members[i + 1] < 0 || members[i + 1] >= nic_count)
            return -EINVAL;
        device->nic[i] = &nics[members[i + 1]];
    }
    device->rails = members[0];
    *index = device_count++;
    return 0;
}

int net_fuse(int *index, int *members)
{
    int rc;

    pthread_mutex_lock(&lock);
    rc = fuse(members, index);
    pthread_mutex_unlock(&lock);
    return nccl_result(rc, "fusing devices");
}

/* Which memory the device can register: hmreg foresees it without registering. */
static int pointers_of(struct hmreg_domain *domain)
{
    int pointers = NCCL_PTR_HOST;

    for (int i = HMREG_IFACE_CUDA; i <= HMREG_IFACE_ROCR; i++) {
        struct hmreg_explanation plan = {.size = sizeof(plan)};

        if (hmreg_domain_explain(domain, (enum hmreg_iface)i, 0, &plan) ||
            plan.path == HMREG_PATH_NONE)
            continue;
        pointers |= NCCL_PTR_CUDA | (plan.path == HMREG_PATH_DMABUF ? NCCL_PTR_DMABUF : 0);
    }
    return pointers;
}

int net_properties(int index, void *properties)
{
    struct nccl_properties_v12 *out = (struct nccl_properties_v12 *)properties;
    struct device *device;
    int rc = device_open(index, &device);

    if (rc)
        return nccl_result(rc, "opening a device");
    memset(out, 0, sizeof(*out));
    out->nic.name = device->nic[0]->name;
    out->nic.pci_path = device->nic[0]->pci_path[0] ? device->nic[0]->pci_path : NULL;
    out->nic.guid = device->nic[0]->guid;
    out->nic.pointers = pointers_of(device->domain);
    out->nic.global = 1;
    out->port.port = device->nic[0]->port;
    out->port.most_comms = 1 << 16;
    out->port.most_grouped = GROUPED;
    out->fused = device->rails;
    for (int i = 0; i < device->rails; i++) {
        out->port.speed += device->nic[i]->speed;
        out->member[i] = (int)(device->nic[i] - nics);
    }
    out->longest = out->longest_collective = LONGEST;
    out->most_in_request = 1;
    out->rail = out->plane = NCCL_UNDEFINED;
    device_close(device);
    return NCCL_OK;
}
