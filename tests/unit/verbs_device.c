/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The verbs provider and device memory, on a simulated libibverbs: the choice of a path, the calls
 * of the device, and the reason of each refusal. */
#include "tests/support/queries.h"
#include "tests/unit/verbs_fixture.h"

#include <fcntl.h>
#include <hmreg/verbs.h>

#define BYTES DEVICE_BYTES

/* ---- a domain and a device's memory ----------------------------------------------------- */

static void begin(void)
{
    fake_peers = 0;
    verbs_begin();
}

static void open_fixture(void)
{
    begin();
    verbs_open_with(0);
}

static int reg(void *addr, size_t len, uint64_t access, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture.domain, addr, len, access, 0, 0, 0, mr, NULL);
}

static enum hmreg_path path_of(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    return info.path;
}

/* Registers with every path refused; returns the reason of one of them. */
static struct hmreg_reason refused(enum hmreg_path path)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = (void *)1;

    assert_fails(reg(fixture.there, BYTES, HMREG_SEND, &mr), -EOPNOTSUPP, "no path to this cuda");
    assert_ptr_equal(mr, (void *)1);
    assert_ok(hmreg_mr_explain(NULL, &why));
    for (uint32_t i = 0; i < why.refused; i++)
        if (why.reasons[i].path == path)
            return why.reasons[i];
    fail_msg("%s was not refused", hmreg_path_name(path));
    return (struct hmreg_reason){.code = 0};
}

static void assert_reason(struct hmreg_reason reason, const char *slug, int code, int64_t vendor,
                          const char *words)
{
    assert_string_equal(reason.slug, slug);
    assert_int_equal(reason.code, code);
    assert_int_equal(reason.vendor_code, vendor);
    if (!strstr(reason.text, words))
        fail_msg("\"%s\" is without \"%s\"", reason.text, words);
}

/* ---- dmabuf ----------------------------------------------------------------------------- */

TEST(reg__dmabuf__descriptor_is_closed_at_once)
{
    struct hmreg_mr *mr;
    int fds;

    open_fixture();
    fds = test_count_fds();
    assert_ok(reg(fixture.there, BYTES, HMREG_SEND, &mr));
    assert_int_equal(test_count_fds(), fds);
    assert_int_equal(fcntl(fake_verbs.fd, F_GETFD), -1);
    assert_ok(hmreg_mr_close(mr));
}

/* libibverbs writes the offset into the address of the ibv_mr. */
TEST(token__dmabuf__names_the_devices_address)
{
    uint64_t addr = 0, key = 0;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(reg(fixture.there + 8192, 100, HMREG_REMOTE_READ, &mr));
    remote = test_remote_of(fixture.domain, mr);
    assert_ok(hmreg_remote_addr(remote, 7, 1, &addr, &key));
    assert_int_equal(addr, (uintptr_t)fixture.there + 8192 + 7);
    assert_int_equal(key, hmreg_mr_head_of(mr)->keys->rkey);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
}

static int reg_callers(uint64_t base, struct hmreg_mr **mr)
{
    int fd = fcntl(vendors[HMREG_IFACE_CUDA].claims[0].fd, F_DUPFD_CLOEXEC, 0), rc;
    struct hmreg_mr_dmabuf dmabuf = {
        .fd = fd, .offset = 100, .len = 64, .base_addr = (void *)(uintptr_t)base};
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .access = HMREG_SEND, .dmabuf = &dmabuf};

    assert_true(fd >= 0);
    rc = hmreg_mr_regattr(fixture.domain, &attr, HMREG_REG_DMABUF, mr);
    close(fd);
    return rc;
}

TEST(regattr__callers_dmabuf__by_its_base)
{
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(reg_callers(0, &mr));
    assert_int_equal(fake_verbs.iova, 100);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(reg_callers(0x7000, &mr));
    assert_int_equal(fake_verbs.iova, 0x7000 + 100);
    assert_ok(hmreg_mr_close(mr));
}

/* libibverbs' call has no iface. */
TEST(regattr__callers_dmabuf_of_an_iface_without_runtime__imported)
{
    struct hmreg_mr_dmabuf dmabuf = {.offset = 100, .len = 64, .base_addr = (void *)0x7000};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .access = HMREG_SEND,
                                 .dmabuf = &dmabuf,
                                 .claim_iface = HMREG_CLAIM_CHECKED,
                                 .device = HMREG_DEVICE_ANY};

    open_fixture();
    dmabuf.fd = vendors[HMREG_IFACE_CUDA].claims[0].fd;
    for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++) {
        struct hmreg_mr *mr;

        attr.iface = (enum hmreg_iface)iface;
        assert_ok(hmreg_mr_regattr(fixture.domain, &attr, HMREG_REG_DMABUF, &mr));
        assert_int_equal(fake_verbs.iova, 0x7000 + 100);
        assert_int_equal(test_info_of(mr).iface, iface);
        assert_int_equal(test_info_of(mr).path, HMREG_PATH_DMABUF);
        assert_ok(hmreg_mr_close(mr));
    }
}

