/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The simulated NIC, as a plain program of verbs opens it.
 */
#ifndef TESTS_PRELOAD_VERBS_BENCH_H
#define TESTS_PRELOAD_VERBS_BENCH_H

#include "tests/preload/verbs/calls.h"
#include "tests/support/test.h"

#define READ   0
#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct bench {
    struct ibv_context *device;
    struct ibv_pd *pd;
    unsigned regs; /* made before */
};

struct bench bench_open(void);
/* Before the case returns. */
void bench_close(struct bench *bench);
/* The case has closed the device. */
void bench_closed(void);

/* Is this process run with the mode "gpu"? */
bool bench_mode(const char *mode);
/* Skips the case unless it is. */
void bench_need(const char *mode);

/* Registrations since bench_open(). */
unsigned bench_regs(const struct bench *bench);

/* Whole pages of memory; freed by munmap(2). */
char *bench_map(void *where, size_t len);

struct ibv_mr *bench_reg(struct bench *bench, void *addr, size_t len, int access);
void bench_dereg(struct ibv_mr *mr);

#endif
