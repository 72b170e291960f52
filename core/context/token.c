/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See token.h. A token comes from a network, so token_read() checks each field before its use.
 */
#include "core/context/token.h"

#include "core/base/crc32.h"
#include "core/base/error.h"

#include <errno.h>
#include <string.h>

#define MAGIC         0x47524d48u /* "HMRG" */
#define VERSION       1
#define HEADER_BYTES  40
#define SEGMENT_BYTES 24
#define CRC_BYTES     4
#define LEAST_BYTES   (HEADER_BYTES + SEGMENT_BYTES + CRC_BYTES)
#define MOST_BYTES                                                                                 \
    (HEADER_BYTES + TOKEN_MAX_SEGMENTS * SEGMENT_BYTES + 2 * TOKEN_MAX_BLOB + CRC_BYTES)

static void put(uint8_t **at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*at)++ = (uint8_t)(value >> (8 * i));
}

static uint64_t take(const uint8_t **at, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t) * (*at)++ << (8 * i);
    return value;
}

size_t token_size(const struct token *token)
{
    return HEADER_BYTES + (size_t)token->segments * SEGMENT_BYTES + token->address_size +
           token->raw_size + CRC_BYTES;
}

void token_write(const struct token *token, uint8_t *out)
{
    uint8_t *at = out;

    put(&at, MAGIC, 4);
    put(&at, VERSION, 2);
    put(&at, token->segments, 2);
    put(&at, token->iface, 4);
    put(&at, token->address_size, 2);
    put(&at, token->raw_size, 2);
    put(&at, token->len, 8);
    put(&at, token->access, 8);
    memcpy(at, token->provider, 8);
    at += 8;
    for (unsigned i = 0; i < token->segments; i++) {
        put(&at, token->segment[i].base, 8);
        put(&at, token->segment[i].len, 8);
        put(&at, token->segment[i].key, 8);
    }
    memcpy(at, token->address, token->address_size);
    at += token->address_size;
    memcpy(at, token->raw, token->raw_size);
    at += token->raw_size;
    put(&at, crc32_of(out, (size_t)(at - out)), CRC_BYTES);
}

static void read_header(const uint8_t **at, struct token *out)
{
    out->segments = (uint16_t)take(at, 2);
    out->iface = (enum hmreg_iface)take(at, 4);
    out->address_size = (uint16_t)take(at, 2);
    out->raw_size = (uint16_t)take(at, 2);
    out->len = take(at, 8);
    out->access = take(at, 8);
    memcpy(out->provider, *at, 8);
    *at += 8;
}

static int bad(const char *what)
{
    return hmreg_fail(-EBADMSG, "token: %s", what);
}

static int check_header(const struct token *token, size_t size)
{
    if (!token->segments || token->segments > TOKEN_MAX_SEGMENTS)
        return bad("its number of segments is out of range");
    if (token->address_size > TOKEN_MAX_BLOB || token->raw_size > TOKEN_MAX_BLOB)
        return bad("its address or key is too long");
    if (token_size(token) != size)
        return bad("its length is not what its header says");
    if ((unsigned)token->iface > HMREG_IFACE_MAX)
        return bad("its iface is unknown");
    if (!token->access || (token->access & ~HMREG_ACCESS_REMOTE))
        return bad("its access rights are not remote ones");
    return 0;
}

static int check_segments(const struct token *token)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < token->segments; i++) {
        const struct token_segment *segment = &token->segment[i];

        if (!segment->len || segment->base + segment->len - 1 < segment->base ||
            __builtin_add_overflow(total, segment->len, &total))
            return bad("a segment is empty or wraps");
    }
    return total == token->len ? 0 : bad("its segments do not add up to its length");
}

int token_read(const uint8_t *bytes, size_t size, struct token *out)
{
    struct token token = {.len = 0};
    const uint8_t *at = bytes;
    const uint8_t *crc;
    uint64_t version;
    int rc;

    /* Reject a size that no token has before reading: it may exceed the buffer. */
    if (size < LEAST_BYTES || size > MOST_BYTES || take(&at, 4) != MAGIC)
        return bad("these bytes are not one, or are cut short");
    crc = bytes + size - CRC_BYTES;
    if (take(&crc, CRC_BYTES) != crc32_of(bytes, size - CRC_BYTES))
        return bad("damaged (its checksum does not match)");
    version = take(&at, 2);
    if (version != VERSION)
        return hmreg_fail(-EPROTONOSUPPORT, "token: format %d, this hmreg reads format %d",
                          (int)version, VERSION);
    read_header(&at, &token);
    rc = check_header(&token, size);
    if (rc)
        return rc;
    for (unsigned i = 0; i < token.segments; i++) {
        token.segment[i].base = take(&at, 8);
        token.segment[i].len = take(&at, 8);
        token.segment[i].key = take(&at, 8);
    }
    memcpy(token.address, at, token.address_size);
    memcpy(token.raw, at + token.address_size, token.raw_size);
    rc = check_segments(&token);
    if (!rc)
        *out = token;
    return rc;
}
