/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The token of a group's region: as bytes, of which nothing is believed that does not fit; and
 * opened rail by rail on loopback domains.
 */
#include "core/remote/rails_token.h"

#define FAILING_MALLOC
#include "tests/support/failing_allocation.h"
#include "tests/support/test.h"

#include <hmreg/loopback.h>

#define RAILS 3
#define BYTES 64

static struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *members[RAILS], *group;
    char memory[BYTES];
    struct hmreg_mr *mr;
    uint8_t token[4096];
    size_t size;
} fixture;

static void close_fixture(void)
{
    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_domain_close(fixture.group));
    for (int i = 0; i < RAILS; i++)
        assert_ok(hmreg_domain_close(fixture.members[i]));
    assert_ok(hmreg_close(fixture.lib));
}

static void open_fixture(uint32_t flags)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags};

    test_after(close_fixture);
    fixture = (struct fixture){.size = sizeof(fixture.token)};
    assert_ok(hmreg_open(NULL, &fixture.lib));
    for (int i = 0; i < RAILS; i++)
        assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &fixture.members[i]));
    assert_ok(hmreg_group_open(fixture.lib, fixture.members, RAILS, &config, &fixture.group));
    assert_ok(hmreg_mr_reg(fixture.group, fixture.memory, BYTES, HMREG_ACCESS_REMOTE, 0, 7, 0,
                           &fixture.mr, NULL));
    assert_ok(hmreg_mr_pack(fixture.mr, fixture.token, &fixture.size));
}

/* Registers the region anew on these rails. */
static void register_on(uint64_t rails)
{
    struct iovec iov = {fixture.memory, BYTES};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .requested_key = 7,
                                 .rails = rails};

    assert_ok(hmreg_mr_close(fixture.mr));
    assert_ok(hmreg_mr_regattr(fixture.group, &attr, 0, &fixture.mr));
    fixture.size = sizeof(fixture.token);
    assert_ok(hmreg_mr_pack(fixture.mr, fixture.token, &fixture.size));
}

static int find(const uint8_t *token, size_t size, size_t rail)
{
    const void *found = NULL;
    size_t bytes = 0;

    return hmreg_token_rail(token, size, rail, &found, &bytes);
}

/* ---- bytes ------------------------------------------------------------------------------ */

TEST(pack__room_for_the_token__as_of_any_region)
{
    struct hmreg_mr *local = NULL;
    uint8_t token[4096];
    size_t size = 0;

    open_fixture(0);
    assert_fails(hmreg_domain_flush(NULL), -EINVAL, "domain is NULL");
    assert_fails(hmreg_mr_pack(fixture.mr, NULL, &size), -HMREG_ETOOSMALL, "the token takes");
    assert_int_equal(size, fixture.size);
    size--;
    assert_fails(hmreg_mr_pack(fixture.mr, token, &size), -HMREG_ETOOSMALL, "the token takes");
    assert_fails(hmreg_domain_flush(NULL), -EINVAL, "domain is NULL");
    assert_ok(hmreg_mr_pack(fixture.mr, token, &size));
    assert_int_equal(hmreg_last_error()->code, -EINVAL); /* a success changes no error */
    assert_memory_equal(token, fixture.token, size);
    assert_ok(
        hmreg_mr_reg(fixture.group, fixture.memory, BYTES, HMREG_SEND, 0, 0, 0, &local, NULL));
    assert_fails(hmreg_mr_pack(local, token, &size), -EACCES, "no remote access");
    assert_ok(hmreg_mr_close(local));
}

/* Of one of several tokens the length is known only from itself. */
TEST(token__says_a_longer_extension__badmsg)
{
    struct rails_token token;
    size_t length;

    open_fixture(0);
    for (size_t byte = 12; byte < 16; byte++) {
        fixture.token[byte]++;
        assert_fails(rails_token_read_next(fixture.token, fixture.size, &token, &length), -EBADMSG,
                     "differs from its rails' lengths");
        fixture.token[byte]--;
    }
}

TEST(token__of_some_rails__the_others_are_none)
{
    struct hmreg_remote *remotes[RAILS] = {NULL};

    open_fixture(0);
    register_on(1u << 1);
    assert_fails(find(fixture.token, fixture.size, 0), -ENOENT, "no rail 0");
    assert_ok(find(fixture.token, fixture.size, 1));
    assert_fails(find(fixture.token, fixture.size, 3), -ENOENT, "the token has 3");
    assert_ok(hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS));
    assert_null(remotes[0]);
    assert_non_null(remotes[1]);
    assert_null(remotes[2]);
    hmreg_remote_close(remotes[1]);
    assert_fails(
        hmreg_remote_open_rails(fixture.members[0], fixture.token, fixture.size, remotes, 1),
        -ENOENT, "none of the 1 rails");
}

/* ---- remotes ---------------------------------------------------------------------------- */

