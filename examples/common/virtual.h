/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CUDA's virtual memory: addresses that stay, and physical memory that comes and goes. Calls return
 * 0 or a negative error number.
 */
#ifndef EXAMPLES_VIRTUAL_H
#define EXAMPLES_VIRTUAL_H

#include <stddef.h>
#include <stdint.h>

/* Opens device 0 and reserves addresses. -ENODEV: there is no driver or no device. */
int virtual_reserve(size_t bytes, uint64_t *addr);
/* Maps fresh physical memory; unmapping gives it back to the device. */
int virtual_map(uint64_t addr, size_t bytes);
int virtual_unmap(uint64_t addr, size_t bytes);

#endif
