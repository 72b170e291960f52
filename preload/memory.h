/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds whose memory an address is, for the record. Each process opens libhmreg for this once the
 * program has started a vendor's runtime; before, all memory is the host's.
 */
#ifndef HMREG_PRELOAD_MEMORY_H
#define HMREG_PRELOAD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Finds the memory's iface and device. failure: the error of its registration, or 0. It is host
 * memory (iface 0, device -1) if the process has no started runtime, or if every runtime disowns
 * the address and it is mapped. Returns false and sets nothing if the owner is unknown: a runtime
 * did not answer or is in another namespace (dlmopen(3)); nothing is mapped at the address; or the
 * registration failed with EFAULT while a device's driver is mapped. Keeps errno. Any thread. */
bool memory_find(uint64_t addr, uint64_t len, int failure, uint8_t *iface, int16_t *device);

#endif
