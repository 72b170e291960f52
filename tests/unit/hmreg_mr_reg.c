/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_mr_reg(), and of hmreg_mr_regattr() where the caller says whose memory it
 * is, in rows: arguments and state, result, error, path, and every call that it makes of vendors
 * and NICs. Each row has a world of its own. Then what goes with it: keys, composites, closing.
 * tests/conformance/arguments.c has the arguments' rows, on each fabric; paths.c has the paths.
 */
#include "tests/support/table.h"
#include "tests/support/vendors.h"

#include <hmreg/suspend.h>

#define LEN 4096u
/* No runtime is spared: memory is the system's after each has said so. */
#define ASKED    "cuda.resolve rocr.resolve ze.resolve"
#define EXPORTED ASKED " cuda.export nic0.reg"

static char pinned[2][LEN]; /* by rocr's device 1, by cuda's 0 */

/* ---- rows ------------------------------------------------------------------------------- */

struct args {
    int usual_;
    enum { HOST, PINNED, GPU } of;
    bool claims; /* what follows */
    enum hmreg_iface iface;
    int device;
    uint64_t flags;
};

#define OF(...)             ARGS(__VA_ARGS__)
#define SAYS(whose, number) true, HMREG_IFACE_##whose, (number)
#define BY(way, log)        RETURNS(HMREG_PATH_##way, log)
#define BY_SYSTEM           BY(SYSTEM, ASKED " nic0.reg")
#define WRONG(text)         FAILS(-EINVAL, text, ASKED)
#define REFUSED(text)       FAILS(-EINVAL, text, "")
#define DEVICES             HMREG_HMEM_DEVICE_ONLY
#define HOSTS               HMREG_HMEM_HOST_ALLOC
#define LATER(...)          .as = {.library = &(const struct hmreg_config){__VA_ARGS__}}

static struct hmreg_mr *held;

static void end_held(void)
{
    assert_ok(hmreg_mr_close(held));
}

static void take_key(void)
{
    assert_ok(
        hmreg_mr_reg(world.domain, world.host + LEN, 8, HMREG_ACCESS_ALL, 0, 5, 0, &held, NULL));
    test_after(end_held);
}

static void suspend(void)
{
    assert_ok(hmreg_suspend(world.lib, world.host, LEN));
}

static void nic_fails(void)
{
    world_fail("nic0.reg", 1, 0, -EIO);
}

static void runtime_fails(void)
{
    world_fail("rocr.resolve", 1, 0, -EIO);
}

static void ze_cannot_start(void)
{
    vendors[HMREG_IFACE_ZE].open_code = -ENOENT;
}

static void dmabuf_is_refused(void)
{
    world.refuses[HMREG_PATH_DMABUF] = -EOPNOTSUPP;
}

static void export_fails(void)
{
    world_fail("cuda.export", 1, 0, -EXDEV);
}

/* Another path would not help. */
static void peermem_fails(void)
{
    dmabuf_is_refused();
    world_fail("nic0.reg", 2, 0, -ENOMEM);
}

static const struct row rows[] = {
    {"host memory", OF(HOST), BY_SYSTEM},
    {"device memory", OF(GPU), BY(DMABUF, EXPORTED)},
    {"host memory that a runtime pinned", OF(PINNED), BY_SYSTEM},
    {"it is suspended", .before = suspend, OF(HOST), FAILS(-EAGAIN, "suspended", "")},
    {"its key is in use", .before = take_key, OF(HOST), FAILS(-HMREG_ENOKEY, "0x5", ASKED)},
    {"the NIC fails", .before = nic_fails, OF(HOST),
     FAILS(-EIO, "nic0.reg was asked to fail", ASKED " nic0.reg")},
    {"a runtime fails", .before = runtime_fails, OF(HOST),
     FAILS(-EIO, "resolve of rocr failed", ASKED)},
    {"the NIC refuses a path", .before = dmabuf_is_refused, OF(GPU),
     BY(PEERMEM, EXPORTED " nic0.reg")},
    {"its runtime exports no dmabuf", .before = export_fails, OF(GPU), BY(PEERMEM, EXPORTED)},
    {"the NIC refuses a path and fails by the next", .before = peermem_fails, OF(GPU),
     FAILS(-ENOMEM, "nic0.reg was asked to fail", EXPORTED " nic0.reg")},
    {"a group, of which a NIC fails", .as = {.nics = 2, .group = true}, OF(HOST),
     .before = nic_fails, FAILS(-EIO, "rail 0", ASKED " nic0.reg")},
};

