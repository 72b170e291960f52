// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The client's queue pair, connected to a program's on this machine. */
#include "client.h"

#include <linux/slab.h>
#include <rdma/ib_cache.h>

struct ib_qp *client_qp;
static struct ib_cq *cq;

static void on_received(struct ib_cq *queue, struct ib_wc *wc)
{
}

static struct ib_cqe received = {.done = on_received};

static int connect_to(struct client_connect *connect)
{
    struct ib_qp_attr attr = {.qp_state = IB_QPS_INIT,
                              .port_num = 1,
                              .qp_access_flags = IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE |
                                                 IB_ACCESS_REMOTE_ATOMIC};
    struct ib_recv_wr recv = {.wr_cqe = &received};
    const struct ib_gid_attr *gid;
    int rc;

    rc = ib_modify_qp(client_qp, &attr,
                      IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
    attr.qp_state = IB_QPS_RTR;
    attr.path_mtu = connect->mtu;
    attr.dest_qp_num = connect->user_qpn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
    rdma_ah_set_port_num(&attr.ah_attr, 1);
    rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)connect->gid, 0, connect->gid_index, 1, 0);
    gid = rdma_get_gid_attr(client_device, 1, connect->gid_index);
    if (IS_ERR(gid))
        return PTR_ERR(gid);
    rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
    rdma_put_gid_attr(gid);
    rc = rc
             ?: ib_modify_qp(client_qp, &attr,
                             IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
                                 IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
    rc = rc ?: ib_post_recv(client_qp, &recv, NULL);
    attr.qp_state = IB_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    return rc
               ?: ib_modify_qp(client_qp, &attr,
                               IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
                                   IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

/* Anew, where there was one. */
int connection_open(struct client_connect *connect)
{
    struct ib_qp_init_attr init = {
        .qp_type = IB_QPT_RC,
        .sq_sig_type = IB_SIGNAL_REQ_WR,
        .cap = {.max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 8, .max_recv_sge = 1}};
    int rc;

    connection_close();
    if (client_is_iwarp())
        return iwarp_expect();
    cq = ib_alloc_cq(client_device, NULL, 64, 0, IB_POLL_WORKQUEUE);
    if (IS_ERR(cq)) {
        rc = PTR_ERR(cq);
        cq = NULL;
        return rc;
    }
    init.send_cq = init.recv_cq = cq;
    client_qp = ib_create_qp(client_pd, &init);
    if (IS_ERR(client_qp)) {
        rc = PTR_ERR(client_qp);
        client_qp = NULL;
        connection_close();
        return rc;
    }
    connect->kernel_qpn = client_qp->qp_num;
    return connect_to(connect);
}

void connection_close(void)
{
    if (client_qp && !client_is_iwarp()) {
        ib_drain_qp(client_qp);
        ib_destroy_qp(client_qp);
    }
    if (cq)
        ib_free_cq(cq);
    client_qp = NULL;
    cq = NULL;
}

struct pushed {
    struct ib_cqe cqe;
    struct completion done;
    enum ib_wc_status status;
};

static void on_pushed(struct ib_cq *queue, struct ib_wc *wc)
{
    struct pushed *pushed = container_of(wc->wr_cqe, struct pushed, cqe);

    pushed->status = wc->status;
    complete(&pushed->done);
}

int connection_push(struct kfid_mr *mr, struct client_push *push)
{
    struct ib_sge sge[8];
    struct pushed pushed = {.cqe.done = on_pushed};
    struct ib_rdma_wr wr = {.wr = {.opcode = IB_WR_RDMA_WRITE,
                                   .send_flags = IB_SEND_SIGNALED,
                                   .wr_cqe = &pushed.cqe,
                                   .sg_list = sge},
                            .remote_addr = push->address,
                            .rkey = push->rkey};
    int rc = hmreg_kfi_sge(kfi_mr_desc(mr), push->offset, push->length, sge,
                           min_t(int, push->elements, ARRAY_SIZE(sge)));

    if (rc < 0)
        return rc;
    push->elements = wr.wr.num_sge = rc;
    init_completion(&pushed.done);
    rc = ib_post_send(client_qp, &wr.wr, NULL);
    if (rc)
        return rc;
    wait_for_completion(&pushed.done);
    return pushed.status == IB_WC_SUCCESS ? 0 : -EIO;
}
