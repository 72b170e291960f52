/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * --gpu: what libibverbs registers stays as it is; a device's memory that it cannot register, hmreg
 * does. The struct ibv_mr is libibverbs' own in each case.
 */
#ifndef HMREG_PRELOAD_VERBS_GPU_H
#define HMREG_PRELOAD_VERBS_GPU_H

#include "preload/verbs/below.h"
#include "preload/verbs/pd.h"

/* Is it memory of a device, as far as a runtime in this process knows? */
bool gpu_is_device(const void *addr, size_t length);

/* Passes the request on; if it fails, registers device memory by the best path of the NIC and the
 * device: then *made has how. NULL: it failed, with libibverbs' errno, and why there is no path is
 * recorded. */
struct ibv_mr *gpu_reg(const struct verbs_request *request, struct made *made);

/* As ibv_dereg_mr(). */
int gpu_dereg(struct ibv_mr *mr);

#endif