/* What the caller says is compared with what the runtimes say; what cannot be is refused first. */
static const struct row claims[] = {
    {"the device", OF(GPU, SAYS(CUDA, 1)), BY(DMABUF, EXPORTED)},
    {"any device", OF(GPU, SAYS(CUDA, HMREG_DEVICE_ANY), DEVICES), BY(DMABUF, EXPORTED)},
    {"the system", OF(HOST, SAYS(SYSTEM, HMREG_DEVICE_ANY)), BY_SYSTEM},
    {"the system's device 0", OF(HOST, SAYS(SYSTEM, 0)), BY_SYSTEM},
    {"pinned", OF(PINNED, SAYS(ROCR, 1), HOSTS), BY_SYSTEM},
    {"another device", OF(GPU, SAYS(CUDA, 0)), WRONG("says 0, the memory is on 1")},
    {"the system, of a device's", OF(GPU, SAYS(SYSTEM, HMREG_DEVICE_ANY)),
     WRONG("says system, the memory is cuda")},
    {"another vendor", OF(GPU, SAYS(ZE, 1)), WRONG("says ze, the memory is cuda")},
    {"no runtime's", OF(GPU, SAYS(COUNT, 0)), WRONG("says neuron, the memory is cuda")},
    {"a device, of the system's", OF(HOST, SAYS(CUDA, 0)),
     WRONG("says cuda, the memory is system")},
    {"the system, of pinned", OF(PINNED, SAYS(SYSTEM, HMREG_DEVICE_ANY)),
     WRONG("the memory is rocr")},
    {"the system's device 1", OF(HOST, SAYS(SYSTEM, 1)), REFUSED("device is 1")},
    {"the system's device -2", OF(HOST, SAYS(SYSTEM, -2)), REFUSED("device is -2")},
    {"no device's", OF(GPU, SAYS(CUDA, 2)), REFUSED("device is 2; cuda has 2 devices")},
    {"device -2", OF(GPU, SAYS(CUDA, -2)), REFUSED("device is -2")},
    {"iface 16", OF(GPU, SAYS(MAX + 1, 0)), REFUSED("iface is 16")},
    {"iface -1", OF(GPU, SAYS(SYSTEM - 1, 0)), REFUSED("iface is -1")},
    {"pinned, of a device's", OF(GPU, SAYS(CUDA, 1), HOSTS), WRONG("HMREG_HMEM_HOST_ALLOC")},
    {"a device's, of host memory", OF(HOST, SAYS(SYSTEM, 0), DEVICES),
     WRONG("HMREG_HMEM_DEVICE_ONLY")},
    {"pinned, of host memory", OF(HOST, SAYS(SYSTEM, 0), HOSTS), WRONG("HMREG_HMEM_HOST_ALLOC")},
    {"a device's, of pinned", OF(PINNED, SAYS(ROCR, 1), DEVICES), WRONG("HMREG_HMEM_DEVICE_ONLY")},
    {"both kinds", OF(PINNED, SAYS(ROCR, 1), DEVICES | HOSTS), WRONG("HMREG_HMEM")},
    {"a runtime that cannot start", LATER(.size = sizeof(struct hmreg_config)),
     .before = ze_cannot_start, OF(HOST, SAYS(ZE, 0)),
     FAILS(-EINVAL, "open of ze failed", "ze.open")},
};

