/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The verbs provider and the options of one registration, against a fake libibverbs: what the
 * device is asked for on each path, how an option overrides the domain's flag, and what is refused
 * before the device is asked. */
#include "tests/support/world_verbs.h"

#include <hmreg/verbs.h>

#define PLACE  4099       /* of the region in the memory */
#define SECRET (1u << 27) /* an optional bit that no header names yet */

static void begin(void)
{
    world_open(.fabric = &world_verbs, .later = true);
    fake_peers = UINT32_MAX;
    fake_verbs.odp = true;
    fake_verbs.takes = IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_ON_DEMAND;
}

static void open_with(uint32_t flags)
{
    world_add(.fabric = &world_verbs, .domain.flags = flags);
}

static int reg(const void *addr, struct hmreg_mr_attr attr, struct hmreg_mr **mr)
{
    struct iovec iov = {(void *)(uintptr_t)addr, 5000};

    attr.size = sizeof(attr);
    attr.iov = &iov;
    attr.iov_count = 1;
    attr.access = HMREG_REMOTE_WRITE;
    return hmreg_mr_regattr(world.domain, &attr, 0, mr);
}

#define PLAIN (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* The bits beyond PLAIN that the device is asked for, the same by address and by dmabuf. */
static unsigned asked(struct hmreg_mr_attr attr)
{
    struct hmreg_mr *mr = NULL;
    unsigned access;

    assert_ok(reg(world.gpu[1] + PLACE, attr, &mr));
    access = fake_verbs.access;
    assert_int_not_equal(fake_verbs.fd, -1);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(reg(world.host + PLACE, attr, &mr));
    assert_int_equal(fake_verbs.access & ~(unsigned)IBV_ACCESS_ON_DEMAND, access);
    access = fake_verbs.access;
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(access & PLAIN, PLAIN);
    return access & ~(unsigned)PLAIN;
}

/* Before the device is asked. */
static void refused(const void *addr, struct hmreg_mr_attr attr, int code, const char *words)
{
    struct hmreg_mr *mr = (void *)1;
    unsigned regs = fake_verbs.regs;

    assert_fails(reg(addr, attr, &mr), code, words);
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(fake_verbs.regs, regs);
}

/* ---- ordering --------------------------------------------------------------------------- */

TEST(ordering__each_value__overrides_the_domains)
{
    static const unsigned relaxed = IBV_ACCESS_RELAXED_ORDERING;
    const struct hmreg_mr_attr standard = {.ordering = HMREG_ORDERING_DEFAULT},
                               strict = {.ordering = HMREG_ORDERING_STRICT},
                               loose = {.ordering = HMREG_ORDERING_RELAXED};

    for (int of_domain = 0; of_domain < 2; of_domain++) {
        begin();
        open_with(of_domain ? HMREG_VERBS_RELAXED_ORDERING : 0);
        assert_int_equal(asked(standard), of_domain ? relaxed : 0);
        assert_int_equal(asked(strict), 0);
        assert_int_equal(asked(loose), relaxed);
        test_finish();
    }
}

/* ---- atomics ---------------------------------------------------------------------------- */

TEST(atomics__each_value__overrides_the_domains)
{
    static const unsigned atomic = IBV_ACCESS_REMOTE_ATOMIC;

    for (int of_domain = 0; of_domain < 2; of_domain++) {
        begin();
        open_with(of_domain ? HMREG_VERBS_ATOMICS : 0);
        assert_int_equal(asked((struct hmreg_mr_attr){.atomics = HMREG_CHOICE_DEFAULT}),
                         of_domain ? atomic : 0);
        assert_int_equal(asked((struct hmreg_mr_attr){.atomics = HMREG_CHOICE_OFF}), 0);
        assert_int_equal(asked((struct hmreg_mr_attr){.atomics = HMREG_CHOICE_ON}), atomic);
        test_finish();
    }
}

/* Asked for by the region or by the domain. */
TEST(atomics__if_possible__where_the_device_has_them)
{
    static const unsigned atomic = IBV_ACCESS_REMOTE_ATOMIC;
    const struct hmreg_mr_attr possible = {.atomics = HMREG_CHOICE_IF_POSSIBLE};
    const struct hmreg_mr_attr usual = {.atomics = HMREG_CHOICE_DEFAULT};

    for (int has = 0; has < 2; has++) {
        begin();
        fake_verbs.limits.atomic_cap = has ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
        open_with(0);
        assert_int_equal(asked(possible), has ? atomic : 0);
        assert_int_equal(asked(usual), 0);
        test_finish();
        begin();
        fake_verbs.limits.atomic_cap = has ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
        open_with(HMREG_VERBS_ATOMICS_IF_POSSIBLE);
        assert_int_equal(asked(usual), has ? atomic : 0);
        test_finish();
    }
}

/* ---- paging on demand ------------------------------------------------------------------- */

