/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Queries on a dmabuf's descriptor, whichever driver exported it.
 */
#ifndef HMREG_HMEM_DMABUF_H
#define HMREG_HMEM_DMABUF_H

#include <stdint.h>

/* Its length in bytes, -1: unknown. A kernel dmabuf reports it through lseek(2); fakes in tests,
 * and kernels before 4.11, through fstat(2). */
int64_t dmabuf_length(int fd);

#endif
