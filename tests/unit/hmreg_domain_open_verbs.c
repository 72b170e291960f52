/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_domain_open_verbs() in rows: the device, the domain's flags and the options
 * of one registration on it, and the access that the device is asked for, or why it is not. The
 * device is simulated (fake_verbs.h).
 */
#include "tests/support/table.h"
#include "tests/support/world_verbs.h"

#include <hmreg/verbs.h>

#define LEN    4096u
#define SECRET (1u << 27) /* an optional bit that no header names yet */

/* What the device is asked for. */
#define LOCAL   IBV_ACCESS_LOCAL_WRITE
#define READ    IBV_ACCESS_REMOTE_READ
#define WRITE   (LOCAL | IBV_ACCESS_REMOTE_WRITE)
#define ATOMIC  IBV_ACCESS_REMOTE_ATOMIC
#define RELAXED IBV_ACCESS_RELAXED_ORDERING
#define PAGED   IBV_ACCESS_ON_DEMAND

struct args {
    int usual_;
    uint32_t flags;
    enum { BOTH, HOST, GPU } of; /* BOTH: by its address and by a dmabuf, the same but for PAGED */
    uint64_t access;             /* 0: HMREG_REMOTE_WRITE */
    enum hmreg_ordering ordering;
    enum hmreg_choice atomics, on_demand;
    uint64_t optional_access;
    size_t size; /* of the configuration, 0: all */
    enum { ALL, NO_LIB, NO_PD, NO_OUT } with;
};

#define ASKS(access)             RETURNS(access, NULL)
#define FAILS_BEFORE(code, text) FAILS(code, text, NULL)
#define RELAXES                  HMREG_VERBS_RELAXED_ORDERING
#define PAGES                    HMREG_VERBS_ON_DEMAND
#define WINDOWS                  HMREG_VERBS_MEMORY_WINDOWS
#define ATOMICS                  HMREG_VERBS_ATOMICS
#define ATOMICS_IF_POSSIBLE      HMREG_VERBS_ATOMICS_IF_POSSIBLE

static void no_limits(void)
{
    fake_verbs.query_error = ENODEV;
}

static void no_atomics(void)
{
    fake_verbs.limits.atomic_cap = IBV_ATOMIC_NONE;
}

static void no_paging(void)
{
    fake_verbs.odp = false;
}

static void nothing_optional(void)
{
    fake_verbs.takes = 0;
}

static void no_dmabufs(void)
{
    fake_verbs.dmabuf_probe = EOPNOTSUPP;
}

static void is_the_devices_error(void)
{
    assert_int_equal(hmreg_last_error()->vendor_code, ENODEV);
    assert_string_equal(hmreg_last_error()->source, "verbs");
}

static void is_described(void)
{
    struct hmreg_domain_info info = test_domain_info(world.domain);

    assert_string_equal(info.provider, "verbs");
    assert_string_equal(info.fabric, "fake0");
    assert_string_equal(info.nic, "fake0");
    assert_int_equal(info.mr_mode,
                     HMREG_MR_LOCAL | HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY);
    assert_int_equal(info.key_size, 4);
    assert_int_equal(info.iov_limit, 1);
    assert_int_equal(info.max_len, 1u << 30);
}

