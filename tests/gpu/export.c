/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Descriptors: offset and length name exactly the bytes, whatever the alignment, and the caller
 * owns them.
 */
#include "tests/gpu/gpu.h"

#include <fcntl.h>
#include <sys/mman.h>

#define LEN 300001

/* Skips the case if the real device does not export. */
static struct hmem *begin(void)
{
    struct hmem *self = gpu.begin();
    struct hmem_device device;

    gpu.ops->device(self, 0, &device);
    if (!device.dmabuf) {
        gpu.end(self);
        test_skip("%s exports no dmabuf", device.name);
    }
    return self;
}

/* Maps the exported bytes, as a fabric does. NULL: a real dmabuf may refuse the CPU. */
static unsigned char *map(const struct hmreg_dmabuf *dmabuf)
{
    size_t skip = dmabuf->offset % (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *view = mmap(NULL, skip + dmabuf->length, PROT_READ | PROT_WRITE, MAP_SHARED,
                               dmabuf->fd, (off_t)(dmabuf->offset - skip));

    if (view == MAP_FAILED) {
        assert_null(gpu.fake());
        return NULL;
    }
    return view + skip;
}

static void unmap(unsigned char *bytes, size_t len)
{
    size_t skip = (uintptr_t)bytes % (size_t)sysconf(_SC_PAGESIZE);

    if (bytes)
        assert_int_equal(munmap(bytes - skip, skip + len), 0);
}

/* The memory's bytes are at the offset, bytes written there arrive in the memory, and bytes outside
 * the range do not change. */
static void check_names(struct hmem *self, uint64_t base, size_t alloc_len, size_t skip, size_t len)
{
    struct hmreg_dmabuf dmabuf = gpu_export(self, base + skip, len);
    unsigned char *bytes = map(&dmabuf);

    gpu_fill(self, base, alloc_len, 1);
    if (bytes) {
        for (size_t i = 0; i < len; i++)
            if (bytes[i] != gpu_byte(skip + i, 1))
                fail_msg("byte %zu of the %zu at %zu is %#x", i, len, skip, bytes[i]);
        memset(bytes, 0xee, len);
        gpu_check(self, base, alloc_len, 1, skip, len, 0xee);
    }
    unmap(bytes, len);
    assert_int_equal(close(dmabuf.fd), 0);
}

/* ---- which bytes ------------------------------------------------------------------------ */

TEST(export__any_place_and_length__names_the_bytes)
{
    static const size_t cuts[][2] = {{0, LEN},         {0, 1},       {1, 1},        {4095, 2},
                                     {4096, 4096},     {4097, 8191}, {65535, 4000}, {LEN - 1, 1},
                                     {12345, 67891},   {8191, 1},    {1, LEN - 2},  {511, 66000},
                                     {LEN - 5001, 11}, {3, LEN - 3}};
    struct hmem *self = begin();

    for (int device = 0; device < gpu.devices(); device++) {
        uint64_t addr = gpu.alloc(device, HMREG_MEM_DEVICE, LEN);

        for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
            struct hmreg_dmabuf dmabuf = gpu_export(self, addr + cuts[i][0], cuts[i][1]);

            if (gpu.fake())
                assert_int_equal(dmabuf.offset, cuts[i][0]);
            close(dmabuf.fd);
            check_names(self, addr, LEN, cuts[i][0], cuts[i][1]);
        }
        gpu.free(addr, HMREG_MEM_DEVICE);
    }
    gpu.end(self);
}

/* Small allocations share a page, and so a descriptor: the offset distinguishes them. */
TEST(export__small_neighbours__each_its_own_bytes)
{
    struct hmem *self = begin();
    uint64_t addrs[3];

    for (int i = 0; i < 3; i++)
        addrs[i] = gpu.alloc(0, HMREG_MEM_DEVICE, 600);
    for (int i = 0; i < 3; i++) {
        struct hmreg_dmabuf dmabuf = gpu_export(self, addrs[i] + 5, 100);

        assert_int_equal(dmabuf.offset % 4096, (addrs[i] + 5) % 4096);
        close(dmabuf.fd);
        for (int j = 1; j < 3; j++)
            gpu_fill(self, addrs[(i + j) % 3], 600, 2);
        check_names(self, addrs[i], 600, 5, 590);
        for (int j = 1; j < 3; j++)
            gpu_check(self, addrs[(i + j) % 3], 600, 2, 0, 0, 0);
    }
    for (int i = 0; i < 3; i++)
        gpu.free(addrs[i], HMREG_MEM_DEVICE);
    gpu.end(self);
}

