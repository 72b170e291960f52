/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Host memory, by both ways of reading the kernel's list of mappings: each case runs with the
 * PROCMAP_QUERY ioctl (if the kernel has it) and with the list as text. The test interposes
 * ioctl(). */

/* What a runtime says of host memory, to the core alone. */
#include "core/contract/hmem.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern const struct hmem_ops hmem_system_ops;

static bool by_text; /* simulates a kernel without the ioctl */
static unsigned answered;

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    int rc = -1;

    errno = EPERM; /* after ENOTTY the process would never ask again */
    if (!by_text)
        rc = __real_ioctl(fd, request, arg);
    if (rc == 0)
        answered++;
    return rc;
}

static size_t page;

/* Maps pages with these protections, far from other mappings; '.' is a hole. */
static char *make(const char *pattern)
{
    char *base = mmap((void *)0x7e9000000000, (strlen(pattern) + 2) * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_ptr_not_equal(base, MAP_FAILED);
    munmap(base, (strlen(pattern) + 2) * page);
    base += page;
    for (size_t i = 0; pattern[i]; i++) {
        int protection = pattern[i] == 'w'   ? PROT_READ | PROT_WRITE
                         : pattern[i] == 'r' ? PROT_READ
                         : pattern[i] == 'o' ? PROT_WRITE
                                             : PROT_NONE;

        if (pattern[i] != '.')
            assert_ptr_equal(mmap(base + i * page, page, protection,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                             base + i * page);
    }
    return base;
}

static void unmake(char *base, const char *pattern)
{
    munmap(base, strlen(pattern) * page);
}

static int resolve(const void *addr, size_t len, struct hmem_range *out)
{
    return hmem_system_ops.resolve(NULL, (uintptr_t)addr, len, out);
}

/* Runs a case with the ioctl and with the text file. */
static void both_ways(void (*run)(void))
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    by_text = true;
    answered = 0;
    run();
    assert_int_equal(answered, 0);
    by_text = false;
    run();
    if (!answered)
        print_message("this kernel has no PROCMAP_QUERY (Linux 6.11): read as text only\n");
}

static void run_one_mapping(void)
{
    struct hmem_range range;
    char *base = make("ww");

    assert_ok(resolve(base + 5, page, &range));
    assert_int_equal(range.device, -1);
    assert_int_equal(range.kind, HMREG_MEM_HOST);
    assert_int_equal(range.alloc_base, (uintptr_t)base);
    assert_int_equal(range.alloc_len, 2 * page);
    assert_int_equal(range.segments, 1);
    assert_int_equal(range.host_addr, (uintptr_t)base + 5);
    assert_int_equal(range.identity, 0);
    assert_false(range.read_only);
    assert_false(range.exportable);
    assert_ok(resolve(base, 2 * page, &range));
    assert_ok(resolve(base + 2 * page - 1, 1, &range));
    unmake(base, "ww");
}

TEST(resolve__inside_one_mapping)
{
    both_ways(run_one_mapping);
}

/* The error names the first unmapped address. */
static void assert_hole(const char *addr, size_t len, const char *hole)
{
    struct hmem_range range = {.segments = 77};
    char words[64];

    snprintf(words, sizeof(words), "nothing is mapped at %#lx, %lu bytes into",
             (unsigned long)(uintptr_t)hole, (unsigned long)(hole - addr));
    assert_fails(resolve(addr, len, &range), -EFAULT, words);
    assert_int_equal(range.segments, 77);
}

static void run_holes(void)
{
    struct hmem_range range;
    char *base = make("w.ww.");

    assert_hole(base + page, 1, base + page);                 /* in it */
    assert_hole(base + page - 1, 2, base + page);             /* one byte of it */
    assert_hole(base, 3 * page, base + page);                 /* in the middle */
    assert_hole(base + 3 * page, page + 1, base + 4 * page);  /* after */
    assert_hole(base + 2 * page - 1, 2, base + 2 * page - 1); /* before */
    assert_hole(base + 4 * page, 1, base + 4 * page);         /* nothing above for long */
    assert_hole((char *)8, 1, (char *)8);
    assert_ok(resolve(base, page, &range));
    assert_ok(resolve(base + 2 * page, 2 * page, &range));
    unmake(base, "w.ww.");
}

TEST(resolve__hole__efault_and_its_address)
{
    both_ways(run_holes);
}

static void run_protections(void)
{
    struct hmem_range range;
    char *base = make("wrno");

    assert_ok(resolve(base + page, page, &range));
    assert_true(range.read_only);
    assert_int_equal(range.host_addr, (uintptr_t)base + page);
    assert_ok(resolve(base + 2 * page, page, &range));
    assert_true(range.read_only);
    assert_int_equal(range.host_addr, 0);
    assert_ok(resolve(base + 3 * page, page, &range));
    assert_false(range.read_only);
    unmake(base, "wrno");
}

TEST(resolve__protections)
{
    both_ways(run_protections);
}

/* The weakest page determines the range's rights. */
static void run_segments(void)
{
    struct hmem_range range;
    char *base = make("wrwrn");

    assert_ok(resolve(base, 4 * page, &range));
    assert_int_equal(range.segments, 4);
    assert_true(range.read_only);
    assert_int_equal(range.alloc_base, (uintptr_t)base);
    assert_int_equal(range.alloc_len, 4 * page);
    assert_int_equal(range.host_addr, (uintptr_t)base);
    assert_ok(resolve(base + page - 1, 2, &range));
    assert_int_equal(range.segments, 2);
    assert_int_equal(range.alloc_len, 2 * page);
    assert_ok(resolve(base + 2 * page, 3 * page, &range));
    assert_int_equal(range.segments, 3);
    assert_int_equal(range.host_addr, 0);
    unmake(base, "wrwrn");
}

TEST(resolve__mappings_side_by_side__are_segments)
{
    both_ways(run_segments);
}

static void run_many(void)
{
    struct hmem_range range;
    char pattern[801];
    char *base;

    for (size_t i = 0; i < sizeof(pattern) - 1; i++)
        pattern[i] = i % 2 ? 'r' : 'w';
    pattern[sizeof(pattern) - 1] = '\0';
    base = make(pattern);
    assert_ok(resolve(base + 1, 800 * page - 2, &range));
    assert_int_equal(range.segments, 800);
    assert_int_equal(range.alloc_len, 800 * page);
    unmake(base, pattern);
}

TEST(resolve__eight_hundred_mappings)
{
    both_ways(run_many);
}

#define DEEP 12

/* A file whose name, wherever a reader's line buffer splits it within the zeros, looks like a
 * mapping of the whole address space. Returns its descriptor; remove_liar() removes the folders. */
static int make_liar(char *path, size_t size)
{
    char name[200];
    int fd;

    memset(name, '0', 180);
    strcpy(name + 180, "-ffffffffffff rwx");
    snprintf(path, size, "/tmp/hmreg-XXXXXX");
    assert_non_null(mkdtemp(path));
    for (int i = 0; i < DEEP; i++) {
        snprintf(path + strlen(path), size - strlen(path), "/%s", name);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path + strlen(path), size - strlen(path), "/file");
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    return fd;
}

static void remove_liar(char *path)
{
    unlink(path);
    for (int i = 0; i <= DEEP; i++) {
        *strrchr(path, '/') = '\0';
        assert_int_equal(rmdir(path), 0);
    }
}

static void run_long_name(void)
{
    char path[4096];
    char *base = make("w.");
    struct hmem_range range;
    int fd = make_liar(path, sizeof(path));

    assert_ptr_equal(mmap(base - page, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0),
                     base - page);
    assert_hole(base, 2 * page, base + page);
    assert_hole(base - 2 * page, 3 * page, base - 2 * page);
    assert_ok(resolve(base - page, 2 * page, &range));
    assert_int_equal(range.segments, 2);
    munmap(base - page, page);
    close(fd);
    remove_liar(path);
    unmake(base, "w.");
}

TEST(resolve__file_with_a_long_name_in_between)
{
    both_ways(run_long_name);
}

static bool main_has_ended(void)
{
    char state = '?';
    FILE *stat = fopen("/proc/self/stat", "re");

    if (!stat || fscanf(stat, "%*d %*s %c", &state) != 1)
        _exit(3);
    fclose(stat);
    return state == 'Z';
}

static void *ask(void *arg)
{
    struct hmem_range range;

    while (!main_has_ended())
        sched_yield();
    _exit(resolve(arg, 16, &range) || range.segments != 1 ? 1 : 0);
}

/* The first thread has ended, so /proc/self is useless. */
static void run_after_main(void)
{
    static char memory[64];
    pid_t child = fork();

    if (child == 0) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, ask, memory))
            _exit(2);
        pthread_detach(thread);
        pthread_exit(NULL);
    }
    test_await(child);
    assert_ok(hmem_system_ops.resolve(NULL, (uintptr_t)memory, 1, &(struct hmem_range){0}));
}

