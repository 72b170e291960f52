/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A simulated device's memory as RDMA's target, in the guest. VENDOR in the environment ("cuda")
 * selects the vendor, SOFTGPU_RULES=nvidia the rules of NVIDIA's exporter and peer memory, and
 * SOFTGPU_PAGES=0 memory without pages. The vendor's own copies write and read the bytes.
 */
#ifndef TESTS_RDMA_DEVICE_H
#define TESTS_RDMA_DEVICE_H

#include "tests/rdma/bench.h"

#define TARGET_BYTES 100003 /* no whole pages */
#define TARGET_SKEW  4099   /* where the region begins in its allocation */
#define TARGET_ROOM  (TARGET_BYTES + 2 * TARGET_SKEW)

struct target {
    char *memory;            /* TARGET_ROOM bytes of the device, at the vendor's address */
    unsigned char *expected; /* the expected bytes */
    unsigned char *source;   /* TARGET_BYTES of host memory */
    struct hmreg_mr *source_mr;
    struct hmreg_mr *mr; /* of TARGET_BYTES at TARGET_SKEW */
};

enum hmreg_iface device_iface(void);

/* Opens a domain that permits only this path to device memory, with peer memory on or off as it
 * needs. */
void device_open(struct bench *bench, enum hmreg_path path);
/* Closes it, and checks that nothing is left in the kernel. */
void device_close(struct bench *bench);

/* Allocates and registers memory with a pattern. */
void target_open(struct bench *bench, struct target *target, uint64_t access);
void target_alloc(struct bench *bench, struct target *target);
void target_close(struct bench *bench, struct target *target);

/* One RDMA operation on len bytes at offset of the region. */
enum ibv_wc_status target_rdma(struct bench *bench, struct target *target,
                               enum ibv_wr_opcode opcode, uint64_t offset, size_t len);

/* Checks each byte of the allocation. */
void target_assert_expected(struct bench *bench, const struct target *target);

/* A descriptor of the memory, for softgpu_stat() and softgpu_move(). */
int target_descriptor(struct bench *bench, const struct target *target);

#endif