TEST(regattr__base_of_no_page__refused_before_the_device_is_asked)
{
    struct hmreg_mr *mr = (void *)1;

    open_fixture();
    assert_fails(reg_callers(0x7008, &mr), -EOPNOTSUPP, "no path");
    assert_ptr_equal(mr, (void *)1);
    assert_reason(test_why_of(NULL).reasons[0], "page-offset-differs", -EINVAL, 0,
                  "108 bytes into a page");
    assert_int_equal(fake_verbs.regs, 0);
}

/* Another path would fail too: the machine lacks a resource, or the device is gone. */
TEST(reg__failure_of_the_request__is_the_answer)
{
    static const int errors[] = {EAGAIN, EMFILE, ENFILE, EIO, ENODEV};

    open_fixture();
    fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct hmreg_mr *mr = (void *)1;

        fake_verbs.regs = 0;
        fake_verbs.dmabuf_error = errors[i];
        assert_fails(reg(fixture.there, BYTES, HMREG_SEND, &mr), -errors[i], "");
        assert_int_equal(hmreg_last_error()->vendor_code, errors[i]);
        assert_ptr_equal(mr, (void *)1);
        assert_int_equal(fake_verbs.regs, 1);
    }
}

/* ---- the probe -------------------------------------------------------------------------- */

static void probe_says(int errnum, const char *slug, int code, const char *words)
{
    begin();
    fake_verbs.dmabuf_probe = errnum;
    verbs_open_with(0);
    assert_reason(refused(HMREG_PATH_DMABUF), slug, code, errnum, words);
    assert_int_equal(fake_verbs.regs, 0);
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 0);
    test_finish();
}

TEST(probe__each_answer__reason_and_remedy)
{
    probe_says(EOPNOTSUPP, "nic-imports-no-dmabuf", -EOPNOTSUPP,
               "drivers that do: mlx5, efa, irdma, bnxt_re, mana and ionic");
    probe_says(EPROTONOSUPPORT, "kernel-too-old", -EOPNOTSUPP, "5.12 or newer");
    probe_says(EACCES, "dmabuf-probe-failed", -EACCES, "Permission denied");
}

/* A refusal by the device does not mean that the call is missing. */
TEST(probe__older_call_fails_otherwise__newer_is_not_asked)
{
    begin();
    fake_verbs.reg_mr_ex = true;
    fake_verbs.dmabuf_probe = EACCES;
    verbs_open_with(0);
    assert_reason(refused(HMREG_PATH_DMABUF), "dmabuf-probe-failed", -EACCES, EACCES,
                  "Permission denied");
    assert_int_equal(fake_verbs.ex_probes, 0);
}

TEST(explain__device__says_the_path_without_registering)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    begin();
    fake_verbs.dmabuf_probe = EOPNOTSUPP;
    fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    vendors[HMREG_IFACE_CUDA].dmabuf = true;
    verbs_open_with(0);
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_string_equal(why.reasons[0].slug, "nic-imports-no-dmabuf");
    assert_int_equal(fake_verbs.regs, 0);
}

/* ---- peer memory ------------------------------------------------------------------------ */

TEST(reg__client_refuses__reason_and_remedy)
{
    begin();
    fake_verbs.dmabuf_probe = EOPNOTSUPP;
    fake_verbs.reg_fails = true;
    fake_verbs.reg_error = EFAULT;
    fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    verbs_open_with(0);
    assert_reason(refused(HMREG_PATH_PEERMEM), "peer-memory-refused", -ENOMEM, EFAULT, "BAR1");
    fake_verbs.reg_error = 524;
    assert_reason(refused(HMREG_PATH_PEERMEM), "peer-memory-refused", -EOPNOTSUPP, 524, "MIG");
    fake_verbs.reg_error = EINVAL;
    assert_reason(refused(HMREG_PATH_PEERMEM), "peer-memory-refused", -EINVAL, EINVAL,
                  "dmesg may say more");
}

/* Nothing is mapped there for the CPU. */
static int reg_claimed(enum hmreg_iface iface, struct hmreg_mr **mr)
{
    struct iovec iov = {(void *)0x10000, 4096};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_SEND,
                                 .claim_iface = HMREG_CLAIM_TRUSTED,
                                 .iface = iface,
                                 .device = HMREG_DEVICE_ANY};

    return hmreg_mr_regattr(fixture.domain, &attr, 0, mr);
}

