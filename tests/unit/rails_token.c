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

static void open_fixture(void)
{
    test_after(close_fixture);
    fixture = (struct fixture){.size = sizeof(fixture.token)};
    assert_ok(hmreg_open(NULL, &fixture.lib));
    for (int i = 0; i < RAILS; i++)
        assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &fixture.members[i]));
    assert_ok(hmreg_group_open(fixture.lib, fixture.members, RAILS, NULL, &fixture.group));
    assert_ok(hmreg_mr_reg(fixture.group, fixture.memory, BYTES, HMREG_ACCESS_REMOTE, 0, 7, 0,
                           &fixture.mr, NULL));
    assert_ok(hmreg_mr_pack(fixture.mr, fixture.token, &fixture.size));
}

/* ---- bytes ------------------------------------------------------------------------------ */

/* Of one of several tokens the length is known only from itself. */
TEST(token__says_a_longer_extension__badmsg)
{
    struct rails_token token;
    size_t length;

    open_fixture();
    for (size_t byte = 12; byte < 16; byte++) {
        fixture.token[byte]++;
        assert_fails(rails_token_read_next(fixture.token, fixture.size, &token, &length), -EBADMSG,
                     "differs from its rails' lengths");
        fixture.token[byte]--;
    }
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

    open_fixture();
    assert_ok(hmreg_remote_open_rails(fixture.group, fixture.token, fixture.size, remotes, RAILS));
    for (unsigned i = 0; i < RAILS; i++) {
        write_on(remotes[i], i, &"abc"[i]);
        hmreg_remote_close(remotes[i]);
    }
    assert_string_equal(fixture.memory, "abc");
}

TEST(open_rails__allocation_fails__enomem_and_none_is_open)
{
    struct hmreg_remote *remotes[RAILS];
    int rc = -ENOMEM;

    open_fixture();
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

TEST_MAIN()
