/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * libfabric: tagged messages, which the fabric matches in order. A device is one NIC; each
 * communicator has an endpoint of its own.
 */
#include "plugin.h"

#include <errno.h>
#include <hmreg/ofi.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ofi_nic {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

struct endpoint {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    fi_addr_t peer;
};

#define CLOSE(object) ((object) ? fi_close(&(object)->fid) : 0)

/* ---- NICs --------------------------------------------------------------------------------- */

#define OPT_CUDA_API_PERMITTED 10 /* FI_OPT_CUDA_API_PERMITTED, since libfabric 1.18 */

/* An endpoint whose provider is forbidden to call CUDA: its cudaMemcpy() would wait for NCCL's
 * kernel, which waits for the data. -FI_EOPNOTSUPP: it needs the calls for device memory. */
static int open_endpoint(const struct ofi_nic *nic, struct fid_ep **ep)
{
    bool permitted = false;
    int rc = fi_endpoint(nic->domain, nic->info, ep, NULL);

    if (rc)
        return rc;
    rc = fi_setopt(&(*ep)->fid, FI_OPT_ENDPOINT, OPT_CUDA_API_PERMITTED, &permitted,
                   sizeof(permitted));
    return rc == -FI_EOPNOTSUPP && nic->info->caps & FI_HMEM ? rc : 0; /* others call none */
}

static int search(uint64_t caps, struct fi_info **list)
{
    uint32_t newest = FI_VERSION(1, 20), here = fi_version();
    struct fi_info *hints = fi_allocinfo();
    int rc;

    if (!hints)
        return -ENOMEM;
    hints->fabric_attr->prov_name = strdup(getenv("HMREG_NCCL_FABRIC") + strlen("libfabric/"));
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED | caps;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE; /* a closed sender has nothing under way */
    hints->tx_attr->size = hints->rx_attr->size = SENDS;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_RAW | FI_MR_HMEM;
    rc = fi_getinfo(here < newest ? here : newest, NULL, NULL, 0, hints, list);
    fi_freeinfo(hints);
    return rc;
}

static const struct fi_info *named(const struct fi_info *list, const char *name)
{
    while (list && strcmp(list->domain_attr->name, name))
        list = list->next;
    return list;
}

static int find(struct nic *nics, int most)
{
    struct fi_info *list;
    int count = 0, rc;

    /* The tcp provider of libfabric 2.1 gives messages that came before their receives to later
     * receives of the same tag; unless it keeps none. */
    setenv("FI_TCP_MAX_SAVED", "0", 0);
    rc = search(0, &list);
    if (rc)
        return rc;
    for (const struct fi_info *at = list; at && count < most; at = at->next) {
        if (named(list, at->domain_attr->name) != at)
            continue; /* seen before */
        nics[count] = (struct nic){.guid = (uint64_t)count, .speed = 10000, .port = 1};
        snprintf(nics[count].name, sizeof(nics[count].name), "%s", at->domain_attr->name);
        count++;
    }
    fi_freeinfo(list);
    return count;
}

static void nic_close(void *native)
{
    struct ofi_nic *ofi = (struct ofi_nic *)native;

    if (!ofi)
        return;
    CLOSE(ofi->domain);
    CLOSE(ofi->fabric);
    fi_freeinfo(ofi->info);
    free(ofi);
}

static int open_with(const char *name, uint64_t caps, struct ofi_nic *ofi)
{
    struct fi_info *list = NULL;
    struct fid_ep *ep = NULL;
    int rc = search(caps, &list);
    const struct fi_info *found = named(list, name);

    ofi->info = found ? fi_dupinfo(found) : NULL;
    fi_freeinfo(list);
    rc = rc ? rc : ofi->info ? fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL) : -ENODEV;
    rc = rc ? rc : fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL);
    rc = rc || !caps ? rc : open_endpoint(ofi, &ep); /* only tries */
    CLOSE(ep);
    return rc;
}

/* With device memory where the provider knows such and needs no CUDA for it; without, path mapped
 * reaches it, or NCCL copies it to host memory. */
static int nic_open(const struct nic *nic, struct hmreg *lib, void **native,
                    struct hmreg_domain **domain)
{
    const uint64_t caps[] = {FI_HMEM, 0};
    struct ofi_nic *ofi = NULL;
    int rc = -ENODEV;

