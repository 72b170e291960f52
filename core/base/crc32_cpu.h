/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * CRC-32 by the CPU's instructions, where it has them.
 */
#ifndef HMREG_CORE_BASE_CRC32_CPU_H
#define HMREG_CORE_BASE_CRC32_CPU_H

#include <stddef.h>
#include <stdint.h>

/* Adds the first bytes, as many as the instructions take at a time, to a sum without its last
 * inversion. Returns how many; 0: too few, or this CPU has no such instruction. */
size_t crc32_cpu(uint32_t *crc, const uint8_t *bytes, size_t size);

#endif
