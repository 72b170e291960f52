/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * See iwarp.h. */
#include "tests/rdma/iwarp.h"
#include "tests/kfi/kmod/calls.h"
#include "tests/support/test.h"

#ifdef HAVE_RDMACM

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#define PATIENCE 600000 /* ms; emulation is slow */

static struct rdma_conn_param parameters = {.responder_resources = 4, .initiator_depth = 4};

static struct sockaddr_in address_of(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(CLIENT_ADDRESS)};
}

static struct rdma_cm_id *resolved(uint16_t port)
{
    struct sockaddr_in address = address_of(port);
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, PATIENCE), 0);
    return id;
}

struct ibv_context *iwarp_open(struct iwarp *iwarp)
{
    iwarp->device = resolved(CLIENT_PORT);
    assert_non_null(iwarp->device->verbs);
    return iwarp->device->verbs;
}

void iwarp_close(struct iwarp *iwarp)
{
    rdma_destroy_id(iwarp->device);
}

uint16_t iwarp_listen(struct iwarp *iwarp)
{
    struct sockaddr_in address = address_of(0);

    assert_int_equal(rdma_create_id(NULL, &iwarp->listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(iwarp->listener, (struct sockaddr *)&address), 0);
    assert_int_equal(rdma_listen(iwarp->listener, 1), 0);
    return ntohs(rdma_get_src_port(iwarp->listener));
}

struct ibv_qp *iwarp_accept(struct iwarp *iwarp, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    if (rdma_get_request(iwarp->listener, &iwarp->connection) ||
        rdma_create_qp(iwarp->connection, pd, init) || rdma_accept(iwarp->connection, &parameters))
        return NULL;
    return iwarp->connection->qp;
}

struct ibv_qp *iwarp_connect(struct iwarp *iwarp, uint16_t port, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *init)
{
    iwarp->connection = resolved(port);
    assert_int_equal(rdma_resolve_route(iwarp->connection, PATIENCE), 0);
    assert_int_equal(rdma_create_qp(iwarp->connection, pd, init), 0);
    assert_int_equal(rdma_connect(iwarp->connection, &parameters), 0);
    return iwarp->connection->qp;
}

void iwarp_end(struct iwarp *iwarp)
{
    if (iwarp->connection) {
        rdma_destroy_qp(iwarp->connection);
        rdma_destroy_id(iwarp->connection);
    }
    if (iwarp->listener)
        rdma_destroy_id(iwarp->listener);
    iwarp->connection = iwarp->listener = NULL;
}

void iwarp_await_end(struct iwarp *iwarp)
{
    struct pollfd poller = {.fd = iwarp->connection->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    assert_int_equal(poll(&poller, 1, PATIENCE), 1);
    assert_int_equal(rdma_get_cm_event(iwarp->connection->channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_DISCONNECTED);
    rdma_ack_cm_event(event);
}

#else

struct ibv_context *iwarp_open(struct iwarp *iwarp)
{
    return NULL;
}

void iwarp_close(struct iwarp *iwarp)
{
}

uint16_t iwarp_listen(struct iwarp *iwarp)
{
    return 0;
}

struct ibv_qp *iwarp_accept(struct iwarp *iwarp, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    return NULL;
}

struct ibv_qp *iwarp_connect(struct iwarp *iwarp, uint16_t port, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *init)
{
    return NULL;
}

void iwarp_end(struct iwarp *iwarp)
{
}

void iwarp_await_end(struct iwarp *iwarp)
{
}

#endif
