/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * See kinds.h. */
#include "tests/counter/kinds.h"

#include "tests/counter/device.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* Newer than Debian 12's headers. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define MADV_SOFT_OFFLINE_ 101
#define MOVE_FEATURE       (1u << 16)
struct move {
    uint64_t dst, src, len, mode;
    int64_t moved;
};
#define MOVE_IOCTL _IOWR(UFFDIO, 0x05, struct move)

#define SIZE (16 * PAGE)
#define HUGE ((size_t)2 << 20)

/* The region, which the kinds make and change. */
static char *at;
static size_t len;
static int file;

static bool kernel_is_before(int major, int minor)
{
    struct utsname name;
    int found[2];

    assert_int_equal(uname(&name), 0);
    assert_int_equal(sscanf(name.release, "%d.%d", &found[0], &found[1]), 2);
    return found[0] < major || (found[0] == major && found[1] < minor);
}

bool kinds_write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done;
}

/* ---- memory ------------------------------------------------------------------------------ */

static char *mapped(size_t size, int protection, int flags, int fd)
{
    char *memory = mmap(NULL, size, protection, flags, fd, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static void touch(const char *memory, size_t size)
{
    for (size_t i = 0; i < size; i += PAGE)
        (void)*(const volatile char *)(memory + i);
}

static char *m_anonymous(void)
{
    return memory_new(len, 'A');
}

/* The second half is not the region. */
static char *m_with_neighbour(void)
{
    return memory_new(2 * len, 'A');
}

char *kinds_small_pages(size_t size)
{
    char *memory = mapped(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    assert_int_equal(madvise(memory, size, MADV_NOHUGEPAGE), 0);
    memset(memory, 'A', size);
    return memory;
}

static char *m_small(void)
{
    return kinds_small_pages(len);
}

static char *m_zero_page(void)
{
    char *memory = mapped(len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    touch(memory, len);
    return memory;
}

static char *m_brk(void)
{
    char *memory = (char *)(((uintptr_t)sbrk(0) + PAGE - 1) & ~(PAGE - 1));

    assert_int_equal(brk(memory + len), 0);
    memset(memory, 'A', len);
    return memory;
}

static int new_file(void)
{
    int fd = memfd_create("counter", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    return fd;
}

static char *m_shared(void)
{
    char *memory = mapped(len, PROT_READ | PROT_WRITE, MAP_SHARED, file = new_file());

    memset(memory, 'A', len);
    return memory;
}

static char *m_private_file(void)
{
    char *memory = mapped(len, PROT_READ | PROT_WRITE, MAP_PRIVATE, file = new_file());

    touch(memory, len);
    return memory;
}

/* Pages of a program that no process executes meanwhile: none else maps them. */
static char *m_disk_file(void)
{
    char *memory;
    off_t size;

    file = open("/usr/bin/perl", O_RDONLY | O_CLOEXEC);
    size = lseek(file, 0, SEEK_END);
    assert_true(size > (off_t)len);
    memory = mmap(NULL, len, PROT_READ, MAP_SHARED, file, (size - (off_t)len) & ~(off_t)(PAGE - 1));
    assert_ptr_not_equal(memory, MAP_FAILED);
    touch(memory, len);
    return memory;
}

static char *m_sysv(void)
{
    int id = shmget(IPC_PRIVATE, len, IPC_CREAT | 0600);
    char *memory = shmat(id, NULL, 0);

    shmctl(id, IPC_RMID, NULL);
    memset(memory, 'A', len);
    return memory;
}

static char *aligned(void)
{
    char *memory = mapped(2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    len = HUGE;
    return (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
}

static char *m_to_collapse(void)
{
    char *memory = aligned();

    assert_int_equal(madvise(memory, HUGE, MADV_NOHUGEPAGE), 0);
    memset(memory, 'A', HUGE);
    assert_int_equal(madvise(memory, HUGE, MADV_HUGEPAGE), 0);
    return memory;
}

static char *m_huge(void)
{
    char *memory = aligned();

    assert_int_equal(madvise(memory, HUGE, MADV_HUGEPAGE), 0);
    memset(memory, 'A', HUGE);
    return memory;
}

/* Of 2 MiB, or of as many bits as this says: 30 where the kernel has been booted with such. */
static unsigned hugetlb_bits(void)
{
    const char *bits = getenv("HMREG_TEST_HUGETLB_BITS");

    return bits ? (unsigned)atoi(bits) : 21;
}

static char *m_hugetlb(void)
{
    len = (size_t)1 << hugetlb_bits();
    at = mapped(len, PROT_READ | PROT_WRITE,
                (int)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | hugetlb_bits() << MAP_HUGE_SHIFT),
                -1);
    memset(at, 'A', HUGE);
    return at;
}

static char *m_hugetlb_file(void)
{
    len = (size_t)1 << hugetlb_bits();
    file = memfd_create("counter", MFD_CLOEXEC | MFD_HUGETLB | hugetlb_bits() << MAP_HUGE_SHIFT);
    assert_int_equal(ftruncate(file, (off_t)len), 0);
    at = mapped(len, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    memset(at, 'A', HUGE);
    return at;
}

/* ---- changes that take pages away -------------------------------------------------------- */

static bool c_munmap(void)
{
    return munmap(at, len) == 0;
}

static bool c_munmap_one(void)
{
    return munmap(at + 4 * PAGE, PAGE) == 0;
}

static void *thread_munmap(void *arg)
{
    munmap(at, len);
    return arg;
}

static bool c_munmap_by_thread(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, thread_munmap, NULL) == 0 &&
           pthread_join(thread, NULL) == 0;
}

static bool c_munmap_by_vfork_child(void)
{
    pid_t child = vfork();

    if (!child) {
        syscall(SYS_munmap, at, len);
        _exit(0);
    }
    return waitpid(child, NULL, 0) == child;
}

static bool c_map_fixed(void)
{
    return mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           at;
}

static bool c_move_away(void)
{
    return mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, memory_new(len, 'B')) != MAP_FAILED;
}

static bool c_move_onto(void)
{
    return mremap(memory_new(len, 'B'), len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at;
}

static bool c_swap(void)
{
    char *other = memory_new(len, 'B'), *free = memory_new(len, 'C');

    return mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, free) == free &&
           mremap(other, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at &&
           mremap(free, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other;
}

static bool c_shrink(void)
{
    return mremap(at, len, PAGE, 0) == at;
}

static bool c_grow(void)
{
    char *fence = mmap(at + len, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                       -1, 0); /* or something is there already */

    return fence && mremap(at, len, 2 * len, MREMAP_MAYMOVE) != MAP_FAILED;
}

static bool c_dontunmap(void)
{
    return mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL) != MAP_FAILED;
}

static bool c_brk(void)
{
    return brk(at) == 0;
}

static bool c_dontneed(void)
{
    return madvise(at, len, MADV_DONTNEED) == 0;
}

static bool c_free(void)
{
    return madvise(at, len, MADV_FREE) == 0;
}

static bool c_remove(void)
{
    return madvise(at, len, MADV_REMOVE) == 0;
}

static bool c_collapse(void)
{
    return madvise(at, len, MADV_COLLAPSE) == 0;
}

static bool c_pageout(void)
{
    return madvise(at, len, MADV_PAGEOUT) == 0;
}

static bool c_soft_offline(void)
{
    return madvise(at, PAGE, MADV_SOFT_OFFLINE_) == 0;
}

static bool c_uring(void)
{
    struct io_uring_params params = {0};
    int fd = (int)syscall(SYS_io_uring_setup, 4, &params), done;
    char *ring = mapped(params.sq_off.array + 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    struct io_uring_sqe *entry =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);

    *entry = (struct io_uring_sqe){.opcode = IORING_OP_MADVISE,
                                   .flags = IOSQE_ASYNC, /* on a thread of the kernel's */
                                   .addr = (uintptr_t)at,
                                   .len = (uint32_t)len,
                                   .fadvise_advice = MADV_DONTNEED};
    *(uint32_t *)(void *)(ring + params.sq_off.array) = 0;
    __atomic_store_n((uint32_t *)(void *)(ring + params.sq_off.tail), 1, __ATOMIC_RELEASE);
    done = (int)syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    close(fd);
    return done == 1;
}

static int punch(void *arg)
{
    (void)arg;
    return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)len) != 0;
}

static int truncate_file(void *arg)
{
    (void)arg;
    return ftruncate(file, 0) || ftruncate(file, (off_t)len);
}

static bool c_punch_by_other(void)
{
    return in_child(punch, NULL) == 0;
}

static bool c_truncate_by_other(void)
{
    return in_child(truncate_file, NULL) == 0;
}

static bool c_truncate(void)
{
    return truncate_file(NULL) == 0;
}

static bool c_shmat(void)
{
    int id = shmget(IPC_PRIVATE, len, IPC_CREAT | 0600);
    void *memory = shmat(id, at, SHM_REMAP);

    shmctl(id, IPC_RMID, NULL);
    return memory == at;
}

static bool c_shmdt(void)
{
    return shmdt(at) == 0;
}

static bool c_remap_file_pages(void)
{
    return syscall(SYS_remap_file_pages, at, PAGE, 0, 8, 0) == 0;
}

static bool c_write(void)
{
    at[0] = 'B';
    return true;
}

/* Copies the pages that the child still shares. */
static bool c_fork_and_write(void)
{
    int pipes[2];
    char byte;
    pid_t child;

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    child = test_fork();
    if (!child) {
        close(pipes[1]);
        _exit(read(pipes[0], &byte, 1) != 0);
    }
    c_write();
    close(pipes[1]);
    close(pipes[0]);
    return waitpid(child, NULL, 0) == child;
}

/* A process that was there before the memory: pages that a child shares cannot be collapsed. */
static int to_helper[2], from_helper[2];

static void collapse_parents(void)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getppid(), 0);
    struct iovec range;

    while (read(to_helper[0], &range, sizeof(range)) == sizeof(range)) {
        bool done =
            syscall(SYS_process_madvise, pidfd, &range, 1, MADV_COLLAPSE, 0) == (long)range.iov_len;

        if (write(from_helper[1], &done, sizeof(done)) != sizeof(done))
            return;
    }
}

static pid_t start_helper(void)
{
    pid_t child;

    assert_int_equal(pipe2(to_helper, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from_helper, O_CLOEXEC), 0);
    child = test_fork();
    if (!child) {
        close(to_helper[1]);
        collapse_parents();
        _exit(0);
    }
    close(to_helper[0]);
    close(from_helper[1]);
    return child;
}

static void stop_helper(pid_t child)
{
    close(to_helper[1]);
    close(from_helper[0]);
    waitpid(child, NULL, 0);
}

static bool c_collapse_by_other(void)
{
    struct iovec range = {at, len};
    bool done = false;

    return write(to_helper[1], &range, sizeof(range)) == sizeof(range) &&
           read(from_helper[0], &done, sizeof(done)) == sizeof(done) && done;
}

static bool c_uffd_move(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    char *to = mapped(len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct uffdio_api api = {.api = UFFD_API, .features = MOVE_FEATURE};
    struct uffdio_register watch = {.range = {(uintptr_t)to, len},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct move move = {.dst = (uintptr_t)to, .src = (uintptr_t)at, .len = len};
    bool done = !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &watch) &&
                !ioctl(fd, MOVE_IOCTL, &move);

    close(fd);
    return done;
}

/* ---- what leaves the pages in place ------------------------------------------------------ */

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static bool c_fork(void)
{
    return in_child(nothing, NULL) == 0;
}

static bool c_mprotect(void)
{
    return !mprotect(at, len, PROT_NONE) && !mprotect(at, len, PROT_READ) &&
           !mprotect(at, len, PROT_READ | PROT_WRITE);
}

static bool c_soft_dirty(void)
{
    return kinds_write_file("/proc/self/clear_refs", "4");
}

static bool c_write_protect(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register watch = {.range = {(uintptr_t)at, len}, .mode = UFFDIO_REGISTER_MODE_WP};
    struct uffdio_writeprotect protect = {.range = {(uintptr_t)at, len},
                                          .mode = UFFDIO_WRITEPROTECT_MODE_WP};
    bool done = !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &watch) &&
                !ioctl(fd, UFFDIO_WRITEPROTECT, &protect);

    close(fd);
    return done;
}

static bool c_lock(void)
{
    return !mlock(at, len) && !munlock(at, len);
}

static bool c_cold(void)
{
    return madvise(at, len, MADV_COLD) == 0;
}

static bool c_read(void)
{
    touch(at, len);
    return true;
}

static bool c_neighbour(void)
{
    return munmap(at + len, len) == 0;
}

/* ---- the cases --------------------------------------------------------------------------- */

static const struct kind takes_pages[] = {
    {"munmap", m_anonymous, c_munmap, 0, 0},
    {"munmap of one page in the middle", m_anonymous, c_munmap_one, 0, 0},
    {"munmap by another thread", m_anonymous, c_munmap_by_thread, 0, 0},
    {"munmap by a child of vfork", m_anonymous, c_munmap_by_vfork_child, 0, 0},
    {"munmap of huge pages", m_huge, c_munmap, 0, 0},
    {"munmap of one page of a huge one", m_huge, c_munmap_one, 0, 0},
    {"munmap of MAP_HUGETLB", m_hugetlb, c_munmap, 0, 0},
    {"mmap(MAP_FIXED) over it", m_anonymous, c_map_fixed, 0, 0},
    {"mremap away", m_anonymous, c_move_away, 0, 0},
    {"mremap of huge pages away", m_huge, c_move_away, 0, 0},
    {"mremap of other memory onto it", m_anonymous, c_move_onto, 0, 0},
    {"swapped with another mapping", m_anonymous, c_swap, 0, 0},
    {"mremap that shrinks it", m_anonymous, c_shrink, 0, 0},
    {"mremap that moves it to grow", m_anonymous, c_grow, 0, 0},
    {"mremap(MREMAP_DONTUNMAP)", m_anonymous, c_dontunmap, 0, 0},
    {"brk", m_brk, c_brk, 0, 0},
    {"MADV_DONTNEED", m_anonymous, c_dontneed, 0, 0},
    {"MADV_DONTNEED of MAP_HUGETLB", m_hugetlb, c_dontneed, 0, 0},
    {"MADV_DONTNEED by io_uring", m_anonymous, c_uring, 0, 0},
    {"MADV_FREE", m_anonymous, c_free, 0, 0},
    {"MADV_REMOVE", m_shared, c_remove, 0, 0},
    {"hole punched by another process", m_shared, c_punch_by_other, 0, 0},
    {"hole punched in hugetlbfs by another process", m_hugetlb_file, c_punch_by_other, 0, 0},
    {"truncation by another process", m_shared, c_truncate_by_other, 0, 0},
    {"truncation", m_shared, c_truncate, 0, 0},
    {"shmat(SHM_REMAP) over it", m_anonymous, c_shmat, 0, 0},
    {"shmdt", m_sysv, c_shmdt, 0, 0},
    {"remap_file_pages", m_shared, c_remap_file_pages, 0, 0},
    {"first write to a private page of a file", m_private_file, c_write, 0, 0},
    {"first write to the zero page", m_zero_page, c_write, 0, 0},
    {"write after fork", m_anonymous, c_fork_and_write, 0, 0},
    {"collapse to a huge page", m_to_collapse, c_collapse, 6, 1},
    {"collapse by another process", m_to_collapse, c_collapse_by_other, 6, 1},
    {"reclaim of a file's pages", m_disk_file, c_pageout, 0, 0},
    {"migration", m_small, c_soft_offline, 0, 0},
    {"UFFDIO_MOVE", m_small, c_uffd_move, 6, 8},
};

static const struct kind leaves_pages[] = {
    {"fork", m_anonymous, c_fork, 0, 0},
    {"mprotect", m_anonymous, c_mprotect, 0, 0},
    {"soft-dirty bits cleared", m_anonymous, c_soft_dirty, 0, 0},
    {"userfaultfd's write protection", m_anonymous, c_write_protect, 0, 0},
    {"mlock and munlock", m_anonymous, c_lock, 0, 0},
    {"MADV_COLD", m_anonymous, c_cold, 0, 0},
    {"reads", m_anonymous, c_read, 0, 0},
    {"munmap of the mapping's other half", m_with_neighbour, c_neighbour, 0, 0},
};

/* ---- all of them ------------------------------------------------------------------------- */

static void do_each(const struct kind *kinds, size_t count, void (*f)(const struct kind *, void *),
                    void *arg)
{
    for (size_t i = 0; i < count; i++)
        if (!kernel_is_before(kinds[i].major, kinds[i].minor))
            f(&kinds[i], arg);
}

void kinds_each_that_takes_pages(void (*f)(const struct kind *, void *), void *arg)
{
    pid_t helper = start_helper();

    do_each(takes_pages, sizeof(takes_pages) / sizeof(takes_pages[0]), f, arg);
    stop_helper(helper);
}

void kinds_each_that_leaves_pages(void (*f)(const struct kind *, void *), void *arg)
{
    do_each(leaves_pages, sizeof(leaves_pages) / sizeof(leaves_pages[0]), f, arg);
}

char *kind_make(const struct kind *kind, size_t *size)
{
    len = SIZE;
    file = -1;
    at = kind->make();
    *size = len;
    return at;
}

void kind_change(const struct kind *kind)
{
    if (!kind->change())
        fail_msg("%s: cannot be done: %s", kind->name, strerror(errno));
}

void kind_end(void)
{
    if (file >= 0)
        close(file);
}
