/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See bench.h: what needs libibverbs only.
 */
#include "tests/rdma/bench.h"

#include "tests/support/test.h"

#include <pthread.h>

#define FIRST_PSN 0x123456

/* A port's address: a RoCE port is reached by a GID, and every kind has the one derived from an
 * IPv4 address. */
static int choose_gid(struct ibv_context *device, uint8_t port, int count, union ibv_gid *gid)
{
    for (int i = 0; i < count; i++)
        if (!ibv_query_gid(device, port, i, gid) && gid->raw[10] == 0xff && gid->raw[11] == 0xff)
            return i;
    if (ibv_query_gid(device, port, 0, gid))
        fail_msg("ibv_query_gid: %s", strerror(errno));
    return 0;
}

static void to_init(struct bench *bench, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = bench->port,
        .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
    };

    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
}

static void to_receive(struct bench *bench, struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer,
        .rq_psn = FIRST_PSN,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.port_num = bench->port},
    };

    assert_int_equal(ibv_query_port(bench->device, bench->port, &port), 0);
    attr.ah_attr.dlid = port.lid;
    if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.hop_limit = 1;
        attr.ah_attr.grh.sgid_index = (uint8_t)choose_gid(bench->device, bench->port,
                                                          port.gid_tbl_len, &attr.ah_attr.grh.dgid);
    }
    assert_int_equal(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
}

static void to_send(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .sq_psn = FIRST_PSN,
        .max_rd_atomic = 1,
    };

    assert_int_equal(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static struct ibv_qp_init_attr attributes_of(const struct bench *bench)
{
    return (struct ibv_qp_init_attr){
        .send_cq = bench->cq,
        .recv_cq = bench->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
}

static struct ibv_qp *new_qp(struct bench *bench)
{
    struct ibv_qp_init_attr init = attributes_of(bench);
    struct ibv_qp *qp = ibv_create_qp(bench->pd, &init);

    assert_non_null(qp);
    return qp;
}

static void *accept_second(void *self)
{
    struct bench *bench = self;
    struct ibv_qp_init_attr init = attributes_of(bench);

    bench->qp[1] = iwarp_accept(&bench->iwarp[1], bench->pd, &init);
    return NULL;
}

static void connect_iwarp(struct bench *bench)
{
    struct ibv_qp_init_attr init = attributes_of(bench);
    uint16_t port = iwarp_listen(&bench->iwarp[1]);
    pthread_t accepting;

    assert_int_equal(pthread_create(&accepting, NULL, accept_second, bench), 0);
    bench->qp[0] = iwarp_connect(&bench->iwarp[0], port, bench->pd, &init);
    assert_int_equal(pthread_join(accepting, NULL), 0);
    assert_non_null(bench->qp[1]);
}

static void connect_pair(struct bench *bench)
{
    if (bench->is_iwarp) {
        connect_iwarp(bench);
        return;
    }
    for (int i = 0; i < 2; i++)
        bench->qp[i] = new_qp(bench);
    for (int i = 0; i < 2; i++) {
        to_init(bench, bench->qp[i]);
        to_receive(bench, bench->qp[i], bench->qp[1 - i]->qp_num);
        to_send(bench->qp[i]);
    }
}

static void destroy_qp(struct bench *bench, int which)
{
    if (bench->is_iwarp)
        iwarp_end(&bench->iwarp[which]);
    else
        assert_int_equal(ibv_destroy_qp(bench->qp[which]), 0);
}

static void close_device(struct bench *bench)
{
    if (bench->is_iwarp)
        iwarp_close(&bench->iwarp[0]);
    else
        assert_int_equal(ibv_close_device(bench->device), 0);
}

/* The device's first active port; 0: none. */
static uint8_t active_port(struct ibv_context *device)
{
    struct ibv_device_attr limits;
    struct ibv_port_attr port;

    if (ibv_query_device(device, &limits))
        return 0;
    for (uint8_t i = 1; i <= limits.phys_port_cnt; i++)
        if (!ibv_query_port(device, i, &port) && port.state == IBV_PORT_ACTIVE)
            return i;
    return 0;
}

static bool find_device(struct bench *bench, const char *name)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);

    for (int i = 0; i < count && !bench->port; i++) {
        if (name && strcmp(name, ibv_get_device_name(list[i])))
            continue;
        bench->is_iwarp = list[i]->transport_type == IBV_TRANSPORT_IWARP;
        bench->device = bench->is_iwarp ? iwarp_open(&bench->iwarp[0]) : ibv_open_device(list[i]);
        if (bench->is_iwarp)
            test_count_dmabufs_only(); /* librdmacm leaves devices open */
        if (!bench->device)
            continue;
        bench->port = active_port(bench->device);
        if (!bench->port)
            close_device(bench);
    }
    if (list)
        ibv_free_device_list(list);
    return bench->port;
}

