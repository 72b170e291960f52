/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations whose struct ibv_mr is libibverbs' own: all that the cache does not answer. With
 * --gpu, device memory that libibverbs cannot register is registered by hmreg.
 */
#ifndef HMREG_PRELOAD_VERBS_NATIVE_H
#define HMREG_PRELOAD_VERBS_NATIVE_H

#include "preload/verbs/asked.h"
#include "preload/verbs/below.h"
#include "preload/verbs/pd.h"

/* Passes the request on; if it fails for want of memory, again without what is cached and not in
 * use; and else, with --gpu, registers device memory. Where hmreg did that, *made has how. NULL: it
 * failed, with libibverbs' errno. */
struct ibv_mr *native_reg(const struct verbs_request *request, struct made *made);

/* As ibv_dereg_mr(). */
int native_dereg(struct ibv_mr *mr);

/* The program's words, without what only libibverbs understands. */
struct asked native_asked(const struct verbs_request *request);

#endif
