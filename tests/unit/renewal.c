/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Remotes that are compared with later tokens and take them, where keys are raw and the provider
 * keeps an object for each peer: what is mapped and open afterwards, and after a failure.
 */
#define FAILING_MALLOC
#include "tests/unit/peer_provider.h"

#include <hmreg/lost.h>

static struct scene {
    struct hmreg_remote *remote; /* of generation 5 of process 7, at 0x1000 */
    uint8_t token[256];          /* of the same at 0x2000 */
    size_t size;
} scene;

static void end(void)
{
    assert_int_equal(script.keys, 1);
    hmreg_remote_close(scene.remote);
}

/* Of one range at base, with an extension of 16 bytes or without. */
static size_t make(uint8_t *out, uint64_t base, uint64_t instance, uint64_t generation)
{
    const struct made_segment segment = {base, 4096, 0};
    const uint8_t raw_key[8] = {1};

    return token_make(out, &(struct made_token){.segments = &segment,
                                                .count = 1,
                                                .raw = raw_key,
                                                .raw_size = 8,
                                                .raw_base = base,
                                                .instance = instance,
                                                .generation = generation});
}

static void open_scene(void)
{
    open_raw(1, 0);
    scene.size = make(scene.token, 0x1000, 7, 5);
    assert_ok(hmreg_remote_open(fixture.members[0], scene.token, scene.size, &scene.remote));
    scene.size = make(scene.token, 0x2000, 7, 6);
}

static void begin(void)
{
    open_scene();
    test_after(end);
}

static uint64_t base_of(const struct hmreg_remote *remote)
{
    struct hmreg_remote_flat flat;

    assert_ok(hmreg_remote_flatten(remote, &flat));
    return flat.base;
}

TEST(renew__raw_keys__the_new_ones_are_mapped_and_the_old_unmapped)
{
    begin();
    assert_ok(hmreg_remote_renew(scene.remote, scene.token, scene.size));
    assert_int_equal(base_of(scene.remote), 0x2000);
}

static void assert_refused(int code, const char *words)
{
    enum hmreg_remote_state state = (enum hmreg_remote_state)9;

    assert_fails(hmreg_remote_check(scene.remote, scene.token, scene.size, &state), code, words);
    assert_fails(hmreg_remote_renew(scene.remote, scene.token, scene.size), code, words);
    assert_int_equal(state, 9);
    assert_int_equal(base_of(scene.remote), 0x1000);
}

TEST(check__tokens_of_other_kinds__refused)
{
    begin();
    scene.size = make(scene.token, 0x2000, 7, 4);
    assert_refused(-ESTALE, "registration 4");
    scene.size = make(scene.token, 0x2000, 0, 0);
    assert_refused(-EOPNOTSUPP, "the process that made it");
    scene.size = make_token(scene.token, 0x2000, 1, 1, false);
    assert_refused(-EXDEV, "raw keys");
    scene.size = make(scene.token, 0x2000, 7, 6);
    change_token(scene.token, 16, UINT64_C(16) << 32 | 1); /* a flag */
    assert_refused(-EPROTONOSUPPORT, "flags 0x1");
}

TEST(renew__each_step_fails__the_remote_is_as_it_was)
{
    begin();
    script.map_code = -ENOSPC;
    assert_fails(hmreg_remote_renew(scene.remote, scene.token, scene.size), -ENOSPC, "no key");
    script.map_code = 0;
    allocations = 0;
    failing = 1;
    assert_fails(hmreg_remote_renew(scene.remote, scene.token, scene.size), -ENOMEM, "no memory");
    failing = 0;
    assert_int_equal(base_of(scene.remote), 0x1000);
}

TEST(open_many__unmapping_fails_after_a_bad_token__the_token_is_the_reason)
{
    struct hmreg_remote *remotes[2] = {NULL};
    uint8_t tokens[2 * sizeof(scene.token)];
    size_t count = 2;

    begin();
    memcpy(tokens, scene.token, scene.size);
    memcpy(tokens + scene.size, scene.token, scene.size);
    tokens[scene.size + 11] ^= 1; /* its iface */
    script.unmap_code = -EIO;
    assert_fails(
        hmreg_remote_open_many(fixture.members[0], tokens, 2 * scene.size, remotes, &count),
        -EBADMSG, "tokens[1], at byte");
    script.unmap_code = 0;
    assert_null(remotes[0]);
}

/* Two segments that name keys by their number, of raw_size bytes together. */
static int open_two(uint64_t first, uint64_t second, uint16_t raw_size)
{
    const struct made_segment segments[2] = {{0x1000, 4096, first}, {0x3000, 4096, second}};
    const uint8_t raw_keys[16] = {1, [8] = 2};
    const struct made_token token = {.segments = segments,
                                     .count = 2,
                                     .raw = raw_keys,
                                     .raw_size = raw_size,
                                     .raw_base = 0x1000};
    struct hmreg_remote *remote = NULL;
    uint8_t out[256];
    size_t size = token_make(out, &token);
    int rc = hmreg_remote_open(fixture.members[0], out, size, &remote);

    hmreg_remote_close(remote);
    return rc;
}

/* Its fabric may not return. */
TEST(lost__raw_keys__are_neither_mapped_nor_unmapped)
{
    struct hmreg_remote *other = NULL;
    uint64_t addr, key;

    open_scene();
    assert_ok(hmreg_domain_lost(fixture.members[0], "unplugged"));
    assert_fails(hmreg_remote_renew(scene.remote, scene.token, scene.size), -ENODEV, "unplugged");
    assert_fails(hmreg_remote_open(fixture.members[0], scene.token, scene.size, &other), -ENODEV,
                 "unplugged");
    assert_ok(hmreg_remote_addr(scene.remote, 0, 1, &addr, &key));
    hmreg_remote_close(scene.remote);
    assert_int_equal(script.keys, 1);
    script.keys = 0;
}

TEST(open__raw_keys_that_segments_do_not_name__badmsg)
{
    open_raw(1, 0);
    assert_ok(open_two(0, 1, 16));
    assert_ok(open_two(0, 0, 8));
    assert_fails(open_two(0, 1, 15), -EBADMSG, "its raw keys");
    assert_fails(open_two(1, 0, 16), -EBADMSG, "its raw keys");
    assert_fails(open_two(0, 2, 16), -EBADMSG, "its raw keys");
    assert_int_equal(script.keys, 0);
}

TEST(check__each_pair_of_instance_and_generation__its_state)
{
    static const struct {
        uint64_t instance, generation;
        enum hmreg_remote_state state;
    } rows[] = {
        {7, 5, HMREG_REMOTE_CURRENT},
        {7, 6, HMREG_REMOTE_RENEWED},
        {7, UINT64_MAX, HMREG_REMOTE_RENEWED},
        {8, 5, HMREG_REMOTE_OTHER_LIFE},
        {8, 4, HMREG_REMOTE_OTHER_LIFE},
        {6, 9, HMREG_REMOTE_OTHER_LIFE},
        {(UINT64_C(1) << 40) + 7, 5, HMREG_REMOTE_DEAD},
        {(UINT64_C(1) << 40) + 7, 6, HMREG_REMOTE_DEAD},
        {UINT64_MAX, 4, HMREG_REMOTE_DEAD},
    };
    enum hmreg_remote_state state;

    begin();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        scene.size = make(scene.token, 0x2000, rows[i].instance, rows[i].generation);
        assert_ok(hmreg_remote_check(scene.remote, scene.token, scene.size, &state));
        assert_int_equal(state, rows[i].state);
    }
}

TEST_MAIN()
