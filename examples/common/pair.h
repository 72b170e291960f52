/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The verbs code that the example needs besides hmreg: one reliable queue pair, connected with that
 * of another process over TCP. Calls return 0 or a negative error number.
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

/* Opens the first RDMA device with an active port and connects with the process at host; NULL:
 * accepts any process. After a failure, too, the caller must call pair_close(). */
int pair_open(const char *host, struct pair *out);
void pair_close(struct pair *pair);

/* Sends len bytes to the other process; receives len bytes. */
int pair_send(struct pair *pair, const void *bytes, size_t len);
int pair_receive(struct pair *pair, void *bytes, size_t len);

/* Waits for the completion of what was posted. -EIO: refused, or no answer. */
int pair_complete(struct pair *pair);

/* RDMA WRITE or READ; returns after completion. -EIO: refused, or no answer. */
int pair_rdma(struct pair *pair, enum ibv_wr_opcode opcode, const void *local, size_t len,
              uint32_t lkey, uint64_t addr, uint32_t rkey);

#endif
