/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The token of a group's region: the tokens of its rails, each complete by itself. All numbers are
 * little-endian:
 *
 *     0  u32 magic "HMRR"     4  u16 format (3)        6  u16 rails
 *     8  u32 flags (0)        12 u32 extension bytes
 *     16 for each rail u32 bytes of its token; 0: the region has no such rail
 *        the tokens, one after the other
 *        extension bytes
 *
 * Flags and extension are as in a token of one domain (core/remote/token.h).
 */
#ifndef HMREG_CORE_REMOTE_RAILS_TOKEN_H
#define HMREG_CORE_REMOTE_RAILS_TOKEN_H

#include <endian.h>
#include <hmreg/group.h>
#include <stdbool.h>
#include <string.h>

#define RAILS_TOKEN_MAGIC 0x52524d48u /* "HMRR" */

struct rails_token {
    size_t count;
    const uint8_t *tokens[HMREG_GROUP_MAX]; /* in the bytes that were read; NULL: no such rail */
    size_t sizes[HMREG_GROUP_MAX];          /* 0: no such rail */
};

/* The size of the token, with tokens of these sizes. */
size_t rails_token_size(const size_t *sizes, size_t count);
/* Writes the header before the tokens. Returns the place of the first token. */
uint8_t *rails_token_begin(uint8_t *out, const size_t *sizes, size_t count);

/* Are these the first bytes of a group's token? */
static inline bool rails_token_is(const uint8_t *bytes, size_t size)
{
    uint32_t magic = 0;

    if (size >= sizeof(magic))
        memcpy(&magic, bytes, sizeof(magic));
    return le32toh(magic) == RAILS_TOKEN_MAGIC;
}
/* Reads and checks a group's token of exactly size bytes, except for the tokens in it; writes only
 * as many elements as there are rails. -EBADMSG, -EPROTONOSUPPORT: *out is undefined. */
int rails_token_read(const uint8_t *bytes, size_t size, struct rails_token *out);
/* Likewise for the token that begins at bytes, of which `size` can be read; also returns its
 * length. */
int rails_token_read_next(const uint8_t *bytes, size_t size, struct rails_token *out,
                          size_t *length);

#endif
