/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See siphash.h. Names and constants are as in "SipHash: a fast short-input PRF".
 */
#include "providers/loopback/siphash.h"

#include <endian.h>
#include <string.h>

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

/* Up to 8 bytes, as a little-endian number. */
static uint64_t load(const uint8_t *bytes, size_t size)
{
    uint64_t word = 0;

    memcpy(&word, bytes, size);
    return le64toh(word);
}

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t size)
{
    const uint64_t k0 = load(key, 8), k1 = load(key + 8, 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                     k1 ^ 0x7465646279746573};
    const uint8_t *at = bytes;
    size_t left = size;

    for (; left >= 8; left -= 8, at += 8)
        absorb(v, load(at, 8));
    absorb(v, load(at, left) | (uint64_t)size << 56);
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
