/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Why the kernel does not pin memory, on this machine's own mappings: what it would answer is in
 * tests/rdma/unpinned.c. The test interposes open(), for texts of the kernel that are not there or
 * are other ones.
 */

#include "tests/support/inside.h"
#include "tests/support/ring.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static struct {
    const char *release;      /* of the kernel; NULL: this one's */
    const char *path, *words; /* a text of the kernel, and what it says; NULL: it is not there */
    bool no_proc;
} fake;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    bool is_release = fake.release && !strcmp(path, "/proc/sys/kernel/osrelease");
    bool is_fake = is_release || (fake.path && !strcmp(path, fake.path));
    const char *words = is_release ? fake.release : fake.words;
    int fd;

    if ((fake.no_proc && !strncmp(path, "/proc/", 6)) || (is_fake && !words)) {
        errno = ENOENT;
        return -1;
    }
    if (!is_fake)
        return __real_open(path, flags, 0600);
    fd = memfd_create("text", MFD_CLOEXEC);
    assert_int_equal(write(fd, words, strlen(words)), strlen(words));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static size_t page;

static void begin(void)
{
    memset(&fake, 0, sizeof(fake));
    page = (size_t)sysconf(_SC_PAGESIZE);
}

static char *map(size_t len, int rights, int flags, int fd)
{
    char *memory = mmap(NULL, len, rights, flags, fd, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

/* Pages with a page below and one above that are not mapped: no other mapping is beside them. */
static char *reserve(size_t pages)
{
    char *memory = map((pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    munmap(memory, page);
    munmap(memory + (pages + 1) * page, page);
    return memory + page;
}

static char text[INSIDE_CAUSE_BYTES];

static bool ask(const void *addr, size_t len, bool written)
{
    struct iovec iov = {(void *)(uintptr_t)addr, len};

    return inside_find_cause(&iov, 1, written, text);
}

/* The cause of that range is at this address, and has these words. */
static void assert_cause(const void *addr, size_t len, bool written, const void *at,
                         const char *words)
{
    char address[32];

    if (!ask(addr, len, written))
        fail_msg("no cause, instead of \"%s\"", words);
    snprintf(address, sizeof(address), "%#zx", (size_t)(uintptr_t)at);
    if (!strstr(text, words) || !strstr(text, address))
        fail_msg("\"%s\", instead of \"%s\" at %s", text, words, address);
    assert_true(strlen(text) < sizeof(text) - 1); /* all of it */
}

static void assert_none(const void *addr, size_t len, bool written)
{
    if (ask(addr, len, written))
        fail_msg("\"%s\", instead of none", text);
    assert_string_equal(text, "");
}

/* ---- what the list shows ---------------------------------------------------------------- */

TEST(cause__memory_as_any__none)
{
    char *memory;

    begin();
    memory = map(4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_none(memory + 1, 4 * page - 1, true);
    assert_none(memory + 1, 4 * page - 1, false);
    munmap(memory, 4 * page);
}

TEST(cause__hole__its_first_page)
{
    char *memory;

    begin();
    memory = reserve(4);
    assert_int_equal(mprotect(memory, 4 * page, PROT_READ | PROT_WRITE), 0);
    munmap(memory + 2 * page, page);
    assert_cause(memory + 9, 4 * page - 9, true, memory + 2 * page, "nothing is mapped at");
    assert_cause(memory + 3 * page, 2 * page, true, memory + 4 * page, "nothing is mapped at");
    munmap(memory, 4 * page);
    assert_cause(memory + page, 7, false, memory + page, "nothing is mapped at");
}

TEST(cause__right_that_lacks__named)
{
    char *memory;

    begin();
    memory = reserve(4);
    assert_int_equal(mprotect(memory, 2 * page, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(mprotect(memory + 2 * page, page, PROT_READ), 0);
    assert_cause(memory, 4 * page, true, memory + 2 * page, "is mapped read-only");
    assert_cause(memory, 4 * page, false, memory + 3 * page, "PROT_NONE");
    munmap(memory, 4 * page);
}

/* ---- shared mappings and kernels -------------------------------------------------------- */

TEST(cause__shared_and_read_only__of_kernels_before_6_2)
{
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    char *memory;

    begin();
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    memory = map(page, PROT_READ, MAP_SHARED, fd);
    fake.release = "6.1.0-56-amd64";
    assert_cause(memory, page, false, memory, "before Linux 6.2");
    fake.release = "5.10.0";
    assert_cause(memory, page, false, memory, "before Linux 6.2");
    fake.release = "6.2.0-rc1";
    assert_none(memory, page, false);
    fake.release = "6.12.0";
    assert_none(memory, page, false);
    fake.release = "unknown";
    assert_none(memory, page, false);
    munmap(memory, page);
    memory = map(page, PROT_READ, MAP_PRIVATE, fd);
    fake.release = "6.1.0";
    assert_none(memory, page, false); /* of a private mapping the kernel pins a copy */
    munmap(memory, page);
    close(fd);
}

/* From now on the file is of a file system of that type, which is mounted. */
static void mount_as(int fd, const char *type)
{
    static char words[128];
    struct stat file;

    assert_int_equal(fstat(fd, &file), 0);
    snprintf(words, sizeof(words),
             "20 1 254:77 / / rw - rootfs none rw\n21 20 %u:%u / /there rw shared:1 - %s none rw\n",
             major(file.st_dev), minor(file.st_dev), type);
    fake.path = "/proc/thread-self/mountinfo";
    fake.words = words;
}

TEST(cause__file_that_is_written_back__of_kernels_since_6_5)
{
    static const char *const in_memory[] = {"tmpfs", "hugetlbfs", "ramfs", "devtmpfs"};
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    char *memory;

    begin();
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    memory = map(page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    fake.release = "6.5.0";
    assert_none(memory, page, true); /* a memfd */
    for (int i = 0; i < 4; i++) {
        mount_as(fd, in_memory[i]);
        assert_none(memory, page, true);
    }
    mount_as(fd, "xfs");
    assert_cause(memory, page, true, memory, "in a shared mapping of a file on xfs");
    assert_none(memory, page, false);
    fake.release = "6.4.0";
    assert_none(memory, page, true);
    munmap(memory, page);
    fake.release = "6.5.0";
    memory = map(page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
    assert_none(memory, page, true);
    munmap(memory, page);
    close(fd);
}

/* io_uring pins for writing, as a registration does that lets the device write. */
TEST(cause__file_that_is_written_back__as_this_kernel_pins)
{
    char name[] = "fault_cause.XXXXXX";
    int fd = mkstemp(name);
    struct statfs system;
    struct ring *ring;
    unsigned slot;
    char *memory;
    int rc;

    begin();
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(fstatfs(fd, &system), 0);
    rc = ring_open(&ring);
    if (rc || system.f_type == TMPFS_MAGIC || system.f_type == OVERLAYFS_SUPER_MAGIC) {
        if (!rc)
            ring_close(ring);
        close(fd);
        test_skip(rc ? "no io_uring"
                     : "the folder's files are in memory, or of a file system below");
    }
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    memory = map(page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    rc = ring_pin(ring, memory, page, &slot);
    if (!rc)
        ring_unpin(ring, slot);
    assert_int_equal(ask(memory, page, true), rc == -EFAULT);
    munmap(memory, page);
    ring_close(ring);
    close(fd);
}

/* ---- files ------------------------------------------------------------------------------ */

TEST(cause__file_shorter_than_its_mapping__its_end)
{
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    char *memory;

    begin();
    assert_int_equal(ftruncate(fd, (off_t)(2 * page - 5)), 0);
    memory = map(4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_cause(memory + 3, 4 * page - 3, true, memory + 2 * page,
                 "beyond the end of the mapped file");
    assert_cause(memory + 3 * page, page, true, memory + 3 * page,
                 "beyond the end of the mapped file");
    assert_none(memory, 2 * page, true);
    munmap(memory, 4 * page);
    memory = mmap(NULL, 4 * page, PROT_READ, MAP_PRIVATE, fd, (off_t)page);
    assert_cause(memory, 2 * page, false, memory + page, "beyond the end of the mapped file");
    munmap(memory, 4 * page);
    assert_int_equal(ftruncate(fd, 0), 0);
    memory = map(page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_cause(memory, 1, true, memory, "which has 0 bytes: extend it");
    close(fd);
    assert_none(memory, 1, true); /* nothing tells its length any more */
    munmap(memory, page);
}

TEST(cause__file_by_its_name_alone__its_end)
{
    char name[] = "fault_cause.XXXXXX", deleted[64];
    int fd = mkstemp(name), other;
    char *memory;

    begin();
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    memory = map(2 * page, PROT_READ, MAP_PRIVATE, fd);
    close(fd);
    assert_cause(memory, 2 * page, false, memory + page, "beyond the end of the mapped file");
    unlink(name);
    snprintf(deleted, sizeof(deleted), "%s (deleted)", name); /* as the list has it now */
    other = __real_open(deleted, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(other >= 0);
    assert_none(memory, 2 * page, false);
    unlink(deleted);
    close(other);
    munmap(memory, 2 * page);
}

/* Its server may never answer. */
TEST(cause__file_of_a_server__its_length_is_not_asked)
{
    static const char *const types[] = {"ext4", "nfs4", "cifs", "fuse.sshfs", "9p"};
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    char *memory;

    begin();
    memory = map(page, PROT_READ, MAP_PRIVATE, fd);
    for (int i = 0; i < 5; i++) {
        mount_as(fd, types[i]);
        assert_int_equal(ask(memory, page, false), i == 0);
    }
    munmap(memory, page);
    close(fd);
}

/* ---- memory that is never pinned -------------------------------------------------------- */

TEST(cause__memfd_secret__named)
{
    int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
    char *memory;

    if (fd < 0)
        test_skip("this kernel has no memfd_secret(2): %s", strerror(errno));
    begin();
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    memory = map(page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_cause(memory, page, true, memory, "is secret memory");
    assert_cause(memory, page, false, memory, "is secret memory");
    munmap(memory, page);
    close(fd);
}

TEST(cause__ring_of_perf__named)
{
    int fd = test_perf_ring();
    char *memory;

    begin();
    memory = map(2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_cause(memory, 2 * page, true, memory, "perf_event_open(2)");
    munmap(memory, 2 * page);
    close(fd);
}

/* The kernel's own: it has the flags of a PCI BAR. */
TEST(cause__memory_of_a_device__named)
{
    uint64_t start = 0, end;
    char line[256];
    FILE *maps = fopen("/proc/self/maps", "re");

    while (fgets(line, sizeof(line), maps))
        if (strstr(line, "[vvar]") && sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
            break;
    fclose(maps);
    if (!start)
        test_skip("this process has no [vvar]");
    begin();
    assert_cause((void *)(uintptr_t)start, 1, false, (void *)(uintptr_t)start, "a device's memory");
}

/* ---- pages that are missing ------------------------------------------------------------- */

#define FREE_HUGE_PAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

TEST(cause__no_huge_page__its_size)
{
    size_t huge = (size_t)2 << 20;
    char *memory = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        test_skip("no mapping of huge pages of 2 MiB: %s", strerror(errno));
    begin();
    fake.path = FREE_HUGE_PAGES;
    fake.words = "0\n";
    assert_cause(memory + huge + 5, page, true, memory + huge,
                 "no huge page of 2048 KiB is left for");
    fake.words = "1000000\n"; /* more than are reserved: another limit was met */
    assert_cause(memory + huge + 5, page, true, memory + huge, "are free: look at its cgroup");
    munmap(memory, 2 * huge);
}

/* A userfaultfd that answers the process's own accesses only, or also the kernel's. */
static int open_userfaultfd(int flags, char *memory, size_t len)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {(uintptr_t)memory, len},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | flags);

    if (fd < 0)
        test_skip("userfaultfd(2) is not permitted: %s", strerror(errno));
    assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
    assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
    return fd;
}

TEST(cause__page_missing_under_a_userfaultfd__the_first)
{
    char *memory;
    int fd;

    begin();
    memory = map(1024 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memset(memory, 1, 700 * page);
    fd = open_userfaultfd(UFFD_USER_MODE_ONLY, memory, 1024 * page);
    assert_none(memory, 700 * page, true);
    assert_cause(memory + 3, 1024 * page - 3, true, memory + 700 * page, "its userfaultfd");
    assert_cause(memory + 800 * page, 1, true, memory + 800 * page, "its userfaultfd");
    close(fd);
    munmap(memory, 1024 * page);
}

/* As Linux 6.6 declares it; Debian 12's headers do not. */
struct poisoned {
    struct uffdio_range range;
    uint64_t mode;
    int64_t updated;
};
#define POISON _IOWR(UFFDIO, 8, struct poisoned)

/* UFFDIO_POISON leaves the entry in the table that an error of the memory leaves, and only the
 * latter counts as HardwareCorrupted. A real one: tests/rdma/unpinned.c. */
TEST(cause__poisoned_page__of_a_machine_that_has_some)
{
    struct poisoned poisoned = {0};
    char *memory;
    int fd;

    begin();
    memory = map(4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memset(memory, 1, 2 * page);
    fd = open_userfaultfd(UFFD_USER_MODE_ONLY, memory, 4 * page);
    poisoned.range = (struct uffdio_range){(uintptr_t)(memory + 2 * page), page};
    if (ioctl(fd, POISON, &poisoned)) {
        close(fd);
        test_skip("this kernel has no UFFDIO_POISON: %s", strerror(errno));
    }
    fake.path = "/proc/meminfo";
    fake.words = "MemTotal: 4 kB\nHardwareCorrupted:     0 kB\n";
    assert_none(memory, 4 * page, true);
    fake.words = "MemTotal: 4 kB\nHardwareCorrupted:     4 kB\n";
    assert_cause(memory, 4 * page, true, memory + 2 * page, "is poisoned");
    assert_none(memory, 2 * page, true);
    assert_cause(memory + 3 * page, page, true, memory + 3 * page, "its userfaultfd");
    close(fd);
    munmap(memory, 4 * page);
}

/* No thread serves the userfaultfd, so an access would not return. */
TEST(cause__of_missing_pages__touches_none)
{
    unsigned char there[8];
    char *memory, *plain;
    int fd;

    begin();
    memory = map(8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    plain = map(8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    fd = open_userfaultfd(UFFD_USER_MODE_ONLY, memory, 8 * page);
    assert_true(ask(memory, 8 * page, true));
    assert_none(plain, 8 * page, true);
    assert_int_equal(mincore(memory, 8 * page, there), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(there[i] & 1, 0);
    assert_int_equal(mincore(plain, 8 * page, there), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(there[i] & 1, 0);
    close(fd);
    munmap(memory, 8 * page);
    munmap(plain, 8 * page);
}

/* ---- ranges, and kernels that say less -------------------------------------------------- */

TEST(cause__several_ranges_and_mappings__the_first_address)
{
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    struct iovec iov[2];
    char *memory;

    begin();
    memory = reserve(6);
    assert_int_equal(mprotect(memory, 2 * page, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    assert_ptr_not_equal(
        mmap(memory + 2 * page, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
        MAP_FAILED);
    assert_cause(memory + 1, 5 * page, true, memory + 3 * page,
                 "beyond the end of the mapped file");
    iov[0] = (struct iovec){memory + 4 * page, page}; /* PROT_NONE */
    iov[1] = (struct iovec){memory + 2 * page, 2 * page};
    assert_true(inside_find_cause(iov, 2, true, text));
    assert_non_null(strstr(text, "beyond the end of the mapped file"));
    iov[1].iov_len = page;
    assert_true(inside_find_cause(iov, 2, true, text));
    assert_non_null(strstr(text, "PROT_NONE"));
    munmap(memory, 6 * page);
    close(fd);
}

TEST(cause__no_proc__none)
{
    char *memory;

    begin();
    memory = reserve(1);
    fake.no_proc = true;
    assert_none(memory, page, true);
    munmap(memory, page);
}

/* What smaps would cost grows with the memory; and a sandbox may have only maps. */
TEST(cause__without_smaps__what_the_list_shows)
{
    static const char *const paths[] = {"/proc/thread-self/smaps", "/proc/thread-self/statm"};
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    char *memory, *missing;
    int uffd;

    begin();
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    memory = map(2 * page, PROT_READ, MAP_SHARED, fd);
    missing = map(page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    uffd = open_userfaultfd(UFFD_USER_MODE_ONLY, missing, page);
    assert_true(ask(missing, page, false));
    for (int i = 0; i < 2; i++) {
        fake.path = paths[i];
        fake.words = i ? "99999999 9999999 1 1 0 1 0\n" : NULL;
        fake.release = "6.12.0";
        assert_cause(memory, 2 * page, false, memory + page, "beyond the end of the mapped file");
        assert_none(missing, page, false);
    }
    close(uffd);
    close(fd);
    munmap(memory, 2 * page);
    munmap(missing, page);
}

/* Of so many mappings below the range the list without flags is read. */
TEST(cause__beyond_many_mappings__what_the_list_shows)
{
    enum { FEW = 1000, MANY = 9000 };
    struct iovec hole;
    char *memory, *last;
    int fd;

    begin();
    memory = reserve(MANY + 1);
    last = memory + MANY * page;
    assert_int_equal(mprotect(last, page, PROT_READ | PROT_WRITE), 0);
    fd = open_userfaultfd(UFFD_USER_MODE_ONLY, last, page);
    for (size_t i = 0; i < MANY; i += 2) {
        if (i == FEW)
            assert_cause(last, page, true, last, "its userfaultfd");
        assert_int_equal(mprotect(memory + i * page, page, PROT_READ), 0);
    }
    assert_none(last, page, true);
    hole = (struct iovec){last, 2 * page};
    assert_true(inside_find_cause(&hole, 1, true, text));
    assert_non_null(strstr(text, "nothing is mapped at"));
    close(fd);
    munmap(memory, (MANY + 1) * page);
}

/* The words of a list that no kernel writes are no cause. */
TEST(cause__text_that_is_no_list__none)
{
    char *memory;

    begin();
    memory = map(page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    fake.path = "/proc/thread-self/smaps";
    fake.words = "not a list\n";
    assert_none(memory, page, false);
    munmap(memory, page);
}

TEST_MAIN()
