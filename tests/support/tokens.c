/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See tokens.h.
 */
#include "tests/support/tokens.h"

#include "core/remote/rails_token.h"
#include "core/remote/token.h"
#include "tests/support/test.h"

size_t token_make(uint8_t *out, const struct made_token *made)
{
    uint8_t bytes[4 * TOKEN_SEGMENT_BYTES];
    struct token token = {.provider = "script",
                          .segments = made->count,
                          .address_size = 0,
                          .raw_size = made->raw_size,
                          .raw_base = made->raw_base,
                          .extension_size = made->instance ? TOKEN_LIFE_BYTES : 0,
                          .instance = made->instance,
                          .generation = made->generation,
                          .access = HMREG_REMOTE_WRITE,
                          .segment = bytes,
                          .address = made->raw,
                          .raw = made->raw};

    assert_in_range(made->count, 1, 4);
    for (unsigned i = 0; i < made->count; i++)
        token_put_segment(bytes + i * TOKEN_SEGMENT_BYTES,
                          &(struct token_segment){made->segments[i].base, made->segments[i].len,
                                                  made->segments[i].key});
    token_write(&token, out);
    return token_size(&token);
}

size_t token_rails_size(const size_t *sizes, size_t count)
{
    return rails_token_size(sizes, count);
}

uint8_t *token_rails_begin(uint8_t *out, const size_t *sizes, size_t count)
{
    return rails_token_begin(out, sizes, count);
}

const uint8_t *token_raw(const uint8_t *bytes, size_t size, size_t *raw_size)
{
    struct token token;

    assert_ok(token_read(bytes, size, &token));
    *raw_size = token.raw_size;
    return token.raw;
}
