/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which memory an address names, for the record. libhmreg is opened for it, in each process anew,
 * once the program has started a vendor's runtime: without one all memory is the host's.
 */
#ifndef HMREG_PRELOAD_MEMORY_H
#define HMREG_PRELOAD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Which memory is it? Host memory (iface 0, device -1) if no runtime knows the address. False: a
 * runtime did not answer; nothing is set. Does not change errno. Any thread. */
bool memory_find(uint64_t addr, uint64_t len, uint8_t *iface, int16_t *device);

#endif
