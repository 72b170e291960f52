/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The guest's simulated GPU in tests; each function fails the test on an error.
 */
#ifndef TESTS_SUPPORT_SOFTGPU_H
#define TESTS_SUPPORT_SOFTGPU_H

#include "simulated/guest/softgpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Skips the test if there is none. */
void softgpu_need(void);

/* A descriptor of len bytes. */
int softgpu_alloc(size_t len, unsigned flags);

/* Counters of a buffer, or with -1 of the module. */
struct softgpu_stat softgpu_stat(int fd);

/* Checks that no buffer and no region is left. Waits for what the kernel frees later. */
void softgpu_assert_clean(void);

/* The next operation of this kind fails with errnum; 0 cancels that. */
void softgpu_fail(enum softgpu_op op, int errnum);

/* 0, or -1 with errno. */
int softgpu_move(int fd, bool force);

/* A descriptor of another dmabuf of these bytes, or -1 with errno. */
int softgpu_duplicate(int fd, uint64_t offset, uint64_t size);

/* Eight bytes at an address on the bus. 0, or -1 with errno. */
int softgpu_peek(uint64_t bus, uint64_t *bytes);

/* Sets a parameter of the module to a value that it accepts. */
void softgpu_set(const char *parameter, const char *value);

/* Switches peer memory; while it is off, ibv_reg_mr() on device memory answers EFAULT. */
void softgpu_peermem(bool on);

#endif
