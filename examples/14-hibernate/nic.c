/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See nic.h.
 */
#include "nic.h"

#include <errno.h>
#include <string.h>

int nic_open(struct nic *nic, const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    *nic = (struct nic){.device = NULL};
    for (int i = 0; list && list[i] && !nic->device; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            nic->device = ibv_open_device(list[i]);
    if (list)
        ibv_free_device_list(list);
    nic->port = nic->device ? queue_pair_port(nic->device) : 0;
    if (!nic->port)
        return -ENODEV;
    nic->pd = ibv_alloc_pd(nic->device);
    return nic->pd ? 0 : -errno;
}

void nic_close(struct nic *nic)
{
    if (nic->pd)
        ibv_dealloc_pd(nic->pd);
    if (nic->device)
        ibv_close_device(nic->device);
    *nic = (struct nic){.device = NULL};
}

int link_open(struct link *link, struct nic *nic, struct queue_card *card)
{
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };

    *link = (struct link){.nic = nic};
    link->cq = ibv_create_cq(nic->device, 1, NULL, NULL, 0);
    if (!link->cq)
        return -errno;
    init.send_cq = init.recv_cq = link->cq;
    link->qp = ibv_create_qp(nic->pd, &init);
    return link->qp ? queue_pair_card(link->qp, nic->port, card, &link->gid_index) : -errno;
}

int link_connect(struct link *link, const struct queue_card *card)
{
    return queue_pair_connect(link->qp, link->nic->port, link->gid_index, IBV_ACCESS_REMOTE_WRITE,
                              card);
}

int link_write(struct link *link, const void *from, uint32_t len, uint32_t lkey, uint64_t addr,
               uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)from, len, lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr = {.rdma = {.remote_addr = addr, .rkey = rkey}}};
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
    int rc = -ibv_post_send(link->qp, &wr, &bad), polled = 0;

    while (!rc && !polled)
        polled = ibv_poll_cq(link->cq, 1, &wc);
    return rc || (polled == 1 && wc.status == IBV_WC_SUCCESS) ? rc : -EIO;
}

void link_close(struct link *link)
{
    if (link->qp)
        ibv_destroy_qp(link->qp);
    if (link->cq)
        ibv_destroy_cq(link->cq);
    *link = (struct link){.nic = NULL};
}
