/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The libfabric provider's paths to device memory, on a simulated fid_domain and vendors: which
 * paths it tries on which fabric, the arguments of each registration, and each refusal's reason. */
#include "tests/support/fake_fabric.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"
#include "tests/unit/ofi_fixture.h"

#include <fcntl.h>
#include <hmreg/ofi.h>
#include <rdma/fi_errno.h>
#include <sys/syscall.h>

#define BYTES 65536
#define PLACE 4097 /* of the region in the memory */
#define LEN   10001

static struct hmreg_mr *region; /* of memory of device 1 */
static struct hmreg_explanation why;

/* The domain's configuration. */
struct world {
    const char *provider;
    uint32_t library, api;
    bool hmem;
    enum hmreg_iface iface;
};
static const struct world dmabuf_world = {"verbs;ofi_rxm", FI_VERSION(1, 20), FI_VERSION(1, 20),
                                          true, HMREG_IFACE_CUDA};
static const struct world tcp_world = {"tcp;ofi_rxm", FI_VERSION(1, 17), FI_VERSION(1, 17), false,
                                       HMREG_IFACE_CUDA};

static void end(void)
{
    assert_ok(hmreg_mr_close(region));
}

static void begin(const struct world *world)
{
    struct fi_info *info;

    ofi_begin();
    test_after(end);
    ofi_set_provider(world->provider);
    info = fake_fabric.info;
    info->fabric_attr->api_version = world->api;
    info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    info->caps = FI_RMA | (world->hmem ? FI_HMEM : 0);
    fake_fabric.version = world->library;
    region = NULL;
    why = (struct hmreg_explanation){.size = sizeof(why)};
    fixture.memory = vendor_memory(world->iface, 1, HMREG_MEM_DEVICE, BYTES);
    assert_ok(ofi_open_domain(NULL));
}

static int reg(void)
{
    return hmreg_mr_reg(fixture.domain, fixture.memory + PLACE, LEN, HMREG_ACCESS_ALL, 0, 0, 0,
                        &region, NULL);
}

/* Registers, and returns the result with its explanation. */
static void reg_and_explain(void)
{
    int rc = reg();

    assert_true(rc == 0 || rc == -EOPNOTSUPP);
    assert_ok(hmreg_mr_explain(region, &why));
}

static const struct hmreg_reason *reason(enum hmreg_path path)
{
    for (uint32_t i = 0; i < why.refused; i++)
        if (why.reasons[i].path == path)
            return &why.reasons[i];
    fail_msg("path %s was not refused", hmreg_path_name(path));
    return NULL;
}

static void assert_refused(enum hmreg_path path, const char *slug, const char *words)
{
    const struct hmreg_reason *said = reason(path);

    assert_string_equal(said->slug, slug);
    assert_int_not_equal(said->code, 0);
    if (!strstr(said->text, words))
        fail_msg("the reason \"%s\" is without \"%s\"", said->text, words);
}

static void in_world(const struct world *world, enum hmreg_path path, const char *slug,
                     const char *words)
{
    begin(world);
    reg_and_explain();
    assert_refused(path, slug, words);
    test_finish();
}

/* ---- dmabuf ----------------------------------------------------------------------------- */

/* Each field of the structs as libfabric 1.20 and 2 have them; later fields are zero. */
static void imported_by(uint32_t library)
{
    const struct fake_dmabuf *dmabuf = &fake_fabric.dmabuf;
    const struct fi_mr_attr *given = &fake_fabric.given.attr;
    struct world world = dmabuf_world;

    world.library = library;
    begin(&world);
    assert_ok(hmreg_mr_reg(fixture.domain, fixture.memory + PLACE, LEN, HMREG_ACCESS_ALL, 0, 0, 0,
                           &region, &fixture));
    assert_ok(hmreg_mr_explain(region, &why));
    assert_int_equal(why.path, HMREG_PATH_DMABUF);
    assert_int_equal(why.refused, 0);
    assert_int_equal(fake_fabric.flags, HMREG_REG_DMABUF);
    assert_true(fake_fabric.dmabuf_fd_open);
    assert_int_equal(dmabuf->offset, PLACE);
    assert_int_equal(dmabuf->len, LEN);
    assert_ptr_equal(dmabuf->base_addr, fixture.memory);
    assert_int_equal(given->iov_count, 1);
    assert_int_equal(given->access, HMREG_ACCESS_ALL);
    assert_int_equal(given->offset, 0);
    assert_int_equal(given->requested_key, 0);
    assert_ptr_equal(given->context, &fixture);
    assert_int_equal(given->auth_key_size, 0);
    assert_null(given->auth_key);
    assert_int_equal(given->iface, FI_HMEM_CUDA);
    assert_int_equal(given->device.cuda, 1);
    for (int i = 10; i < 14; i++)
        assert_int_equal(fake_fabric.given.words[i], 0);
    test_finish(); /* closes the descriptor, which the harness counts */
}

