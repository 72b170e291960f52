/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A token: the bytes that a peer needs to access a region, in one format for all providers and
 * modes. All numbers are little-endian:
 *
 *     0  u32 magic "HMRG"     4  u16 format (5)        6  u16 segments
 *     8  u32 iface            12 u16 address bytes     14 u16 raw key bytes in all (0: 64-bit keys)
 *     16 u32 flags (0)        20 u32 extension bytes (16)
 *     24 u64 access           32 char provider[8]
 *     40 segments of { u64 base, u64 length, u64 key }
 *        address bytes: none, or the u64 number of the domain in its process; raw key bytes
 *        with raw keys: u64 base of the first one
 *        extension bytes: u64 instance, u64 generation, and what later versions add
 *
 * A segment's base is the address of its first byte in RMA calls: a virtual address, or an offset
 * in the registration, which is 0 unless the token is of a part of a region. If keys are raw, a
 * segment's key is the index of its raw key, and all raw keys have the same length; the segments
 * have them in order. The first raw key is mapped with its base, which is not its first segment's
 * in a token of a part of a region, each other one with the base of the first segment that has it.
 *
 * The instance is the owner's life (life_number()): another one in each process, and in each one
 * that is restored from the image of a process. The generation orders the registrations of that
 * life.
 *
 * Later versions may add optional fields to the extension; readers skip the unknown ones. For
 * required fields they set a flag, which this version refuses. Since a token's header has its
 * length, tokens can follow each other directly.
 */
#ifndef HMREG_CORE_REMOTE_TOKEN_H
#define HMREG_CORE_REMOTE_TOKEN_H

#include <endian.h>
#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <string.h>

#define TOKEN_MAX_SEGMENTS  HMREG_SEGMENTS_MAX
#define TOKEN_FEW_SEGMENTS  64   /* of most tokens */
#define TOKEN_MAX_BLOB      1024 /* the address */
#define TOKEN_MAX_RAW       UINT16_MAX
#define TOKEN_MAX_EXTENSION 65536
#define TOKEN_HEADER_BYTES  40
#define TOKEN_SEGMENT_BYTES 24
#define TOKEN_LIFE_BYTES    16 /* bytes of the extension that are known */

struct token_segment {
    uint64_t base, len, key;
};

/* The parts of a token. The pointers are borrowed: after token_read() they point into its bytes. */
struct token {
    char provider[9];
    uint16_t segments, address_size, raw_size;
    uint32_t iface;
    uint32_t extension_size; /* token_write() writes zero bytes behind the next two, if they fit */
    uint64_t instance, generation; /* 0: 0: unknown, of a shorter extension */
    uint64_t len;                  /* of all segments; token_write() writes neither it nor */
    size_t size;                   /* the token's own */
    uint64_t access;
    uint64_t raw_base;      /* with raw keys */
    const uint8_t *segment; /* segments times TOKEN_SEGMENT_BYTES, as in a token */
    const uint8_t *address, *raw;
};

/* Write a segment as a token has it, and read segment `index`. */
void token_put_segment(uint8_t *out, const struct token_segment *segment);
static inline uint64_t token_word(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
    return le64toh(word);
}

static inline struct token_segment token_segment_at(const uint8_t *bytes)
{
    return (struct token_segment){token_word(bytes), token_word(bytes + 8), token_word(bytes + 16)};
}

static inline struct token_segment token_segment(const struct token *token, unsigned index)
{
    return token_segment_at(token->segment + (size_t)index * TOKEN_SEGMENT_BYTES);
}

/* The size of the written token, bytes. */
size_t token_size(const struct token *token);
/* Writes token_size() bytes. */
void token_write(const struct token *token, uint8_t *out);

/* Finds the length of the token that begins at bytes, of which `size` can be read; checks no more
 * than that. -EBADMSG, -EPROTONOSUPPORT. */
int token_length(const uint8_t *bytes, size_t size, size_t *out);
/* Reads and checks a token of exactly size bytes. -EBADMSG, -EPROTONOSUPPORT. */
int token_read(const uint8_t *bytes, size_t size, struct token *out);

/* A fast check for the many tokens of an all-gather. Has the token at bytes, of which `size` can be
 * read, one segment and the header of *like, which token_read() has read? Then *out is its segment,
 * and the whole token is valid. false: no, or unknown; token_read() gives the error. */
static inline bool token_is_like(const uint8_t *bytes, size_t size, const struct token *like,
                                 struct token_segment *out)
{
    const uint8_t *header = like->segment - TOKEN_HEADER_BYTES;
    uint64_t differ = 0;

    if (like->segments != 1 || size < like->size)
        return false;
    for (size_t i = 0; i < TOKEN_HEADER_BYTES; i += 8)
        differ |= token_word(bytes + i) ^ token_word(header + i);
    if (differ)
        return false;
    *out = token_segment_at(bytes + TOKEN_HEADER_BYTES);
    return out->len && out->base + out->len - 1 >= out->base;
}

#endif
