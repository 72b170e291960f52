/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The peer's part of a connection of iWARP, by librdmacm, whose context of the device the peer
 * uses.
 */
#ifndef TESTS_KFI_IWARP_H
#define TESTS_KFI_IWARP_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct rdma_cm_id;

struct iwarp {
    struct rdma_cm_id *device, *connection; /* `device` keeps the context */
    bool has_ended;
};

/* NULL: hmreg was built without librdmacm. */
struct ibv_context *iwarp_open(struct iwarp *iwarp);
void iwarp_close(struct iwarp *iwarp);
/* The client expects the connection. */
struct ibv_qp *iwarp_connect(struct iwarp *iwarp, struct ibv_pd *pd, struct ibv_qp_init_attr *init);
void iwarp_end(struct iwarp *iwarp);
/* Returns when the other side has ended the connection. */
void iwarp_await_end(struct iwarp *iwarp);

#endif
