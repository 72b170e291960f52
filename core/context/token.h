/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A token: the bytes that a peer needs to access a region, in one format for all providers and
 * modes. All numbers are little-endian:
 *
 *     0  u32 magic "HMRG"     4  u16 version (1)       6  u16 segments
 *     8  u32 iface            12 u16 address bytes     14 u16 raw key bytes in all (0: 64-bit keys)
 *     16 u64 length           24 u64 access            32 char provider[8]
 *     40 segments of { u64 base, u64 length, u64 key }
 *        address bytes, raw key bytes
 *        u32 CRC-32 of all bytes before it: the last 4 bytes in every version
 *
 * A segment's base is the address of its first byte in RMA calls: a virtual address or 0. If keys
 * are raw, a segment's key is the index of its raw key, and all raw keys have the same length.
 */
#ifndef HMREG_CORE_CONTEXT_TOKEN_H
#define HMREG_CORE_CONTEXT_TOKEN_H

#include <hmreg/hmreg.h>

#define TOKEN_MAX_SEGMENTS 64
#define TOKEN_MAX_BLOB     1024

struct token_segment {
    uint64_t base, len, key;
};

struct token {
    char provider[9];
    enum hmreg_iface iface;
    uint64_t len;
    uint64_t access;
    uint16_t segments;
    uint16_t address_size, raw_size;
    struct token_segment segment[TOKEN_MAX_SEGMENTS];
    uint8_t address[TOKEN_MAX_BLOB];
    uint8_t raw[TOKEN_MAX_BLOB];
};

/* The size of the written token, bytes. */
size_t token_size(const struct token *token);
/* Writes token_size() bytes. */
void token_write(const struct token *token, uint8_t *out);
/* Reads and checks a token. -EBADMSG, -EPROTONOSUPPORT. */
int token_read(const uint8_t *bytes, size_t size, struct token *out);

#endif
