/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See crc32.h. Four bits a step, for the few bytes that the CPU's instructions leave, and for a CPU
 * without them.
 */
#include "core/base/crc32.h"

#include "core/base/crc32_cpu.h"

static uint32_t add(uint32_t crc, const uint8_t *bytes, size_t size)
{
    static const uint32_t half_bytes[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };

    for (; size; size--, bytes++) {
        crc = crc >> 4 ^ half_bytes[(crc ^ *bytes) & 15];
        crc = crc >> 4 ^ half_bytes[(crc ^ *bytes >> 4) & 15];
    }
    return crc;
}

uint32_t crc32_plain(const uint8_t *bytes, size_t size)
{
    return ~add(~0u, bytes, size);
}

uint32_t crc32_of(const uint8_t *bytes, size_t size)
{
    uint32_t crc = ~0u;
    size_t done = crc32_cpu(&crc, bytes, size);

    return ~(done < size ? add(crc, bytes + done, size - done) : crc);
}
