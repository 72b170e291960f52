/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which folders and files are opened to be written or mapped, and which are refused: other users'
 * files, links, hard links, FIFOs, lengths. The current folder is a new one.
 */
#include "core/base/own_path.h"
#include "tests/support/stranger.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define SIZE 4096

static char base[64];

static void remove_base(void)
{
    char command[80];

    snprintf(command, sizeof(command), "rm -rf %s", base);
    if (!base[0] || chdir("/") || system(command))
        fprintf(stderr, "%s stays\n", base);
}

/* A new current folder, for each test. */
static void begin(void)
{
    if (base[0])
        remove_base();
    else
        atexit(remove_base);
    strcpy(base, "/tmp/hmreg-test-XXXXXX");
    assert_non_null(mkdtemp(base));
    assert_int_equal(chmod(base, 0755), 0);
    assert_int_equal(chdir(base), 0);
}

static void make_folder(const char *path, mode_t mode)
{
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void make_file(const char *path, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "contents", 8), 8);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static off_t size_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

/* error: 0, or why not. */
static void expect(int fd, int error)
{
    if ((fd < 0 ? errno : 0) != error)
        fail_msg("%s instead of %s", fd < 0 ? strerror(errno) : "opened", strerror(error));
    if (fd >= 0)
        close(fd);
}

/* ---- folders ----------------------------------------------------------------------------- */

TEST(folder__of_this_user__by_who_may_write_to_it)
{
    static const struct {
        mode_t mode;
        int error;
    } folders[] = {{0700, 0},     {0755, 0},     {0300, 0},  {02750, 0},
                   {0770, EPERM}, {0702, EPERM}, {01777, 0}, {01770, 0}};

    begin();
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        make_folder("one", folders[i].mode);
        expect(own_folder("one"), folders[i].error);
        expect(own_folder("./one//"), folders[i].error);
        assert_int_equal(rmdir("one"), 0);
    }
    expect(own_folder("one"), ENOENT);
    expect(own_folder(""), ENOENT);
    make_file("file", 0600);
    expect(own_folder("file"), ENOTDIR);
    expect(own_folder("file/one"), ENOTDIR);
}

/* A project's folder, which its group writes to. */
TEST(folder__below_a_shared_one__opened)
{
    begin();
    make_folder("project", 02775);
    expect(own_folder_make("project/mine"), 0);
    expect(own_folder_make("project/mine/traces/"), 0);
    expect(own_folder("project/mine/../mine/traces"), 0);
    expect(own_folder_make("project/mine"), EEXIST);
    expect(own_folder_make("project/none/traces"), ENOENT);
    expect(own_folder_make("/"), EEXIST);
}

