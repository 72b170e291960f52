/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Repairs the checksum of a token that a fuzzer has damaged, so that what is behind the check is
 * reached. */
#ifndef TESTS_FUZZ_MEND_H
#define TESTS_FUZZ_MEND_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 (IEEE 802.3), bit by bit, in the last four bytes; a shorter token has none. */
static inline void fuzz_mend(uint8_t *token, size_t size)
{
    uint32_t crc = ~0u;

    if (size < 4)
        return;
    for (size_t i = 0; i < size - 4; i++) {
        crc ^= token[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    for (int i = 0; i < 4; i++)
        token[size - 4 + (size_t)i] = (uint8_t)(~crc >> (8 * i));
}

#endif
