/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See verbs_peers.h. Kernels with the peer-memory interface (MLNX_OFED's and some distributions',
 * no upstream kernel) list its clients in /sys/kernel/mm/memory_peers. NVIDIA's modules may also
 * be loaded without that list. A listed client may still refuse an address: registration decides;
 * this check only avoids attempts that cannot succeed.
 */
#include "providers/verbs/verbs_peers.h"

#include "core/base/high_fd.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The prefix of a client's name identifies the vendor; a client without a match may serve any. */
static const struct {
    const char *prefix;
    enum hmreg_iface iface;
} owners[] = {
    {"nv", HMREG_IFACE_CUDA},  /* nv_mem, nv_mem_nc, nvidia-peermem */
    {"amd", HMREG_IFACE_ROCR}, /* amdkfd, amdp2p */
};

static bool serves(const char *client, enum hmreg_iface iface)
{
    for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
        if (!strncmp(client, owners[i].prefix, strlen(owners[i].prefix)))
            return owners[i].iface == iface;
    return client[0] != '.';
}

static bool listed(const char *sys, enum hmreg_iface iface)
{
    const struct dirent *entry;
    char path[PATH_MAX];
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/kernel/mm/memory_peers", sys);
    dir = high_folder(path);
    if (!dir)
        return false;
    while (!found && (entry = readdir(dir)))
        found = serves(entry->d_name, iface);
    closedir(dir);
    return found;
}

static bool loaded(const char *sys, const char *module)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/module/%s", sys, module);
    return !access(path, F_OK);
}

/* EFA's driver has a separate client for NVIDIA's memory, which no list shows. */
static bool nvidias_loaded(const char *sys)
{
    return loaded(sys, "nvidia_peermem") || loaded(sys, "nv_peer_mem") ||
           loaded(sys, "efa_nv_peermem");
}

bool peers_serve(const char *sys, enum hmreg_iface iface)
{
    return listed(sys, iface) || (iface == HMREG_IFACE_CUDA && nvidias_loaded(sys));
}

const char *peers_remedy(enum hmreg_iface iface)
{
    switch (iface) {
    case HMREG_IFACE_CUDA:
        return "load nvidia-peermem (modprobe nvidia-peermem; it needs MLNX_OFED's kernel "
               "modules), or use dmabuf";
    case HMREG_IFACE_ROCR:
        return "AMD's amdgpu-dkms driver has a client if MLNX_OFED was installed before it; or use "
               "dmabuf";
    case HMREG_IFACE_ZE:
        return "no driver offers a client for this vendor's memory: use dmabuf";
    default:
        return "load the driver's client, if it has one, or use dmabuf";
    }
}
