/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_group_open() in rows: members and configuration, what their demands become,
 * or why they are refused. Then who may close what.
 */
#include "tests/support/failing_allocation.h"
#include "tests/support/table.h"

#define LEN   4096u
#define OWNS  HMREG_GROUP_OWNS_MEMBERS
#define MODES (HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY | HMREG_MR_HMEM) /* of a usual NIC */

struct args {
    int usual_;
    size_t count;
    enum { MEMBERS, NULL_MEMBER, SAME_MEMBER, GROUP_MEMBER, OTHERS_MEMBER } second;
    struct hmreg_group_config config; /* size 0: all of it */
    struct hmreg_domain_config domain;
    bool with_domain; /* the configuration has one; else it is NULL where it is empty */
    bool no_lib, no_members, no_out;
};

#define WRONG(text)      FAILS(-EINVAL, text, "")
#define BAD_FLAGS(text)  FAILS(-HMREG_EBADFLAGS, text, "")
#define DOMAIN(...)      .with_domain = true, .domain = {__VA_ARGS__}
#define BECOMES(mr_mode) RETURNS(mr_mode, "")

static struct hmreg *other_lib;
static struct hmreg_domain *opened, *before, *others;

static void close_group(void)
{
    assert_ok(hmreg_domain_close(before));
    before = NULL;
}

static void group_them(void)
{
    assert_ok(hmreg_group_open(world.lib, world.nic, 1, NULL, &before));
    test_after(close_group);
}

/* The group has closed them. */
static void close_owner(void)
{
    close_group();
    world.nic[1] = NULL;
}

static void own_second(void)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = OWNS};

    assert_ok(hmreg_group_open(world.lib, &world.nic[1], 1, &config, &before));
    test_after(close_owner);
}

static void close_others(void)
{
    assert_ok(hmreg_domain_close(others));
    assert_ok(hmreg_close(other_lib));
}

/* A domain of another library. */
static void open_others(void)
{
    struct hmreg *lib = world.lib;

    assert_ok(hmreg_open(NULL, &other_lib));
    world.lib = other_lib;
    others = world_add();
    world.lib = lib;
    world.nics--;
    test_after(close_others);
}

static void first_is_free(void)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = OWNS};
    struct hmreg_domain *group = NULL;

    assert_ok(hmreg_group_open(world.lib, world.nic, 1, &config, &group));
    assert_ok(hmreg_domain_close(group));
    world.domain = world.nic[0] = NULL;
}

static void add_small_one(void)
{
    world_add(.mr_mode = HMREG_MR_ALLOCATED, .key_size = 4, .iov_limit = 2, .max_len = 1u << 20);
}

static void add_async_one(void)
{
    world_add(.async = true);
}

/* The smallest of their limits. */
static void is_small(void)
{
    struct hmreg_domain_info info = test_domain_info(opened);

    assert_string_equal(info.provider, "group");
    assert_string_equal(info.fabric, "group of 2: nic0, nic1");
    assert_string_equal(info.nic, ""); /* it has several */
    assert_int_equal(info.pci.valid, 0);
    assert_int_equal(info.key_size, 4);
    assert_int_equal(info.iov_limit, 2);
    assert_int_equal(info.max_len, 1u << 20);
}

