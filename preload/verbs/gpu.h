/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * --gpu: hmreg registers device memory that libibverbs cannot; other registrations stay
 * libibverbs'. The struct ibv_mr is libibverbs' own in both cases.
 */
#ifndef HMREG_PRELOAD_VERBS_GPU_H
#define HMREG_PRELOAD_VERBS_GPU_H

#include "preload/verbs/pass_on.h"
#include "preload/verbs/pd.h"

/* Does a runtime in this process report it as device memory? */
bool gpu_is_device(const void *addr, size_t length);

/* Passes the request on; if that fails, registers device memory by the best path of NIC and device
 * and fills *made. NULL: it failed, with libibverbs' errno; the reason is recorded. */
struct ibv_mr *gpu_reg(const struct verbs_request *request, struct made *made);

/* As ibv_dereg_mr(). */
int gpu_dereg(struct ibv_mr *mr);

#endif
