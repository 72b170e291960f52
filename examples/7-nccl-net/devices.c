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
int net_devices(int *count)
{
    const char *wanted = getenv("HMREG_NCCL_FABRIC");
    int found;

    pthread_mutex_lock(&lock);
    transport = wanted && !strncmp(wanted, "libfabric/", 10) ? &ofi_transport : &verbs_transport;
    found = nic_count ? nic_count : transport->find(nics, MOST_NICS);
    for (; nic_count < found; device_count = ++nic_count)
        devices[nic_count] = (struct device){.rails = 1, .nic = {&nics[nic_count]}};
    *count = device_count;
    pthread_mutex_unlock(&lock);
    return nccl_result(found > 0 ? 0 : found ? found : -ENODEV, "finding NICs");
}

/* members: their number, then each. */
int net_fuse(int *index, int *members)
{
    int rc = members[0] < 1 || members[0] > transport->rails ? -EINVAL : 0;
    struct device device = {.rails = members[0]};

    pthread_mutex_lock(&lock);
    for (int i = 0; i < device.rails && !rc; i++) {
        rc = members[i + 1] < 0 || members[i + 1] >= nic_count ? -EINVAL : 0;
        device.nic[i] = &nics[members[i + 1]];
    }
    if (!rc && device_count < 2 * MOST_NICS)
        devices[ *index = device_count++] = device;
    else
        rc = -EINVAL;
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

/* members, longest: NULL for a version that has none. */
int net_properties(int index, struct nccl_nic *out, struct nccl_port *port, int *members,
                   struct nccl_longest *longest)
{
    struct device *device;
    int rc = device_open(index, &device);

    if (rc)
        return nccl_result(rc, "opening a device");
    *out = (struct nccl_nic){.name = (char *)device->nic[0]->name,
                             .pci_path = (char *)device->nic[0]->pci_path,
                             .guid = device->nic[0]->guid,
                             .pointers = pointers_of(device->domain),
                             .global = 1};
    if (!*out->pci_path)
        out->pci_path = NULL;
    *port = (struct nccl_port){
        .port = device->nic[0]->port, .most_comms = 1 << 16, .most_grouped = GROUPED};
    for (int i = 0; i < device->rails; i++) {
        port->speed += device->nic[i]->speed;
        if (members)
            members[0] = i + 1, members[i + 1] = (int)(device->nic[i] - nics);
    }
    if (longest)
        *longest = (struct nccl_longest){LONGEST, LONGEST};
    device_close(device);
    return NCCL_OK;
}