TEST(dmabuf__all_is_there__imported)
{
    imported_by(FI_VERSION(1, 20));
    imported_by(FI_VERSION(1, 22));
    imported_by(FI_VERSION(2, 6));
}

/* The descriptor is closed on this way out as well. */
TEST(dmabuf__fabric_refuses__descriptor_is_closed)
{
    begin(&dmabuf_world);
    fake_fabric.reg_code = -FI_EINVAL;
    assert_fails(reg(), -EOPNOTSUPP, "no path to this cuda memory");
    assert_int_equal(fcntl(fake_fabric.dmabuf.fd, F_GETFD), -1);
}

/* FI_HMEM may be set for the domain only. */
TEST(dmabuf__hmem_in_domain_caps__imported)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    begin(&dmabuf_world);
    fake_fabric.info->caps = FI_RMA;
    fake_fabric.info->domain_attr->caps = FI_HMEM;
    assert_ok(
        hmreg_domain_open_ofi(fixture.lib, &fake_fabric.domain, fake_fabric.info, NULL, &domain));
    assert_ok(hmreg_mr_reg(domain, fixture.memory, LEN, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL));
    assert_int_equal(fake_fabric.flags, HMREG_REG_DMABUF);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
}

TEST(dmabuf__older_library__says_which)
{
    struct world world = dmabuf_world;

    world.library = FI_VERSION(1, 17);
    world.api = FI_VERSION(1, 17);
    in_world(&world, HMREG_PATH_DMABUF, "libfabric-too-old", "libfabric 1.17 is loaded");
    assert_int_equal(fake_fabric.regs, 1); /* by its address only */
    assert_int_equal(fake_fabric.flags & HMREG_REG_DMABUF, 0);
}

static void from(const char *provider, uint32_t before, uint32_t since, const char *words)
{
    struct world world = dmabuf_world;

    world.provider = provider;
    world.library = before;
    in_world(&world, HMREG_PATH_DMABUF, "libfabric-too-old", words);
    assert_int_equal(fake_fabric.flags & HMREG_REG_DMABUF, 0);
    world.library = since;
    begin(&world);
    assert_ok(reg());
    assert_int_equal(fake_fabric.flags & HMREG_REG_DMABUF, HMREG_REG_DMABUF);
    test_finish();
}

/* A provider that does not know the flag would take the struct for an iovec, the descriptor for an
 * address. */
TEST(dmabuf__each_provider__from_the_version_that_brought_it)
{
    from("verbs", FI_VERSION(1, 19), FI_VERSION(1, 20), "its verbs imports");
    from("efa", FI_VERSION(1, 19), FI_VERSION(1, 20), "its efa imports");
    from("cxi", FI_VERSION(2, 4), FI_VERSION(2, 5), "cxi imports dmabufs (FI_MR_DMABUF) from 2.5");
    from("opx", FI_VERSION(2, 5), FI_VERSION(2, 6), "opx imports dmabufs (FI_MR_DMABUF) from 2.6");
}

TEST(dmabuf__older_api_version__says_which)
{
    struct world world = dmabuf_world;

    world.api = FI_VERSION(1, 19);
    in_world(&world, HMREG_PATH_DMABUF, "api-version-too-old", "FI_VERSION(1, 19)");
    assert_int_equal(fake_fabric.flags & HMREG_REG_DMABUF, 0);
}