static const struct row rows[] = {
    {"lib is NULL", ARGS(.with = NO_LIB), FAILS_BEFORE(-EINVAL, "lib is NULL")},
    {"pd is NULL", ARGS(.with = NO_PD), FAILS_BEFORE(-EINVAL, "pd is NULL")},
    {"out is NULL", ARGS(.with = NO_OUT), FAILS_BEFORE(-EINVAL, "out is NULL")},
    {"config->size is 1", ARGS(.size = 1), FAILS_BEFORE(-EINVAL, "size of")},
    {"an unknown flag", ARGS(1u << 31), FAILS_BEFORE(-HMREG_EBADFLAGS, "flags")},
    {"limits that cannot be read", .before = no_limits, ARGS(), FAILS_BEFORE(-EIO, "fake0"),
     .after = is_the_devices_error},
    {"no atomics", .before = no_atomics, ARGS(ATOMICS),
     FAILS_BEFORE(-EOPNOTSUPP, "fake0 has no atomic operations")},
    {"no atomics, which are not demanded", .before = no_atomics, ARGS(), ASKS(WRITE)},

    /* the domain's flags */
    {"none", ARGS(), ASKS(WRITE), .after = is_described},
    {"none, each right", ARGS(0, BOTH, HMREG_ACCESS_ALL), ASKS(WRITE | READ)},
    {"RELAXED_ORDERING", ARGS(RELAXES), ASKS(WRITE | RELAXED)},
    {"RELAXED_ORDERING, local rights", ARGS(RELAXES, BOTH, HMREG_RECV), ASKS(LOCAL | RELAXED)},
    {"RELAXED_ORDERING, which it refuses", .before = nothing_optional, ARGS(RELAXES), ASKS(WRITE)},
    {"ON_DEMAND", ARGS(PAGES), ASKS(WRITE | PAGED)},
    {"ON_DEMAND, of device memory", ARGS(PAGES, GPU, HMREG_SEND), ASKS(0)},
    {"ON_DEMAND, which it has not", .before = no_paging, ARGS(PAGES), ASKS(WRITE)},
    {"MEMORY_WINDOWS", ARGS(WINDOWS, HOST, HMREG_SEND), ASKS(IBV_ACCESS_MW_BIND | LOCAL)},
    {"MEMORY_WINDOWS, of a dmabuf", ARGS(WINDOWS, GPU, HMREG_SEND), ASKS(LOCAL)},
    {"ATOMICS", ARGS(ATOMICS), ASKS(WRITE | ATOMIC)},
    {"ATOMICS, peers read", ARGS(ATOMICS, BOTH, HMREG_REMOTE_READ), ASKS(READ)},
    {"ATOMICS, local rights", ARGS(ATOMICS, BOTH, HMREG_ACCESS_LOCAL), ASKS(LOCAL)},
    {"ATOMICS_IF_POSSIBLE", ARGS(ATOMICS_IF_POSSIBLE), ASKS(WRITE | ATOMIC)},
    {"ATOMICS_IF_POSSIBLE, no atomics", .before = no_atomics, ARGS(ATOMICS_IF_POSSIBLE),
     ASKS(WRITE)},

    /* one registration's options go before them */
    {"strict", ARGS(.ordering = HMREG_ORDERING_STRICT), ASKS(WRITE)},
    {"relaxed", ARGS(.ordering = HMREG_ORDERING_RELAXED), ASKS(WRITE | RELAXED)},
    {"strict, RELAXED_ORDERING", ARGS(RELAXES, .ordering = HMREG_ORDERING_STRICT), ASKS(WRITE)},
    {"relaxed, RELAXED_ORDERING", ARGS(RELAXES, .ordering = HMREG_ORDERING_RELAXED),
     ASKS(WRITE | RELAXED)},
    {"atomics off", ARGS(.atomics = HMREG_CHOICE_OFF), ASKS(WRITE)},
    {"atomics on", ARGS(.atomics = HMREG_CHOICE_ON), ASKS(WRITE | ATOMIC)},
    {"atomics off, ATOMICS", ARGS(ATOMICS, .atomics = HMREG_CHOICE_OFF), ASKS(WRITE)},
    {"atomics on, ATOMICS", ARGS(ATOMICS, .atomics = HMREG_CHOICE_ON), ASKS(WRITE | ATOMIC)},
    {"atomics if possible", ARGS(.atomics = HMREG_CHOICE_IF_POSSIBLE), ASKS(WRITE | ATOMIC)},
    {"atomics if possible, no atomics", .before = no_atomics,
     ARGS(.atomics = HMREG_CHOICE_IF_POSSIBLE), ASKS(WRITE)},
    {"paging off", ARGS(0, HOST, .on_demand = HMREG_CHOICE_OFF), ASKS(WRITE)},
    {"paging on", ARGS(0, HOST, .on_demand = HMREG_CHOICE_ON), ASKS(WRITE | PAGED)},
    {"paging off, ON_DEMAND", ARGS(PAGES, HOST, .on_demand = HMREG_CHOICE_OFF), ASKS(WRITE)},
    {"paging on, ON_DEMAND", ARGS(PAGES, HOST, .on_demand = HMREG_CHOICE_ON), ASKS(WRITE | PAGED)},
    {"paging on, which it has not", .before = no_paging,
     ARGS(PAGES, HOST, .on_demand = HMREG_CHOICE_ON),
     FAILS_BEFORE(-EOPNOTSUPP, "on_demand is 2 (on), which fake0 does not support; accepted: "
                               "0 (default), 1 (off)")},
    {"paging on, of a dmabuf", ARGS(0, GPU, .on_demand = HMREG_CHOICE_ON),
     FAILS_BEFORE(-EOPNOTSUPP, "on_demand is 2 (on), but this is device memory (cuda)")},
    {"paging on, of peer memory", .before = no_dmabufs, ARGS(0, GPU, .on_demand = HMREG_CHOICE_ON),
     FAILS_BEFORE(-EOPNOTSUPP, "on_demand is 2 (on), but this is device memory (cuda)")},
    {"paging if possible", ARGS(.on_demand = HMREG_CHOICE_IF_POSSIBLE), ASKS(WRITE | PAGED)},
    {"paging if possible, which it has not", .before = no_paging,
     ARGS(.on_demand = HMREG_CHOICE_IF_POSSIBLE), ASKS(WRITE)},
    {"optional bits", ARGS(.optional_access = SECRET), ASKS(WRITE | SECRET)},
    {"optional bits, which it does not take", .before = nothing_optional,
     ARGS(.optional_access = SECRET), ASKS(WRITE)},
};

