/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tokens as a peer may send them, made without one: of provider "script", of host memory that the
 * peer may be written.
 */
#ifndef TESTS_TOKENS_H
#define TESTS_TOKENS_H

#include <stddef.h>
#include <stdint.h>

struct made_segment {
    uint64_t base, len, key;
};

struct made_token {
    const struct made_segment *segments;
    uint16_t count;
    const uint8_t *raw; /* bytes of raw keys; the token's address is the same. NULL: none */
    uint16_t raw_size;
    uint64_t raw_base;
    uint64_t instance, generation; /* 0: the token does not say */
};

/* Writes it, and returns its size. */
size_t token_make(uint8_t *out, const struct made_token *token);
/* A group's: its size, of tokens of these sizes (0: none), and its beginning, which returns where
 * the first of them goes. */
size_t token_rails_size(const size_t *sizes, size_t count);
uint8_t *token_rails_begin(uint8_t *out, const size_t *sizes, size_t count);
/* The bytes of a token's raw keys, in it. An error fails the case. */
const uint8_t *token_raw(const uint8_t *bytes, size_t size, size_t *raw_size);

#endif