/* A fabric's name is the text up to the first layer: "tcpx" is not tcp. The library may be older
 * than the application. */
TEST(path__each_world_that_lacks_it__says_what)
{
    static const struct {
        const char *provider;
        uint32_t library;
        bool hmem;
        enum hmreg_path path;
        const char *slug, *words;
    } rows[] = {
        {"verbs;ofi_rxm", FI_VERSION(1, 19), true, HMREG_PATH_DMABUF, "libfabric-too-old",
         "libfabric 1.19 is loaded"},
        {"verbs;ofi_rxm", FI_VERSION(1, 20), false, HMREG_PATH_DMABUF, "no-fi-hmem",
         "request it from fi_getinfo()"},
        {"tcp;ofi_rxm", FI_VERSION(1, 20), true, HMREG_PATH_DMABUF, "fabric-imports-no-dmabuf",
         "moves bytes with the CPU"},
        {"psm3", FI_VERSION(1, 20), true, HMREG_PATH_DMABUF, "fabric-imports-no-dmabuf",
         "psm3 imports no dmabuf"},
        {"verbs2", FI_VERSION(1, 20), true, HMREG_PATH_DMABUF, "fabric-unknown",
         "whether verbs2 imports dmabufs"},
        {"lnx", 0, false, HMREG_PATH_MAPPED, "fabric-unknown",
         "whether lnx moves bytes with the CPU"},
        {"tcpx;ofi_rxm", 0, false, HMREG_PATH_MAPPED, "fabric-unknown", "tcpx"},
        {"tc", 0, false, HMREG_PATH_MAPPED, "fabric-unknown", "tc "},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world world = rows[i].library ? dmabuf_world : tcp_world;

        world.provider = rows[i].provider;
        world.library = rows[i].library ? rows[i].library : world.library;
        world.hmem = rows[i].hmem;
        in_world(&world, rows[i].path, rows[i].slug, rows[i].words);
        assert_int_equal(fake_fabric.flags & HMREG_REG_DMABUF, 0);
    }
}

/* What another path would lack too is no refusal of this one. */
TEST(dmabuf__fabric_lacks_what_every_path_needs__error)
{
    static const int codes[] = {-FI_ENOKEY, -FI_EAGAIN, -EMFILE, -ENFILE};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        begin(&dmabuf_world);
        fake_fabric.reg_code = codes[i];
        fake_fabric.reg_failures = 1;
        assert_true(reg() < 0);
        assert_int_equal(fake_fabric.regs, 1);
        test_finish();
    }
}

/* A refusal by the fabric is data, and the next path is tried. */
TEST(dmabuf__fabric_refuses__reason_and_next_path)
{
    begin(&dmabuf_world);
    fake_fabric.reg_code = -FI_EOPNOTSUPP;
    fake_fabric.reg_failures = 1;
    assert_ok(reg());
    assert_ok(hmreg_mr_explain(region, &why));
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_refused(HMREG_PATH_DMABUF, "fabric-refused", "driver imports no dmabufs");
    assert_int_equal(reason(HMREG_PATH_DMABUF)->code, -EOPNOTSUPP);
    assert_int_equal(reason(HMREG_PATH_DMABUF)->vendor_code, -FI_EOPNOTSUPP);
}

TEST(dmabuf__libfabric_without_the_runtime__says_so)
{
    begin(&dmabuf_world);
    fake_fabric.reg_code = -FI_ENOSYS;
    assert_fails(reg(), -EOPNOTSUPP, "no path to this cuda memory");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_refused(HMREG_PATH_DMABUF, "fabric-refused", "without dmabufs or this runtime");
}

/* ---- a caller's dmabuf -------------------------------------------------------------------- */