    for (int i = 0; i < 2 && rc; i++) {
        nic_close(ofi);
        *native = ofi = (struct ofi_nic *)calloc(1, sizeof(*ofi));
        rc = ofi ? open_with(nic->name, caps[i], ofi) : -ENOMEM;
    }
    return rc ? rc : hmreg_domain_open_ofi(lib, ofi->domain, ofi->info, &reg_policy, domain);
}

/* ---- opening and connecting ---------------------------------------------------------------- */

static int ofi_open(struct comm *comm)
{
    struct endpoint *our = (struct endpoint *)calloc(1, sizeof(*our));
    const struct ofi_nic *nic = (struct ofi_nic *)comm->device->native[0];
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    size_t size = sizeof(comm->ours.address[0]);
    int rc = our ? fi_av_open(nic->domain, &av, &our->av, NULL) : -ENOMEM;

    comm->endpoints = our;
    rc = rc ? rc : fi_cq_open(nic->domain, &cq, &our->cq, NULL);
    rc = rc ? rc : open_endpoint(nic, &our->ep);
    rc = rc ? rc : fi_ep_bind(our->ep, &our->av->fid, 0);
    rc = rc ? rc : fi_ep_bind(our->ep, &our->cq->fid, FI_TRANSMIT | FI_RECV);
    rc = rc ? rc : fi_enable(our->ep);
    return rc ? rc : fi_getname(&our->ep->fid, comm->ours.address[0], &size);
}

static int ofi_connect(struct comm *comm)
{
    struct endpoint *our = (struct endpoint *)comm->endpoints;
    int count = fi_av_insert(our->av, comm->peers.address[0], 1, &our->peer, 0, NULL);

    return count == 1 ? 0 : count < 0 ? count : -EADDRNOTAVAIL;
}

static void ofi_close(struct comm *comm)
{
    struct endpoint *our = (struct endpoint *)comm->endpoints;

    CLOSE(our->ep);
    CLOSE(our->cq);
    CLOSE(our->av);
    free(our);
}

/* ---- requests ------------------------------------------------------------------------------ */

/* Where the fabric finds a buffer: not at NCCL's address if the CPU's mapping is registered. */
static void *place_of(const struct buffer *buffer)
{
    return (void *)(uintptr_t)hmreg_mr_local_addr(buffer->mr, 0, buffer->data);
}

static int ofi_send(struct comm *comm, struct request *request, const struct buffer *from)
{
    struct endpoint *our = (struct endpoint *)comm->endpoints;

    request->left = 1;
    request->message[0].size = from->size;
    return (int)fi_tsend(our->ep, place_of(from), from->size, reg_keys(from->mr, 0)->desc,
                         our->peer, (uint32_t)from->tag, &request->message[0]);
}

/* The fabric has room for all receives that NCCL may start: it takes all of a request or none. */
static int ofi_recv(struct comm *comm, struct request *request, const struct buffer *to)
{
    struct endpoint *our = (struct endpoint *)comm->endpoints;
    ssize_t rc = 0;
    int i;

    request->left = request->count;
    for (i = 0; i < request->count && !rc; i++)
        rc = fi_trecv(our->ep, place_of(&to[i]), to[i].size, reg_keys(to[i].mr, 0)->desc,
                      FI_ADDR_UNSPEC, (uint32_t)to[i].tag, 0, &request->message[i]);
    return rc == -FI_EAGAIN && i > 1 ? -EIO : (int)rc;
}

static int ofi_progress(struct comm *comm)
{
    struct endpoint *our = (struct endpoint *)comm->endpoints;
    struct fi_cq_tagged_entry done[16];
    struct fi_cq_err_entry failed = {};
    ssize_t count = fi_cq_read(our->cq, done, 16);

    for (ssize_t i = 0; i < count; i++) {
        struct message *message = (struct message *)done[i].op_context;

        message->size = comm->sends ? message->size : done[i].len;
        message->request->left--;
    }
    if (count == -FI_EAVAIL && fi_cq_readerr(our->cq, &failed, 0) > 0)
        return failed.err ? -failed.err : -EIO;
    return count == -FI_EAGAIN ? 0 : (int)count;
}

const struct transport ofi_transport = {
    "libfabric", 1,           HMREG_SEND, HMREG_RECV, find,     nic_open, nic_close,
    ofi_open,    ofi_connect, ofi_close,  ofi_send,   ofi_recv, NULL,     ofi_progress,
};
