/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What can be asked of a dmabuf's descriptor, whoever exported it.
 */
#ifndef HMREG_HMEM_DMABUF_H
#define HMREG_HMEM_DMABUF_H

#include <stdint.h>

/* Bytes behind it, -1: it does not tell. A dmabuf of the kernel's tells by lseek(2), stand-ins of
 * dmabufs, and kernels before 4.11, by fstat(2). */
int64_t dmabuf_length(int fd);

#endif