static int reg_callers(enum hmreg_iface iface, int device, void *base)
{
    struct hmreg_mr_dmabuf dmabuf = {
        .fd = fcntl(vendors[HMREG_IFACE_CUDA].claims[0].fd, F_DUPFD_CLOEXEC, 0),
        .offset = PLACE,
        .len = LEN,
        .base_addr = base};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .access = HMREG_ACCESS_ALL,
                                 .dmabuf = &dmabuf,
                                 .claim_iface = HMREG_CLAIM_TRUSTED,
                                 .iface = iface,
                                 .device = device};
    int rc = hmreg_mr_regattr(fixture.domain, &attr, HMREG_REG_DMABUF, &region);

    close(dmabuf.fd);
    assert_ok(hmreg_mr_explain(region, &why));
    return rc;
}

/* cxi keeps the address of a dmabuf, and not its descriptor. */
TEST(dmabuf__callers_on_a_fabric_that_exports_it_again__needs_address_and_iface)
{
    struct world world = dmabuf_world;

    world.provider = "cxi";
    world.library = world.api = FI_VERSION(2, 5);
    begin(&world);
    for (int i = 0; i < 3; i++) {
        void *base = i & 2 ? fixture.memory : NULL;

        assert_int_not_equal(reg_callers(i & 1, i & 1, base), 0);
        assert_null(region);
        assert_refused(HMREG_PATH_DMABUF, "dmabuf-without-address", "set base_addr");
    }
    assert_ok(reg_callers(HMREG_IFACE_CUDA, 1, fixture.memory));
}

TEST(callers__iface_without_runtime__under_its_number)
{
    static const enum hmreg_iface ifaces[] = {HMREG_IFACE_NEURON, HMREG_IFACE_SYNAPSEAI, 6};

    for (int i = 0; i < 3; i++) {
        begin(&dmabuf_world);
        fake_fabric.last_iface = 6;
        assert_ok(reg_callers(ifaces[i], 3, (void *)0x10000));
        assert_int_equal(why.path, HMREG_PATH_DMABUF);
        assert_int_equal(fake_fabric.flags, HMREG_REG_DMABUF);
        assert_int_equal(fake_fabric.given.attr.iface, ifaces[i]);
        assert_int_equal(fake_fabric.given.attr.device.neuron, 3);
        assert_int_equal(fake_fabric.given.attr.device.reserved, 3);
        assert_ptr_equal(fake_fabric.dmabuf.base_addr, (void *)0x10000);
        test_finish();
    }
}

/* libfabric indexes a table by it. */
TEST(callers__iface_the_library_lacks__refused_before_it_is_asked)
{
    begin(&dmabuf_world);
    assert_int_equal(reg_callers(6, 3, NULL), -EOPNOTSUPP);
    assert_refused(HMREG_PATH_DMABUF, "libfabric-lacks-iface", "has no iface 6");
    assert_int_equal(fake_fabric.regs, 0);
}

