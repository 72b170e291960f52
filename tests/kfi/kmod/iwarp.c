// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Connections of iWARP, which a connection manager makes: one of the client with itself, on which
 * domains register, and one that the program makes to the client. What ends the second leaves the
 * first as it is.
 */
#include "client.h"

#include <linux/in.h>
#include <net/net_namespace.h>
#include <rdma/rdma_cm.h>

#define PATIENCE (600 * HZ) /* emulation is slow */

struct side {
    struct rdma_cm_id *id;
    struct ib_cq *cq;
    struct completion moved; /* by an event of a side that connects */
    int rc;
};

static struct rdma_cm_id *listener;
static struct side own[2], programs;
static struct side *accepting; /* the next connection is this side's */

static struct rdma_conn_param parameters = {.responder_resources = 4, .initiator_depth = 4};

static void on_received(struct ib_cq *queue, struct ib_wc *wc)
{
}

static struct ib_cqe received = {.done = on_received};

static void close_queue(struct side *side)
{
    if (side->id->qp) {
        ib_drain_qp(side->id->qp);
        rdma_destroy_qp(side->id);
    }
    ib_free_cq(side->cq);
    side->cq = NULL;
}

static int open_queue(struct side *side)
{
    struct ib_qp_init_attr init = {
        .qp_type = IB_QPT_RC,
        .sq_sig_type = IB_SIGNAL_REQ_WR,
        .cap = {.max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 4, .max_recv_sge = 1}};
    struct ib_recv_wr recv = {.wr_cqe = &received};
    int rc;

    if (side->id->device != client_device)
        return -ENODEV;
    side->cq = ib_alloc_cq(client_device, NULL, 64, 0, IB_POLL_WORKQUEUE);
    if (IS_ERR(side->cq))
        return PTR_ERR(side->cq);
    init.send_cq = init.recv_cq = side->cq;
    rc = rdma_create_qp(side->id, client_pd, &init);
    rc = rc ?: ib_post_recv(side->id->qp, &recv, NULL);
    if (rc)
        close_queue(side);
    return rc;
}

/* After an error the id ends with this event. */
static int accept_one(struct rdma_cm_id *id)
{
    struct side *side = accepting;
    int rc;

    if (!side)
        return -ECONNREFUSED;
    accepting = NULL;
    side->id = id;
    rc = open_queue(side);
    if (!rc) {
        id->context = side;
        if (side == &programs)
            client_qp = id->qp;
        rc = rdma_accept(id, &parameters);
        if (rc)
            close_queue(side);
    }
    if (rc) {
        side->id = NULL;
        if (side == &programs)
            client_qp = NULL;
    }
    return rc;
}

static int on_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
    struct side *side = id->context;

    switch (event->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return accept_one(id);
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
    case RDMA_CM_EVENT_ESTABLISHED:
        side->rc = 0;
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        side->rc = event->status ?: -ECONNREFUSED;
        break;
    default:
        return 0;
    }
    complete(&side->moved);
    return 0;
}

static int await(struct side *side, int rc)
{
    if (rc)
        return rc;
    return wait_for_completion_timeout(&side->moved, PATIENCE) ? side->rc : -ETIMEDOUT;
}

static struct sockaddr *address(struct sockaddr_in *in)
{
    *in = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_port = htons(CLIENT_PORT),
                               .sin_addr.s_addr = htonl(CLIENT_ADDRESS)};
    return (struct sockaddr *)in;
}

static int listen(void)
{
    struct sockaddr_in in;
    struct rdma_cm_id *id;
    int rc;

    if (listener)
        return 0;
    id = rdma_create_id(&init_net, on_event, NULL, RDMA_PS_TCP, IB_QPT_RC);
    if (IS_ERR(id))
        return PTR_ERR(id);
    rc = rdma_bind_addr(id, address(&in));
    rc = rc ?: rdma_listen(id, 4);
    if (rc)
        rdma_destroy_id(id);
    else
        listener = id;
    return rc;
}

static void close_side(struct side *side)
{
    if (!side->id)
        return;
    rdma_disconnect(side->id);
    if (side->cq)
        close_queue(side);
    rdma_destroy_id(side->id);
    side->id = NULL;
}

static int connect_side(struct side *side)
{
    struct sockaddr_in in;
    int rc;

    init_completion(&side->moved);
    side->id = rdma_create_id(&init_net, on_event, side, RDMA_PS_TCP, IB_QPT_RC);
    if (IS_ERR(side->id)) {
        rc = PTR_ERR(side->id);
        side->id = NULL;
        return rc;
    }
    rc = await(side, rdma_resolve_addr(side->id, NULL, address(&in), 10000));
    rc = rc ?: await(side, rdma_resolve_route(side->id, 10000));
    rc = rc ?: open_queue(side);
    if (rc)
        side->cq = NULL;
    rc = rc ?: await(side, rdma_connect(side->id, &parameters));
    if (rc)
        close_side(side);
    return rc;
}

/* The queue pair on which domains register. */
struct ib_qp *iwarp_own(void)
{
    int rc = 0;

    if (!own[0].id) {
        rc = listen();
        init_completion(&own[1].moved);
        accepting = &own[1];
        rc = rc ?: connect_side(&own[0]);
    }
    return rc ? ERR_PTR(rc) : own[0].id->qp;
}

/* The next connection that the program makes is its own. */
int iwarp_expect(void)
{
    close_side(&programs);
    init_completion(&programs.moved);
    accepting = &programs;
    return listen();
}

void iwarp_close(void)
{
    close_side(&programs);
    close_side(&own[0]);
    close_side(&own[1]);
    if (listener)
        rdma_destroy_id(listener);
    listener = NULL;
    accepting = NULL;
}
