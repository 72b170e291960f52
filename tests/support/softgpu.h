/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The guest's simulated GPU, as tests use it; each call fails the test if it fails.
 */
#ifndef TESTS_SUPPORT_SOFTGPU_H
#define TESTS_SUPPORT_SOFTGPU_H

#include "tests/guest/softgpu.h"

#include <stdbool.h>
#include <stddef.h>

/* Skips the test where there is none. */
void softgpu_need(void);

/* A descriptor of len bytes. */
int softgpu_alloc(size_t len, unsigned flags);

/* Counters of a buffer, or with -1 of the module. */
struct softgpu_stat softgpu_stat(int fd);

/* Nothing is left: no buffer, no region. Waits for what the kernel frees later. */
void softgpu_assert_clean(void);

/* The next operation of this kind fails with errnum; 0 takes that back. */
void softgpu_fail(enum softgpu_op op, int errnum);

/* 0, or -1 with errno. */
int softgpu_move(int fd, bool force);

/* Peer memory on or off; where it is off, ibv_reg_mr() on device memory answers EFAULT. */
void softgpu_peermem(bool on);

#endif
