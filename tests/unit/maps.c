/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process's mappings, as the kernel lists them and as it answers PROCMAP_QUERY (Linux 6.11):
 * the same of both. The test interposes open(), and ioctl() of what that returned; and what a walk
 * asks about files: memfd_create(), fstat() and stat().
 */

/* What a walk over mappings finds, by each way of asking: calls tell only whether a range is well.
 */
#include "core/base/maps.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define MFD_EXEC_OR_NOT 0x18u /* MFD_NOEXEC_SEAL, MFD_EXEC */

#define LONG_NAME                                                                                  \
    "/a/name/that/is/longer/than/a/line/that/is/kept/0123456789012345678901234567890123456789"     \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"     \
    "01234567890123456789012345678901234567890123456789012345678901234567890123456789/end"

/* What the list says, and how it is to be understood. */
static const struct row {
    const char *line;
    const char *name; /* of a mapping that has an inode */
    struct map map;
    bool shared;
} rows[] = {
    {"1000-3000 r-xp 00000000 08:01 77 /bin/program",
     "/bin/program",
     {0x1000, 0x3000, .readable = true, .executable = true},
     false},
    {"3000-5000 rw-p 00000000 00:00 0 [heap]",
     NULL,
     {0x3000, 0x5000, .readable = true, .writable = true, .anonymous = true},
     false},
    {"7000-8000 ---p 00000000 00:00 0 ", NULL, {0x7000, 0x8000, .anonymous = true}, false},
    {"8000-9000 rw-s 00000000 00:00 0 ",
     NULL,
     {0x8000, 0x9000, .readable = true, .writable = true},
     true},
    {"200000-400000 rw-p 00000000 00:10 5 /anon_hugepage (deleted)",
     "/anon_hugepage (deleted)",
     {0x200000, 0x400000, .readable = true, .writable = true, .anonymous = true},
     false},
    {"400000-600000 rw-p 00000000 00:10 6 /anon_hugepage",
     "/anon_hugepage",
     {0x400000, 0x600000, .readable = true, .writable = true, .anonymous = true},
     false},
    {"600000-800000 rw-p 00000000 00:20 7 /mnt/huge/anon_hugepage",
     "/mnt/huge/anon_hugepage",
     {0x600000, 0x800000, .readable = true, .writable = true},
     false},
    {"800000-a00000 --xp 00000000 08:01 8 " LONG_NAME,
     LONG_NAME,
     {0x800000, 0xa00000, .executable = true},
     false},
    /* A file whose number is 0, as one of FUSE may say, and one at the root of its mount. */
    {"b00000-b01000 rw-p 00000000 00:2b 0 /fuse/file",
     "/fuse/file",
     {0xb00000, 0xb01000, .readable = true, .writable = true},
     false},
    {"b01000-b02000 rw-p 00000000 08:00 0 /other/file",
     "/other/file",
     {0xb01000, 0xb02000, .readable = true, .writable = true},
     false},
    {"c00000-e00000 rw-p 00000000 00:20 9 /anon_hugepage (deleted)",
     "/anon_hugepage (deleted)",
     {0xc00000, 0xe00000, .readable = true, .writable = true},
     false},
    {"e00000-1000000 rw-p 00000000 08:01 5 /anon_hugepage",
     "/anon_hugepage",
     {0xe00000, 0x1000000, .readable = true, .writable = true},
     false},
    {"1000000-1001000 rw-s 00000000 00:01 12 /dev/zero (deleted)",
     "/dev/zero (deleted)",
     {0x1000000, 0x1001000, .readable = true, .writable = true, .shared_anonymous = true},
     true},
    {"1001000-1002000 rw-p 00000000 00:01 12 /dev/zero (deleted)",
     "/dev/zero (deleted)",
     {0x1001000, 0x1002000, .readable = true, .writable = true},
     false},
    {"1002000-1003000 rw-s 00001000 00:05 44 /dev/simulated0",
     "/dev/simulated0",
     {0x1002000, 0x1003000, .readable = true, .writable = true, .device = true},
     true},
    {"1003000-1004000 rw-p 00000000 00:05 44 /dev/simulated0",
     "/dev/simulated0",
     {0x1003000, 0x1004000, .readable = true, .writable = true},
     false},
    {"1004000-1005000 rw-s 00000000 00:05 45 /dev/simulated0", /* before: another file's name */
     "/dev/simulated0",
     {0x1004000, 0x1005000, .readable = true, .writable = true},
     true},
    {"1005000-1006000 rw-s 00000000 00:06 44 /dev/simulated0",
     "/dev/simulated0",
     {0x1005000, 0x1006000, .readable = true, .writable = true},
     true},
    {"1006000-1007000 rw-s 00000000 00:05 46 /dev/shm/file",
     "/dev/shm/file",
     {0x1006000, 0x1007000, .readable = true, .writable = true},
     true},
    {"1007000-1008000 rw-s 00000000 00:05 47 /dev/gone",
     "/dev/gone",
     {0x1007000, 0x1008000, .readable = true, .writable = true},
     true},
    {"1008000-1009000 rw-s 00000000 00:05 44 /far/simulated0",
     "/far/simulated0",
     {0x1008000, 0x1009000, .readable = true, .writable = true},
     true},
    {"1009000-100a000 rw-s 00000000 00:05 44 /dev/zero",
     "/dev/zero",
     {0x1009000, 0x100a000, .readable = true, .writable = true, .shared_anonymous = true},
     true},
    {"100a000-100b000 rw-s 00000000 00:05 44 /dev/mem",
     "/dev/mem",
     {0x100a000, 0x100b000, .readable = true, .writable = true},
     true},
    {"7f0000000000-7f0000001000 r--p 00000000 00:00 0",
     NULL,
     {0x7f0000000000, 0x7f0000001000, .readable = true, .anonymous = true},
     false},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* ---- the kernel ------------------------------------------------------------------------- */

static int list = -1; /* a file with the list; -1: it cannot be opened */
static bool answers;  /* PROCMAP_QUERY */
static int failure;   /* of PROCMAP_QUERY; 0: none */
static unsigned opened, asked;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    unsigned mode = 0;
    va_list args;

    va_start(args, flags);
    if (flags & O_CREAT)
        mode = va_arg(args, unsigned);
    va_end(args);
    if (strcmp(path, "/proc/thread-self/maps") != 0)
        return __real_open(path, flags, mode);
    opened++;
    if (list < 0) {
        errno = EACCES;
        return -1;
    }
    lseek(list, 0, SEEK_SET);
    return dup(list);
}

