/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A simulated device's memory as RDMA's target, in the guest. Which vendor: VENDOR in the
 * environment ("cuda"). Bytes are put there and looked at by the vendor's own copies.
 */
#ifndef TESTS_RDMA_DEVICE_H
#define TESTS_RDMA_DEVICE_H

#include "tests/rdma/bench.h"

#define TARGET_BYTES 100003 /* no whole pages */
#define TARGET_SKEW  4099   /* where the region begins in its allocation */
#define TARGET_ROOM  (TARGET_BYTES + 2 * TARGET_SKEW)

struct target {
    char *memory;            /* TARGET_ROOM bytes of the device, the vendor's address */
    unsigned char *expected; /* what should be in them */
    unsigned char *source;   /* TARGET_BYTES of host memory */
    struct hmreg_mr *source_mr;
    struct hmreg_mr *mr; /* of TARGET_BYTES at TARGET_SKEW */
};

enum hmreg_iface device_iface(void);

/* A domain that takes only this path to device memory, with peer memory on or off as it needs. */
void device_open(struct bench *bench, enum hmreg_path path);
/* Closes it, and nothing is left in the kernel. */
void device_close(struct bench *bench);

/* Memory with a pattern, registered. */
void target_open(struct bench *bench, struct target *target, uint64_t access);
void target_alloc(struct bench *bench, struct target *target);
void target_close(struct bench *bench, struct target *target);

/* One RDMA operation on len bytes at offset of the region. */
enum ibv_wc_status target_rdma(struct bench *bench, struct target *target,
                               enum ibv_wr_opcode opcode, uint64_t offset, size_t len);

/* Each byte of the allocation is what it should be. */
void target_assert_expected(struct bench *bench, const struct target *target);

/* A descriptor of the memory, for softgpu_stat() and softgpu_move(). */
int target_descriptor(struct bench *bench, const struct target *target);

#endif
