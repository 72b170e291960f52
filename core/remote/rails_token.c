/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rails_token.h. A token comes from a network, so rails_token_read() checks each field before
 * its use.
 */
#include "core/remote/rails_token.h"

#include "core/base/error.h"
#include "core/base/validate.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define FORMAT       3
#define HEADER_BYTES 16
#define SIZE_BYTES   4

static void put(uint8_t **at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*at)++ = (uint8_t)(value >> (8 * i));
}

static uint32_t take(const uint8_t **at, size_t bytes)
{
    uint32_t value = 0;

    memcpy(&value, *at, bytes);
    *at += bytes;
    return le32toh(value);
}

/* ---- writing ---------------------------------------------------------------------------- */

size_t rails_token_size(const size_t *sizes, size_t count)
{
    size_t size = HEADER_BYTES + count * SIZE_BYTES;

    for (size_t i = 0; i < count; i++)
        size += sizes[i];
    return size;
}

uint8_t *rails_token_begin(uint8_t *out, const size_t *sizes, size_t count)
{
    put(&out, RAILS_TOKEN_MAGIC, 4);
    put(&out, FORMAT, 2);
    put(&out, count, 2);
    put(&out, 0, 8); /* no flags, no extension */
    for (size_t i = 0; i < count; i++)
        put(&out, sizes[i], SIZE_BYTES);
    return out;
}

/* ---- reading ---------------------------------------------------------------------------- */

static int bad(const char *what)
{
    return hmreg_fail(-EBADMSG, "token: %s", what);
}

/* Reads the fields before the sizes of the rails' tokens. All of them can be read. */
static int read_header(const uint8_t *bytes, size_t size, size_t *count, uint32_t *extension)
{
    const uint8_t *at = bytes + 4;
    uint32_t format, flags;

    if (size < HEADER_BYTES + SIZE_BYTES || !rails_token_is(bytes, size))
        return bad("these bytes are not a group's token, or are truncated");
    format = take(&at, 2);
    *count = take(&at, 2);
    flags = take(&at, 4);
    *extension = take(&at, 4);
    if (format != FORMAT || flags)
        return hmreg_fail(-EPROTONOSUPPORT,
                          "token: it is of a group, in format %u with flags %#x; this hmreg reads "
                          "format %d without flags",
                          format, flags, FORMAT);
    if (!*count || *count > HMREG_GROUP_MAX)
        return bad("its number of rails is out of range");
    if (HEADER_BYTES + *count * SIZE_BYTES > size)
        return bad("its number of rails exceeds its length");
    return 0;
}

int rails_token_read_next(const uint8_t *bytes, size_t size, struct rails_token *out,
                          size_t *length)
{
    const uint8_t *at = bytes + HEADER_BYTES;
    uint32_t extension = 0;
    size_t offset, none;
    int rc = read_header(bytes, size, &out->count, &extension);

    if (rc)
        return rc;
    none = offset = HEADER_BYTES + out->count * SIZE_BYTES;
    for (size_t i = 0; i < out->count; i++) {
        out->sizes[i] = take(&at, SIZE_BYTES);
        if (out->sizes[i] > size - offset)
            return bad("a rail's token is longer than the whole token");
        out->tokens[i] = out->sizes[i] ? bytes + offset : NULL;
        offset += out->sizes[i];
    }
    if (offset == none)
        return bad("it is the token of a group's region but has no rail");
    if (extension > size - offset)
        return bad("its length differs from its rails' lengths");
    *length = offset + extension;
    return 0;
}

int rails_token_read(const uint8_t *bytes, size_t size, struct rails_token *out)
{
    size_t length = size;
    int rc = rails_token_read_next(bytes, size, out, &length);

    if (!rc && length != size)
        rc = bad("its length differs from its rails' lengths");
    return rc;
}

int hmreg_token_rail(const void *token, size_t size, size_t rail, const void **rail_token,
                     size_t *rail_size)
{
    struct rails_token all = {.count = 1, .tokens = {token}, .sizes = {size}};
    int rc = validate_pointer(token, "token");

    rc = rc ? rc : validate_pointer(rail_token, "rail_token");
    rc = rc ? rc : validate_pointer(rail_size, "rail_size");
    if (!rc && rails_token_is(token, size))
        rc = rails_token_read(token, size, &all);
    if (rc)
        return rc;
    if (rail >= all.count)
        return hmreg_fail(-ENOENT, "rail is %zu; the token has %zu rails", rail, all.count);
    if (!all.tokens[rail])
        return hmreg_fail(-ENOENT, "the peer's region has no rail %zu", rail);
    *rail_token = all.tokens[rail];
    *rail_size = all.sizes[rail];
    return 0;
}
