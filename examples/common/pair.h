/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What every program on verbs needs before it can send its first byte, and what the example is
 * not about: one reliable queue pair, connected with that of another process over TCP. Nothing of
 * this is hmreg's.
 *
 * Calls return 0 or a negative error number.
 */
#ifndef EXAMPLES_PAIR_H
#define EXAMPLES_PAIR_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct pair {
    int socket; /* to the other process */
    struct ibv_context *device;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t port;
    int gid_index;
};

/* The first RDMA device with an active port; the process at host, NULL: any process that connects.
 * Connected on return. After a failure pair_close() it all the same. */
int pair_open(const char *host, struct pair *out);
void pair_close(struct pair *pair);

/* Sends len bytes to the other process; receives as many. */
int pair_tell(struct pair *pair, const void *bytes, size_t len);
int pair_hear(struct pair *pair, void *bytes, size_t len);

/* RDMA WRITE or READ; returns when it is done. -EIO: refused, or not answered. */
int pair_rdma(struct pair *pair, enum ibv_wr_opcode opcode, const void *local, size_t len,
              uint32_t lkey, uint64_t addr, uint32_t rkey);

#endif