TEST(folder__by_a_link__only_where_no_other_user_could_make_it)
{
    begin();
    make_folder("project", 0775);
    make_folder("project/mine", 0700);
    assert_int_equal(symlink("project/mine", "link"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(symlink("mine", "project/link"), 0);
    expect(own_folder("link"), 0);
    expect(own_folder_make("link/traces"), 0);
    assert_int_equal(symlink("traces", "project/mine/relative"), 0);
    expect(own_folder("project/mine/relative"), 0);
    expect(own_folder("loop"), ELOOP);
    expect(own_folder("project/link"), ELOOP);
    expect(own_folder("project/link/traces"), ELOOP);
    expect(own_folder_make("project/link/more"), ELOOP);
}

static void stranger_makes_folders(void)
{
    STRANGER_DOES(!mkdir("project/theirs", 0755) && !mkdir("open/theirs", 0755) &&
                  !mkdir("project/theirs/sticky", 0755) && !chmod("project/theirs/sticky", 01777) &&
                  !symlink("../mine", "project/link"));
}

TEST(folder__of_another_user__refused)
{
    begin();
    stranger_needed();
    make_folder("mine", 0700);
    make_folder("project", 0777);
    make_folder("open", 01777);
    stranger_acts(stranger_makes_folders);
    assert_int_equal(chmod("project", 0775), 0);
    expect(own_folder("project/theirs"), EPERM);
    expect(own_folder("project/theirs/sticky"), EPERM);
    expect(own_folder("project/theirs/sticky/../../../mine"), 0);
    expect(own_folder("project/link"), ELOOP);
    expect(own_folder_make("project/theirs/mine"), 0);
    /* in a folder like /tmp they are not even entered */
    expect(own_folder_make("open/theirs/mine"), EPERM);
    expect(own_folder_make("open/mine"), 0);
}

/* Of 65534 in a user namespace that has a number for no other user. */
static void find_folders_in_a_namespace(void)
{
    struct own_output output;
    char line[64];
    int fd;

    snprintf(line, sizeof(line), "65534 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWUSER))
        _exit(77);
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, line, strlen(line)) < 0 || geteuid() != 65534)
        _exit(77);
    STRANGER_DOES(own_folder("theirs") < 0 && errno == EPERM);
    STRANGER_DOES(own_folder("link") < 0 && errno == ELOOP);
    STRANGER_DOES(own_output_open(&output, "theirs.txt") < 0 && errno == EPERM);
}

static void stranger_makes_a_folder(void)
{
    STRANGER_DOES(!mkdir("theirs", 0755) && !symlink("theirs", "link") &&
                  open("theirs.txt", O_RDWR | O_CREAT | O_CLOEXEC, 0666) >= 0);
}

/* All of them look like the process's own. */
TEST(folder__of_a_user_that_is_not_mapped__refused)
{
    pid_t child;

    begin();
    stranger_needed();
    assert_int_equal(chmod(".", 0777), 0);
    stranger_acts(stranger_makes_a_folder);
    assert_int_equal(chmod(".", 0755), 0);
    child = fork();
    if (child == 0) {
        find_folders_in_a_namespace();
        _exit(0);
    }
    test_await_or_skip(child, "new user namespaces are not permitted here");
}

static void use_roots_folders(void)
{
    STRANGER_DOES(own_folder("sticky") >= 0 && own_folder_make("link/theirs") >= 0);
    STRANGER_DOES(own_folder(".") < 0 && errno == EPERM);
    STRANGER_DOES(own_folder("sticky/roots") < 0 && errno == EPERM);
}

/* Root is no stranger: /tmp is root's, and links in root's folders are followed. */
TEST(folder__of_root__for_a_user_with_the_sticky_bit_only)
{
    begin();
    stranger_needed();
    make_folder("sticky", 01777);
    make_folder("sticky/roots", 0755);
    assert_int_equal(symlink("sticky", "link"), 0);
    stranger_acts(use_roots_folders);
}

/* ---- files that are mapped --------------------------------------------------------------- */

TEST(file__in_a_folder__only_ours)
{
    int folder;

    begin();
    folder = own_folder(".");
    assert_true(folder >= 0);
    expect(own_file_create(folder, "new"), 0);
    expect(own_file_create(folder, "new"), EEXIST);
    expect(own_file_open(folder, "new"), 0);
    expect(own_file_open(folder, "none"), ENOENT);
    assert_int_equal(chmod("new", 0620), 0);
    expect(own_file_open(folder, "new"), EPERM);
    assert_int_equal(chmod("new", 0600), 0);
    assert_int_equal(symlink("new", "link"), 0);
    expect(own_file_open(folder, "link"), ELOOP);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    expect(own_file_open(folder, "fifo"), EINVAL);
    close(folder);
}

static void stranger_makes_file(void)
{
    STRANGER_DOES(open("theirs", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0);
}

TEST(file__of_another_user__neither_opened_nor_mapped)
{
    int folder, fd;

    begin();
    stranger_needed();
    assert_int_equal(chmod(".", 01777), 0);
    stranger_acts(stranger_makes_file);
    folder = own_folder(".");
    assert_true(folder >= 0);
    expect(own_file_open(folder, "theirs"), EPERM);
    close(folder);
    fd = open("theirs", O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    assert_null(own_file_map(fd, SIZE, 0));
    assert_int_equal(errno, EPERM);
    close(fd);
}

TEST(file__mapped__its_length_is_the_mappings)
{
    int folder, fd;
    char *bytes;

    begin();
    folder = own_folder(".");
    fd = own_file_create(folder, "new");
    assert_true(fd >= 0);
    assert_null(own_file_map(fd, SIZE, 0));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    bytes = own_file_map(fd, SIZE, MAP_POPULATE);
    assert_non_null(bytes);
    bytes[SIZE - 1] = 1;
    assert_int_equal(munmap(bytes, SIZE), 0);
    close(fd);
    close(folder);
}

/* ---- reports ----------------------------------------------------------------------------- */

/* Opens a report and writes it; complete or not. */
static int write_output(const char *path, const char *words, bool complete)
{
    struct own_output output;
    int error;

    if (own_output_open(&output, path))
        return errno;
    assert_true(output.fd > STDERR_FILENO);
    assert_int_equal(write(output.fd, words, strlen(words)), strlen(words));
    error = own_output_end(&output, complete) ? errno : 0;
    close(output.fd);
    return error;
}

static void expect_output(const char *path, int error)
{
    assert_int_equal(write_output(path, "new", true), error);
}

static int count_entries(void)
{
    DIR *folder = opendir(".");
    int count = -2; /* "." and ".." */

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

TEST(output__new_or_ours__has_its_name_when_it_is_complete)
{
    struct stat status;

    begin();
    assert_int_equal(write_output("new", "some", false), 0);
    assert_int_equal(count_entries(), 0);
    expect_output("new", 0);
    assert_int_equal(size_of("new"), 3);
    make_file("old", 0664);
    assert_int_equal(write_output("old", "some", false), 0);
    assert_int_equal(size_of("old"), 8);
    assert_int_equal(link("old", "second"), 0);
    expect_output("old", 0);
    assert_int_equal(size_of("old"), 3);
    assert_int_equal(size_of("second"), 8);
    assert_int_equal(stat("old", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0664);
    assert_int_equal(status.st_uid, geteuid());
    assert_int_equal(count_entries(), 3);
    if (mknod("null", S_IFCHR | 0600, makedev(1, 3))) {
        expect_output("/dev/null", 0);
    } else { /* who may make it could replace the machine's, too */
        expect_output("null", 0);
        assert_int_equal(stat("null", &status), 0);
        assert_true(S_ISCHR(status.st_mode));
    }
    expect_output("none/new", ENOENT);
    expect_output(".", EISDIR);
    expect_output("new/", EISDIR);
    expect_output("", ENOENT);
}

/* No file can be made beside it. */
static void write_in_a_folder_of_roots(void)
{
    STRANGER_DOES(!write_output("theirs", "some", false) && size_of("theirs") == 8);
    STRANGER_DOES(!write_output("theirs", "new", true) && size_of("theirs") == 3);
    STRANGER_DOES(write_output("none", "new", true) == EACCES);
}

static void stranger_makes_theirs(void)
{
    int fd = open("theirs", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    STRANGER_DOES(write(fd, "contents", 8) == 8);
}

TEST(output__folder_that_may_not_be_written_to__its_file_is)
{
    begin();
    stranger_needed();
    assert_int_equal(chmod(".", 0777), 0);
    stranger_acts(stranger_makes_theirs);
    assert_int_equal(chmod(".", 0755), 0);
    stranger_acts(write_in_a_folder_of_roots);
}

TEST(output__links_and_fifos__refused_and_not_waited_for)
{
    begin();
    make_file("old", 0600);
    assert_int_equal(symlink("old", "link"), 0);
    assert_int_equal(symlink("new", "dangling"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    expect_output("link", ELOOP);
    expect_output("dangling", ELOOP);
    expect_output("fifo", EINVAL);
    make_folder("project", 0775);
    assert_int_equal(link("old", "project/hard"), 0);
    expect_output("project/hard", EMLINK);
    assert_int_equal(size_of("old"), 8);
    assert_int_not_equal(access("new", F_OK), 0);
}

/* 0; 77: no mount can be made here. */
static int write_to_a_mounted_file(void)
{
    if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("other", "old", NULL, MS_BIND, NULL))
        return 77;
    if (write_output("old", "new", true) || size_of("other") != 3)
        return 1;
    /* Without /proc a file has a name before it is complete. */
    if (mount("none", "/proc", "tmpfs", 0, NULL))
        return 77;
    return !write_output("new", "some", false) && count_entries() == 2 ? 0 : 2;
}

TEST(output__mounted_file__written_in_place)
{
    begin();
    make_file("old", 0600);
    make_file("other", 0600);
    test_in_child_or_skip(write_to_a_mounted_file(), "no mounts can be made here");
    assert_int_equal(size_of("old"), 8);
}

/* Where the file is now, and not from its beginning. */
TEST(output__descriptor_of_this_process__its_duplicate)
{
    char path[64];
    int fd, input;

    begin();
    make_file("old", 0600);
    fd = open("old", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd > STDERR_FILENO);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    assert_int_equal(write_output(path, "more", true), 0);
    assert_int_equal(size_of("old"), 12);
    input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(write_output("/dev/fd/0", "more", true), 0);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    close(input);
    close(fd);
    assert_int_equal(size_of("old"), 16);
    expect_output("/proc/self/fd/987654321", EBADF);
}

static void stranger_makes_output(void)
{
    STRANGER_DOES(open("theirs", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666) >= 0 &&
                  !mkdir("folder", 0755) && !chdir("folder") && !symlink("/", "link"));
}

TEST(output__of_another_user__refused)
{
    begin();
    stranger_needed();
    assert_int_equal(chmod(".", 0777), 0);
    stranger_acts(stranger_makes_output);
    assert_int_equal(chmod(".", 0755), 0);
    expect_output("theirs", EPERM);
    expect_output("folder/link/tmp/hmreg-report", ELOOP);
    expect_output("folder/new", 0);
}

TEST_MAIN()
