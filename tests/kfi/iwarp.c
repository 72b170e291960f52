/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * See iwarp.h. */
#include "tests/kfi/iwarp.h"
#include "tests/kfi/kmod/calls.h"
#include "tests/support/test.h"

#ifdef HAVE_RDMACM

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#define PATIENCE 60000 /* ms; emulation is slow */

static struct rdma_cm_id *resolved(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(CLIENT_PORT),
                                  .sin_addr.s_addr = htonl(CLIENT_ADDRESS)};
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, PATIENCE), 0);
    return id;
}

void iwarp_end(struct iwarp *iwarp)
{
    if (!iwarp->connection)
        return;
    if (!iwarp->has_ended) /* it waits for the event */
        rdma_disconnect(iwarp->connection);
    iwarp->has_ended = false;
    rdma_destroy_qp(iwarp->connection);
    rdma_destroy_id(iwarp->connection);
    iwarp->connection = NULL;
}

struct ibv_context *iwarp_open(struct iwarp *iwarp)
{
    test_count_dmabufs_only(); /* librdmacm leaves the device open */
    iwarp->device = resolved();
    assert_non_null(iwarp->device->verbs);
    return iwarp->device->verbs;
}

void iwarp_close(struct iwarp *iwarp)
{
    rdma_destroy_id(iwarp->device);
}

struct ibv_qp *iwarp_connect(struct iwarp *iwarp, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct rdma_conn_param parameters = {.responder_resources = 4, .initiator_depth = 4};

    iwarp->connection = resolved();
    assert_int_equal(rdma_resolve_route(iwarp->connection, PATIENCE), 0);
    assert_int_equal(rdma_create_qp(iwarp->connection, pd, init), 0);
    assert_int_equal(rdma_connect(iwarp->connection, &parameters), 0);
    return iwarp->connection->qp;
}

void iwarp_await_end(struct iwarp *iwarp)
{
    struct pollfd poller = {.fd = iwarp->connection->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    assert_int_equal(poll(&poller, 1, PATIENCE), 1);
    assert_int_equal(rdma_get_cm_event(iwarp->connection->channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_DISCONNECTED);
    rdma_ack_cm_event(event);
    iwarp->has_ended = true;
}

#else

struct ibv_context *iwarp_open(struct iwarp *iwarp)
{
    (void)iwarp;
    return NULL;
}

void iwarp_close(struct iwarp *iwarp)
{
    (void)iwarp;
}

void iwarp_end(struct iwarp *iwarp)
{
    (void)iwarp;
}

struct ibv_qp *iwarp_connect(struct iwarp *iwarp, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    (void)iwarp, (void)pd, (void)init;
    return NULL;
}

void iwarp_await_end(struct iwarp *iwarp)
{
    (void)iwarp;
}

#endif
