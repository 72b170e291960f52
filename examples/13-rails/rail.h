/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A rail: one NIC with its domain, and for each rank of the ring a queue pair to its right
 * neighbour. Calls return 0 or a negative error number.
 */
#ifndef EXAMPLES_RAIL_H
#define EXAMPLES_RAIL_H

#include <hmreg/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANKS 4

struct rail {
    struct ibv_context *device; /* NULL: it is closed */
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *right[RANKS]; /* of each rank, to its right neighbour's `left` */
    struct ibv_qp *left[RANKS];
    struct hmreg_domain *domain;
    unsigned posted; /* writes without a completion yet */
};

/* Opens the NIC of this name, for which it waits ten seconds, and connects the ranks. After a
 * failure, too, call rail_close(). */
int rail_open(struct rail *rail, struct hmreg *lib, const char *name);
/* -EBUSY: regions of its domain are open yet. */
int rail_close(struct rail *rail);

/* One RDMA WRITE of rank to its right neighbour. */
int rail_write(struct rail *rail, int rank, const struct ibv_sge *from, uint64_t addr,
               uint32_t rkey);
/* Waits for the completions of all writes. -EIO: one has failed. -ENODEV: the NIC is gone, and none
 * of them is in flight any more. */
int rail_wait(struct rail *rail);

#endif
