/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * --gpu: the registration of a device's memory where libibverbs itself cannot register it.
 */
#ifndef HMREG_PRELOAD_VERBS_GPU_H
#define HMREG_PRELOAD_VERBS_GPU_H

#include "preload/verbs/asked.h"
#include "preload/verbs/pd.h"

/* Is it memory of a device, as far as a runtime in this process knows? */
bool gpu_is_device(const void *addr, size_t length);

/* Registers device memory by the best path of the NIC and the device. *native: its ibv_mr, with the
 * address and length that were asked for. NULL: it is no device memory, or there is no path, which
 * is recorded as a reason. Release it with hmreg_mr_close(). */
struct hmreg_mr *gpu_reg(const struct asked *asked, struct ibv_mr **native, struct made *made);

#endif