/* ---- each row --------------------------------------------------------------------------- */

static void open_row(const struct row *row)
{
    world_open(.fabric = &world_verbs, .later = true);
    fake_peers = UINT32_MAX;
    fake_verbs.odp = true;
    fake_verbs.takes |= IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_ON_DEMAND;
    if (row->before)
        row->before();
}

static int open_domain(const struct args *args)
{
    struct hmreg_domain_config config = {.size = args->size ? args->size : sizeof(config),
                                         .flags = args->flags};
    struct hmreg_domain *domain = UNTOUCHED;
    int rc = hmreg_domain_open_verbs(args->with == NO_LIB ? NULL : world.lib,
                                     args->with == NO_PD ? NULL : world_verbs_pd(), &config,
                                     args->with == NO_OUT ? NULL : &domain);

    if (rc)
        assert_ptr_equal(domain, UNTOUCHED);
    else
        world.domain = world.nic[world.nics++] = domain;
    return rc;
}

/* What fails does so before the device is asked. */
static int reg(const struct args *args, char *addr, unsigned *access)
{
    struct iovec iov = {addr, LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = args->access ? args->access : HMREG_REMOTE_WRITE,
                                 .ordering = args->ordering,
                                 .atomics = args->atomics,
                                 .on_demand = args->on_demand,
                                 .optional_access = args->optional_access};
    struct hmreg_mr *mr = UNTOUCHED;
    int rc;

    fake_verbs.regs = 0;
    rc = hmreg_mr_regattr(world.domain, &attr, 0, &mr);
    *access = fake_verbs.access;
    if (!rc)
        return hmreg_mr_close(mr);
    assert_ptr_equal(mr, UNTOUCHED);
    if (fake_verbs.regs)
        fail_msg("%s %x", hmreg_last_error()->text, fake_verbs.access);
    return rc;
}

static int open_and_reg(const struct row *row)
{
    const struct args *args = row->args;
    unsigned access = 0, of_gpu = 0;
    int rc = open_domain(args);

    if (!rc && args->of != GPU)
        rc = reg(args, world.host, &access);
    if (!rc && args->of != HOST)
        rc = reg(args, world.gpu[1], &of_gpu);
    if (rc)
        return rc;
    assert_int_equal(args->of == GPU ? of_gpu : access, row->value);
    if (args->of == BOTH)
        assert_int_equal(of_gpu, access & ~(unsigned)PAGED);
    return 0;
}

TEST(open__each_row)
{
    CHECK_EACH_IN(rows, open_row, open_and_reg);
}

TEST_MAIN()
