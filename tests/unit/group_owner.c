/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Groups that own their members: one close ends all of them, or none.
 */
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <errno.h>
#include <hmreg/group.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 3

struct fixture {
    struct script_fixture script; /* its domain is member 0 */
    struct hmreg_domain *members[MOST], *group;
    char *host;
};

static struct hmreg_group_config owner = {.size = sizeof(owner), .flags = HMREG_GROUP_OWNS_MEMBERS};

static void open_members(struct fixture *fixture)
{
    *fixture = (struct fixture){.host = malloc(FIXTURE_BYTES)};
    script_open(&fixture->script, NULL, NULL);
    fixture->members[0] = fixture->script.domain;
    for (int i = 1; i < MOST; i++)
        assert_ok(hmreg_domain_create(fixture->script.lib, &script_ops, &script_caps, NULL, NULL,
                                      &fixture->members[i]));
    memset(fixture->host, 'h', FIXTURE_BYTES);
}

static void open_owner(struct fixture *fixture, size_t count)
{
    open_members(fixture);
    assert_ok(
        hmreg_group_open(fixture->script.lib, fixture->members, count, &owner, &fixture->group));
}

static int get_on(struct hmreg_domain *domain, struct fixture *fixture, struct hmreg_mr **mr)
{
    return hmreg_mr_get(domain, fixture->host, 4096, HMREG_SEND, mr);
}

/* After a group has closed all domains. */
static void close_rest(struct fixture *fixture)
{
    assert_int_equal(script.live, 0);
    for (int i = 0; i < 2; i++)
        vendor_memory_free(fixture->script.memory[i]);
    free(fixture->host);
    assert_ok(hmreg_close(fixture->script.lib));
}

TEST(close__group_that_owns_its_members__all_or_none)
{
    struct hmreg_mr *on_member = NULL, *on_group = NULL;
    struct hmreg_domain *other = NULL;
    char held[64];
    struct fixture fixture;

    open_owner(&fixture, MOST);
    assert_ok(get_on(fixture.group, &fixture, &on_group));
    hmreg_mr_put(on_group);
    assert_ok(get_on(fixture.members[0], &fixture, &on_member));
    hmreg_mr_put(on_member);
    assert_ok(get_on(fixture.members[1], &fixture, &on_member));
    snprintf(held, sizeof(held), "member[1]: 1 cached regions of this domain are held");
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, held);
    snprintf(held, sizeof(held), "4096 bytes at %p (1 gets", fixture.host);
    assert_non_null(strstr(hmreg_last_error()->text, held));
    hmreg_mr_put(on_member);
    assert_ok(get_on(fixture.group, &fixture, &on_group)); /* all of them serve as before */
    assert_ok(get_on(fixture.members[0], &fixture, &on_member));
    hmreg_mr_put(on_member);
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "1 cached regions");
    hmreg_mr_put(on_group);
    assert_ok(hmreg_group_open(fixture.script.lib, fixture.members + 2, 1, NULL, &other));
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "member[2]: 1 groups");
    assert_ok(hmreg_domain_close(other));
    assert_int_equal(script.destroys, 0);
    assert_ok(hmreg_domain_close(fixture.group));
    assert_int_equal(script.destroys, 3);
    close_rest(&fixture);
}

TEST(close__owned_member_is_busy_with_a_region__group_stays)
{
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    open_owner(&fixture, MOST);
    assert_ok(get_on(fixture.members[1], &fixture, &mr));
    hmreg_mr_put(mr);
    script.dereg = -EBUSY;
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "member[1]: the fabric is busy");
    assert_int_equal(script.destroys, 0);
    script.dereg = 0;
    assert_ok(hmreg_domain_close(fixture.group));
    assert_int_equal(script.destroys, MOST);
    close_rest(&fixture);
}

TEST(group_open__member_that_has_an_owner__inval_and_the_others_are_free)
{
    struct hmreg_domain *other = NULL;
    struct fixture fixture;

    open_members(&fixture);
    assert_ok(hmreg_group_open(fixture.script.lib, fixture.members + 2, 1, &owner, &fixture.group));
    assert_fails(hmreg_group_open(fixture.script.lib, fixture.members, 3, &owner, &other), -EINVAL,
                 "members[2] belongs to another group");
    assert_ok(hmreg_group_open(fixture.script.lib, fixture.members, 2, &owner, &other));
    assert_ok(hmreg_domain_close(other));
    assert_ok(hmreg_domain_close(fixture.group));
    assert_int_equal(script.destroys, MOST);
    close_rest(&fixture);
}

TEST_MAIN()
