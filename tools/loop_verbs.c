/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The loop of an RDMA device: one reliable connected queue pair, whose peer is itself or another
 * node's. The NIC treats them alike: it fetches bytes and stores them through the region's rkey.
 */
#include "tools/fabric.h"
#include "tools/loop.h"

#include <errno.h>
#include <hmreg/verbs.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PSN 0x2a4711
#define HOPS      64

/* A peer needs these to connect. */
struct address {
    uint32_t qp;
    uint16_t lid;
    uint8_t mtu;   /* enum ibv_mtu */
    uint8_t layer; /* IBV_LINK_LAYER_... */
    union ibv_gid gid;
};

struct loop {
    struct ibv_context *device;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t port;
    struct ibv_port_attr attr;
};

/* ---- connecting ------------------------------------------------------------------------- */

static int find_port(struct loop *loop, struct loop_why *why)
{
    struct ibv_device_attr limits;

    if (loop->device->device->transport_type == IBV_TRANSPORT_IWARP)
        return loop_fail(why, "it is iWARP, whose queue pairs only a connection manager (rdma_cm) "
                              "connects; use libfabric's verbs;ofi_rxm");
    if (ibv_query_device(loop->device, &limits))
        return loop_fail(why, "its limits could not be read");
    for (uint8_t i = 1; i <= limits.phys_port_cnt; i++) {
        if (ibv_query_port(loop->device, i, &loop->attr) || loop->attr.state != IBV_PORT_ACTIVE)
            continue;
        loop->port = i;
        return 0;
    }
    return loop_fail_as(why, LOOP_PORT_DOWN, "none of its %d ports is active",
                        limits.phys_port_cnt);
}

/* Chooses a GID of the port. RoCE addresses a port by GID; one derived from an IPv4 address works
 * on every RoCE version. */
static uint8_t choose_gid(const struct loop *loop, union ibv_gid *gid)
{
    for (int i = 0; i < loop->attr.gid_tbl_len && i < UINT8_MAX; i++)
        if (!ibv_query_gid(loop->device, loop->port, i, gid) && gid->raw[10] == 0xff &&
            gid->raw[11] == 0xff)
            return (uint8_t)i;
    if (ibv_query_gid(loop->device, loop->port, 0, gid))
        memset(gid, 0, sizeof(*gid));
    return 0;
}

static int qp_to_init(struct loop *loop)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = loop->port,
        .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    };

    return ibv_modify_qp(loop->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int qp_to_receive(struct loop *loop, const struct address *peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu =
            peer->mtu < loop->attr.active_mtu ? (enum ibv_mtu)peer->mtu : loop->attr.active_mtu,
        .dest_qp_num = peer->qp,
        .rq_psn = FIRST_PSN,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.port_num = loop->port, .dlid = peer->lid},
    };
    union ibv_gid own;

    if (loop->attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.hop_limit = HOPS;
        attr.ah_attr.grh.sgid_index = choose_gid(loop, &own);
        attr.ah_attr.grh.dgid = peer->gid;
    }
    return ibv_modify_qp(loop->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int qp_to_send(struct loop *loop)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .sq_psn = FIRST_PSN,
        .max_rd_atomic = 1,
    };

    return ibv_modify_qp(loop->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int make_queues(struct loop *loop, struct ibv_pd *pd, struct loop_why *why)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };

    loop->cq = ibv_create_cq(loop->device, 16, NULL, NULL, 0);
    if (!loop->cq)
        return loop_fail(why, "no completion queue: %s", strerror(errno));
    init.send_cq = init.recv_cq = loop->cq;
    loop->qp = ibv_create_qp(pd, &init);
    if (!loop->qp)
        return loop_fail(why, "no queue pair of type RC: %s (%s)", strerror(errno),
                         strerrorname_np(errno));
    return 0;
}

static int address(struct loop *loop, struct loop_address *out, struct loop_why *why)
{
    struct address own = {.qp = loop->qp->qp_num,
                          .lid = loop->attr.lid,
                          .mtu = (uint8_t)loop->attr.active_mtu,
                          .layer = loop->attr.link_layer};

    choose_gid(loop, &own.gid);
    memcpy(out->bytes, &own, sizeof(own));
    out->size = sizeof(own);
    return 0;
}

