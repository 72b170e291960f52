/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Data direct in the verbs provider, on a simulated libibverbs and a simulated libmlx5 that is
 * loaded as libibverbs loads its drivers: what each version of it and each NIC answers. */
#include "simulated/engine/pcie.h"
#include "simulated/nic/mlx5.h"
#include "tests/support/queries.h"
#include "tests/unit/verbs_fixture.h"

#include <dlfcn.h>
#include <hmreg/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES DEVICE_BYTES

static struct {
    bool supported;
    int path_result;
    unsigned paths;
    unsigned imports;
} mlx5;

static bool supported(struct ibv_device *device)
{
    return mlx5.supported;
}

static int path(struct ibv_context *context, char *out, size_t size)
{
    mlx5.paths++;
    if (!mlx5.path_result)
        strcpy(out, "/sys/devices/pci0000:00/0000:00:01.0");
    return mlx5.path_result;
}

static struct ibv_mr *reg_mlx5(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                               int fd, int access, int mlx5_access)
{
    mlx5.imports++;
    return fake_verbs_reg_mlx5(pd, offset, length, iova, fd, access, mlx5_access);
}

static void *loaded; /* what the case has loaded */

static void end(void)
{
    if (loaded)
        dlclose(loaded);
    assert_null(dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD)); /* no reference is left */
}

static void begin(const char *library)
{
    struct fake_mlx5 *fake;

    test_after(end);
    memset(&mlx5, 0, sizeof(mlx5));
    mlx5.supported = true;
    loaded = NULL;
    if (library) {
        loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(loaded);
        fake = dlsym(loaded, "hmreg_fake_mlx5");
        *fake = (struct fake_mlx5){supported, path, reg_mlx5};
    }
    verbs_begin();
}

static void open_with(enum hmreg_way first, enum hmreg_way second)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = HMREG_VERBS_MEMORY_WINDOWS, .ways = {first, second}};

    assert_ok(verbs_open_domain(&config));
}

static int reg(struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture.domain, fixture.there + 4099, 5000, HMREG_REMOTE_WRITE, 0, 0, 0, mr,
                        NULL);
}

static enum hmreg_way way_of(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, HMREG_PATH_DMABUF);
    return info.way;
}

static void assert_reason(const struct hmreg_reason *reason, const char *slug, int code,
                          int64_t vendor, const char *words)
{
    assert_string_equal(reason->slug, slug);
    assert_int_equal(reason->code, code);
    assert_int_equal(reason->vendor_code, vendor);
    if (!strstr(reason->text, words))
        fail_msg("\"%s\" is without \"%s\"", reason->text, words);
}

/* ---- there is data direct --------------------------------------------------------------- */

/* The usual import may still have room. */
TEST(reg__data_direct_fails__plain)
{
    static const struct {
        int errnum, code;
        const char *words;
    } cases[] = {
        {EINVAL, -EINVAL, "data-direct: fake0 did not import the dmabuf for data direct"},
        {EOPNOTSUPP, -EOPNOTSUPP, "(error 95)"},
        {ENOMEM, -ENOMEM, "(BAR1) is full"},
        {524, -EOPNOTSUPP, "below one PCI switch"},
    };

    begin(FAKE_MLX5);
    open_with(HMREG_WAY_DATA_DIRECT, HMREG_WAY_PLAIN);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_explanation why;
        struct hmreg_mr *mr;

        fake_verbs.mlx5_error = cases[i].errnum;
        assert_ok(reg(&mr));
        assert_int_equal(way_of(mr), HMREG_WAY_PLAIN);
        assert_int_equal(fake_verbs.by_mlx5, 0);
        why = test_why_of(mr);
        assert_int_equal(why.refused, 1);
        assert_reason(&why.reasons[0], "data-direct-refused", cases[i].code, cases[i].errnum,
                      cases[i].words);
        assert_ok(hmreg_mr_close(mr));
    }
    fake_verbs.mlx5_error = 0; /* a failure is not remembered */
}

/* A NIC that takes a dmabuf from its beginning only: peers still use the range's own address. */
TEST(reg__data_direct_from_the_beginning_only__unaligned_ranges_too)
{
    static const size_t skips[] = {0, 3, 512, 4095};
    struct hmreg_piece_info piece = {.size = sizeof(piece)};

    begin(FAKE_MLX5);
    open_with(HMREG_WAY_DATA_DIRECT, HMREG_WAY_PLAIN);
    fake_verbs.mlx5_whole = true;
    for (size_t i = 0; i < sizeof(skips) / sizeof(skips[0]); i++) {
        uint64_t addr = (uint64_t)(uintptr_t)fixture.there + skips[i];
        struct hmreg_mr *mr;

        assert_ok(hmreg_mr_reg(fixture.domain, (void *)(uintptr_t)addr, 5000, HMREG_REMOTE_WRITE, 0,
                               0, 0, &mr, NULL));
        assert_int_equal(way_of(mr), HMREG_WAY_DATA_DIRECT);
        assert_int_equal(test_why_of(mr).refused, 0);
        assert_int_equal(fake_verbs.offset, 0);
        assert_true(fake_verbs.iova <= addr && addr - fake_verbs.iova < 4096);
        assert_int_equal(fake_verbs.length, addr - fake_verbs.iova + 5000);
        assert_int_equal(fake_verbs.live, 1);
        assert_ok(hmreg_mr_piece(mr, 0, &piece));
        assert_int_equal(piece.path, HMREG_PATH_DMABUF);
        assert_int_equal(piece.way, HMREG_WAY_DATA_DIRECT);
        assert_int_equal(piece.len, 5000);
        assert_ok(hmreg_mr_close(mr));
    }
}

