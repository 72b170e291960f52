/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A provider whose keys are raw, a group of its domains, and tokens of them and of the scripted
 * provider's, for table.c and renewal.c.
 */
#ifndef HMREG_TESTS_UNIT_PEER_PROVIDER_H
#define HMREG_TESTS_UNIT_PEER_PROVIDER_H

#include "tests/support/tokens.h"
#include "tests/unit/group_fixture.h"

#include <endian.h>

/* ---- a provider with raw keys ----------------------------------------------------------- */

static const struct script_caps raw_caps = {.fabric = "script",
                                            .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_RAW,
                                            .key_size = 8,
                                            .iov_limit = 8,
                                            .max_len = 1u << 30};

static inline void close_raw(void)
{
    assert_ok(hmreg_domain_close(fixture.group));
    for (size_t i = 0; i < fixture.count; i++)
        assert_ok(hmreg_domain_close(fixture.members[i]));
    script.destroys = 0;
    script_close(&fixture.script);
    assert_int_equal(script.keys, 0);
}

/* Keys are raw from this member on. */
static inline void open_raw_of(size_t count, size_t first, uint32_t flags)
{
    fixture = (struct fixture){.count = 0};
    script_open(&fixture.script, NULL, NULL);
    test_after(close_raw);
    while (fixture.count < count)
        add_member(fixture.count < first ? NULL : &raw_caps, NULL);
    open_group(flags);
}

static inline void open_raw(size_t count, uint32_t flags)
{
    open_raw_of(count, 0, flags);
}

/* ---- tokens ----------------------------------------------------------------------------- */

static inline size_t make_token(uint8_t *out, uint64_t base, uint64_t key, uint16_t segments,
                                bool raw)
{
    const struct made_segment segment = {base, 4096, raw ? 0 : key}, both[2] = {segment, segment};
    uint8_t raw_key[8];

    memcpy(raw_key, &key, 8);
    return token_make(out, &(struct made_token){.segments = both,
                                                .count = segments,
                                                .raw = raw_key,
                                                .raw_size = raw ? 8 : 0,
                                                .raw_base = base});
}

/* Changes a token's 64-bit field. */
static inline void change_token(uint8_t *token, size_t at, uint64_t value)
{
    value = htole64(value);
    memcpy(token + at, &value, 8);
}

#endif
