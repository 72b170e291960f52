/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds why the kernel did not pin host memory. EFAULT has a dozen causes; the mapping shows which
 * one.
 */
#ifndef HMREG_CORE_BASE_FAULT_CAUSE_H
#define HMREG_CORE_BASE_FAULT_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* Leaves room in an error's text for the device, the range, the rail and the element. */
#define FAULT_CAUSE_BYTES 256

/* Call after a registration of the ranges has failed with EFAULT. Writes which address the kernel
 * could not pin, why, and the remedy. written: the registration lets the device write. False, and
 * text is empty: no cause can be seen, or there is no /proc. Reads texts of the kernel, and touches
 * no byte of the ranges. Any thread. */
__attribute__((visibility("default"))) /* the providers' libraries call it */
bool hmreg_fault_cause(const struct iovec *iov, size_t count, bool written,
                       char text[FAULT_CAUSE_BYTES]);

#endif
