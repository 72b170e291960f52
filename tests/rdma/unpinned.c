/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Host memory that a real kernel pins for no device: each registration fails with EFAULT, and the
 * error names the cause and the address. On any kernel's mappings: tests/unit/fault_cause.c. As
 * root, since some of it poisons pages and counts huge ones.
 */
#include "tests/rdma/bench.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define HUGE ((size_t)2 << 20)

static struct bench bench;
static size_t page;

static void end(void)
{
    bench_close(&bench);
}

static void begin(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    bench_open(&bench);
    test_after(end);
}

static void *map(size_t len, int rights, int flags, int fd)
{
    void *memory = mmap(NULL, len, rights, flags, fd, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

/* The kernel's own answer, without hmreg: 0 or an error number. */
static int pin(void *addr, size_t len, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(bench.pd, addr, len, access);

    return mr ? ibv_dereg_mr(mr) : errno;
}

static int pin_for(void *addr, size_t len, uint64_t access)
{
    return pin(addr, len, access == HMREG_RECV ? IBV_ACCESS_LOCAL_WRITE : 0);
}

/* Neither the kernel nor hmreg registers it; hmreg says why, and at which address. */
static void assert_refused(void *addr, size_t len, uint64_t access, const void *at,
                           const char *words)
{
    struct hmreg_mr *mr = (void *)1;
    char address[32];

    assert_int_equal(pin_for(addr, len, access), EFAULT);
    assert_fails(hmreg_mr_reg(bench.domain, addr, len, access, 0, 0, 0, &mr, NULL), -EFAULT, words);
    assert_ptr_equal(mr, (void *)1);
    snprintf(address, sizeof(address), "%#zx", (size_t)(uintptr_t)at);
    print_message("%s\n", hmreg_last_error()->text);
    assert_non_null(strstr(hmreg_last_error()->text, address));
    assert_int_equal(hmreg_last_error()->vendor_code, EFAULT);
    assert_fails(hmreg_mr_get(bench.domain, addr, len, access, &mr), -EFAULT, words);
}

static void assert_registered(void *addr, size_t len, uint64_t access)
{
    struct hmreg_mr *mr;

    assert_int_equal(pin_for(addr, len, access), 0);
    assert_ok(hmreg_mr_reg(bench.domain, addr, len, access, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_close(mr));
}

/* ---- files ------------------------------------------------------------------------------ */

static int make_file(size_t len)
{
    int fd = memfd_create("hmreg", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    return fd;
}

/* Before Linux 6.2 the kernel pins for writing what a device only reads. */
TEST(reg__shared_file_mapped_read_only__as_the_kernel_pins)
{
    unsigned major = 0, minor = 0;
    struct utsname kernel;
    void *memory;
    int fd;

    begin();
    assert_int_equal(uname(&kernel), 0);
    assert_int_equal(sscanf(kernel.release, "%u.%u", &major, &minor), 2);
    fd = make_file(page);
    memory = map(page, PROT_READ, MAP_SHARED, fd);
    if (major < 6 || (major == 6 && minor < 2))
        assert_refused(memory, page, HMREG_SEND, memory, "before Linux 6.2");
    else
        assert_registered(memory, page, HMREG_SEND);
    munmap(memory, page);
    /* What the error advises. */
    memory = map(page, PROT_READ, MAP_PRIVATE, fd);
    assert_registered(memory, page, HMREG_SEND);
    munmap(memory, page);
    close(fd);
}

TEST(reg__file_shorter_than_its_mapping__its_end)
{
    char *memory;
    int fd;

    begin();
    fd = make_file(2 * page);
    memory = map(4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_refused(memory + 5, 4 * page - 5, HMREG_RECV, memory + 2 * page,
                   "beyond the end of the mapped file");
    assert_refused(memory + 5, 4 * page - 5, HMREG_SEND, memory + 2 * page,
                   "beyond the end of the mapped file");
    assert_int_equal(ftruncate(fd, (off_t)(4 * page)), 0);
    assert_registered(memory + 5, 4 * page - 5, HMREG_RECV);
    munmap(memory, 4 * page);
    close(fd);
}

/* ---- memory that is never pinned -------------------------------------------------------- */

TEST(reg__memfd_secret__named)
{
    int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
    void *memory;

    if (fd < 0) { /* as in the guest of 6.1, where the other says what it needs to */
        print_message("no memfd_secret(2): %s, before Linux 6.5 unless booted with "
                      "secretmem.enable=1\n",
                      strerror(errno));
        return;
    }
    begin();
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    memory = map(page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_refused(memory, page, HMREG_RECV, memory, "is secret memory");
    assert_refused(memory, page, HMREG_SEND, memory, "is secret memory");
    munmap(memory, page);
    close(fd);
}

TEST(reg__ring_of_perf__named)
{
    int fd = test_perf_ring();
    void *memory;

    begin();
    memory = map(2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_refused(memory, 2 * page, HMREG_RECV, memory, "perf_event_open(2)");
    munmap(memory, 2 * page);
    close(fd);
}

/* The first BAR that can be mapped. */
static void *map_bar(void)
{
    void *memory = MAP_FAILED;
    glob_t found;

    if (glob("/sys/bus/pci/devices/*/resource[0-9]", 0, NULL, &found))
        return memory;
    for (size_t i = 0; i < found.gl_pathc && memory == MAP_FAILED; i++) {
        int fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC);

        if (fd < 0)
            continue;
        memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    globfree(&found);
    return memory;
}

TEST(reg__pci_bar__named)
{
    void *memory;

    begin();
    memory = map_bar();
    if (memory == MAP_FAILED)
        test_skip("no BAR of a PCI device can be mapped here");
    assert_refused(memory, page, HMREG_RECV, memory, "a device's memory");
    assert_refused(memory, page, HMREG_SEND, memory, "a device's memory");
    munmap(memory, page);
}

/* ---- pages that are not available ------------------------------------------------------- */

#define HUGE_FOLDER "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static unsigned long huge_pages(const char *name)
{
    char path[128];
    unsigned long number = 0;
    FILE *file;

    snprintf(path, sizeof(path), HUGE_FOLDER "%s", name);
    file = fopen(path, "re");
    if (!file || fscanf(file, "%lu", &number) != 1)
        number = 0;
    if (file)
        fclose(file);
    return number;
}

static unsigned long huge_pages_before;

static void set_huge_pages(unsigned long number)
{
    FILE *file = fopen(HUGE_FOLDER "nr_hugepages", "we");

    if (!file)
        test_skip("the number of huge pages cannot be set: %s", strerror(errno));
    fprintf(file, "%lu", number);
    fclose(file);
}

static void restore_huge_pages(void)
{
    set_huge_pages(huge_pages_before);
}

/* Until the case returns the machine has so many more, which are free. */
static void add_huge_pages(unsigned long count)
{
    huge_pages_before = huge_pages("nr_hugepages");
    test_after(restore_huge_pages);
    set_huge_pages(huge_pages_before + count);
    if (huge_pages("free_hugepages") - huge_pages("resv_hugepages") < count)
        test_skip("this machine has no memory for %lu more huge pages", count);
}

static void *map_huge(size_t len, int flags)
{
    return map(len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | flags, -1);
}

/* Of two pages one is there, and the machine's others are promised to another mapping. */
static void check_no_huge_page(void)
{
    char *memory = map_huge(2 * HUGE, MAP_NORESERVE), *others;
    size_t len;

    assert_registered(memory, HUGE, HMREG_RECV);
    len = (huge_pages("free_hugepages") - huge_pages("resv_hugepages")) * HUGE;
    others = len ? map_huge(len, 0) : NULL;
    assert_refused(memory + 7, 2 * HUGE - 7, HMREG_RECV, memory + HUGE,
                   "no huge page of 2048 KiB is left");
    assert_refused(memory + HUGE - page, 2 * page, HMREG_RECV, memory + HUGE,
                   "no huge page of 2048 KiB is left");
    assert_refused(memory + HUGE + page, page, HMREG_RECV, memory + HUGE + page,
                   "no huge page of 2048 KiB is left");
    if (others)
        munmap(others, len);
    munmap(memory, 2 * HUGE);
}

TEST(reg__no_huge_page_left__its_size)
{
    begin();
    add_huge_pages(1);
    check_no_huge_page();
}

/* Since Linux 6.11 the signal of an access comes at once. */
static void ignore(int number)
{
}

/* false, errno: this kernel poisons no pages for tests. */
static bool poison(void *at)
{
    struct sigaction action = {.sa_handler = ignore}, before;
    int rc;

    assert_int_equal(sigaction(SIGBUS, &action, &before), 0);
    rc = madvise(at, page, MADV_HWPOISON);
    assert_int_equal(sigaction(SIGBUS, &before, NULL), 0);
    return !rc;
}

TEST(reg__poisoned_page__named)
{
    char *memory;

    begin();
    memory = map(4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memset(memory, 1, 4 * page);
    if (!poison(memory + 2 * page))
        test_skip("no page can be poisoned: %s", strerror(errno));
    assert_refused(memory + 9, 4 * page - 9, HMREG_RECV, memory + 2 * page, "is poisoned");
    assert_registered(memory, 2 * page, HMREG_RECV);
    /* What the error advises. */
    assert_ptr_not_equal(mmap(memory + 2 * page, page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         MAP_FAILED);
    assert_registered(memory, 4 * page, HMREG_RECV);
    munmap(memory, 4 * page);
}

/* On a machine with poisoned pages other causes are named as before. */
TEST(reg__poisoned_huge_page__named)
{
    char *memory;

    begin();
    add_huge_pages(3);
    memory = map_huge(2 * HUGE, 0);
    memset(memory, 1, 2 * HUGE);
    if (!poison(memory + HUGE))
        test_skip("no page can be poisoned: %s", strerror(errno));
    assert_refused(memory, 2 * HUGE, HMREG_RECV, memory + HUGE, "is poisoned");
    munmap(memory, 2 * HUGE);
    check_no_huge_page();
}

TEST(reg__page_missing_under_a_userfaultfd__the_first)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    char *memory;

    if (fd < 0)
        test_skip("userfaultfd(2) is not permitted: %s", strerror(errno));
    begin();
    memory = map(4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memset(memory, 1, page);
    range.range = (struct uffdio_range){(uintptr_t)memory, 4 * page};
    assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
    assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
    assert_refused(memory + 3, 2 * page, HMREG_RECV, memory + page, "its userfaultfd");
    close(fd);
    assert_registered(memory, 4 * page, HMREG_RECV);
    munmap(memory, 4 * page);
}

TEST_MAIN()