bool bench_begin_on(struct bench *bench, const char *device)
{
    *bench = (struct bench){.port = 0};
    if (!find_device(bench, device))
        return false;
    bench->pd = ibv_alloc_pd(bench->device);
    assert_non_null(bench->pd);
    bench->cq = ibv_create_cq(bench->device, 16, NULL, NULL, 0);
    assert_non_null(bench->cq);
    if (bench->is_iwarp) {
        bench->fence =
            ibv_reg_mr(bench->pd, bench->fenced, sizeof(bench->fenced),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
        assert_non_null(bench->fence);
    }
    connect_pair(bench);
    return true;
}

bool bench_begin(struct bench *bench)
{
    return bench_begin_on(bench, NULL);
}

static void disconnect_pair(struct bench *bench)
{
    for (int i = 0; i < 2; i++)
        destroy_qp(bench, i);
}

void bench_reconnect(struct bench *bench)
{
    struct ibv_wc flushed;

    disconnect_pair(bench);
    while (ibv_poll_cq(bench->cq, 1, &flushed) == 1)
        continue;
    connect_pair(bench);
}

uint32_t bench_prepare(struct bench *bench)
{
    destroy_qp(bench, 0);
    bench->qp[0] = new_qp(bench);
    to_init(bench, bench->qp[0]);
    return bench->qp[0]->qp_num;
}

void bench_connect(struct bench *bench, uint32_t peer)
{
    to_receive(bench, bench->qp[0], peer);
    to_send(bench->qp[0]);
}

void bench_end(struct bench *bench)
{
    disconnect_pair(bench);
    assert_int_equal(ibv_destroy_cq(bench->cq), 0);
    if (bench->fence)
        assert_int_equal(ibv_dereg_mr(bench->fence), 0);
    assert_int_equal(ibv_dealloc_pd(bench->pd), 0); /* EBUSY: a region was left */
    close_device(bench);
}

static enum ibv_wc_status poll_one(struct bench *bench)
{
    struct ibv_wc wc;
    int polled;

    do {
        polled = ibv_poll_cq(bench->cq, 1, &wc);
    } while (polled == 0);
    assert_int_equal(polled, 1);
    return wc.status;
}

/* The read is posted with the write: after a refusal it might stay in a queue that has
 * ended. */
enum ibv_wc_status bench_post(struct bench *bench, struct ibv_send_wr *wr)
{
    bool fenced = bench->fence && wr->opcode == IBV_WR_RDMA_WRITE;
    struct ibv_sge byte = {(uintptr_t)bench->fenced, 1, fenced ? bench->fence->lkey : 0};
    struct ibv_send_wr *bad,
        fence = {.sg_list = &byte,
                 .num_sge = 1,
                 .opcode = IBV_WR_RDMA_READ,
                 .send_flags = IBV_SEND_SIGNALED,
                 .wr.rdma = {(uintptr_t)bench->fenced, fenced ? bench->fence->rkey : 0}};
    enum ibv_wc_status status;

    wr->send_flags |= IBV_SEND_SIGNALED;
    wr->next = fenced ? &fence : NULL;
    assert_int_equal(ibv_post_send(bench->qp[0], wr, &bad), 0);
    status = poll_one(bench);
    return fenced && status == IBV_WC_SUCCESS ? poll_one(bench) : status;
}