/* ---- ownership of descriptors ----------------------------------------------------------- */

/* A runtime may keep a descriptor of its own from the first export on. */
static uint64_t alloc_and_export(struct hmem *self)
{
    uint64_t addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);

    close(gpu_export(self, addr, LEN).fd);
    return addr;
}

TEST(export__twice__two_descriptors_close_on_exec)
{
    struct hmem *self = begin();
    uint64_t addr = alloc_and_export(self);
    int before = test_count_fds();
    struct hmreg_dmabuf first = gpu_export(self, addr, LEN);
    struct hmreg_dmabuf second = gpu_export(self, addr + 4096, 4096);

    assert_int_equal(test_count_fds(), before + 2);
    assert_int_not_equal(first.fd, second.fd);
    assert_int_equal(fcntl(first.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(second.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(close(first.fd), 0);
    assert_int_equal(close(second.fd), 0);
    assert_int_equal(test_count_fds(), before);
    check_names(self, addr, LEN, 4097, 4096);
    gpu.free(addr, HMREG_MEM_DEVICE);
    gpu.end(self);
}

TEST(export__descriptor_0_free__left_to_the_program)
{
    struct hmem *self = begin();
    uint64_t addr = alloc_and_export(self);
    int kept = fcntl(0, F_DUPFD_CLOEXEC, 10);
    struct hmreg_dmabuf dmabuf;
    unsigned char *bytes;

    assert_true(kept >= 0);
    close(0);
    gpu_fill(self, addr, LEN, 3);
    dmabuf = gpu_export(self, addr + 1, 10);
    assert_int_equal(fcntl(0, F_GETFD), -1);
    assert_int_equal(fcntl(dmabuf.fd, F_GETFD), FD_CLOEXEC);
    bytes = map(&dmabuf);
    if (bytes)
        assert_int_equal(bytes[9], gpu_byte(10, 3));
    unmap(bytes, 10);
    close(dmabuf.fd);
    assert_int_equal(dup2(kept, 0), 0);
    close(kept);
    gpu.free(addr, HMREG_MEM_DEVICE);
    gpu.end(self);
}

/* ---- refusals --------------------------------------------------------------------------- */

static void check_refused(struct hmem *self, uint64_t addr, const struct hmem_range *range,
                          int code, const char *words)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7, .offset = 11, .length = 13};
    int before = test_count_fds();

    assert_fails(gpu.ops->export_dmabuf(self, addr, 10, range, 0, &dmabuf), code, words);
    assert_int_equal(dmabuf.fd, -7);
    assert_int_equal(dmabuf.offset, 11);
    assert_int_equal(dmabuf.length, 13);
    assert_int_equal(test_count_fds(), before);
}

TEST(export__memory_of_the_host__eopnotsupp)
{
    static const char *const words[] = {"", "by its address", "between host and device"};
    struct hmem *self = gpu.begin();

    for (unsigned k = 1; k < gpu.kinds; k++) {
        uint64_t addr = gpu.alloc(0, gpu_kinds[k], MIB);
        struct hmem_range range = gpu_resolve(self, addr, 10);

        assert_false(range.exportable);
        check_refused(self, addr, &range, -EOPNOTSUPP, words[k]);
        gpu.free(addr, gpu_kinds[k]);
    }
    gpu.end(self);
}

TEST(export__freed_since_resolve__efault)
{
    struct hmem *self = gpu.begin();
    uint64_t addr = gpu.alloc(0, HMREG_MEM_DEVICE, gpu.fake() ? MIB : 64 * MIB);
    struct hmem_range range = gpu_resolve(self, addr, 10);

    gpu.free(addr, HMREG_MEM_DEVICE);
    check_refused(self, addr, &range, -EFAULT, "was freed");
    gpu.end(self);
}

TEST_MAIN()