TEST(resolve__first_thread_has_ended)
{
    both_ways(run_after_main);
}

/* Huge pages that no other process can access are anonymous, although the kernel has a file for
 * them; those of a file are not. The test touches none, so none need be reserved. */
static void run_huge_pages(void)
{
    size_t len = 2u << 20;
    int fd = memfd_create("/anon_hugepage", MFD_HUGETLB | MFD_CLOEXEC);
    struct hmem_range range;
    void *none = mmap(NULL, len, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
    void *file = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);

    if (none == MAP_FAILED || file == MAP_FAILED) {
        close(fd);
        test_skip("this kernel has no huge pages to ask for, or not of 2 MiB: %s", strerror(errno));
    }
    assert_ok(resolve(none, page, &range));
    assert_true(range.anonymous);
    assert_ok(resolve(file, page, &range));
    assert_false(range.anonymous);
    munmap(none, len);
    munmap(file, len);
    close(fd);
}

TEST(resolve__huge_pages__anonymous_unless_of_a_file)
{
    both_ways(run_huge_pages);
}

/* ---- what is mapped --------------------------------------------------------------------- */

static void check_backing(int fd, int flags, bool anonymous, bool of_driver, bool unnamed)
{
    char *at = mmap(NULL, 2 * page, PROT_READ, flags, fd, 0);
    struct hmem_range range;

    assert_ptr_not_equal(at, MAP_FAILED);
    assert_ok(resolve(at, 2 * page, &range));
    assert_int_equal(range.anonymous, anonymous);
    assert_int_equal(range.of_driver, of_driver);
    assert_int_equal(range.unnamed, unnamed);
    /* half of it private and anonymous: as the other half */
    assert_ptr_equal(mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at);
    assert_ok(resolve(at, 2 * page, &range));
    assert_int_equal(range.anonymous, anonymous);
    assert_int_equal(range.of_driver, of_driver);
    assert_int_equal(range.unnamed, unnamed);
    munmap(at, 2 * page);
}

