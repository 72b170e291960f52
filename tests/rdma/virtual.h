/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CUDA's virtual memory in tests, by the driver's functions that applications call.
 */
#ifndef TESTS_RDMA_VIRTUAL_H
#define TESTS_RDMA_VIRTUAL_H

#include "simulated/cuda/cuda_entries.h"

#include <stddef.h>

extern struct virtual_driver {
    CUDA_ENTRIES(CUDA_MEMBER, CUDA_MEMBER)
    CUDA_TEST_ENTRIES(CUDA_MEMBER)
} cu;

/* Finds the functions and starts the driver. */
void virtual_load(void);

/* New physical memory of the device, readable and writable, of len bytes (whole granules) at addr.
 */
void virtual_map(unsigned long long addr, size_t len, int device);

#endif