/* The kernel's own file system for pages of 2 MiB is device 0:0x10. */
static int huge = -1;
static unsigned memfds; /* that were asked for */

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (!(flags & MFD_HUGETLB))
        return __real_memfd_create(name, flags);
    memfds++;
    errno = flags & MFD_EXEC_OR_NOT ? EINVAL : ENODEV; /* before Linux 6.3; no such pages */
    if (flags & MFD_EXEC_OR_NOT || flags >> 26 != 21)
        return -1;
    huge = __real_memfd_create(name, MFD_CLOEXEC);
    return huge;
}

int __real_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);

int __wrap_fstat(int fd, struct stat *out)
{
    int rc = __real_fstat(fd, out);

    if (fd == huge)
        out->st_dev = makedev(0, 0x10);
    huge = -1;
    return rc;
}

int __wrap_stat(const char *path, struct stat *out);

int __wrap_stat(const char *path, struct stat *out)
{
    assert_ptr_equal(strstr(path, "/dev/"), path); /* no other file is asked for */
    *out = (struct stat){.st_dev = makedev(0, 5),
                         .st_ino = 44,
                         .st_mode = S_IFCHR | 0600,
                         .st_rdev = makedev(195, 0)};
    if (!strcmp(path, "/dev/shm/file")) {
        out->st_ino = 46;
        out->st_mode = S_IFREG | 0600;
    }
    if (!strcmp(path, "/dev/zero"))
        out->st_rdev = makedev(1, 5);
    if (!strcmp(path, "/dev/mem"))
        out->st_rdev = makedev(1, 1);
    errno = ENOENT;
    return strcmp(path, "/dev/gone") ? 0 : -1;
}

/* As struct procmap_query of linux/fs.h. */
struct query {
    uint64_t size, flags, addr, start, end, vma_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};

static int answer_name(const struct row *row, const struct query *query)
{
    size_t size = row->name ? strlen(row->name) + 1 : 1;

    if (!query->name_size)
        return 0;
    if (size > query->name_size)
        return ENAMETOOLONG;
    memcpy((char *)(uintptr_t)query->name, row->name ? row->name : "", size);
    return 0;
}

static int answer(struct query *query)
{
    const struct row *row = rows;

    assert_int_equal(query->size, sizeof(*query));
    assert_true(query->flags == 0x10 || query->name_size); /* covering or next */
    while (row < rows + ROWS && row->map.end <= query->addr)
        row++;
    if (row == rows + ROWS)
        return ENOENT;
    query->start = row->map.start;
    query->end = row->map.end;
    query->vma_flags = (row->map.readable ? 1 : 0) | (row->map.writable ? 2 : 0) |
                       (row->map.executable ? 4 : 0) | (row->shared ? 8 : 0);
    assert_int_equal(
        sscanf(row->line, "%*s %*s %*s %x:%x %lu", &query->major, &query->minor, &query->inode), 3);
    query->page_size =
        row->map.end - row->map.start == 0x200000 ? 0x200000 : (uint64_t)sysconf(_SC_PAGESIZE);
    return answer_name(row, query);
}

int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    asked++;
    errno = answers ? failure : ENOTTY;
    if (!errno)
        errno = answer(arg);
    return errno ? -1 : 0;
}

static void set_list(const char *text, size_t size)
{
    list = memfd_create("maps", MFD_CLOEXEC);
    assert_true(list >= 0);
    assert_int_equal(write(list, text, size), size);
}