static void members_are_usable(void)
{
    struct hmreg_mr *mr = NULL;

    assert_fails(hmreg_domain_close(world.nic[1]), -EBUSY, "1 groups");
    assert_fails(hmreg_domain_bind(world.nic[1], opened, HMREG_BIND_REG_MR), -EBUSY,
                 "member of a group");
    assert_ok(hmreg_mr_reg(world.nic[1], world.host, 64, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_ptr_equal(hmreg_mr_rail(mr, 0), mr);
    assert_null(hmreg_mr_rail(mr, 1));
    assert_int_equal(hmreg_last_error()->code, -ENOENT);
    assert_ok(hmreg_mr_close(mr));
}

static const struct row rows[] = {
    {"lib is NULL", ARGS(1, .no_lib = true), WRONG("lib is NULL")},
    {"members is NULL", ARGS(1, .no_members = true), WRONG("members is NULL")},
    {"out is NULL", ARGS(1, .no_out = true), WRONG("out is NULL")},
    {"no member", ARGS(0), WRONG("count is 0")},
    {"65 members", ARGS(HMREG_GROUP_MAX + 1), WRONG("1 to 64 members")},
    {"a member is NULL", ARGS(2, NULL_MEMBER), WRONG("members[1] is NULL")},
    {"a member twice", ARGS(2, SAME_MEMBER), WRONG("members[1] and members[0] are one domain")},
    {"a member is a group", .before = group_them, ARGS(2, GROUP_MEMBER),
     WRONG("members[1] is a group")},
    {"a member is of another library", .before = open_others, ARGS(2, OTHERS_MEMBER),
     WRONG("members[1] is a domain of another lib")},
    {"a member has an owner", .as = {.nics = 2}, .before = own_second,
     ARGS(2, .config.flags = OWNS), WRONG("members[1] belongs to another group"),
     .after = first_is_free},
    {"a member has registrations that complete in a queue", .before = add_async_one, ARGS(2),
     FAILS(-EOPNOTSUPP, "members[1] complete in an event queue", "")},
    {"config->size is 4", ARGS(1, .config.size = 4), WRONG("hmreg_group_config")},
    {"an unknown flag", ARGS(1, .config.flags = OWNS << 1), BAD_FLAGS("config")},
    {"an unknown flag of the domain's", ARGS(1, DOMAIN(.flags = 1u << 31)), BAD_FLAGS("flags")},
    {"an order of paths", ARGS(1, DOMAIN(.order = {HMREG_PATH_DMABUF})), WRONG("order")},
    {"ways of path dmabuf", ARGS(1, DOMAIN(.ways = {HMREG_WAY_PLAIN})), WRONG("ways")},
    {"sync_memops", ARGS(1, DOMAIN(.sync_memops = HMREG_CHOICE_ON)), WRONG("sync_memops")},
    {"keys", ARGS(1, DOMAIN(.key_first = 1, .key_last = 2)), WRONG("key_")},
    {"a size of keys", ARGS(1, DOMAIN(.key_size = 4)), WRONG("key_")},

    {"one", ARGS(1), BECOMES(MODES)},
    {"two", .as = {.nics = 2}, ARGS(2), BECOMES(MODES), .after = members_are_usable},
    {"two, of which the second permits less", .before = add_small_one, ARGS(2),
     BECOMES(MODES | HMREG_MR_ALLOCATED), .after = is_small},
    {"limits of the cache", ARGS(1, DOMAIN(.max_regions = 5)), BECOMES(MODES)},
    {"one that is in a group", .before = group_them, ARGS(1), BECOMES(MODES)},
};

/* ---- each row --------------------------------------------------------------------------- */

static void close_opened(void)
{
    assert_ok(hmreg_domain_close(opened));
}

static void choose_members(const struct args *args, struct hmreg_domain **members)
{
    for (unsigned i = 0; i <= HMREG_GROUP_MAX; i++)
        members[i] = world.nic[i < world.nics ? i : 0];
    if (args->second)
        members[1] = args->second == SAME_MEMBER    ? members[0]
                     : args->second == GROUP_MEMBER ? before
                     : args->second == NULL_MEMBER  ? NULL
                                                    : others;
}

static int open_group(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_domain *members[HMREG_GROUP_MAX + 1];
    struct hmreg_domain_config domain = args->domain;
    struct hmreg_group_config config = args->config;
    bool configured = args->with_domain || config.flags || config.size;
    int rc;

    choose_members(args, members);
    domain.size = sizeof(domain);
    config.domain = args->with_domain ? &domain : NULL;
    config.size = config.size ? config.size : sizeof(config);
    opened = UNTOUCHED;
    rc = hmreg_group_open(args->no_lib ? NULL : world.lib, args->no_members ? NULL : members,
                          args->count, configured ? &config : NULL, args->no_out ? NULL : &opened);
    if (rc) {
        assert_ptr_equal(opened, UNTOUCHED);
        return rc;
    }
    assert_int_equal(test_domain_info(opened).mr_mode, row->value);
    if (domain.max_regions)
        assert_int_equal(test_domain_info(opened).max_regions, domain.max_regions);
    test_after(close_opened);
    return 0;
}

TEST(group_open__each_row)
{
    CHECK_EACH(rows, open_group);
}

TEST(group_open__allocation_fails__enomem_and_nothing_stays)
{
    int rc = -ENOMEM;

    world_open(.nics = 2);
    for (unsigned n = 1; rc; n++) {
        allocations = 0;
        failing = n;
        rc = hmreg_group_open(world.lib, world.nic, 2, NULL, &opened);
        failing = 0;
        assert_true(rc == 0 || rc == -ENOMEM);
    }
    close_opened();
    /* What a failed call had counted is not left: the NICs close after the case. */
}

/* ---- a group that owns its members ------------------------------------------------------ */

static void open_owner(unsigned nics)
{
    world_open(.nics = nics, .group = true, .groups.flags = OWNS);
}

static void close_all(void)
{
    assert_ok(hmreg_domain_close(world.domain));
    world.domain = NULL;
    memset(world.nic, 0, sizeof(world.nic));
}

TEST(close__group_that_owns_its_members__all_or_none)
{
    struct hmreg_mr *on_member = NULL, *on_group = NULL;
    char held[64];

    open_owner(3);
    assert_ok(hmreg_mr_get(world.nic[1], world.host, LEN, HMREG_SEND, &on_member));
    assert_fails(hmreg_domain_close(world.domain), -EBUSY,
                 "member[1]: 1 cached regions of this domain are held");
    snprintf(held, sizeof(held), "4096 bytes at %p (1 gets", world.host);
    assert_non_null(strstr(hmreg_last_error()->text, held));
    hmreg_mr_put(on_member);
    on_group = world_get(world.host, LEN); /* all of them serve as before */
    assert_ok(hmreg_mr_get(world.nic[0], world.host, LEN, HMREG_SEND, &on_member));
    hmreg_mr_put(on_member);
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "1 cached regions");
    hmreg_mr_put(on_group);
    assert_ok(hmreg_group_open(world.lib, world.nic + 2, 1, NULL, &before));
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "member[2]: 1 groups");
    close_group();
    close_all(); /* the world fails the case if a member is left */
}

TEST(close__owned_member_is_busy_with_a_region__group_stays)
{
    struct hmreg_mr *mr = NULL;

    open_owner(2);
    assert_ok(hmreg_mr_get(world.nic[1], world.host, LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    world.busy = 1;
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "member[1]: the fabric is busy");
    world_heal();
    close_all();
}

TEST_MAIN()
