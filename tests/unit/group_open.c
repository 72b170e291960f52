/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Groups are opened and closed: arguments, what the members' demands become, who may close what.
 */
#include "tests/unit/group_fixture.h"

/* ---- opening ---------------------------------------------------------------------------- */

TEST(group_open__wrong_arguments__refused)
{
    struct hmreg_group_config config = {.size = sizeof(config)};
    struct hmreg_domain_config domain = {.size = sizeof(domain), .order = {HMREG_PATH_DMABUF}};
    struct hmreg_domain *members[HMREG_GROUP_MAX + 1], *out = (void *)1;
    struct hmreg *lib;

    open_fixture(2, 0);
    lib = fixture.script.lib;
    for (size_t i = 0; i <= HMREG_GROUP_MAX; i++)
        members[i] = fixture.members[0];
    assert_fails(hmreg_group_open(NULL, members, 1, NULL, &out), -EINVAL, "lib is NULL");
    assert_fails(hmreg_group_open(lib, NULL, 1, NULL, &out), -EINVAL, "members is NULL");
    assert_fails(hmreg_group_open(lib, members, 1, NULL, NULL), -EINVAL, "out is NULL");
    assert_fails(hmreg_group_open(lib, members, 0, NULL, &out), -EINVAL, "count is 0");
    assert_fails(hmreg_group_open(lib, members, HMREG_GROUP_MAX + 1, NULL, &out), -EINVAL,
                 "1 to 64 members");
    assert_fails(hmreg_group_open(lib, members, 2, NULL, &out), -EINVAL,
                 "members[1] and members[0] are one domain");
    members[1] = NULL;
    assert_fails(hmreg_group_open(lib, members, 2, NULL, &out), -EINVAL, "members[1] is NULL");
    members[1] = fixture.group;
    assert_fails(hmreg_group_open(lib, members, 2, NULL, &out), -EINVAL, "members[1] is a group");
    config.flags = HMREG_GROUP_OWNS_MEMBERS << 1;
    assert_fails(hmreg_group_open(lib, members, 1, &config, &out), -HMREG_EBADFLAGS, "config");
    config = (struct hmreg_group_config){.size = 4};
    assert_fails(hmreg_group_open(lib, members, 1, &config, &out), -EINVAL, "hmreg_group_config");
    config = (struct hmreg_group_config){.size = sizeof(config), .domain = &domain};
    assert_fails(hmreg_group_open(lib, members, 1, &config, &out), -EINVAL, "order");
    domain = (struct hmreg_domain_config){.size = sizeof(domain), .flags = 1u << 31};
    assert_fails(hmreg_group_open(lib, members, 1, &config, &out), -HMREG_EBADFLAGS, "flags");
    assert_ptr_equal(out, (void *)1);
}

TEST(group_open__member_completes_in_a_queue__opnotsupp)
{
    struct script_caps caps = script_caps;
    struct hmreg_domain *out = NULL;

    caps.async = true;
    open_fixture(1, 0);
    add_member(&caps, NULL);
    assert_fails(hmreg_group_open(fixture.script.lib, fixture.members, 2, NULL, &out), -EOPNOTSUPP,
                 "members[1] complete in an event queue");
}

TEST(group_open__allocation_fails__enomem_and_nothing_stays)
{
    struct hmreg_domain *group = NULL;
    int rc = -ENOMEM;

    open_fixture(2, 0);
    for (unsigned n = 1; rc; n++) {
        allocations = 0;
        failing = n;
        rc = hmreg_group_open(fixture.script.lib, fixture.members, 2, NULL, &group);
        failing = 0;
        assert_true(rc == 0 || rc == -ENOMEM);
    }
    assert_ok(hmreg_domain_close(group));
    /* What a failed call had counted is not left: the members close after the case. */
    assert_fails(hmreg_domain_close(fixture.members[1]), -EBUSY, "group");
}

TEST(group__members_differ__the_sum_of_their_demands)
{
    struct script_caps caps = {.fabric = "a fabric whose name is longer than the others",
                               .mr_mode = HMREG_MR_PROV_KEY | HMREG_MR_ALLOCATED,
                               .key_size = 4,
                               .iov_limit = 2,
                               .max_len = 1u << 20,
                               .nic = "mlx5_1",
                               .pci = {.valid = 1}};
    struct hmreg_domain_info info = {.size = sizeof(info)};

    open_members(1, &caps);
    add_member(NULL, NULL);
    open_group(0);
    assert_ok(hmreg_domain_query(fixture.group, &info));
    assert_string_equal(info.nic, ""); /* it has several */
    assert_int_equal(info.pci.valid, 0);
    assert_string_equal(info.provider, "group");
    assert_string_equal(info.fabric,
                        "group of 2: a fabric whose name is longer than the others, ...");
    assert_int_equal(info.mr_mode, HMREG_MR_PROV_KEY | HMREG_MR_ALLOCATED | HMREG_MR_VIRT_ADDR);
    assert_int_equal(info.key_size, 4);
    assert_int_equal(info.iov_limit, 2);
    assert_int_equal(info.max_len, 1u << 20);
}