TEST(callers__no_device_claimed__refused_where_it_is_an_index)
{
    static const struct {
        uint32_t version;
        enum hmreg_iface iface;
        bool refused;
    } cases[] = {{FI_VERSION(2, 1), HMREG_IFACE_SYSTEM, false},
                 {FI_VERSION(2, 1), HMREG_IFACE_CUDA, false},
                 {FI_VERSION(2, 1), HMREG_IFACE_ROCR, false},
                 {FI_VERSION(2, 5), HMREG_IFACE_ROCR, true},
                 {FI_VERSION(2, 1), HMREG_IFACE_ZE, true},
                 {FI_VERSION(2, 1), HMREG_IFACE_SYNAPSEAI, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world world = dmabuf_world;

        world.library = world.api = cases[i].version;
        begin(&world);
        assert_int_equal(reg_callers(cases[i].iface, HMREG_DEVICE_ANY, NULL),
                         cases[i].refused ? -EOPNOTSUPP : 0);
        if (cases[i].refused)
            assert_refused(HMREG_PATH_DMABUF, "device-unknown", "claim is HMREG_DEVICE_ANY");
        test_finish();
    }
}

/* Its providers say no more than EINVAL. */
TEST(callers__base_in_a_page_and_einval__said_in_words)
{
    for (int skip = 0; skip <= 8; skip += 8) {
        begin(&dmabuf_world);
        fake_fabric.reg_code = -FI_EINVAL;
        assert_int_equal(reg_callers(HMREG_IFACE_CUDA, 1, (char *)0x10000 + skip), -EOPNOTSUPP);
        assert_refused(HMREG_PATH_DMABUF, skip ? "page-offset-differs" : "fabric-refused",
                       skip ? "base_addr, 0x10008, is not a multiple" : "Invalid argument");
        assert_int_equal(reason(HMREG_PATH_DMABUF)->vendor_code, -FI_EINVAL);
        test_finish();
    }
}

/* The next path of a caller's dmabuf is the mapping, which this fabric has no use for. */
TEST(callers__libfabric_without_the_iface__reason_and_next_path)
{
    static const struct {
        int code;
        const char *words;
    } cases[] = {{-FI_ENOSYS, "without dmabufs or this runtime"},
                 {-FI_EOPNOTSUPP, "driver imports no dmabufs"},
                 {-EPROTONOSUPPORT, "driver imports no dmabufs"}};

    for (int i = 0; i < 3; i++) {
        begin(&dmabuf_world);
        fake_fabric.reg_code = cases[i].code;
        assert_int_equal(reg_callers(HMREG_IFACE_NEURON, 0, NULL), -EOPNOTSUPP);
        assert_refused(HMREG_PATH_DMABUF, "fabric-refused", cases[i].words);
        assert_refused(HMREG_PATH_MAPPED, "fabric-bypasses-cpu", "reads memory itself");
        assert_int_equal(fake_fabric.regs, 1);
        test_finish();
    }
}

/* The memory's window for other devices may be full: that refuses the path. */
TEST(dmabuf__no_memory__other_paths)
{
    begin(&dmabuf_world);
    fake_fabric.reg_code = -FI_ENOMEM;
    assert_fails(reg(), -EOPNOTSUPP, "no path to this cuda");
    assert_true(fake_fabric.regs > 1);
}

/* ---- peermem ---------------------------------------------------------------------------- */

static void by_address(enum hmreg_iface iface, uint32_t loaded, uint32_t asked, uint64_t device)
{
    struct world world = {"tcp;ofi_rxm", loaded, asked, true, iface};

    begin(&world);
    assert_ok(reg());
    assert_ok(hmreg_mr_explain(region, &why));
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_ptr_equal(fake_fabric.iov[0].iov_base, fixture.memory + PLACE);
    assert_int_equal(fake_fabric.iov[0].iov_len, LEN);
    assert_int_equal(fake_fabric.given.attr.iface, iface);
    assert_int_equal(fake_fabric.given.attr.device.reserved, device);
    assert_int_equal(fake_fabric.flags, 0);
    test_finish();
}

TEST(peermem__fi_hmem__iface_and_device_are_named)
{
    by_address(HMREG_IFACE_CUDA, FI_VERSION(1, 17), FI_VERSION(1, 17), 1);
    by_address(HMREG_IFACE_ZE, FI_VERSION(1, 17), FI_VERSION(1, 17), 1);
}

/* Device 1 is the first of a second driver. */
static void of_second_driver(const char *provider, uint32_t loaded, enum hmreg_path path)
{
    struct world world = {provider, loaded, loaded, true, HMREG_IFACE_ZE};
    struct hmreg_mr *first;
    void *memory;

    begin(&world);
    vendors[HMREG_IFACE_ZE].split = 1;
    memory = vendor_memory(HMREG_IFACE_ZE, 0, HMREG_MEM_DEVICE, BYTES);
    assert_ok(hmreg_mr_reg(fixture.domain, memory, LEN, HMREG_ACCESS_ALL, 0, 0, 0, &first, NULL));
    assert_int_equal(fake_fabric.given.attr.device.ze, 0);
    assert_ok(hmreg_mr_close(first));
    reg_and_explain();
    assert_int_equal(why.path, path);
    if (path == HMREG_PATH_DMABUF || path == HMREG_PATH_PEERMEM) {
        assert_int_equal(fake_fabric.given.attr.device.ze, 1 << 16);
        assert_int_equal(fake_fabric.given.attr.device.reserved, 1 << 16);
    } else {
        assert_refused(HMREG_PATH_PEERMEM, "libfabric-lacks-driver", "driver 1");
        assert_int_equal(fake_fabric.given.attr.iface, path ? FI_HMEM_SYSTEM : FI_HMEM_ZE);
    }
    vendor_memory_free(memory);
    test_finish();
}

TEST(ze__device_of_a_second_driver__named_where_it_has_a_name)
{
#ifdef FI_MR_DMABUF /* a header newer than 1.17 */
    assert_int_equal(fi_hmem_ze_device(1, 0), 1 << 16);
    assert_int_equal(fi_hmem_ze_device(0, 1), 1);
#endif
    of_second_driver("verbs;ofi_rxm", FI_VERSION(2, 1), HMREG_PATH_DMABUF);
    of_second_driver("verbs;ofi_rxm", FI_VERSION(1, 20), HMREG_PATH_DMABUF);
    of_second_driver("tcp;ofi_rxm", FI_VERSION(1, 18), HMREG_PATH_PEERMEM);
    of_second_driver("verbs;ofi_rxm", FI_VERSION(1, 17), HMREG_PATH_NONE);
    of_second_driver("tcp", FI_VERSION(2, 1), HMREG_PATH_PEERMEM);
    of_second_driver("tcp;ofi_rxm", FI_VERSION(1, 17), HMREG_PATH_MAPPED);
}

/* The field is of libfabric 2.5. */
TEST(peermem__rocm__device_named_where_it_has_a_field)
{
    by_address(HMREG_IFACE_ROCR, FI_VERSION(2, 4), FI_VERSION(2, 4), 0);
    by_address(HMREG_IFACE_ROCR, FI_VERSION(2, 5), FI_VERSION(2, 4), 0);
    by_address(HMREG_IFACE_ROCR, FI_VERSION(2, 4), FI_VERSION(2, 5), 0);
    by_address(HMREG_IFACE_ROCR, FI_VERSION(2, 5), FI_VERSION(2, 5), 1);
    by_address(HMREG_IFACE_ROCR, FI_VERSION(2, 6), FI_VERSION(2, 6), 1);
}

TEST(peermem__claimed_device_only__flag_passes)
{
    struct world world = tcp_world;

    world.hmem = true;
    begin(&world);
    assert_ok(hmreg_mr_reg(fixture.domain, fixture.memory, LEN, HMREG_ACCESS_ALL, 0, 0,
                           HMREG_HMEM_DEVICE_ONLY, &region, NULL));
    assert_int_equal(fake_fabric.flags, FI_HMEM_DEVICE_ONLY);
}

TEST(peermem__no_fi_hmem__never_given_a_device_address)
{
    in_world(&tcp_world, HMREG_PATH_PEERMEM, "no-fi-hmem", "takes no device memory");
    assert_int_equal(fake_fabric.given.attr.iface, FI_HMEM_SYSTEM);
}

/* Nothing is mapped there for the CPU. */
static int reg_claimed(enum hmreg_iface iface, int device)
{
    struct iovec iov = {(void *)0x10000, LEN};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .claim_iface = HMREG_CLAIM_TRUSTED,
                                 .iface = iface,
                                 .device = device};
    int rc = hmreg_mr_regattr(fixture.domain, &attr, 0, &region);

    assert_ok(hmreg_mr_explain(region, &why));
    return rc;
}

