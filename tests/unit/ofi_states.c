/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The libfabric provider's regions after registration: bound, enabled, refreshed, completed later.
 * On a simulated fid_domain, since no fabric of a common machine has these modes. */
#include "tests/support/world_ofi.h"

#include <hmreg/loopback.h>
#include <hmreg/ofi.h>
#include <pthread.h>
#include <rdma/fi_errno.h>

static char memory[8192];
static struct fid ep = {.fclass = FI_CLASS_EP};

static void open_as(int mr_mode, uint64_t caps, uint32_t flags)
{
    world_open(.fabric = &world_ofi, .later = true);
    fake_fabric.info->domain_attr->mr_mode = mr_mode;
    fake_fabric.info->caps = caps;
    world_add(.fabric = &world_ofi, .domain.flags = flags);
}

static void begin(int mr_mode)
{
    open_as(mr_mode, FI_RMA | FI_RMA_EVENT, 0);
}

static struct hmreg_mr *reg(uint64_t flags)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_reg(world.domain, memory + 1, 4099, HMREG_ACCESS_ALL, 0, 0, flags, &mr, NULL));
    return mr;
}

/* ---- modes ------------------------------------------------------------------------------ */

TEST(open__modes_that_are_passed_on__shown)
{
    static const int modes[] = {FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT};

    for (int i = 0; i < 3; i++) {
        begin(modes[i] | FI_MR_LOCAL);
        assert_int_equal(test_domain_info(world.domain).mr_mode, modes[i] | FI_MR_LOCAL);
        test_finish();
    }
}

static struct hmreg_mr *get_bound(struct fid *endpoint)
{
    struct iovec iov = {memory, sizeof(memory)};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .endpoint = endpoint};
    struct hmreg_mr *mr = NULL;

    hmreg_mr_get_attr(world.domain, &attr, 0, &mr);
    return mr;
}

/* libfabric closes a region that is bound. */
TEST(endpoint__cached__bound_and_enabled_once)
{
    struct hmreg_mr *mr, *again;

    begin(FI_MR_ENDPOINT);
    mr = get_bound(&ep);
    again = get_bound(&ep);
    assert_non_null(mr);
    assert_ptr_equal(fake_fabric.bound, &ep);
    assert_int_equal(fake_fabric.binds, fake_fabric.enables);
    assert_int_equal(fake_fabric.binds,
                     mr == again ? 1 : 2); /* 2: host memory is not cached here */
    hmreg_mr_put(mr);
    hmreg_mr_put(again);
    assert_ok(hmreg_domain_flush(world.domain));
    assert_int_equal(fake_fabric.live, 0);
}

TEST(endpoint__cached__binding_or_enabling_fails__nothing_left)
{
    begin(FI_MR_ENDPOINT);
    fake_fabric.bind_code = -FI_EINVAL;
    assert_null(get_bound(&ep));
    assert_int_equal(hmreg_last_error()->code, -EINVAL);
    fake_fabric.bind_code = 0;
    fake_fabric.enable_code = -FI_ENOMEM;
    assert_null(get_bound(&ep));
    assert_int_equal(hmreg_last_error()->code, -ENOMEM);
    fake_fabric.enable_code = 0;
    assert_int_equal(fake_fabric.live, 0);
}

/* Each get has a region of its own, which the caller binds. */
TEST(endpoint__plain_gets__not_shared)
{
    struct hmreg_mr *mrs[2];

    begin(FI_MR_ENDPOINT);
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_get(world.domain, memory, 64, HMREG_ACCESS_REMOTE, &mrs[i]));
        assert_ok(hmreg_mr_bind(mrs[i], &ep, 0));
        assert_ok(hmreg_mr_enable(mrs[i]));
    }
    assert_ptr_not_equal(mrs[0], mrs[1]);
    hmreg_mr_put(mrs[0]);
    hmreg_mr_put(mrs[1]);
    assert_int_equal(fake_fabric.live, 0);
}

