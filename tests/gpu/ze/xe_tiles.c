/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of a GPU of two tiles as Intel's own driver has it, over the stand-in for the kernel's
 * module xe: with the card as a device, and with each tile as one.
 */
#include "core/base/error.h"
#include "tests/gpu/ze/bench.h"

#include <errno.h>
#include <unistd.h>

static struct app app;

static struct hmem *begin(void)
{
    struct hmem *self = bench_open_real();

    app_open(&app, 0);
    return self;
}

/* Exports memory of `len` bytes, all of it, of which the driver's device is `on`; in the list: 0 or
 * `device`. */
static void check_exported(struct hmem *self, ze_device_handle_t on, int device, size_t len,
                           off_t object)
{
    uint64_t addr = app_alloc(&app, on, len);
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr, len, &range));
    assert_int_equal(range.kind, HMREG_MEM_DEVICE);
    assert_int_equal(range.device, device);
    assert_int_equal(range.segments, 1);
    assert_ok(ze->export_dmabuf(self, addr, len, &range, 0, &dmabuf));
    assert_int_equal(dmabuf.offset, 0);
    assert_int_equal(lseek(dmabuf.fd, 0, SEEK_END), object);
    close(dmabuf.fd);
    app_free(&app, addr);
}

/* The driver spreads memory of the card over its tiles, if it is longer than a page, and its
 * descriptor is that of the first half. */
TEST(composite__memory_of_the_card__on_both_tiles_and_refused)
{
    struct hmem *self = begin();
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem_range range = {0};
    uint64_t addr;

    assert_int_equal(app.device_count, 1);
    check_exported(self, app.devices[0], 0, 5000, 65536);
    addr = app_alloc(&app, app.devices[0], 4 * MIB);
    assert_ok(ze->resolve(self, addr, 4 * MIB, &range));
    assert_int_equal(range.segments, 2);
    assert_false(range.exportable);
    assert_fails(ze->export_dmabuf(self, addr, 100, &range, 0, &dmabuf), -EXDEV, "on 2 tiles");
    assert_int_equal(dmabuf.fd, -7);
    app_free(&app, addr);
}

/* A tile is not in the list of devices: it is the card's. */
TEST(composite__memory_of_a_tile__the_cards)
{
    struct hmem *self = begin();
    ze_device_handle_t tiles[2];
    uint32_t count = 2;

    assert_int_equal(zeDeviceGetSubDevices(app.devices[0], &count, tiles), 0);
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++)
        check_exported(self, tiles[i], 0, 4 * MIB, 4 * MIB);
}

TEST(flat__memory_of_each_tile__a_device_of_its_own)
{
    struct hmem *self = begin();

    assert_int_equal(app.device_count, 2);
    for (int i = 0; i < 2; i++)
        check_exported(self, app.devices[i], i, 4 * MIB, 4 * MIB);
}

TEST_MAIN()
