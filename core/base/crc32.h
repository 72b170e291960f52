/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CRC-32 of IEEE 802.3, as in zlib and PNG.
 */
#ifndef HMREG_CORE_BASE_CRC32_H
#define HMREG_CORE_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_of(const uint8_t *bytes, size_t size);
/* The same, as on a CPU that has no instructions for it. For tests. */
uint32_t crc32_plain(const uint8_t *bytes, size_t size);

#endif