/* Then peers would reach what lies before the range's first page. */
TEST(reg__data_direct_from_the_beginning_only_and_far__plain_for_peers)
{
    static const uint64_t rights[] = {HMREG_REMOTE_WRITE, HMREG_READ};
    struct hmreg_mr_dmabuf dmabuf = {
        .fd = memfd_create("far", MFD_CLOEXEC), .offset = 8195, .len = 5000};
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .dmabuf = &dmabuf};

    begin(FAKE_MLX5);
    open_with(HMREG_WAY_DATA_DIRECT, HMREG_WAY_PLAIN);
    fake_verbs.mlx5_whole = true;
    dmabuf.base_addr = fixture.there;
    assert_ok(ftruncate(dmabuf.fd, 16384));
    for (unsigned local = 0; local < 2; local++) {
        struct hmreg_mr *mr;

        attr.access = rights[local];
        assert_ok(hmreg_mr_regattr(fixture.domain, &attr, HMREG_REG_DMABUF, &mr));
        assert_int_equal(way_of(mr), local ? HMREG_WAY_DATA_DIRECT : HMREG_WAY_PLAIN);
        assert_int_equal(test_why_of(mr).refused, !local);
        assert_int_equal(fake_verbs.length, local ? 8195 + 5000 : 5000);
        assert_ok(hmreg_mr_close(mr));
    }
    close(dmabuf.fd);
}

TEST(dereg__for_data_direct__as_usual)
{
    struct hmreg_mr *mr;

    begin(FAKE_MLX5);
    open_with(0, 0);
    assert_ok(reg(&mr));
    fake_verbs.dereg_result = EBUSY;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "memory window");
    fake_verbs.dereg_result = 0;
    assert_ok(hmreg_mr_close(mr));
}

/* ---- there is none ---------------------------------------------------------------------- */

static void none(const char *library, bool is_mlx5, int path_result, const char *slug,
                 const char *words)
{
    struct hmreg_explanation why;
    struct hmreg_mr *mr;

    begin(library);
    mlx5.supported = is_mlx5;
    mlx5.path_result = path_result;
    open_with(HMREG_WAY_DATA_DIRECT, HMREG_WAY_PLAIN);
    assert_ok(reg(&mr));
    assert_int_equal(way_of(mr), HMREG_WAY_PLAIN);
    assert_int_equal(mlx5.imports, 0);
    why = test_why_of(mr);
    assert_int_equal(why.refused, 1);
    assert_reason(&why.reasons[0], slug, -EOPNOTSUPP, path_result, words);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(fixture.domain));

    /* Unasked, such a NIC is not tried for it, and nothing is said. */
    open_with(0, 0);
    assert_ok(reg(&mr));
    assert_int_equal(test_why_of(mr).refused, 0);
    assert_ok(hmreg_mr_close(mr));
    test_finish();
}

TEST(reg__no_data_direct__each_reason)
{
    none(NULL, false, 0, "no-data-direct", "data-direct: fake0 is not an mlx5 NIC");
    none(FAKE_MLX5, false, 0, "no-data-direct", "fake0 is not an mlx5 NIC");
    none(FAKE_MLX5_OLD, false, 0, "no-data-direct", "fake0 is not an mlx5 NIC");
    none(FAKE_MLX5_OLD, true, 0, "rdma-core-too-old", "rdma-core 54");
    none(FAKE_MLX5, true, ENODEV, "no-data-direct", "says: No such device");
    none(FAKE_MLX5, true, EOPNOTSUPP, "no-data-direct", "ConnectX-8");
    none(FAKE_MLX5, true, ENOSPC, "no-data-direct", "No space left");
}

/* EFA has no link but PCIe. */
TEST(reg__efa_and_a_coherent_device__pcie_first)
{
    struct hmreg_mr *mr;

    begin(NULL);
    vendors[HMREG_IFACE_CUDA].coherent = true;
    fake_verbs.limits.vendor_id = 0x1d0f;
    open_with(0, 0);
    assert_ok(reg(&mr));
    assert_int_equal(way_of(mr), HMREG_WAY_PCIE);
    assert_true(fake_is_pcie(fake_verbs.fd));
    assert_int_equal(fake_verbs.by_mlx5, 0);
    assert_ok(hmreg_mr_close(mr));
    fake_verbs.dmabuf_error =
        ENOMEM; /* the window of the PCIe mapping is full, and the usual one */
    assert_fails(reg(&mr), -EOPNOTSUPP, "no path to this cuda");
}

TEST_MAIN()