/* No driver's file can be mapped on every machine: /dev/mem needs rights, and what can be mapped of
 * /dev/zero is other memory. */
static void run_backings(void)
{
    int memfd = memfd_create("/dev/zero", MFD_CLOEXEC),
        zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

    assert_int_equal(ftruncate(memfd, 2 * (off_t)page), 0);
    check_backing(-1, MAP_PRIVATE | MAP_ANONYMOUS, true, true, true);
    check_backing(-1, MAP_SHARED | MAP_ANONYMOUS, false, false, true);
    check_backing(zero, MAP_SHARED, false, false, true); /* the same */
    check_backing(memfd, MAP_SHARED, false, false, false);
    check_backing(memfd, MAP_PRIVATE, false, false, false);
    close(memfd);
    close(zero);
}

TEST(resolve__backings__told_apart)
{
    both_ways(run_backings);
}

/* In a mount namespace of its own, which root may make, a private mapping of an ordinary file at
 * the root has the name of anonymous huge pages. */
static void map_file_of_that_name(void)
{
    struct hmem_range range;
    char *at;
    int fd;

    if (unshare(CLONE_NEWNS)) /* not root */
        _exit(77);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("hmreg", "/tmp", "tmpfs", 0, NULL) || mkdir("/tmp/proc", 0700) ||
        mount("/proc", "/tmp/proc", NULL, MS_BIND | MS_REC, NULL) || chroot("/tmp") || chdir("/"))
        _exit(77);
    fd = open("/anon_hugepage", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)page))
        _exit(1);
    at = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED || resolve(at, page, &range) || range.anonymous)
        _exit(2);
    unlink("/anon_hugepage"); /* "(deleted)" */
    _exit(resolve(at, page, &range) || range.anonymous ? 3 : 0);
}

static void run_file_of_that_name(void)
{
    pid_t child = fork();
    int status;

    if (!child)
        map_file_of_that_name();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        test_skip("this process may make no mount namespace");
    assert_int_equal(WEXITSTATUS(status), 0);
    answered += !by_text; /* if the kernel does, in the child */
}

TEST(resolve__file_named_as_huge_pages_are__not_anonymous)
{
    both_ways(run_file_of_that_name);
}

/* ---- the kept descriptor ---------------------------------------------------------------- */

/* The number of the library's list, which is the least that is free. */
static int next_number(void)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    close(fd);
    return fd;
}

/* A child with a mapping that this process has not; the program opens its list under the number
 * that the library's had. */
TEST(resolve__kept_descriptor_is_another_processs_list__not_asked)
{
    char path[64], *at;
    struct hmem *self;
    struct hmem_range range;
    int number, other, ready[2];
    pid_t child;

    page = (size_t)sysconf(_SC_PAGESIZE);
    by_text = false;
    number = next_number();
    assert_ok(hmem_system_ops.open(&self));
    if (!self)
        test_skip("this kernel has no PROCMAP_QUERY (Linux 6.11)");
    at = make("w");
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (!child) {
        close(ready[1]);
        _exit(read(ready[0], path, 1) != 0);
    }
    munmap(at, page);
    assert_int_equal(hmem_system_ops.resolve(self, (uintptr_t)at, page, &range), -EFAULT);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)child);
    other = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(other >= 0);
    assert_int_equal(dup2(other, number), number);
    assert_int_equal(hmem_system_ops.resolve(self, (uintptr_t)at, page, &range), -EFAULT);
    hmem_system_ops.close(self); /* leaves the other's open */
    assert_int_equal(close(number), 0);
    close(other);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

TEST(export__opnotsupp)
{
    struct hmreg_dmabuf dmabuf = {.fd = 77};

    assert_fails(hmem_system_ops.export_dmabuf(NULL, 1, 1, NULL, 0, &dmabuf), -EOPNOTSUPP,
                 "by its address");
    assert_int_equal(dmabuf.fd, 77);
}

TEST_MAIN()