TEST(member__of_an_open_group__stays_open_and_usable)
{
    struct hmreg_mr *mr = NULL;
    int object;

    open_fixture(2, 0);
    assert_fails(hmreg_domain_close(fixture.members[1]), -EBUSY, "1 groups");
    assert_fails(hmreg_domain_bind(fixture.members[1], &object, HMREG_BIND_REG_MR), -EBUSY,
                 "member of a group");
    assert_ok(hmreg_mr_reg(fixture.members[1], fixture.host, 64, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_ptr_equal(hmreg_mr_rail(mr, 0), mr);
    assert_null(hmreg_mr_rail(mr, 1));
    assert_int_equal(hmreg_last_error()->code, -ENOENT);
    assert_ok(hmreg_mr_close(mr));
}

static int get_on(struct hmreg_domain *domain, struct hmreg_mr **mr)
{
    return hmreg_mr_get(domain, fixture.host, 4096, HMREG_SEND, mr);
}

/* After a group has closed all domains. */
static void close_rest(void)
{
    assert_int_equal(script.live, 0);
    for (int i = 0; i < 2; i++)
        vendor_memory_free(fixture.script.memory[i]);
    free(fixture.host);
    assert_ok(hmreg_close(fixture.script.lib));
    script_closed();
    fixture.count = 0;
}

TEST(close__group_that_owns_its_members__all_or_none)
{
    struct hmreg_mr *on_member = NULL, *on_group = NULL;
    struct hmreg_domain *other = NULL;
    char held[64];

    open_fixture(3, HMREG_GROUP_OWNS_MEMBERS);
    assert_ok(get_on(fixture.group, &on_group));
    hmreg_mr_put(on_group);
    assert_ok(get_on(fixture.members[0], &on_member));
    hmreg_mr_put(on_member);
    assert_ok(get_on(fixture.members[1], &on_member));
    snprintf(held, sizeof(held), "member[1]: 1 cached regions of this domain are held");
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, held);
    snprintf(held, sizeof(held), "4096 bytes at %p (1 gets", fixture.host);
    assert_non_null(strstr(hmreg_last_error()->text, held));
    hmreg_mr_put(on_member);
    assert_ok(get_on(fixture.group, &on_group)); /* all of them serve as before */
    assert_ok(get_on(fixture.members[0], &on_member));
    hmreg_mr_put(on_member);
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "1 cached regions");
    hmreg_mr_put(on_group);
    assert_ok(hmreg_group_open(fixture.script.lib, fixture.members + 2, 1, NULL, &other));
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "member[2]: 1 groups");
    assert_ok(hmreg_domain_close(other));
    assert_int_equal(script.destroys, 0);
    assert_ok(hmreg_domain_close(fixture.group));
    assert_int_equal(script.destroys, 3);
    close_rest();
}

TEST(close__owned_member_is_busy_with_a_region__group_stays)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(2, HMREG_GROUP_OWNS_MEMBERS);
    assert_ok(get_on(fixture.members[1], &mr));
    hmreg_mr_put(mr);
    script.dereg = -EBUSY;
    assert_fails(hmreg_domain_close(fixture.group), -EBUSY, "member[1]: the fabric is busy");
    assert_int_equal(script.destroys, 0);
    script.dereg = 0;
    assert_ok(hmreg_domain_close(fixture.group));
    assert_int_equal(script.destroys, 2);
    close_rest();
}

TEST(group_open__member_that_has_an_owner__inval_and_the_others_are_free)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = HMREG_GROUP_OWNS_MEMBERS};
    struct hmreg_domain *members[2], *other = NULL;

    open_members(2, NULL);
    members[0] = fixture.members[1];
    members[1] = fixture.members[0];
    fixture.count = 1;
    open_group(HMREG_GROUP_OWNS_MEMBERS);
    assert_fails(hmreg_group_open(fixture.script.lib, members, 2, &config, &other), -EINVAL,
                 "members[1] belongs to another group");
    assert_ok(hmreg_group_open(fixture.script.lib, members, 1, &config, &other));
    assert_ok(hmreg_domain_close(other));
    assert_ok(hmreg_domain_close(fixture.group));
    assert_int_equal(script.destroys, 2);
    close_rest();
}

TEST_MAIN()
