/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a test learns from the simulated libibverbs.so.1 (ibverbs.c), and tells it: the symbol
 * hmreg_fake_ibverbs.
 */
#ifndef TESTS_FAKE_IBVERBS_H
#define TESTS_FAKE_IBVERBS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#define FAKE_IBVERBS_SYMBOL "hmreg_fake_ibverbs"

/* ibv_reg_buf_mr() of rdma-core 65. */
struct ibv_buf;
typedef struct ibv_mr *reg_buf_mr_call(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
                                       size_t length, int access);
reg_buf_mr_call ibv_reg_buf_mr;

struct fake_ibverbs {
    /* Of regions: made and ended so far, and existing. Failed calls do not count. */
    atomic_uint regs, deregs, live, reregs;
    atomic_uint imported;  /* of those made, of a dmabuf */
    atomic_uint failed;    /* registrations that failed */
    atomic_uint no_rereg;  /* not 0: the driver has no ibv_rereg_mr(), as Soft-RoCE's */
    atomic_uint fork_init; /* not 0: ibv_fork_init() is in force, on a kernel that needs it */
    atomic_int pid;        /* of the process whose regions these are */
    /* The bytes that an RDMA access of this kind (IBV_ACCESS_*; 0: the device reads for a local
     * operation) with this key, lkey or rkey, reaches; NULL: it is refused. */
    char *(*reach)(uint32_t key, uint64_t addr, size_t len, unsigned access);
};

#endif
