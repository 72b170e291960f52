/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which memory an address names, for the record. libhmreg is opened for it, in each process anew,
 * once the program has started a vendor's runtime: without one all memory is the host's.
 */
#ifndef HMREG_PRELOAD_MEMORY_H
#define HMREG_PRELOAD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Which memory is it? failure: the error of its registration, or 0. Host memory (iface 0, device
 * -1) if the process has no runtime, or each says that the address is not its own and it is mapped.
 * False, and nothing is set: that is not known. A runtime did not answer, or is in another
 * namespace (dlmopen(3)), or no memory is at the address that this process knows of; or the
 * registration failed with EFAULT, and a device's driver is mapped. Does not change errno. Any
 * thread. */
bool memory_find(uint64_t addr, uint64_t len, int failure, uint8_t *iface, int16_t *device);

#endif
