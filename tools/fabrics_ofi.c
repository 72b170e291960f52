/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fabrics that libfabric offers on this machine. fi_getinfo() returns one entry per address,
 * endpoint type and protocol. Memory is registered with a domain, so we take the first entry of
 * each provider and domain, which an application with the same hints would get. The first query
 * requests FI_HMEM, since a provider registers device memory only with it.
 */
#include "tools/fabric.h"
#include "tools/loop.h"
#include "tools/signals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hmreg/ofi.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libfabric imports dmabufs from this version on, if the application requests this API version. */
#define WANTED_VERSION FI_VERSION(1, 20)
#define EVERY_MR_MODE                                                                              \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |                \
     FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM)

void ofi_version(char *buf, size_t size)
{
    snprintf(buf, size, "%u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
}

void ofi_lacks(json_t *names)
{
    if (fi_version() < WANTED_VERSION)
        doc_add(names, doc_text("FI_MR_DMABUF (1.20)"));
}

static uint32_t api_version(void)
{
    return fi_version() < WANTED_VERSION ? fi_version() : WANTED_VERSION;
}

/* All entries with these capabilities; NULL: none. */
static struct fi_info *offered(uint64_t caps)
{
    struct fi_info *hints, *found = NULL;

    /* A verbs domain for datagrams starts a name server, which waits for ever if localhost has no
     * address. Only programs that look up peers by it need it. */
    setenv("FI_VERBS_DGRAM_USE_NAME_SERVER", "0", 0);
    hints = fi_allocinfo();
    if (!hints)
        return NULL;
    hints->caps = caps;
    hints->mode = ~0ull;
    hints->domain_attr->mr_mode = EVERY_MR_MODE;
    hints->domain_attr->mode = ~0ull;
    if (signals_after(fi_getinfo(api_version(), NULL, NULL, 0, hints, &found)))
        found = NULL;
    fi_freeinfo(hints);
    return found;
}

static int open_domain(const struct fabric *self, struct hmreg *lib,
                       const struct hmreg_domain_config *config, struct hmreg_domain **out)
{
    return hmreg_domain_open_ofi(lib, self->native, self->info, config, out);
}

/* The RDMA device below a provider whose NIC moves the bytes itself; NULL: the CPU does. */
static const char *nic_of(const struct fi_info *info)
{
    static const char *const cores[] = {"verbs", "efa", "cxi", "opx"};
    const char *name = info->fabric_attr->prov_name;
    size_t len = strcspn(name, ";");

    for (size_t i = 0; i < COUNT(cores); i++)
        if (strlen(cores[i]) == len && !strncmp(name, cores[i], len))
            return info->nic && info->nic->device_attr && info->nic->device_attr->name
                       ? info->nic->device_attr->name
                       : info->domain_attr->name;
    return NULL;
}

static const char *address_of(const struct fi_info *info, char text[INET6_ADDRSTRLEN])
{
    const struct sockaddr *address = info->src_addr;

    if (!address || info->src_addrlen < sizeof(*address))
        return NULL;
    if (address->sa_family == AF_INET)
        return inet_ntop(AF_INET, &((const struct sockaddr_in *)info->src_addr)->sin_addr, text,
                         INET6_ADDRSTRLEN);
    if (address->sa_family == AF_INET6)
        return inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)info->src_addr)->sin6_addr, text,
                         INET6_ADDRSTRLEN);
    return NULL;
}

static void add_domain(struct fabric_list *list, struct fi_info *info)
{
    char address[INET6_ADDRSTRLEN];
    struct fabric fabric = {.provider = "ofi",
                            .name = info->fabric_attr->prov_name,
                            .domain = info->domain_attr->name,
                            .address = address_of(info, address),
                            .nic = nic_of(info),
                            .loop = &loop_ofi_ops,
                            .info = info,
                            .open = open_domain};
    struct fid_fabric *opened = NULL;
    struct fid_domain *domain = NULL;
    int rc;

    if (!fabric_wanted(list, &fabric))
        return;
    rc = signals_after(fi_fabric(info->fabric_attr, &opened, NULL));
    if (!rc)
        rc = signals_after(fi_domain(opened, info, &domain, NULL));
    if (rc) {
        fabric_add_failed(list, &fabric, rc, fi_strerror(-rc));
    } else {
        fabric.native = domain;
        fabric_add(list, &fabric);
        fi_close(&domain->fid);
    }
    if (opened)
        fi_close(&opened->fid);
}

static bool is_listed(const struct fabric_list *list, const struct fi_info *info)
{
    const json_t *fabric;

    doc_each(fabric, list->fabrics)
        if (doc_equals(fabric, "fabric", info->fabric_attr->prov_name) &&
            doc_equals(fabric, "domain", info->domain_attr->name))
            return true;
    return false;
}

const char *ofi_list(struct fabric_list *list)
{
    static const uint64_t caps[] = {FI_RMA | FI_HMEM, FI_RMA};
    const char *refusal = list->refuses ? list->refuses(list, NULL) : NULL;
    bool any = false;

    if (refusal)
        return refusal;
    for (size_t i = 0; i < COUNT(caps); i++) {
        struct fi_info *found = offered(caps[i]);

        for (struct fi_info *info = found; info; info = info->next)
            if (!is_listed(list, info))
                add_domain(list, info);
        any = any || found;
        fi_freeinfo(found);
    }
    return any ? NULL : "it offers no fabric with RMA here";
}
