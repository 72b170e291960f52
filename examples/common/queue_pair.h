/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connecting a reliable queue pair, which every program on verbs does in this way on InfiniBand and
 * RoCE. Calls return 0 or a negative error number.
 */
#ifndef EXAMPLES_QUEUE_PAIR_H
#define EXAMPLES_QUEUE_PAIR_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* What one queue pair needs to know about the other. */
struct queue_card {
    uint32_t number;
    uint16_t lid;
    union ibv_gid gid;
};

/* The first active port; 0: none, or the device is iWARP, which only rdma_cm connects. */
uint8_t queue_pair_port(struct ibv_context *device);
/* The card of a queue pair that will be connected on this port by GID *gid_index. */
int queue_pair_card(struct ibv_qp *qp, uint8_t port, struct queue_card *out, int *gid_index);
/* access: IBV_ACCESS_*, what the peer may do to memory that is registered for it. */
int queue_pair_connect(struct ibv_qp *qp, uint8_t port, int gid_index, int access,
                       const struct queue_card *peer);

#endif
