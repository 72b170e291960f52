/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The simulated GPU and Soft-RoCE's dmabufs by themselves, on which other tests rely. */
#include "tests/support/softgpu.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define BYTES  (64u << 10)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct device {
    struct ibv_context *context;
    struct ibv_pd *pd;
};

static struct device open_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct device device;

    assert_non_null(list);
    assert_non_null(list[0]);
    device.context = ibv_open_device(list[0]);
    assert_non_null(device.context);
    device.pd = ibv_alloc_pd(device.context);
    assert_non_null(device.pd);
    ibv_free_device_list(list);
    return device;
}

static void close_device(const struct device *device)
{
    assert_int_equal(ibv_dealloc_pd(device->pd), 0);
    assert_int_equal(ibv_close_device(device->context), 0);
}

static char *map(int fd)
{
    char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    return bytes;
}

/* ---- memory ----------------------------------------------------------------------------- */

TEST(memory__cpu_loads_and_stores)
{
    int fd = softgpu_alloc(BYTES, 0);
    char *one = map(fd), *other = map(fd);

    assert_int_equal(one[BYTES - 1], 0);
    memset(one, 7, BYTES);
    assert_memory_equal(one, other, BYTES);
    assert_int_equal(softgpu_stat(-1).buffers, 1);
    close(fd);
    assert_int_equal(other[1], 7);
    munmap(one, BYTES);
    munmap(other, BYTES);
    softgpu_assert_clean();
}

TEST(memory__pinned_by_its_address__efault)
{
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    char *bytes = map(fd), byte;
    struct iovec to = {&byte, 1}, from = {bytes, 1};

    bytes[0] = 1;
    assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), -1);
    assert_int_equal(errno, EFAULT);
    assert_null(ibv_reg_mr(device.pd, bytes, BYTES, ACCESS));
    assert_int_equal(errno, EFAULT);
    munmap(bytes, BYTES);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

