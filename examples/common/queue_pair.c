/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See queue_pair.h.
 */
#include "queue_pair.h"

#include <errno.h>

#define FIRST_PSN 1

uint8_t queue_pair_port(struct ibv_context *device)
{
    struct ibv_device_attr limits;
    struct ibv_port_attr port;

    if (device->device->transport_type == IBV_TRANSPORT_IWARP || ibv_query_device(device, &limits))
        return 0;
    for (uint8_t i = 1; i <= limits.phys_port_cnt; i++)
        if (!ibv_query_port(device, i, &port) && port.state == IBV_PORT_ACTIVE)
            return i;
    return 0;
}

/* A RoCE port is reached by the GID made of its IPv4 address, where it has one. */
int queue_pair_card(struct ibv_qp *qp, uint8_t number, struct queue_card *out, int *gid_index)
{
    struct ibv_context *device = qp->context;
    struct ibv_port_attr port;

    if (ibv_query_port(device, number, &port))
        return -EIO;
    out->number = qp->qp_num;
    out->lid = port.lid;
    for (*gid_index = 0; *gid_index < port.gid_tbl_len; ++*gid_index)
        if (!ibv_query_gid(device, number, *gid_index, &out->gid) && out->gid.raw[10] == 0xff)
            return 0;
    *gid_index = 0;
    return ibv_query_gid(device, number, 0, &out->gid) ? -EIO : 0;
}

static int to_init(struct ibv_qp *qp, uint8_t port, int access)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .qp_access_flags = (unsigned)access,
        .port_num = port,
    };

    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_receive(struct ibv_qp *qp, uint8_t port, int gid_index, const struct queue_card *peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .rq_psn = FIRST_PSN,
        .dest_qp_num = peer->number,
        .ah_attr = {.grh = {.dgid = peer->gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64},
                    .dlid = peer->lid,
                    .is_global = !peer->lid,
                    .port_num = port},
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
    };

    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_send(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = FIRST_PSN,
                               .max_rd_atomic = 1,
                               .timeout = 14,
                               .retry_cnt = 6, /* Soft-RoCE takes 7 for ever */
                               .rnr_retry = 7};

    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int queue_pair_connect(struct ibv_qp *qp, uint8_t port, int gid_index, int access,
                       const struct queue_card *peer)
{
    int rc = to_init(qp, port, access);

    rc = rc ? rc : to_receive(qp, port, gid_index, peer);
    return rc ? rc : to_send(qp);
}
