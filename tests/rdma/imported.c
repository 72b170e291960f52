/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A dmabuf over libfabric's verbs: from libfabric 1.20 on the device imports it, and RMA writes its
 * bytes; hmreg does not try an older one, and the reason says so. Newer ones grant FI_HMEM to
 * devices with known names, such as Soft-RoCE renamed by as-mlx5.sh. */
#include "tests/support/fabric.h"
#include "tests/support/queries.h"
#include "tests/support/softgpu.h"

#include <sys/mman.h>

#define ROOM  65536
#define PLACE 8192 /* of the region in it */
#define BYTES 30011

static bool is_new(void)
{
    return FI_VERSION_GE(fi_version(), FI_VERSION(1, 20));
}

static bool grants(uint64_t caps)
{
    struct endpoint_hints hints = {.provider = fabric_name(), .caps = caps};
    struct endpoint endpoint;

    if (endpoint_open(&hints, &endpoint))
        return false;
    endpoint_close(&endpoint);
    return true;
}

static int reg(struct fabric *fabric, int fd, struct hmreg_mr **mr)
{
    struct hmreg_mr_dmabuf dmabuf = {.fd = fd, .offset = PLACE, .len = BYTES};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .dmabuf = &dmabuf};

    return hmreg_mr_regattr(fabric->domain, &attr, HMREG_REG_DMABUF, mr);
}

static void assert_bytes(int fd, unsigned seed)
{
    unsigned char *bytes = mmap(NULL, ROOM, PROT_READ, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    for (size_t i = 0; i < ROOM; i++) {
        bool inside = i >= PLACE && i - PLACE < BYTES;

        assert_int_equal(bytes[i], inside ? fabric_byte(seed, i - PLACE) : 0);
    }
    munmap(bytes, ROOM);
}

static void check_import(struct fabric *fabric, int fd)
{
    struct hmreg_mr *mr;

    assert_ok(reg(fabric, fd, &mr));
    assert_int_equal(softgpu_stat(fd).attached, 1);
    assert_ok(peer_take_region(fabric, mr));
    assert_ok(peer_write(fabric, 0, BYTES, 5));
    assert_ok(peer_read(fabric, 0, BYTES, 5));
    assert_fails(peer_write(fabric, BYTES - 1, 2, 6), -ERANGE, "outside the region");
    assert_bytes(fd, 5);
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(softgpu_stat(fd).attached, 0);
}

static void check_refusal(struct fabric *fabric, int fd)
{
    struct hmreg_mr *mr = (void *)1;

    assert_fails(reg(fabric, fd, &mr), -EOPNOTSUPP, "no path to this");
    assert_ptr_equal(mr, (void *)1);
    assert_string_equal(test_why_of(NULL).reasons[0].slug,
                        is_new() ? "no-fi-hmem" : "libfabric-too-old");
}

TEST(reg__dmabuf__imported_or_libfabric_is_too_old)
{
    struct endpoint_hints hints = {.caps = is_new() && grants(FI_HMEM) ? FI_HMEM : 0};
    struct fabric fabric;
    int fd;

    softgpu_need();
    if (getenv("HMREG_TEST_MLX5"))
        assert_int_equal(hints.caps, is_new() ? FI_HMEM : 0);
    fabric_open_pair(&fabric, &hints);
    fd = softgpu_alloc(ROOM, 0);
    (hints.caps ? check_import : check_refusal)(&fabric, fd);
    close(fd);
    fabric_close(&fabric);
    softgpu_assert_clean();
}

FABRIC_TEST_MAIN()