/* A mapping's region is refreshed by the addresses that the caller knows. */
TEST(refresh__mapped_device_memory__by_the_devices_address)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;
    struct iovec part;

    begin(FI_MR_MMU_NOTIFY);
    assert_ok(
        hmreg_mr_reg(world.domain, world.gpu[0] + 64, 4096, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    part = (struct iovec){world.gpu[0] + 100, 7};
    assert_ok(hmreg_mr_refresh(mr, &part, 1, 0));
    assert_int_equal(fake_fabric.refreshed_part.iov_base, info.local_addr + 36);
    assert_int_equal(fake_fabric.refreshed_part.iov_len, 7);
    part.iov_base = world.gpu[0] + 63;
    assert_fails(hmreg_mr_refresh(mr, &part, 1, 0), -EINVAL, "not inside");
    assert_ok(hmreg_mr_close(mr));
}

/* ---- flags ------------------------------------------------------------------------------ */

TEST(flags__only_those_of_the_infos_capabilities)
{
    struct hmreg_mr *mr = NULL;

    open_as(0, FI_RMA, 0);
    assert_fails(
        hmreg_mr_reg(world.domain, memory, 1, HMREG_SEND, 0, 0, HMREG_RMA_EVENT, &mr, NULL),
        -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_reg(world.domain, memory, 1, HMREG_SEND, 0, 0, HMREG_RMA_PMEM, &mr, NULL),
                 -HMREG_EBADFLAGS, "flags");
    assert_int_equal(fake_fabric.regs, 0);
    test_finish();
    open_as(0, FI_RMA | FI_RMA_PMEM, 0);
    mr = reg(HMREG_RMA_PMEM);
    assert_int_equal(fake_fabric.flags, FI_RMA_PMEM);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- asynchronous registration ---------------------------------------------------------- */

static void begin_async(int mr_mode)
{
    open_as(mr_mode, FI_RMA, HMREG_OFI_ASYNC);
}

TEST(async__key_comes_with_the_event)
{
    unsigned char token[512], raw[8];
    size_t size = sizeof(token), raw_size = sizeof(raw);
    struct fid_mr *native;
    struct hmreg_mr *mr;

    begin_async(FI_MR_PROV_KEY);
    fake_fabric.key = FI_KEY_NOTAVAIL;
    mr = reg(0);
    native = hmreg_mr_head_of(mr)->keys->native;
    native->mem_desc = NULL;
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_null(hmreg_mr_desc(mr));
    assert_fails(hmreg_mr_pack(mr, token, &size), -EAGAIN, "read its event");
    assert_fails(hmreg_mr_raw_attr(mr, NULL, raw, &raw_size, 0), -EAGAIN, "read its event");
    native->key = 0x77;
    native->mem_desc = token;
    assert_int_equal(hmreg_mr_key(mr), 0x77);
    assert_ptr_equal(hmreg_mr_desc(mr), token);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_mr_raw_attr(mr, NULL, raw, &raw_size, 0));
    assert_int_equal(raw[0], 0x77);
    assert_ok(hmreg_mr_close(mr));
}

/* The thread reads the event before the registering call has returned. */
static struct {
    struct hmreg_mr *mr; /* the caller's variable */
    pthread_t thread;
    uint64_t key;
} early;

static void *read_event(void *arg)
{
    early.key = hmreg_mr_key(early.mr);
    return NULL;
}

static void event_comes(struct fid_mr *mr)
{
    assert_non_null(early.mr); /* written before the event can be read */
    assert_int_equal(pthread_create(&early.thread, NULL, read_event, NULL), 0);
}

TEST(async__event_is_read_before_the_call_returns__region_is_there)
{
    begin_async(FI_MR_PROV_KEY);
    fake_fabric.key = 0x4711;
    fake_fabric.registered = event_comes;
    early.mr = NULL;
    assert_ok(hmreg_mr_reg(world.domain, memory, 10, HMREG_REMOTE_READ, 0, 0, 0, &early.mr, NULL));
    pthread_join(early.thread, NULL);
    assert_int_equal(early.key, 0x4711);
    assert_ok(hmreg_mr_close(early.mr));
}

TEST(async__failure__output_untouched)
{
    struct hmreg_mr *mr = (void *)1;

    begin_async(0);
    fake_fabric.reg_code = -FI_EIO;
    assert_fails(hmreg_mr_reg(world.domain, memory, 10, HMREG_REMOTE_READ, 0, 5, 0, &mr, NULL),
                 -EIO, "fi_mr_regattr()");
    assert_ptr_equal(mr, (void *)1);
}

TEST(async__get_and_composites__opnotsupp)
{
    struct hmreg_segment segments[2] = {
        {.kind = HMREG_SEGMENT_MEMORY, .u.memory = {memory, 10}},
        {.kind = HMREG_SEGMENT_MEMORY, .u.memory = {memory + 20, 10}},
    };
    struct hmreg_mr *mr = (void *)1;

    begin_async(0);
    assert_fails(hmreg_mr_get(world.domain, memory, 10, HMREG_SEND, &mr), -EOPNOTSUPP,
                 "event queue");
    assert_fails(hmreg_mr_regsgl(world.domain, segments, 2, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EOPNOTSUPP, "each an event");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(fake_fabric.regs, 0);
}

/* The caller would wait for ever: no event arrives. */
TEST(async__libfabric_2__opnotsupp)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = HMREG_OFI_ASYNC};
    struct hmreg_domain *domain = (void *)1;

    open_as(0, FI_RMA, 0);
    fake_fabric.version = FI_VERSION(2, 0);
    assert_fails(
        hmreg_domain_open_ofi(world.lib, &fake_fabric.domain, fake_fabric.info, &config, &domain),
        -EOPNOTSUPP, "HMREG_OFI_ASYNC, but libfabric 2.0 is loaded");
    assert_ptr_equal(domain, (void *)1);
    config.flags = 0;
    assert_ok(
        hmreg_domain_open_ofi(world.lib, &fake_fabric.domain, fake_fabric.info, &config, &domain));
    assert_ok(hmreg_domain_close(domain));
}

TEST(async__flag_where_no_provider_takes_it__badflags)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = HMREG_OFI_ASYNC};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_fails(hmreg_domain_open_loopback(lib, NULL, &config, &domain), -HMREG_EBADFLAGS,
                 "config->flags");
    assert_null(domain);
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
