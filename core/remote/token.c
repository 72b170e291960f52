/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See token.h. A token comes from a network, so token_read() checks each field before its use. It
 * copies nothing but the header: a peer may open a hundred thousand tokens.
 */
#include "core/remote/token.h"

#include "core/base/error.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MAGIC        0x47524d48u /* "HMRG" */
#define FORMAT       5
#define HEADER_BYTES TOKEN_HEADER_BYTES
#define BASE_BYTES   8
#define LEAST_BYTES  (HEADER_BYTES + TOKEN_SEGMENT_BYTES)
#define MOST_BYTES                                                                                 \
    (HEADER_BYTES + TOKEN_MAX_SEGMENTS * TOKEN_SEGMENT_BYTES + TOKEN_MAX_BLOB + TOKEN_MAX_RAW +    \
     BASE_BYTES + TOKEN_MAX_EXTENSION)

_Static_assert(TOKEN_MAX_SEGMENTS <= UINT16_MAX, "fits its field");

static void put16(uint8_t *at, uint16_t value)
{
    value = htole16(value);
    memcpy(at, &value, sizeof(value));
}

static void put32(uint8_t *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof(value));
}

static uint16_t take16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof(value));
    return le16toh(value);
}

static uint32_t take32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static uint64_t take64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

void token_put_segment(uint8_t *out, const struct token_segment *segment)
{
    put64(out, segment->base);
    put64(out + 8, segment->len);
    put64(out + 16, segment->key);
}

size_t token_size(const struct token *token)
{
    return HEADER_BYTES + (size_t)token->segments * TOKEN_SEGMENT_BYTES + token->address_size +
           token->raw_size + (token->raw_size ? BASE_BYTES : 0) + token->extension_size;
}

void token_write(const struct token *token, uint8_t *out)
{
    size_t segment_bytes = (size_t)token->segments * TOKEN_SEGMENT_BYTES;
    uint8_t *at = out + HEADER_BYTES;

    put32(out, MAGIC);
    put16(out + 4, FORMAT);
    put16(out + 6, token->segments);
    put32(out + 8, token->iface);
    put16(out + 12, token->address_size);
    put16(out + 14, token->raw_size);
    put32(out + 16, 0);
    put32(out + 20, token->extension_size);
    put64(out + 24, token->access);
    memcpy(out + 32, token->provider, 8);
    memcpy(at, token->segment, segment_bytes);
    at += segment_bytes;
    memcpy(at, token->address, token->address_size);
    at += token->address_size;
    memcpy(at, token->raw, token->raw_size);
    at += token->raw_size;
    if (token->raw_size) {
        put64(at, token->raw_base);
        at += BASE_BYTES;
    }
    memset(at, 0, token->extension_size);
    if (token->extension_size >= TOKEN_LIFE_BYTES) {
        put64(at, token->instance);
        put64(at + 8, token->generation);
    }
}

static int bad(const char *what)
{
    return hmreg_fail(-EBADMSG, "token: %s", what);
}

static int check_format(const uint8_t *bytes)
{
    unsigned format = take16(bytes + 4);
    uint32_t flags = take32(bytes + 16);

    if (format != FORMAT)
        return hmreg_fail(-EPROTONOSUPPORT, "token: format %u, this hmreg reads format %d", format,
                          FORMAT);
    if (flags)
        return hmreg_fail(
            -EPROTONOSUPPORT,
            "token: flags %#x, of which this hmreg knows none: a later version made it", flags);
    return 0;
}

/* All but the length and the pointers. */
static struct token take_header(const uint8_t *bytes)
{
    struct token token = {
        .segments = take16(bytes + 6),
        .iface = take32(bytes + 8),
        .address_size = take16(bytes + 12),
        .raw_size = take16(bytes + 14),
        .extension_size = take32(bytes + 20),
        .access = take64(bytes + 24),
    };

    memcpy(token.provider, bytes + 32, 8);
    return token;
}

static void locate(struct token *token, const uint8_t *bytes)
{
    const uint8_t *extension;

    token->segment = bytes + HEADER_BYTES;
    token->address = token->segment + (size_t)token->segments * TOKEN_SEGMENT_BYTES;
    token->raw = token->address + token->address_size;
    if (token->raw_size)
        token->raw_base = take64(token->raw + token->raw_size);
    extension = token->raw + token->raw_size + (token->raw_size ? BASE_BYTES : 0);
    if (token->extension_size >= TOKEN_LIFE_BYTES) {
        token->instance = take64(extension);
        token->generation = take64(extension + 8);
    }
}

static int check_counts(const struct token *token)
{
    if (!token->segments || token->segments > TOKEN_MAX_SEGMENTS)
        return bad("its number of segments is out of range");
    if (token->address_size > TOKEN_MAX_BLOB || token->extension_size > TOKEN_MAX_EXTENSION)
        return bad("its address or extension is too long");
    return 0;
}

/* It is a part of errors' texts, which are one line. */
static bool is_name(const char *provider)
{
    while (*provider > ' ' && *provider < 0x7f)
        provider++;
    return !*provider;
}

static int check_header(const struct token *token, size_t size)
{
    int rc = check_counts(token);

    if (rc)
        return rc;
    if (token_size(token) != size)
        return bad("its length differs from its header's");
    if ((unsigned)token->iface > HMREG_IFACE_MAX)
        return bad("its iface is unknown");
    if (!token->access || (token->access & ~HMREG_ACCESS_REMOTE))
        return bad("its access rights are not remote ones");
    if (!is_name(token->provider))
        return bad("its provider's name has unprintable bytes");
    return 0;
}

/* Adds up the length. */
static int take_length(struct token *token)
{
    for (unsigned i = 0; i < token->segments; i++) {
        struct token_segment segment = token_segment(token, i);

        if (!segment.len || segment.base + segment.len - 1 < segment.base ||
            __builtin_add_overflow(token->len, segment.len, &token->len))
            return bad("a segment is empty or wraps");
    }
    return 0;
}

int token_length(const uint8_t *bytes, size_t size, size_t *out)
{
    struct token token;
    int rc;

    if (size < LEAST_BYTES || take32(bytes) != MAGIC)
        return bad("these bytes are not a token, or are cut short");
    token = take_header(bytes);
    rc = check_format(bytes);
    rc = rc ? rc : check_counts(&token);
    if (rc)
        return rc;
    if (token_size(&token) > size)
        return bad("it is longer than the bytes that are left");
    *out = token_size(&token);
    return 0;
}

int token_read(const uint8_t *bytes, size_t size, struct token *out)
{
    struct token token;
    int rc;

    /* Reject a size that no token has before reading: it may exceed the buffer. */
    if (size < LEAST_BYTES || size > MOST_BYTES || take32(bytes) != MAGIC)
        return bad("these bytes are not a token, or are cut short");
    rc = check_format(bytes);
    if (rc)
        return rc;
    token = take_header(bytes);
    rc = check_header(&token, size);
    if (rc)
        return rc;
    token.size = size;
    locate(&token, bytes);
    rc = take_length(&token);
    if (!rc)
        *out = token;
    return rc;
}