/* The caller chooses keys. */
static void open_world(struct world_as as)
{
    as.mr_mode = HMREG_MR_VIRT_ADDR;
    world_open_as(&as);
    vendor_claim(HMREG_IFACE_ROCR, pinned[0], LEN, HMREG_MEM_HOST_PINNED, 1);
    vendor_claim(HMREG_IFACE_CUDA, pinned[1], LEN, HMREG_MEM_HOST_PINNED, 0);
}

static void open_row(const struct row *row)
{
    open_world(row->as);
    if (row->before)
        row->before();
}

static int reg_as(const struct args *args, struct hmreg_mr **mr)
{
    char *const places[] = {world.host, pinned[0], world.gpu[1]};
    struct iovec iov = {places[args->of], LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .claim_iface = HMREG_CLAIM_CHECKED,
                                 .iface = args->iface,
                                 .device = args->device};

    return args->claims ? hmreg_mr_regattr(world.domain, &attr, args->flags, mr)
                        : hmreg_mr_reg(world.domain, iov.iov_base, LEN, HMREG_ACCESS_ALL, 0, 5,
                                       args->flags, mr, NULL);
}

static struct hmreg_mr *registered;

static void close_registered(void)
{
    assert_ok(hmreg_mr_close(registered));
}

static int reg(const struct row *row)
{
    const struct args *args = row->args;
    int rc;

    registered = UNTOUCHED;
    rc = reg_as(args, &registered);
    if (rc) {
        assert_ptr_equal(registered, UNTOUCHED);
        return rc;
    }
    assert_int_equal(hmreg_mr_key(registered), args->claims ? 0 : 5);
    assert_int_equal(test_info_of(registered).path, row->value);
    test_after(close_registered);
    return 0;
}

TEST(reg__each_state)
{
    CHECK_EACH_IN(rows, open_row, reg);
}

TEST(claim__each__agrees_or_inval_before_the_fabric)
{
    CHECK_EACH_IN(claims, open_row, reg);
}

/* ---- ranges of several sorts of memory -------------------------------------------------- */

/* Host memory is the system's, whether some of it is pinned or not, in any order. */
TEST(regv__each_two_sorts_of_memory__host_memory_or_inval)
{
    open_world((struct world_as){.nics = 1});
    char *const places[] = {world.host, pinned[0], pinned[1], world.gpu[0], world.gpu[1]};

    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            struct iovec iov[2] = {{places[i], 8}, {places[j] + 16, 8}};
            struct hmreg_segment segments[2] = {{.u.memory = iov[0]}, {.u.memory = iov[1]}};
            struct hmreg_mr *mr[2] = {(void *)1, (void *)1};

            if (i != j && (i > 2 || j > 2)) {
                assert_fails(hmreg_mr_regv(world.domain, iov, 2, HMREG_SEND, 0, 0, 0, mr, NULL),
                             -EINVAL, "iov[1] is");
                assert_ptr_equal(mr[0], (void *)1);
                continue;
            }
            assert_ok(hmreg_mr_regv(world.domain, iov, 2, HMREG_SEND, 0, 0, 0, &mr[0], NULL));
            if (i > 2)
                assert_int_equal(world_live(WORLD_EACH), world_last("reg")->ranges == 2 ? 1 : 2);
            for (int by = 0; by < 2 && i < 3; by++) {
                assert_int_equal(test_info_of(mr[by]).path, HMREG_PATH_SYSTEM);
                if (i != j)
                    assert_int_equal(test_info_of(mr[by]).iface, HMREG_IFACE_SYSTEM);
                assert_ptr_equal(world_last("reg")->addr, places[i]);
                assert_int_equal(world_last("reg")->ranges, 2);
                if (!by)
                    assert_ok(hmreg_mr_regsgl(world.domain, segments, 2, HMREG_SEND, 0, 1, 0,
                                              &mr[1], NULL));
            }
            for (int by = 0; by < 2 && mr[by] != (void *)1; by++)
                assert_ok(hmreg_mr_close(mr[by]));
        }
}

/* ---- keys the library chooses ----------------------------------------------------------- */

static enum hmreg_path path_in_use; /* which key is in use by this path... */
static unsigned times;              /* ...for so many registrations */