TEST(memory__not_for_the_cpu__enodev)
{
    int fd = softgpu_alloc(BYTES, SOFTGPU_NO_MMAP);

    assert_ptr_equal(mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(errno, ENODEV);
    close(fd);
    softgpu_assert_clean();
}

TEST(move__bytes_stay_and_importers_are_notified)
{
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    char *bytes = map(fd);
    unsigned before = softgpu_stat(-1).moved;
    struct ibv_mr *mr;

    memset(bytes, 9, BYTES);
    assert_int_equal(softgpu_move(fd, false), 0);
    assert_int_equal(bytes[BYTES - 1], 9);
    assert_int_equal(softgpu_stat(fd).moved, 1);
    mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS);
    assert_non_null(mr);
    assert_int_equal(softgpu_move(fd, false), -1);
    assert_int_equal(errno, EBUSY);
    assert_int_equal(softgpu_stat(fd).moved, 1);
    assert_int_equal(softgpu_stat(-1).moved, before);
    assert_int_equal(softgpu_move(fd, true), 0);
    assert_int_equal(softgpu_stat(-1).moved, before + 1);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(bytes, BYTES);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

/* ---- regions ---------------------------------------------------------------------------- */

TEST(reg__attached_pinned_and_mapped_while_registered)
{
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(device.pd, 4097, 100, 1, fd, ACCESS);
    struct softgpu_stat stat;

    assert_non_null(mr);
    stat = softgpu_stat(fd);
    assert_int_equal(stat.attached, 1);
    assert_true(stat.pinned >=
                1); /* a kernel without move notices pins memory in order to map it */
    assert_int_equal(stat.mapped, 1);
    assert_int_equal(softgpu_stat(-1).regions, 1);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    stat = softgpu_stat(fd);
    assert_int_equal(stat.attached + stat.pinned + stat.mapped, 0);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

TEST(reg__descriptor_closed__memory_lives_as_long_as_the_region)
{
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS);

    assert_non_null(mr);
    close(fd);
    assert_int_equal(softgpu_stat(-1).buffers, 1);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_device(&device);
    softgpu_assert_clean();
}

TEST(reg__wrong_argument__refused)
{
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    int file = memfd_create("no dmabuf", MFD_CLOEXEC);
    const struct {
        uint64_t offset, length, iova;
        int fd, errnum;
    } cases[] = {
        {4096, BYTES, 0, fd, EINVAL}, {UINT64_MAX - 4095, 8192, 0, fd, EINVAL},
        {1, 100, 0, fd, EINVAL}, /* iova and offset differ within their pages */
        {0, 4096, 0, file, EINVAL},   {0, 4096, 0, -1, EBADF},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        errno = 0;
        assert_null(ibv_reg_dmabuf_mr(device.pd, cases[i].offset, cases[i].length, cases[i].iova,
                                      cases[i].fd, ACCESS));
        assert_int_equal(errno, cases[i].errnum);
    }
    close(file);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

TEST(fault__each_step__is_what_the_caller_sees)
{
    static const enum softgpu_op steps[] = {SOFTGPU_OP_ATTACH, SOFTGPU_OP_PIN, SOFTGPU_OP_MAP};
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    struct ibv_mr *mr;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        softgpu_fail(steps[i], ENOSPC);
        errno = 0;
        assert_null(ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS));
        assert_int_equal(errno, ENOSPC);
        mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS);
        assert_non_null(mr);
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    softgpu_fail(SOFTGPU_OP_MOVE, EIO);
    assert_int_equal(softgpu_move(fd, false), -1);
    assert_int_equal(errno, EIO);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

/* ---- peer memory ------------------------------------------------------------------------ */

TEST(peermem__on__mappings_are_registered)
{
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    char *bytes = map(fd);
    struct ibv_mr *mr;

    assert_int_equal(access("/sys/kernel/mm/memory_peers/softgpu/version", R_OK), -1);
    softgpu_peermem(true);
    assert_int_equal(access("/sys/kernel/mm/memory_peers/softgpu/version", R_OK), 0);
    mr = ibv_reg_mr(device.pd, bytes + 100, BYTES - 200, ACCESS);
    assert_non_null(mr);
    assert_int_equal(softgpu_stat(fd).attached, 1);
    assert_null(ibv_reg_mr(device.pd, bytes + BYTES - 4096, 8192, ACCESS));
    softgpu_peermem(false);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_null(ibv_reg_mr(device.pd, bytes, BYTES, ACCESS));
    assert_int_equal(errno, EFAULT);
    munmap(bytes, BYTES);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

/* ---- NVIDIA's rules --------------------------------------------------------------------- */

TEST(nvidia__exporter__mapped_when_attached_and_never_moved)
{
    struct device device = open_device();
    struct softgpu_stat stat;
    struct ibv_mr *mr;
    int fd;

    softgpu_set("nvidia", "1");
    fd = softgpu_alloc(100, 0);
    softgpu_set("nvidia", "0");
    assert_int_equal(lseek(fd, 0, SEEK_END), SOFTGPU_NVIDIA_PAGE);
    mr = ibv_reg_dmabuf_mr(device.pd, 0, 65536, 0, fd, ACCESS);
    assert_non_null(mr);
    stat = softgpu_stat(fd);
    assert_int_equal(stat.attached, 1);
    assert_int_equal(stat.mapped, 1);
    assert_int_equal(stat.pinned, 0);
    assert_int_equal(softgpu_move(fd, false), -1);
    assert_int_equal(errno, EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

static void assert_refused(const struct device *device, int fd, int errnum)
{
    errno = 0;
    assert_null(ibv_reg_dmabuf_mr(device->pd, 0, BYTES, 0, fd, ACCESS));
    assert_int_equal(errno, errnum);
}

TEST(nvidia__any_failure_to_map__enomem)
{
    struct device device = open_device();
    struct ibv_mr *mr;
    int fds[2];

    softgpu_set("nvidia", "1");
    fds[0] = softgpu_alloc(BYTES, 0);
    fds[1] = softgpu_alloc(BYTES, 0);
    softgpu_set("nvidia", "0");
    softgpu_fail(SOFTGPU_OP_MAP, EIO);
    assert_refused(&device, fds[0], ENOMEM);
    softgpu_fail(SOFTGPU_OP_ATTACH, 524);
    assert_refused(&device, fds[0], 524);
    softgpu_set("bar1_kib", "64");
    mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fds[0], ACCESS);
    assert_non_null(mr);
    assert_refused(&device, fds[1], ENOMEM);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fds[1], ACCESS);
    assert_non_null(mr);
    softgpu_set("bar1_kib", "0");
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close(fds[0]);
    close(fds[1]);
    close_device(&device);
    softgpu_assert_clean();
}

static int alloc_nvidia(size_t len)
{
    int fd;

    softgpu_set("nvidia", "1");
    fd = softgpu_alloc(len, 0);
    softgpu_set("nvidia", "0");
    return fd;
}

/* At an address of whole pages of NVIDIA's, and `skip` bytes. */
static char *map_at(int fd, size_t len, size_t skip)
{
    size_t page = SOFTGPU_NVIDIA_PAGE;
    char *room = mmap(NULL, len + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *bytes;

    assert_ptr_not_equal(room, MAP_FAILED);
    bytes = room + (page - (uintptr_t)room % page) % page + skip;
    assert_ptr_equal(mmap(bytes, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
                     bytes);
    return bytes;
}

static void serve(const char *client)
{
    softgpu_peermem(false);
    softgpu_set("client", client);
    softgpu_peermem(strcmp(client, "softgpu") != 0);
}

static void assert_not_its(const struct device *device, char *bytes, size_t len)
{
    errno = 0;
    assert_null(ibv_reg_mr(device->pd, bytes, len, ACCESS));
    assert_int_equal(errno, EFAULT);
}

/* Pages of addresses: all that the driver has not mapped whole is not its. */
TEST(nvidia__peermem__whole_pages_of_64_kib)
{
    static const char *const clients[] = {"nv_mem", "nv_mem_nc"};
    struct device device = open_device();
    int fd = alloc_nvidia(2 * BYTES);
    struct ibv_mr *mr;

    for (int i = 0; i < 2; i++) {
        char path[80], *bytes = map_at(fd, 2 * BYTES - 4096, 0);

        serve(clients[i]);
        snprintf(path, sizeof(path), "/sys/kernel/mm/memory_peers/%s/version", clients[i]);
        assert_int_equal(access(path, R_OK), 0);
        mr = ibv_reg_mr(device.pd, bytes + 100, BYTES - 100, ACCESS);
        assert_non_null(mr);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        assert_not_its(&device, bytes + 100, BYTES);
        munmap(bytes, 2 * BYTES - 4096);
        bytes = map_at(fd, BYTES, 4096);
        assert_not_its(&device, bytes, 4096);
        munmap(bytes, BYTES);
    }
    serve("softgpu");
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

/* Unlike an import, for which that is ENOMEM. */
TEST(nvidia__peermem__bar1_full__efault)
{
    struct device device = open_device();
    int fds[2] = {alloc_nvidia(BYTES), alloc_nvidia(BYTES)};
    char *bytes = map_at(fds[1], BYTES, 0);
    struct ibv_mr *mr;

    serve("nv_mem_nc");
    softgpu_set("bar1_kib", "64");
    mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fds[0], ACCESS);
    assert_non_null(mr);
    assert_not_its(&device, bytes, BYTES);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    mr = ibv_reg_mr(device.pd, bytes, BYTES, ACCESS);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    softgpu_set("bar1_kib", "0");
    serve("softgpu");
    munmap(bytes, BYTES);
    close(fds[0]);
    close(fds[1]);
    close_device(&device);
    softgpu_assert_clean();
}

/* Each map has addresses of its own, which reach the memory until it ends. */
TEST(nvidia__each_map__has_addresses_of_its_own)
{
    struct device device = open_device();
    struct ibv_mr *mr[3];
    uint64_t bus[3], found = 0;
    char *bytes;
    int fd;

    softgpu_set("nvidia", "1");
    fd = softgpu_alloc(BYTES, 0);
    softgpu_set("nvidia", "0");
    bytes = map(fd);
    memset(bytes, 6, BYTES);
    for (int i = 0; i < 3; i++) {
        mr[i] = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS);
        assert_non_null(mr[i]);
        bus[i] = softgpu_stat(fd).bus;
        assert_int_equal(softgpu_peek(bus[i], &found), 0);
        assert_int_equal(found, 0x0606060606060606);
        if (i == 1) /* the third map is made when one has ended */
            assert_int_equal(ibv_dereg_mr(mr[0]), 0);
    }
    assert_int_not_equal(bus[1], bus[0]);
    assert_int_not_equal(bus[2], bus[0]);
    assert_int_not_equal(bus[2], bus[1]);
    assert_int_equal(softgpu_peek(bus[0], &found), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(softgpu_peek(bus[1] + BYTES - 8, &found), 0);
    assert_int_equal(softgpu_peek(bus[1] + BYTES, &found), -1);
    for (int i = 1; i < 3; i++)
        assert_int_equal(ibv_dereg_mr(mr[i]), 0);
    assert_int_equal(softgpu_peek(bus[2], &found), -1);
    munmap(bytes, BYTES);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

static ino_t inode(int fd)
{
    struct stat about;

    assert_int_equal(fstat(fd, &about), 0);
    return about.st_ino;
}

/* Drivers of NICs import with peer-to-peer. */
TEST(nvidia__importer_without_peer_to_peer__enomem)
{
    struct device device = open_device();
    int fd;

    softgpu_set("nvidia", "1");
    fd = softgpu_alloc(BYTES, 0);
    softgpu_set("nvidia", "0");
    softgpu_set("peer2peer", "0");
    assert_refused(&device, fd, ENOMEM);
    softgpu_set("peer2peer", "1");
    close(fd);
    close_device(&device);
}

TEST(nvidia__imports_of_one_dmabuf__share_its_window)
{
    struct device device = open_device();
    struct ibv_mr *mrs[2];
    int fds[2];

    softgpu_set("nvidia", "1");
    fds[0] = softgpu_alloc(BYTES, 0);
    fds[1] = softgpu_alloc(BYTES, 0);
    softgpu_set("nvidia", "0");
    softgpu_set("bar1_kib", "64");
    for (int i = 0; i < 2; i++) {
        mrs[i] = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fds[0], ACCESS);
        assert_non_null(mrs[i]);
    }
    assert_int_equal(ibv_dereg_mr(mrs[0]), 0);
    assert_refused(&device, fds[1], ENOMEM);
    assert_int_equal(ibv_dereg_mr(mrs[1]), 0);
    mrs[1] = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fds[1], ACCESS);
    assert_non_null(mrs[1]);
    assert_int_equal(ibv_dereg_mr(mrs[1]), 0);
    softgpu_set("bar1_kib", "0");
    close(fds[0]);
    close(fds[1]);
    close_device(&device);
}

/* What an export of NVIDIA's driver is: a dmabuf of its own, with a handle of its own. */
TEST(nvidia__duplicate__another_dmabuf_that_holds_the_memory)
{
    struct device device = open_device();
    uint64_t found = 0;
    struct ibv_mr *mr;
    int fd, other;
    char *bytes;

    softgpu_set("nvidia", "1");
    fd = softgpu_alloc(BYTES, 0);
    softgpu_set("nvidia", "0");
    bytes = map(fd);
    memset(bytes, 1, BYTES);
    memset(bytes + 8192, 2, 4096);
    other = softgpu_duplicate(fd, 8192, 4096);
    assert_true(other >= 0);
    assert_int_not_equal(inode(fd), inode(other));
    assert_int_equal(lseek(other, 0, SEEK_END), 4096);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, other, 0), MAP_FAILED);
    assert_int_equal(errno, 524);
    assert_int_equal(softgpu_duplicate(fd, BYTES, 4096), -1);
    assert_int_equal(softgpu_duplicate(fd, 1, 4096), -1);
    assert_int_equal(softgpu_move(fd, true), -1);
    assert_int_equal(errno, EBUSY);
    munmap(bytes, BYTES);
    close(fd);
    mr = ibv_reg_dmabuf_mr(device.pd, 0, 4096, 0, other, ACCESS);
    assert_non_null(mr);
    assert_int_equal(softgpu_peek(softgpu_stat(other).bus, &found), 0);
    assert_int_equal(found, 0x0202020202020202);
    close(other);
    assert_int_equal(softgpu_stat(-1).buffers, 2);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_device(&device);
    softgpu_assert_clean();
}

/* ---- memory without pages --------------------------------------------------------------- */

static int alloc_without_pages(void)
{
    int fd;

    softgpu_set("pages", "0");
    fd = softgpu_alloc(BYTES, 0);
    softgpu_set("pages", "1");
    return fd;
}

TEST(no_pages__cpu_loads_and_stores_and_moves)
{
    int fd = alloc_without_pages(), other;
    char *bytes = map(fd), byte;
    struct iovec to = {&byte, 1}, from = {bytes, 1};

    memset(bytes, 5, BYTES);
    assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(softgpu_move(fd, false), 0);
    assert_int_equal(bytes[0], 5);
    assert_int_equal(bytes[BYTES - 1], 5);
    munmap(bytes, BYTES);
    close(fd);
    other = alloc_without_pages(); /* what was freed is used again, and empty */
    bytes = map(other);
    assert_int_equal(bytes[0], 0);
    munmap(bytes, BYTES);
    close(other);
    softgpu_assert_clean();
}

/* Soft-RoCE's atomic operations cannot reach it. */
TEST(no_pages__right_to_atomic_operations__refused)
{
    struct device device = open_device();
    int fd = alloc_without_pages();
    struct ibv_mr *mr;

    errno = 0;
    assert_null(ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS | IBV_ACCESS_REMOTE_ATOMIC));
    assert_int_equal(errno, EOPNOTSUPP);
    mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

/* Forced, as by a reset: nothing answers at the addresses that a region has. */
TEST(no_pages__moved_while_mapped__all_bits_set)
{
    struct device device = open_device();
    int fd = alloc_without_pages();
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS);
    uint64_t found = 0;

    assert_non_null(mr);
    assert_int_equal(softgpu_peek(softgpu_stat(fd).bus, &found), 0);
    assert_int_equal(found, 0);
    assert_int_equal(softgpu_move(fd, true), 0);
    assert_int_equal(softgpu_peek(softgpu_stat(fd).bus, &found), 0);
    assert_int_equal(found, UINT64_MAX);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close(fd);
    close_device(&device);
    softgpu_assert_clean();
}

/* ---- processes -------------------------------------------------------------------------- */

static void hold_a_region_for_ever(int ready)
{
    struct device device = open_device();
    int fd = softgpu_alloc(BYTES, 0);
    char held = ibv_reg_dmabuf_mr(device.pd, 0, BYTES, 0, fd, ACCESS) != NULL;

    if (write(ready, &held, 1) == 1)
        pause();
    _exit(0);
}

TEST(process_killed__nothing_is_left)
{
    struct softgpu_stat stat;
    int ready[2], status;
    char held = 0;
    pid_t child;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    child = fork();
    if (!child)
        hold_a_region_for_ever(ready[1]);
    assert_int_equal(read(ready[0], &held, 1), 1);
    assert_int_equal(held, 1);
    stat = softgpu_stat(-1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(stat.regions, 1);
    close(ready[0]);
    close(ready[1]);
    softgpu_assert_clean();
}

TEST_MAIN()
