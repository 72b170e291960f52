/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ordering, paging and iova of a group's regions: each member's fabric decides what it does. Which
 * member is explained.
 */
#include "tests/support/script.h"

#include <hmreg/group.h>

static struct script_fixture fixture;

/* What one member's fabric does not support is refused before any rail, never ignored on that rail.
 */
TEST(regattr__options__each_members_fabric_decides)
{
    struct provider_caps other = script_caps;
    struct hmreg_mr_info info = {.size = sizeof(info)};
    static char host[64];
    struct iovec iov = {host, sizeof(host)};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .ordering = HMREG_ORDERING_STRICT};
    struct hmreg_mr *mr = (void *)1;
    struct hmreg_domain *members[2] = {NULL}, *group;

    strcpy(other.fabric, "other");
    other.mr_mode = 0; /* offsets */
    other.orderings = PROVIDER_VALUE(HMREG_ORDERING_RELAXED);
    other.iova = other.local_iova = false;
    script_open(&fixture, NULL, NULL);
    members[0] = fixture.domain;
    assert_ok(hmreg_domain_create(fixture.lib, &script_ops, &other, NULL, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, NULL, &group));
    assert_fails(hmreg_mr_regattr(group, &attr, 0, &mr), -EOPNOTSUPP, "other does not support");
    attr.ordering = HMREG_ORDERING_DEFAULT;
    attr.set_iova = 1;
    attr.iova = 0x10000;
    assert_fails(hmreg_mr_regattr(group, &attr, 0, &mr), -EOPNOTSUPP, "iova is 0x10000");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(script.count, 0);
    attr.rails = 1;
    attr.ordering = HMREG_ORDERING_STRICT;
    assert_ok(hmreg_mr_regattr(group, &attr, 0, &mr));
    assert_ok(hmreg_mr_query(hmreg_mr_rail(mr, 0), &info));
    assert_int_equal(info.local_addr, 0x10000);
    assert_ok(hmreg_mr_query(mr, &info)); /* the caller's address */
    assert_int_equal(info.local_addr, (uintptr_t)host);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_group_open(fixture.lib, (struct hmreg_domain *[]){members[1], members[0]}, 2,
                               NULL, &group));
    attr.rails = attr.iova = 0;
    attr.set_iova = 0;
    assert_fails(hmreg_mr_regattr(group, &attr, 0, &mr), -EOPNOTSUPP, "other does not support");
    assert_int_equal(script.live, 0);
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
    script.destroys = 0;
}

/* A short order refuses few paths, and may yet have none. */
TEST(domain_explain__member_without_a_path__is_described)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {HMREG_PATH_PEERMEM}};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_domain *members[2] = {NULL}, *group;

    script_open(&fixture, NULL, NULL);
    members[0] = fixture.domain;
    assert_ok(
        hmreg_domain_create(fixture.lib, &script_ops, &script_caps, NULL, &config, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, NULL, &group));
    script.can[HMREG_PATH_DMABUF][0] = script.can[HMREG_PATH_PEERMEM][0] = -EOPNOTSUPP;
    assert_ok(hmreg_domain_explain(members[0], HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_ok(hmreg_domain_explain(group, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 1);
    assert_non_null(strstr(why.reasons[0].text, "rail 1 (script): script: no peermem"));
    assert_ok(hmreg_domain_explain(group, HMREG_IFACE_NEURON, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 1);
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
    script.destroys = 0;
}

TEST(domain_explain__members_alike__the_first_is_described)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_domain *members[2] = {NULL}, *group;

    script_open(&fixture, NULL, NULL);
    members[0] = fixture.domain;
    assert_ok(hmreg_domain_create(fixture.lib, &script_ops, &script_caps, NULL, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, NULL, &group));
    script.can[HMREG_PATH_DMABUF][0] = -EOPNOTSUPP;
    assert_ok(hmreg_domain_explain(group, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.refused, 1);
    assert_non_null(strstr(why.reasons[0].text, "rail 0 (script)"));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
    script.destroys = 0;
}

TEST_MAIN()