static int key_is_in_use(const struct world_call *call)
{
    return world_is(call, "reg") && call->path == path_in_use && times && times-- ? -HMREG_ENOKEY
                                                                                  : 0;
}

static struct hmreg_mr *reg_any_key(char *addr, enum hmreg_path path, unsigned in_use)
{
    struct hmreg_mr *mr = NULL;

    path_in_use = path;
    times = in_use;
    world.on_call = key_is_in_use;
    world_old_error();
    assert_ok(
        hmreg_mr_reg(world.domain, addr, 16, HMREG_REMOTE_READ, 0, HMREG_KEY_ANY, 0, &mr, NULL));
    assert_true(world_error_is_old());
    return mr;
}

/* Each attempt with another key tries all paths; the reasons are those of the last attempt. */
TEST(any_key__in_use_on_the_fabric__another_is_tried)
{
    struct hmreg_mr *mr;

    open_world((struct world_as){.nics = 1});
    dmabuf_is_refused();
    mr = reg_any_key(world.gpu[0], HMREG_PATH_PEERMEM, 20);
    assert_int_equal(world_calls("reg"), 2 * 21);
    for (unsigned i = 3; i < 2 * 21; i += 2)
        assert_true(world_call("reg", i)->requested_key != world_call("reg", i - 2)->requested_key);
    assert_int_equal(test_why_of(mr).refused, 1);
    assert_ok(hmreg_mr_close(mr));
    mr = reg_any_key(world.host, HMREG_PATH_SYSTEM, 3);
    assert_int_equal(world_calls("reg"), 2 * 21 + 4);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- closing ---------------------------------------------------------------------------- */

static int reg_mapped(struct hmreg_mr **mr)
{
    world.cannot[HMREG_PATH_DMABUF] = world.cannot[HMREG_PATH_PEERMEM] = -EOPNOTSUPP;
    return hmreg_mr_reg(world.domain, world.gpu[0], LEN, HMREG_ACCESS_ALL, 0, 5, 0, mr, NULL);
}

TEST(close__busy__the_region_stays_as_it_was)
{
    struct hmreg_mr *mr, *other = NULL;

    open_world((struct world_as){.nics = 1});
    assert_ok(reg_mapped(&mr));
    world.busy = WORLD_EACH;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "asked to fail");
    assert_true(world_is_mapped((void *)(uintptr_t)test_info_of(mr).local_addr));
    assert_fails(reg_mapped(&other), -HMREG_ENOKEY, "0x5");
    assert_null(other);
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "1 regions");
    world_heal();
    assert_ok(hmreg_mr_close(mr));
}

TEST(close__fabric_fails__its_error_and_the_region_is_gone)
{
    struct hmreg_mr *mr;

    open_world((struct world_as){.nics = 1});
    for (int i = 0; i < 2; i++) { /* and its key is free again */
        assert_ok(reg_mapped(&mr));
        world_fail("dereg", 1, 0, -EIO);
        assert_fails(hmreg_mr_close(mr), -EIO, "asked to fail");
        world_heal();
    }
}

/* ---- composites ------------------------------------------------------------------------- */

static int reg_two(char *memory, struct hmreg_mr **mr)
{
    struct hmreg_segment segments[2] = {{.u.memory = {memory, 16}},
                                        {.u.memory = {memory + 32, 16}}};

    return hmreg_mr_regsgl(world.domain, segments, 2, HMREG_ACCESS_REMOTE, 0, 5, 0, mr, NULL);
}

