/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Why the kernel did not pin host memory: EFAULT has a dozen causes, of which the mapping shows
 * which one it was.
 */
#ifndef HMREG_CORE_BASE_FAULT_CAUSE_H
#define HMREG_CORE_BASE_FAULT_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* So that an error's text has room for the device, the range, the rail and the element, too. */
#define FAULT_CAUSE_BYTES 256

/* After a registration of the ranges has failed with EFAULT: writes which address the kernel could
 * not pin, why, and what to do. written: the registration lets the device write. False, and text is
 * empty: the cause is not to be seen, or there is no /proc. Reads texts of the kernel, and touches
 * no byte of the ranges. Any thread. */
__attribute__((visibility("default"))) /* the providers' libraries call it */
bool hmreg_fault_cause(const struct iovec *iov, size_t count, bool written,
                       char text[FAULT_CAUSE_BYTES]);

#endif
