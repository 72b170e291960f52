/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The process's mappings, as the kernel lists them and as it answers PROCMAP_QUERY (Linux 6.11):
 * the same of both. The test interposes open(), and ioctl() of what that returned.
 */
#include "core/base/maps.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

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
    query->inode = row->name ? 5 : 0;
    query->page_size =
        row->map.start == 0x200000 || row->map.start == 0x400000 || row->map.start == 0x600000
            ? 0x200000
            : (uint64_t)sysconf(_SC_PAGESIZE);
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
}

static void walk(int kept)
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

TEST(walk__list__each_mapping_and_no_second_request)
{
    answers = false;
    asked = 0;
    set_rows("\n");
    walk(-1);
    walk(-1);
    assert_int_equal(asked, 1);
    assert_int_equal(maps_keep().fd, -1);
    forget_list();
}

TEST(walk__lines_of_another_form__left_out)
{
    answers = false;
    set_rows("\nno-mapping\n\n6000-6800 rw-p\n");
    walk(-1);
    forget_list();
}

TEST_FIRST(walk__kernel_answers__the_same_by_one_descriptor)
{
    struct owned_fd kept;

    answers = true;
    set_rows("\n");
    walk(-1);
    kept = maps_keep();
    assert_true(kept.fd >= 0);
    opened = 0;
    walk(kept.fd);
    assert_int_equal(opened, 0);
    owned_fd_close(&kept);
    forget_list();
}

/* ---- failures --------------------------------------------------------------------------- */

static int first_of(int kept)
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
    assert_int_equal(first_of(-1), -EACCES);
    assert_int_equal(maps_keep().fd, -1);
    list = __real_open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(first_of(-1), -EISDIR);
    forget_list();
    set_list("", 0);
    assert_int_equal(first_of(-1), 0);
    forget_list();
}

TEST(walk__shared_descriptor_is_another_file__opens_its_own)
{
    static const int lost[] = {EBADF, ENOTTY, EINVAL};

    answers = true;
    set_rows("\n");
    for (int i = 0; i < 3; i++) {
        failure = lost[i];
        assert_int_equal(first_of(list), 1); /* by the text */
    }
    failure = EPERM;
    assert_int_equal(first_of(list), -EPERM);
    failure = 0;
    forget_list();
}

TEST_MAIN()