static void write_on(struct hmreg_remote *remote, uint64_t offset, const char *byte)
{
    uint64_t addr, key;

    assert_ok(hmreg_remote_addr(remote, offset, 1, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, byte, 1, NULL, addr, key));
}

TEST(open_rails__on_a_group__each_moves_bytes)
{
    struct hmreg_remote *remotes[RAILS];

    open_fixture(0);
    assert_ok(hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS));
    for (unsigned i = 0; i < RAILS; i++) {
        write_on(remotes[i], i, &"abc"[i]);
        hmreg_remote_close(remotes[i]);
    }
    assert_string_equal(fixture.memory, "abc");
}

TEST(open_many__of_a_groups_token__exdev_and_what_to_do)
{
    struct hmreg_remote *remote = (void *)1;
    uint8_t both[sizeof(((struct fixture *)NULL)->token) + 1024];
    const void *found;
    size_t bytes, count = 1;

    open_fixture(0);
    assert_fails(
        hmreg_remote_open_many(fixture.members[0], fixture.token, fixture.size, &remote, &count),
        -EXDEV, "tokens[0], at byte 0: token: it is of a group's region");
    assert_ok(hmreg_token_rail(fixture.token, fixture.size, 0, &found, &bytes));
    assert_true(bytes <= 1024);
    memcpy(both, found, bytes);
    memcpy(both + bytes, fixture.token, fixture.size);
    assert_fails(
        hmreg_remote_open_many(fixture.members[0], both, bytes + fixture.size, &remote, &count),
        -EXDEV, "tokens[1], at byte ");
    assert_fails(hmreg_remote_open_many(fixture.group, found, bytes, &remote, &count), -EINVAL,
                 "hmreg_remote_open_rails()");
    assert_ptr_equal(remote, (void *)1);
    assert_int_equal(count, 1);
}

TEST(open_rails__wrong_arguments__refused)
{
    struct hmreg_remote *remotes[RAILS] = {(void *)1};
    const uint8_t *token = fixture.token;

    open_fixture(0);
    assert_fails(hmreg_remote_open_rails(NULL, token, fixture.size, remotes, RAILS), -EINVAL,
                 "domain is NULL");
    assert_fails(hmreg_remote_open_rails(fixture.group, NULL, 1, remotes, RAILS), -EINVAL,
                 "token is NULL");
    assert_fails(hmreg_remote_open_rails(fixture.group, token, fixture.size, NULL, RAILS), -EINVAL,
                 "remotes is NULL");
    assert_fails(hmreg_remote_open_rails(fixture.group, token, fixture.size, remotes, 2), -EINVAL,
                 "the domain has 3 rails");
    assert_fails(hmreg_remote_open_rails(fixture.group, "no token at all", 15, remotes, RAILS),
                 -EBADMSG, "rail 0: token");
    assert_fails(hmreg_remote_open_rails(fixture.group, token, 16 + 4 - 1, remotes, RAILS),
                 -EBADMSG, "cut short"); /* a header and one rail's size */
    fixture.token[4] = 9;
    assert_fails(hmreg_remote_open_rails(fixture.group, token, fixture.size, remotes, RAILS),
                 -EPROTONOSUPPORT, "format 9");
    assert_ptr_equal(remotes[0], (void *)1);
}

/* Makes the last rail's token one of another provider. */
static void spoil_last_rail(void)
{
    const void *found;
    size_t bytes;
    uint8_t *last;

    assert_ok(hmreg_token_rail(fixture.token, fixture.size, RAILS - 1, &found, &bytes));
    last = fixture.token + ((const uint8_t *)found - fixture.token);
    last[32] ^= 1;
}

TEST(open_rails__allocation_fails__enomem_and_none_is_open)
{
    struct hmreg_remote *remotes[RAILS];
    int rc = -ENOMEM;

    open_fixture(0);
    for (unsigned n = 1; rc; n++) {
        failing = n;
        allocations = 0;
        rc = hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS);
        failing = 0;
        assert_true(n >= RAILS || rc == -ENOMEM);
        if (rc)
            assert_fails(rc, -ENOMEM, "no memory");
    }
    for (int i = 0; i < RAILS; i++)
        hmreg_remote_close(remotes[i]);
}

TEST(open_rails__one_fails_on_a_partial_group__the_others)
{
    struct hmreg_remote *remotes[RAILS];

    open_fixture(HMREG_GROUP_PARTIAL);
    spoil_last_rail();
    assert_ok(hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS));
    assert_non_null(remotes[0]);
    assert_null(remotes[2]);
    hmreg_remote_close(remotes[0]);
    hmreg_remote_close(remotes[1]);
    register_on(1u << 2);
    spoil_last_rail();
    assert_fails(
        hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS), -EXDEV,
        "rail 2: ");
}

TEST_MAIN()
