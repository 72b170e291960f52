/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A provider whose keys are raw, a group of its domains, and tokens of them and of the scripted
 * provider's, for table.c and renewal.c.
 */
#ifndef HMREG_TESTS_UNIT_PEER_PROVIDER_H
#define HMREG_TESTS_UNIT_PEER_PROVIDER_H

#include "tests/unit/group_fixture.h"

#include "core/base/error.h"
#include "core/remote/token.h"

#include <endian.h>

/* ---- a provider with raw keys ----------------------------------------------------------- */

static struct provider_ops raw_ops;
static struct provider_caps raw_caps;
static int live_keys, map_code, unmap_code;

/* A mapped key is the raw one's bytes plus the base. self: NULL, or its own number of them. */
static inline int map_raw(void *self, uint64_t base, const uint8_t *raw, size_t size, uint64_t *key)
{
    if (map_code)
        return hmreg_fail(map_code, "no key is mapped");
    live_keys++;
    if (self)
        ++*(int *)self;
    *key = base;
    memcpy(key, raw, size < 8 ? size : 8);
    *key += base;
    return 0;
}

static inline int unmap_raw(void *self, uint64_t key)
{
    live_keys--;
    if (self)
        --*(int *)self;
    return unmap_code ? hmreg_fail(unmap_code, "no key is unmapped") : 0;
}

static inline void close_raw(void)
{
    assert_ok(hmreg_domain_close(fixture.group));
    for (size_t i = 0; i < fixture.count; i++)
        assert_ok(hmreg_domain_close(fixture.members[i]));
    script.destroys = 0;
    script_close(&fixture.script);
    assert_int_equal(live_keys, 0);
}

static inline void open_raw(size_t count, uint32_t flags)
{
    raw_ops = script_ops;
    raw_ops.map_raw = map_raw;
    raw_ops.unmap_raw = unmap_raw;
    raw_caps = script_caps;
    raw_caps.mr_mode |= HMREG_MR_RAW;
    live_keys = map_code = unmap_code = 0;
    fixture = (struct fixture){.count = 0};
    script_open(&fixture.script, NULL, NULL);
    test_after(close_raw);
    while (fixture.count < count)
        assert_ok(hmreg_domain_create(fixture.script.lib, &raw_ops, &raw_caps, NULL, NULL,
                                      &fixture.members[fixture.count++]));
    open_group(flags);
}

/* ---- tokens ----------------------------------------------------------------------------- */

static inline size_t make_token(uint8_t *out, uint64_t base, uint64_t key, uint16_t segments,
                                bool raw)
{
    uint8_t bytes[2 * TOKEN_SEGMENT_BYTES], raw_key[8];
    struct token_segment segment = {base, 4096, raw ? 0 : key};
    struct token token = {.provider = "script",
                          .segments = segments,
                          .raw_size = raw ? 8 : 0,
                          .raw_base = base,
                          .access = HMREG_REMOTE_WRITE,
                          .segment = bytes,
                          .address = raw_key,
                          .raw = raw_key};

    for (uint16_t i = 0; i < segments; i++)
        token_put_segment(bytes + i * TOKEN_SEGMENT_BYTES, &segment);
    memcpy(raw_key, &key, 8);
    token_write(&token, out);
    return token_size(&token);
}

/* Changes a token's 64-bit field. */
static inline void change_token(uint8_t *token, size_t at, uint64_t value)
{
    value = htole64(value);
    memcpy(token + at, &value, 8);
}

#endif
