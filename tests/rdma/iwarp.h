/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One end of a connection of iWARP, whose queue pairs only a connection manager connects: by
 * librdmacm, with whose context of the device all is done.
 */
#ifndef TESTS_RDMA_IWARP_H
#define TESTS_RDMA_IWARP_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct rdma_cm_id;

struct iwarp {
    struct rdma_cm_id *device, *listener, *connection; /* `device` keeps the context */
};

/* NULL: hmreg was built without librdmacm. */
struct ibv_context *iwarp_open(struct iwarp *iwarp);
void iwarp_close(struct iwarp *iwarp);
/* Returns the port at which iwarp_accept() awaits a peer. */
uint16_t iwarp_listen(struct iwarp *iwarp);
/* NULL: it failed. It may run in a thread of its own. */
struct ibv_qp *iwarp_accept(struct iwarp *iwarp, struct ibv_pd *pd, struct ibv_qp_init_attr *init);
struct ibv_qp *iwarp_connect(struct iwarp *iwarp, uint16_t port, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *init);
void iwarp_end(struct iwarp *iwarp);
/* Returns when the other side has ended the connection. */
void iwarp_await_end(struct iwarp *iwarp);

#endif
