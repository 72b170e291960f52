/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The address that the caller chooses (iova), against a fake libibverbs: what the device is asked
 * for on each path, and what is refused before. Other options are in hmreg_domain_open_verbs.c. */
#include "tests/support/world_verbs.h"

#include <hmreg/verbs.h>

#define PLACE 4099 /* of the region in the memory */

static void begin(void)
{
    world_open(.fabric = &world_verbs, .later = true);
    fake_peers = UINT32_MAX;
}

static void open_domain(void)
{
    world_add(.fabric = &world_verbs);
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

/* Before the device is asked. */
static void refused(const void *addr, struct hmreg_mr_attr attr, int code, const char *words)
{
    struct hmreg_mr *mr = (void *)1;
    unsigned regs = fake_verbs.regs;

    assert_fails(reg(addr, attr, &mr), code, words);
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(fake_verbs.regs, regs);
}

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
    open_domain();
    registered_at(world.host, 0);
    assert_ptr_equal(fake_verbs.addr, world.host);
    registered_at(world.host + PLACE, 0x123000 + PLACE % 4096);
    assert_ptr_equal(fake_verbs.addr, world.host + PLACE);
    registered_at(world.host + 4096, UINT64_MAX - 8191); /* ends before the last */
}

TEST(iova__dmabuf__the_devices_address)
{
    begin();
    open_domain();
    registered_at(world.gpu[1], 0);
    registered_at(world.gpu[1] + PLACE, 0x123000 + PLACE % 4096);
    assert_int_equal(fake_verbs.offset, PLACE);
    assert_int_not_equal(fake_verbs.fd, -1);
}

TEST(iova__peer_memory__the_devices_address)
{
    begin();
    fake_verbs.dmabuf_probe = EOPNOTSUPP;
    open_domain();
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
        open_domain();
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
    open_domain();
    refused(world.host, at(0x123000), -EOPNOTSUPP, "lets no caller choose the address");
}

TEST(iova__wraps__inval)
{
    begin();
    open_domain();
    refused(world.host, at(UINT64_MAX - 4095), -EINVAL,
            "iova is 0xfffffffffffff000: the region's bytes would wrap");
}

TEST_MAIN()