static void set_rows(const char *separator)
{
    char text[4096];
    size_t size = 0;

    for (int i = 0; i < ROWS; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%s", i ? separator : "",
                                 rows[i].line);
    set_list(text, size); /* without a newline at the end */
}

static void forget_list(void)
{
    close(list);
    list = -1;
}

/* ---- walks ------------------------------------------------------------------------------ */

static void assert_row(const struct map *map, const struct row *row)
{
    assert_int_equal(map->start, row->map.start);
    assert_int_equal(map->end, row->map.end);
    assert_int_equal(map->readable, row->map.readable);
    assert_int_equal(map->writable, row->map.writable);
    assert_int_equal(map->executable, row->map.executable);
    assert_int_equal(map->anonymous, row->map.anonymous);
    assert_int_equal(map->shared_anonymous, row->map.shared_anonymous);
    assert_int_equal(map->device, row->map.device);
}

static void walk(const struct owned_fd *kept)
{
    struct maps maps;
    struct map map = {0};

    maps_begin(&maps, kept);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(maps_next(&maps, map.end, &map), 1);
        assert_row(&map, &rows[i]);
    }
    assert_int_equal(maps_next(&maps, map.end, &map), 0);
    maps_end(&maps);
    maps_end(&maps);
    maps_begin(&maps, kept);
    assert_int_equal(maps_next(&maps, 0x4fff, &map), 1); /* the last byte of one */
    assert_row(&map, &rows[1]);
    assert_int_equal(maps_next(&maps, 0x5000, &map), 1); /* beside it */
    assert_row(&map, &rows[2]);
    maps_end(&maps);
}

/* In a sandbox that ends a process for memfd_create(2), huge pages count as a file's. */
TEST_FIRST(read_only__huge_pages__no_memfd_and_not_anonymous)
{
    int status;
    pid_t child;

    set_rows("\n");
    child = fork();
    if (!child) {
        struct maps maps;
        struct map map;

        maps_read_only();
        maps_begin(&maps, NULL);
        _exit(maps_next(&maps, 0x200000, &map) != 1 || map.start != 0x200000 || map.anonymous ||
              memfds);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    forget_list();
}

TEST(walk__list__each_mapping_and_no_second_request)
{
    answers = false;
    asked = 0;
    set_rows("\n");
    walk(NULL);
    walk(NULL);
    assert_int_equal(asked, 1);
    assert_int_equal(maps_keep().fd, -1);
    forget_list();
}

TEST(walk__lines_of_another_form__left_out)
{
    answers = false;
    set_rows("\nno-mapping\n\n6000-6800 rw-p\n");
    walk(NULL);
    forget_list();
}

TEST_FIRST(walk__kernel_answers__the_same_by_one_descriptor)
{
    struct owned_fd kept;

    answers = true;
    set_rows("\n");
    walk(NULL);
    kept = maps_keep();
    assert_true(kept.fd >= 0);
    opened = 0;
    walk(&kept);
    assert_int_equal(opened, 0);
    owned_fd_close(&kept);
    forget_list();
}

/* ---- failures --------------------------------------------------------------------------- */

static int first_of(const struct owned_fd *kept)
{
    struct map map;
    struct maps maps;
    int rc;

    maps_begin(&maps, kept);
    rc = maps_next(&maps, 0, &map);
    maps_end(&maps);
    return rc;
}

TEST(walk__list_cannot_be_opened_or_read__error)
{
    answers = false;
    assert_int_equal(first_of(NULL), -EACCES);
    assert_int_equal(maps_keep().fd, -1);
    list = __real_open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(first_of(NULL), -EISDIR);
    forget_list();
    set_list("", 0);
    assert_int_equal(first_of(NULL), 0);
    forget_list();
}

TEST(walk__shared_descriptor_is_another_file__opens_its_own)
{
    static const int lost[] = {EBADF, ENOTTY, EINVAL};

    struct owned_fd kept;

    answers = true;
    set_rows("\n");
    kept = owned_fd_take(list);
    for (int i = 0; i < 3; i++) { /* closed by another thread after the walk began */
        failure = lost[i];
        assert_int_equal(first_of(&kept), 1); /* by the text */
    }
    failure = EPERM;
    assert_int_equal(first_of(&kept), -EPERM);
    failure = 0;
    forget_list();
}

/* The list of another process answers too, of other mappings. */
TEST_FIRST(walk__shared_descriptor_is_another_list__opens_its_own)
{
    struct owned_fd kept;
    int other;

    answers = true;
    set_rows("\n");
    kept = maps_keep();
    assert_true(kept.fd >= 0);
    other = memfd_create("another process's", MFD_CLOEXEC);
    assert_int_equal(dup2(other, kept.fd), kept.fd);
    opened = 0;
    assert_int_equal(first_of(&kept), 1);
    assert_int_equal(opened, 1);
    close(other);
    close(kept.fd);
    forget_list();
}

TEST_MAIN()
