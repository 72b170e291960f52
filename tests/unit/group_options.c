/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ordering, paging and iova of a group's regions: each member's fabric decides what it does. Which
 * member is explained.
 */
#include "tests/support/world.h"

static void open_group(void)
{
    struct hmreg_group_config config = {.size = sizeof(config)};

    assert_ok(hmreg_group_open(world.lib, world.nic, world.nics, &config, &world.domain));
}

/* What one member's fabric does not support is refused before any rail, never ignored on that rail.
 */
TEST(regattr__options__each_members_fabric_decides)
{
    struct hmreg_domain *first;
    struct iovec iov;
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .ordering = HMREG_ORDERING_STRICT};
    struct hmreg_mr *mr = (void *)1;

    world_open();
    iov = (struct iovec){world.host, 64};
    world_add(.relaxed = true, .mr_mode = HMREG_MR_PROV_KEY); /* offsets */
    open_group();
    assert_fails(hmreg_mr_regattr(world.domain, &attr, 0, &mr), -EOPNOTSUPP,
                 "nic1 does not support");
    attr.ordering = HMREG_ORDERING_DEFAULT;
    attr.set_iova = 1;
    attr.iova = 0x10000;
    assert_fails(hmreg_mr_regattr(world.domain, &attr, 0, &mr), -EOPNOTSUPP, "iova is 0x10000");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(world_calls("reg"), 0);
    attr.rails = 1;
    attr.ordering = HMREG_ORDERING_STRICT;
    assert_ok(hmreg_mr_regattr(world.domain, &attr, 0, &mr));
    assert_int_equal(test_info_of(hmreg_mr_rail(mr, 0)).local_addr, 0x10000);
    assert_int_equal(test_info_of(mr).local_addr, (uintptr_t)world.host); /* the caller's address */
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(world.domain));
    first = world.nic[0]; /* in the other order */
    world.nic[0] = world.nic[1];
    world.nic[1] = first;
    open_group();
    attr.rails = attr.iova = 0;
    attr.set_iova = 0;
    assert_fails(hmreg_mr_regattr(world.domain, &attr, 0, &mr), -EOPNOTSUPP,
                 "nic1 does not support");
    assert_int_equal(world_live(WORLD_EACH), 0);
}

static struct hmreg_explanation foreseen(struct hmreg_domain *domain, enum hmreg_iface iface)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_ok(hmreg_domain_explain(domain, iface, 0, &why));
    return why;
}

/* A short order refuses few paths, and may yet have none. */
TEST(domain_explain__member_without_a_path__is_described)
{
    struct hmreg_explanation why;

    world_open();
    world_add(.domain.order = {HMREG_PATH_PEERMEM});
    open_group();
    world.cannot[HMREG_PATH_DMABUF] = world.cannot[HMREG_PATH_PEERMEM] = -EOPNOTSUPP;
    assert_int_equal(foreseen(world.nic[0], HMREG_IFACE_CUDA).path, HMREG_PATH_MAPPED);
    why = foreseen(world.domain, HMREG_IFACE_CUDA);
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 1);
    assert_non_null(strstr(why.reasons[0].text, "rail 1 (nic1): nic1 has no path peermem"));
    why = foreseen(world.domain, HMREG_IFACE_NEURON);
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 1);
}

TEST(domain_explain__members_alike__the_first_is_described)
{
    struct hmreg_explanation why;

    world_open(.nics = 2, .group = true);
    world.cannot[HMREG_PATH_DMABUF] = -EOPNOTSUPP;
    why = foreseen(world.domain, HMREG_IFACE_CUDA);
    assert_int_equal(why.refused, 1);
    assert_non_null(strstr(why.reasons[0].text, "rail 0 (nic0)"));
}

TEST_MAIN()