static int connect_to(struct loop *loop, const struct loop_address *given, struct loop_why *why)
{
    struct address peer;
    int rc;

    if (given->size != sizeof(peer))
        return loop_fail(why, "its peer is not an RDMA device of libibverbs");
    memcpy(&peer, given->bytes, sizeof(peer));
    if (peer.layer != loop->attr.link_layer || peer.mtu < IBV_MTU_256 || peer.mtu > IBV_MTU_4096)
        return loop_fail(why, "its peer has another kind of link (InfiniBand, Ethernet)");
    rc = qp_to_init(loop);
    if (rc)
        return loop_fail(why, "its queue pair did not accept the port: %s", strerror(rc));
    rc = qp_to_receive(loop, &peer);
    /* The kernel resolves a GID, and the next hop's address. */
    if (rc == ETIMEDOUT)
        rc = EHOSTUNREACH;
    if (rc)
        return loop_fail_as(why, loop_fault_of(rc), "its queue pair was not connected (RTR): %s",
                            strerror(rc));
    rc = qp_to_send(loop);
    return rc ? loop_fail(why, "its queue pair was not connected (RTS): %s", strerror(rc)) : 0;
}

static void close_loop(struct loop *loop)
{
    if (loop && loop->qp)
        ibv_destroy_qp(loop->qp);
    if (loop && loop->cq)
        ibv_destroy_cq(loop->cq);
    free(loop);
}

static int open_loop(const struct fabric *fabric, struct hmreg_domain *domain, struct loop **out,
                     struct loop_why *why)
{
    struct ibv_pd *pd = fabric->native;
    struct loop *loop = calloc(1, sizeof(*loop));
    int rc;

    if (!loop)
        return loop_fail(why, "no memory");
    loop->device = pd->context;
    rc = find_port(loop, why);
    rc = rc ? rc : make_queues(loop, pd, why);
    if (rc)
        close_loop(loop);
    else
        *out = loop;
    return rc;
}

/* ---- operations ------------------------------------------------------------------------- */

static int wait_for(struct loop *loop, struct loop_why *why)
{
    int64_t deadline = loop_deadline();
    struct ibv_wc wc;
    int polled;

    do {
        polled = ibv_poll_cq(loop->cq, 1, &wc);
    } while (!polled && !loop_is_over(deadline));
    if (polled < 0)
        return loop_fail(why, "its completion queue failed");
    if (!polled)
        return loop_fail_as(why, LOOP_TIMED_OUT, "no completion came within %d s", LOOP_TIMEOUT);
    if (wc.status != IBV_WC_SUCCESS)
        return loop_fail_as(why, wc.status == IBV_WC_RETRY_EXC_ERR ? LOOP_TIMED_OUT : LOOP_OTHER,
                            "the completion reports: %s (vendor's error %#x)",
                            ibv_wc_status_str(wc.status), wc.vendor_err);
    return 0;
}

static int move(struct loop *loop, const struct loop_move *move, struct loop_why *why)
{
    struct ibv_sge sge = {hmreg_mr_local_addr(move->mr, 0, move->local), (uint32_t)move->len,
                          hmreg_mr_head_of(move->mr)->keys->lkey};
    struct ibv_send_wr *bad, wr = {
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = move->write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                                 .send_flags = IBV_SEND_SIGNALED,
                             };
    int rc;

    wr.wr.rdma.remote_addr = move->addr;
    wr.wr.rdma.rkey = (uint32_t)move->key;
    rc = ibv_post_send(loop->qp, &wr, &bad);
    return rc ? loop_fail(why, "it did not accept the work request: %s", strerror(rc))
              : wait_for(loop, why);
}

const struct loop_ops loop_verbs_ops = {
    .open = open_loop,
    .address = address,
    .connect = connect_to,
    .move = move,
    .close = close_loop,
};