TEST(on_demand__each_value__overrides_the_domains)
{
    static const unsigned odp = IBV_ACCESS_ON_DEMAND;
    struct hmreg_mr *mr;

    for (int of_domain = 0; of_domain < 2; of_domain++) {
        begin();
        open_with(of_domain ? HMREG_VERBS_ON_DEMAND : 0);
        assert_int_equal(asked((struct hmreg_mr_attr){.on_demand = HMREG_CHOICE_DEFAULT}),
                         of_domain ? odp : 0);
        assert_int_equal(asked((struct hmreg_mr_attr){.on_demand = HMREG_CHOICE_OFF}), 0);
        assert_ok(reg(world.host, (struct hmreg_mr_attr){.on_demand = HMREG_CHOICE_ON}, &mr));
        assert_int_equal(fake_verbs.access, PLAIN | odp);
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
}

TEST(on_demand__device_without__opnotsupp)
{
    const struct hmreg_mr_attr on = {.on_demand = HMREG_CHOICE_ON};

    begin();
    fake_verbs.odp = false;
    open_with(HMREG_VERBS_ON_DEMAND); /* the domain's flag is a wish */
    refused(world.host, on, -EOPNOTSUPP,
            "on_demand is 2 (on), which fake0 does not support; accepted: 0 (default), 1 (off)");
}

TEST(on_demand__if_possible__host_memory_where_the_device_does)
{
    const struct hmreg_mr_attr possible = {.on_demand = HMREG_CHOICE_IF_POSSIBLE};
    struct hmreg_mr *mr;

    for (int has = 0; has < 2; has++) {
        begin();
        fake_verbs.odp = has;
        open_with(0);
        assert_ok(reg(world.host, possible, &mr));
        assert_int_equal(fake_verbs.access, PLAIN | (has ? IBV_ACCESS_ON_DEMAND : 0));
        assert_ok(hmreg_mr_close(mr));
        assert_ok(reg(world.gpu[1], possible, &mr));
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
}

TEST(on_demand__device_memory__opnotsupp_on_each_path)
{
    static const int probes[] = {EBADF, EOPNOTSUPP}; /* dmabuf, then peer memory */
    const struct hmreg_mr_attr on = {.on_demand = HMREG_CHOICE_ON};

    for (int i = 0; i < 2; i++) {
        begin();
        fake_verbs.dmabuf_probe = probes[i];
        open_with(0);
        refused(world.gpu[1], on, -EOPNOTSUPP,
                "on_demand is 2 (on), but this is device memory (cuda)");
        test_finish();
    }
}

/* ---- optional bits ---------------------------------------------------------------------- */

TEST(optional_access__passed_to_the_device)
{
    const struct hmreg_mr_attr wanted = {.optional_access = SECRET};

    begin();
    open_with(0);
    assert_int_equal(asked(wanted), SECRET);
    fake_verbs.takes = 0; /* optional: the device need not take them */
    assert_int_equal(asked(wanted), 0);
}

/* ---- iova ------------------------------------------------------------------------------- */

static struct hmreg_mr_attr at(uint64_t iova)
{
    return (struct hmreg_mr_attr){.set_iova = 1, .iova = iova};
}

/* The device gets it, and so do tokens and local operations. */
static void registered_at(const char *memory, uint64_t iova)
{
    uint64_t addr = 1, key = 0, base = 1;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    char token[512];
    size_t size = sizeof(token);
    uint8_t raw[8];

    assert_ok(reg(memory, at(iova), &mr));
    assert_int_equal(fake_verbs.iova, iova);
    assert_int_equal(fake_verbs.length, 5000);
    assert_int_equal(test_info_of(mr).addr, (uintptr_t)memory);
    assert_int_equal(test_info_of(mr).local_addr, iova);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(world.domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 4999, 1, &addr, &key));
    assert_int_equal(addr, iova + 4999);
    assert_int_equal(key, hmreg_mr_head_of(mr)->keys->rkey);
    size = sizeof(raw);
    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_int_equal(base, iova);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
}

TEST(iova__host_memory__the_devices_address)
{
    begin();
    open_with(0);
    registered_at(world.host, 0);
    assert_ptr_equal(fake_verbs.addr, world.host);
    registered_at(world.host + PLACE, 0x123000 + PLACE % 4096);
    assert_ptr_equal(fake_verbs.addr, world.host + PLACE);
    registered_at(world.host + 4096, UINT64_MAX - 8191); /* ends before the last */
}

TEST(iova__dmabuf__the_devices_address)
{
    begin();
    open_with(0);
    registered_at(world.gpu[1], 0);
    registered_at(world.gpu[1] + PLACE, 0x123000 + PLACE % 4096);
    assert_int_equal(fake_verbs.offset, PLACE);
    assert_int_not_equal(fake_verbs.fd, -1);
}

TEST(iova__peer_memory__the_devices_address)
{
    begin();
    fake_verbs.dmabuf_probe = EOPNOTSUPP;
    open_with(0);
    registered_at(world.gpu[1], 0);
    registered_at(world.gpu[1] + PLACE, 0x123000 + PLACE % 4096);
    assert_ptr_equal(fake_verbs.addr, world.gpu[1] + PLACE);
    assert_int_equal(fake_verbs.fd, -1);
}

TEST(iova__another_place_in_its_page__inval_on_each_path)
{
    for (int i = 0; i < 3; i++) {
        begin();
        fake_verbs.dmabuf_probe = i == 2 ? EOPNOTSUPP : EBADF;
        open_with(0);
        refused((i ? world.gpu[1] : world.host) + PLACE, at(0), -EINVAL,
                "iova is 0, 0 bytes into a page, and the memory begins 3 bytes into one; accepted "
                "are multiples of 4096 plus 3");
        test_finish();
    }
}

TEST(iova__soft_iwarp__refused_since_its_driver_ignores_it)
{
    begin();
    fake_verbs.limits.vendor_id = 0x626d74;
    open_with(0);
    refused(world.host, at(0x123000), -EOPNOTSUPP, "lets no caller choose the address");
}

TEST(iova__wraps__inval)
{
    begin();
    open_with(0);
    refused(world.host, at(UINT64_MAX - 4095), -EINVAL,
            "iova is 0xfffffffffffff000: the region's bytes would wrap");
}

TEST_MAIN()
