/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A test bench on a real RDMA device: two queue pairs of one port, connected to each other, and an
 * hmreg domain on their protection domain.
 */
#ifndef TESTS_RDMA_BENCH_H
#define TESTS_RDMA_BENCH_H

#include "tests/rdma/iwarp.h"

#include <hmreg/verbs.h>
#include <stdbool.h>

struct bench {
    struct ibv_context *device;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp[2]; /* the first initiates */
    uint8_t port;
    bool is_iwarp;
    struct iwarp iwarp[2]; /* of the queue pairs; the first keeps the device */
    char fenced[8];        /* what is read after a write; not 0 bytes, which siw at times refuses */
    struct ibv_mr *fence;  /* on iWARP */
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

/* The queue pairs alone, of this device; NULL: of the first with an active port. False: there is
 * none. */
bool bench_begin_on(struct bench *bench, const char *device);
bool bench_begin(struct bench *bench);
void bench_end(struct bench *bench);
/* New queue pairs: a refused operation stops the ones that it ran on. */
void bench_reconnect(struct bench *bench);

/* For a peer in another process, not on iWARP: a new initiator, whose number is returned, and its
 * connection to the queue pair of this number, at the same port. */
uint32_t bench_prepare(struct bench *bench);
void bench_connect(struct bench *bench, uint32_t peer);

/* The same with a domain; skips the test with the reason if there is no device. */
void bench_open(struct bench *bench);
/* The same, with a domain of this config. */
void bench_open_with(struct bench *bench, const struct hmreg_domain_config *config);
void bench_close(struct bench *bench);

/* Posts one signaled operation, and waits for it. Returns its completion's status. A write's on
 * iWARP says only that it was sent: there a read after it shows that it has arrived, or that the
 * target refused it and ended the connection. */
enum ibv_wc_status bench_post(struct bench *bench, struct ibv_send_wr *wr);

/* One RDMA operation of len bytes between local memory under mr and raddr under rkey; waits for it.
 * Returns its completion's status. */
enum ibv_wc_status bench_rdma(struct bench *bench, enum ibv_wr_opcode opcode, void *local,
                              size_t len, const struct hmreg_mr *mr, uint64_t raddr, uint32_t rkey);

#endif