TEST(composite__second_piece_busy__only_close_is_left)
{
    struct hmreg_piece_info segment = {.size = sizeof(segment)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;
    uint8_t token[512];
    size_t size = sizeof(token);

    open_world((struct world_as){.nics = 1});
    assert_ok(reg_two(world.gpu[0], &mr));
    world.busy = 1;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "asked to fail");
    assert_ok(hmreg_mr_query(mr, &info)); /* it has not begun to close */
    world.busy = 2;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "asked to fail");
    assert_fails(hmreg_mr_query(mr, &info), -EINVAL, "partly closed");
    for (size_t i = 0; i < 2; i++)
        assert_fails(hmreg_mr_piece(mr, i, &segment), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_explain(mr, &why), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_pack(mr, token, &size), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_bind(mr, &world, 0), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_enable(mr), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_refresh(mr, NULL, 0, 0), -EINVAL, "partly closed");
    assert_fails(hmreg_mr_raw_attr(mr, NULL, token, &size, 0), -EINVAL, "partly closed");
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_fails(hmreg_mr_close(mr), -EBUSY, "asked to fail");
    assert_fails(hmreg_domain_close(world.domain), -EBUSY, "1 regions");
    world_heal();
    assert_ok(hmreg_mr_close(mr));
}

/* The first piece is registered by then. */
TEST(composite__second_piece_fails__nothing_stays)
{
    for (int mapped = 0; mapped < 2; mapped++) {
        struct hmreg_mr *mr = NULL;
        int fds;

        open_world((struct world_as){.nics = 1});
        if (mapped)
            world.cannot[HMREG_PATH_DMABUF] = world.cannot[HMREG_PATH_PEERMEM] = -EOPNOTSUPP;
        world_fail("reg", 2, 0, -EIO);
        fds = test_count_fds();
        assert_fails(reg_two(world.gpu[0], &mr), -EIO, "asked to fail");
        assert_null(mr);
        assert_int_equal(world_live(WORLD_EACH), 0);
        assert_int_equal(test_count_fds(), fds);
        assert_int_equal(world_calls("reg"), 2);
        assert_int_equal(world_last("reg")->path, mapped ? HMREG_PATH_MAPPED : HMREG_PATH_DMABUF);
        assert_ok(reg_two(world.gpu[0], &mr)); /* the requested key is free again */
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
}

/* ---- domains ---------------------------------------------------------------------------- */

#define RANGES 64 /* the most that a token which older peers read can name */

/* The peer finds each byte of the region's ranges, which have 8 bytes each. */
static void check_token(const struct hmreg_mr *mr, const struct iovec *iov)
{
    struct hmreg_remote *remote = test_remote_of(world.domain, mr);
    uint8_t token[4096];
    size_t size = sizeof(token);
    uint64_t addr, key;

    for (unsigned i = 0; i < RANGES; i++) {
        assert_ok(hmreg_remote_addr(remote, 8 * i + 3, 5, &addr, &key));
        assert_int_equal(addr, (uintptr_t)iov[i].iov_base + 3);
        assert_int_equal(key, hmreg_mr_key(mr));
    }
    assert_fails(hmreg_remote_addr(remote, 8 * RANGES - 1, 2, &addr, &key), -ERANGE, "outside");
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_pack_range(mr, (char *)iov[RANGES - 1].iov_base + 2, 6, token, &size));
    assert_ok(hmreg_remote_open(world.domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 1, 4, &addr, &key));
    assert_int_equal(addr, (uintptr_t)iov[RANGES - 1].iov_base + 3);
    hmreg_remote_close(remote);
}

TEST(domain__fabric_takes_a_thousand_ranges__64_are_offered)
{
    struct iovec iov[RANGES + 1];
    struct hmreg_mr *mr = NULL;

    world_open(.iov_limit = 1000);
    assert_int_equal(test_domain_info(world.domain).iov_limit, RANGES);
    for (int i = 0; i <= RANGES; i++)
        iov[i] = (struct iovec){world.host + 16 * i, 8};
    assert_fails(
        hmreg_mr_regv(world.domain, iov, RANGES + 1, HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL),
        -EINVAL, "count is 65");
    assert_ok(hmreg_mr_regv(world.domain, iov, RANGES, HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL));
    check_token(mr, iov);
    assert_ok(hmreg_mr_close(mr));
}

TEST(domain_create__refused__the_providers_part_is_destroyed)
{
    world_open(.later = true);
    world_add_fails(-HMREG_EBADFLAGS, "flags", .domain.flags = 1u << 30);
    world.domain = world_add();
}

TEST_MAIN()