/* libibverbs' call has no iface. */
TEST(reg__iface_without_runtime__by_address_where_a_client_is)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = (void *)1;

    open_fixture();
    fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    assert_fails(reg_claimed(HMREG_IFACE_NEURON, &mr), -EOPNOTSUPP, "no path to this neuron");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(fake_verbs.regs, 0);
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_int_equal(why.refused, 3);
    assert_reason(why.reasons[0], "no-dmabuf-export", -EOPNOTSUPP, 0, "pass the dmabuf");
    assert_reason(why.reasons[1], "no-peer-memory", -EOPNOTSUPP, 0, "get a client");
    for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++) {
        fake_peers = HMREG_IFACE_BIT(iface);
        assert_ok(reg_claimed((enum hmreg_iface)iface, &mr));
        assert_int_equal(path_of(mr), HMREG_PATH_PEERMEM);
        assert_ptr_equal(fake_verbs.addr, (void *)0x10000);
        assert_int_equal(fake_verbs.iova, 0x10000);
        assert_int_equal(test_info_of(mr).iface, iface);
        assert_ok(hmreg_mr_close(mr));
    }
    fake_verbs.reg_fails = true;
    fake_verbs.reg_error = EFAULT;
    assert_fails(reg_claimed(HMREG_IFACE_MAX, &mr), -EOPNOTSUPP, "no path to this iface15");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_reason(why.reasons[1], "peer-memory-refused", -EFAULT, EFAULT,
                  "does it belong to the driver that is loaded?");
}

TEST(open__order_of_the_caller__is_kept)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .order = {HMREG_PATH_PEERMEM, HMREG_PATH_DMABUF}};
    struct hmreg_mr *mr;

    begin();
    fake_peers = HMREG_IFACE_BIT(HMREG_IFACE_CUDA);
    assert_ok(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &config, &fixture.domain));
    assert_ok(reg(fixture.there, BYTES, HMREG_SEND, &mr));
    assert_int_equal(path_of(mr), HMREG_PATH_PEERMEM);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- flags of the domain ---------------------------------------------------------------- */

static char host[8192];

/* Soft-RoCE returns EINVAL while a window is bound. */
TEST(memory_windows__einval_is_busy)
{
    struct hmreg_mr *mr;

    begin();
    verbs_open_with(HMREG_VERBS_MEMORY_WINDOWS);
    assert_ok(reg(host, 4096, HMREG_SEND, &mr));
    assert_int_equal(fake_verbs.access, IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE);
    fake_verbs.dereg_result = EINVAL;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "memory window");
    fake_verbs.dereg_result = 0;
    assert_ok(hmreg_mr_close(mr));
    assert_ok(reg(fixture.there, 4096, HMREG_SEND, &mr)); /* no kernel accepts it for a dmabuf */
    assert_int_equal(fake_verbs.access, IBV_ACCESS_LOCAL_WRITE);
    assert_ok(hmreg_mr_close(mr));
}

TEST(no_memory_windows__einval_is_final)
{
    struct ibv_mr *native;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(reg(host, 4096, HMREG_SEND, &mr));
    native = hmreg_mr_head_of(mr)->keys->native;
    fake_verbs.dereg_result = EINVAL;
    assert_fails(hmreg_mr_close(mr), -EINVAL, "could not deregister");
    fake_verbs.dereg_result = 0;
    assert_int_equal(ibv_dereg_mr(native), 0);
}

/* ---- limits ----------------------------------------------------------------------------- */

TEST(reg__more_than_max_mr__enomem_before_the_device_is_asked)
{
    struct hmreg_mr *mr[3] = {NULL, NULL, (void *)1};

    begin();
    fake_verbs.limits.max_mr = 2;
    verbs_open_with(0);
    assert_ok(reg(host, 64, HMREG_SEND, &mr[0]));
    fake_verbs.dmabuf_error = EINVAL; /* failures are not counted */
    assert_int_equal(reg(fixture.there, 64, HMREG_SEND, &mr[2]), -EOPNOTSUPP);
    fake_verbs.dmabuf_error = 0;
    assert_ok(reg(fixture.there, 64, HMREG_SEND, &mr[1]));
    assert_fails(reg(host, 64, HMREG_SEND, &mr[2]), -ENOMEM, "all 2 regions that fake0");
    assert_ptr_equal(mr[2], (void *)1);
    assert_int_equal(fake_verbs.regs, 3);
    assert_ok(hmreg_mr_close(mr[0]));
    assert_ok(reg(host, 64, HMREG_SEND, &mr[2]));
    assert_ok(hmreg_mr_close(mr[1]));
    assert_ok(hmreg_mr_close(mr[2]));
}

TEST_MAIN()