TEST(peermem__iface_without_runtime__under_its_number)
{
    static const enum hmreg_iface ifaces[] = {HMREG_IFACE_NEURON, HMREG_IFACE_SYNAPSEAI, 6};
    static const char *const providers[] = {"efa", "tcp", "of a later libfabric"};

    for (int i = 0; i < 9; i++) {
        struct world world = {providers[i / 3], FI_VERSION(2, 1), FI_VERSION(2, 1), true,
                              HMREG_IFACE_CUDA};

        begin(&world);
        fake_fabric.last_iface = 6;
        assert_ok(reg_claimed(ifaces[i % 3], 3));
        assert_int_equal(why.path, HMREG_PATH_PEERMEM);
        assert_int_equal(fake_fabric.regs, 1);
        assert_int_equal(fake_fabric.flags, 0);
        assert_int_equal(fake_fabric.given.attr.iface, ifaces[i % 3]);
        assert_int_equal(fake_fabric.given.attr.device.neuron, 3);
        assert_int_equal(fake_fabric.given.attr.device.reserved, 3);
        assert_ptr_equal(fake_fabric.iov[0].iov_base, (void *)0x10000);
        assert_int_equal(fake_fabric.iov[0].iov_len, LEN);
        test_finish();
    }
}

/* libfabric indexes tables by iface and device. */
TEST(peermem__iface_or_device_that_has_no_name__refused_before_it_is_asked)
{
    struct world world = tcp_world;

    world.hmem = true;
    begin(&world);
    assert_int_equal(reg_claimed(6, 3), -EOPNOTSUPP);
    assert_refused(HMREG_PATH_PEERMEM, "libfabric-lacks-iface", "has no iface 6");
    assert_int_equal(reg_claimed(HMREG_IFACE_NEURON, HMREG_DEVICE_ANY), -EOPNOTSUPP);
    assert_refused(HMREG_PATH_PEERMEM, "device-unknown", "claim is HMREG_DEVICE_ANY");
    assert_refused(HMREG_PATH_MAPPED, "no-dmabuf-export", "no runtime for neuron");
    assert_int_equal(fake_fabric.regs, 0);
    test_finish();
    begin(&tcp_world);
    assert_int_equal(reg_claimed(HMREG_IFACE_NEURON, 3), -EOPNOTSUPP);
    assert_refused(HMREG_PATH_PEERMEM, "no-fi-hmem", "FI_HMEM");
    assert_int_equal(fake_fabric.regs, 0);
}

TEST(peermem__libfabric_without_the_runtime__says_so)
{
    struct world world = tcp_world;

    world.hmem = true;
    begin(&world);
    fake_fabric.reg_code = -FI_ENOSYS;
    fake_fabric.reg_failures = 1;
    assert_ok(reg());
    assert_ok(hmreg_mr_explain(region, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_refused(HMREG_PATH_PEERMEM, "fabric-refused", "without this runtime");
    assert_int_equal(reason(HMREG_PATH_PEERMEM)->vendor_code, -FI_ENOSYS);
}

TEST(peermem__bad_address__names_the_module)
{
    struct world world = dmabuf_world;

    world.library = FI_VERSION(1, 17);
    begin(&world);
    fake_fabric.reg_code = -FI_EFAULT;
    assert_fails(reg(), -EOPNOTSUPP, "no path to this cuda memory");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_refused(HMREG_PATH_PEERMEM, "fabric-refused", "peer-memory module");
    assert_refused(HMREG_PATH_MAPPED, "fabric-bypasses-cpu", "reads memory itself");
}

/* ---- mapped ----------------------------------------------------------------------------- */

/* libfabric 2 has no "net", and its tcp needs no ofi_rxm. */
TEST(mapped__tcp_by_each_of_its_names__registered)
{
    static const char *const names[] = {"tcp;ofi_rxm", "tcp", "net", "net;ofi_rxm"};

    for (int i = 0; i < 4; i++) {
        struct world world = tcp_world;

        world.provider = names[i];
        world.library = world.api = i < 2 ? FI_VERSION(2, 1) : FI_VERSION(1, 17);
        begin(&world);
        reg_and_explain();
        assert_int_equal(why.path, HMREG_PATH_MAPPED);
        test_finish();
    }
}

TEST(mapped__fabric_that_uses_the_cpu__the_mapping_is_registered)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    begin(&tcp_world);
    vendor_view(fixture.memory)[PLACE] = 'x';
    assert_ok(reg());
    assert_ok(hmreg_mr_query(region, &info));
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    assert_int_equal(info.addr, (uintptr_t)fixture.memory + PLACE);
    assert_ptr_equal(fake_fabric.iov[0].iov_base, (void *)info.local_addr);
    assert_int_equal(*(char *)info.local_addr, 'x');
    assert_int_equal(fake_fabric.given.attr.iface, FI_HMEM_SYSTEM);
    assert_int_equal(fake_fabric.given.attr.device.reserved, 0);
}

TEST(mapped__fabric_refuses__every_path_explained)
{
    begin(&tcp_world);
    fake_fabric.reg_code = -FI_EPERM;
    assert_fails(reg(), -EOPNOTSUPP, "no path to this cuda memory on tcp;ofi_rxm");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_int_equal(why.refused, 3);
    assert_refused(HMREG_PATH_DMABUF, "fabric-imports-no-dmabuf", "tcp;ofi_rxm");
    assert_refused(HMREG_PATH_PEERMEM, "no-fi-hmem", "FI_HMEM");
    assert_refused(HMREG_PATH_MAPPED, "fabric-refused", "fi_mr_regattr()");
}

/* ---- mapped, where the kernel must find pages ------------------------------------------- */

/* Memory whose mapping has no pages that the kernel can pin, as a GPU's. */
static void take_pages_away(enum hmreg_iface iface)
{
    struct vendor_claim *claim = &vendors[iface].claims[0];
    int fd = (int)syscall(SYS_memfd_secret, 0);

    if (fd < 0) {
        test_finish();
        test_skip("no memfd_secret(2) here, which stands for memory without pages: %s",
                  strerror(errno));
    }
    assert_int_equal(ftruncate(fd, BYTES), 0);
    close(claim->fd);
    claim->fd = fd;
}

static void without_pages(const char *provider, bool hmem, bool works, const char *words)
{
    struct world world = tcp_world;

    world.provider = provider;
    world.hmem = hmem;
    begin(&world);
    take_pages_away(world.iface);
    fake_fabric.reg_code = -FI_ENOSYS; /* of path peermem */
    fake_fabric.reg_failures = hmem;
    reg_and_explain();
    assert_int_equal(why.path, works ? HMREG_PATH_MAPPED : HMREG_PATH_NONE);
    if (!works) {
        assert_refused(HMREG_PATH_MAPPED, "mapping-has-no-pages", words);
        assert_int_equal(reason(HMREG_PATH_MAPPED)->code, -EFAULT);
        assert_int_equal(fake_fabric.live, 0);
    }
    test_finish();
}

TEST(mapped__shm_with_cma__refused)
{
    without_pages("shm", false, false, "FI_SHM_DISABLE_CMA=1");
}

TEST(mapped__shm_with_cma_and_pages__registered)
{
    struct world world = tcp_world;

    world.provider = "shm";
    begin(&world);
    reg_and_explain();
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
}

TEST(mapped__shm_without_cma__registered)
{
    static const char *const on[] = {"1", "on", "TRUE", "yes"};

    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        setenv("FI_SHM_DISABLE_CMA", on[i], 1);
        without_pages("shm", false, true, NULL);
    }
    setenv("FI_SHM_DISABLE_CMA", "0", 1);
    without_pages("shm", false, false, "CMA");
    unsetenv("FI_SHM_DISABLE_CMA");
}

TEST(mapped__shm_with_fi_hmem__registered)
{
    without_pages("shm", true, true, NULL);
}

TEST(mapped__tcp_with_zero_copy__refused)
{
    without_pages("tcp;ofi_rxm", false, true, NULL);
    setenv("FI_TCP_ZEROCOPY_SIZE", "9000", 1);
    without_pages("tcp;ofi_rxm", false, false, "MSG_ZEROCOPY");
    setenv("FI_TCP_ZEROCOPY_SIZE", "18446744073709551615", 1);
    without_pages("tcp;ofi_rxm", false, true, NULL);
    unsetenv("FI_TCP_ZEROCOPY_SIZE");
}

/* ---- predicted paths -------------------------------------------------------------------- */

TEST(explain__domain__what_would_be_tried)
{
    begin(&tcp_world);
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_int_equal(why.refused, 2);
    assert_refused(HMREG_PATH_DMABUF, "fabric-imports-no-dmabuf", "tcp");
    assert_refused(HMREG_PATH_PEERMEM, "no-fi-hmem", "FI_HMEM");
    assert_int_equal(fake_fabric.regs, 0);
}

TEST_MAIN()
