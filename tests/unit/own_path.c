/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which folders and files are opened to be written or mapped, and which are refused: other users'
 * files, links, hard links, FIFOs, lengths. The current folder is a new one.
 */

/* A part of its own of the tools and of libhmreg-preload, which are programs with no interface. */
#include "core/base/own_path.h"
#include "tests/support/stranger.h"
#include "tools/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

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
    char name[NAME_MAX + 10] = "";

    begin();
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        make_folder("one", folders[i].mode);
        expect(own_folder("one"), folders[i].error);
        expect(own_folder("./one//"), folders[i].error);
        assert_int_equal(rmdir("one"), 0);
    }
    expect(own_folder("one"), ENOENT);
    expect(own_folder(""), ENOENT);
    memset(name, 'n', sizeof(name) - 1);
    expect(own_folder(name), ENAMETOOLONG);
    expect(own_folder_make(name), ENAMETOOLONG);
    name[NAME_MAX] = '\0';
    expect(own_folder_make(name), 0);
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
    char line[64];
    bool made;
    int fd;

    snprintf(line, sizeof(line), "65534 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWUSER))
        _exit(77);
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, line, strlen(line)) < 0 || geteuid() != 65534)
        _exit(77);
    STRANGER_DOES(own_folder("theirs") < 0 && errno == EPERM);
    STRANGER_DOES(own_folder("link") < 0 && errno == ELOOP);
    STRANGER_DOES(own_file_overwrite(AT_FDCWD, "theirs.txt", &made) < 0 && errno == EPERM);
}

static void stranger_makes_a_folder(void)
{
    STRANGER_DOES(!mkdir("theirs", 0755) && !symlink("theirs", "link") &&
                  open("theirs.txt", O_RDWR | O_CREAT | O_CLOEXEC, 0666) >= 0 &&
                  !chmod("theirs.txt", 0666));
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
    expect(own_file_open(folder, "new", 0), 0);
    expect(own_file_open(folder, "none", 0), ENOENT);
    assert_int_equal(chmod("new", 0620), 0);
    expect(own_file_open(folder, "new", 0), EPERM);
    assert_int_equal(chmod("new", 0600), 0);
    assert_int_equal(symlink("new", "link"), 0);
    expect(own_file_open(folder, "link", 0), ELOOP);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    expect(own_file_open(folder, "fifo", 0), EINVAL);
    close(folder);
}

static void stranger_makes_file(void)
{
    STRANGER_DOES(open("theirs", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0);
}

TEST(file__of_another_user__not_opened)
{
    int folder;

    begin();
    stranger_needed();
    assert_int_equal(chmod(".", 01777), 0);
    stranger_acts(stranger_makes_file);
    folder = own_folder(".");
    assert_true(folder >= 0);
    expect(own_file_open(folder, "theirs", 0), EPERM);
    close(folder);
}

/* Beyond a file's end a mapping has pages that raise SIGBUS. */
TEST(file__to_be_mapped__of_the_mappings_length)
{
    int folder;

    begin();
    folder = own_folder(".");
    make_file("new", 0600);
    expect(own_file_open(folder, "new", 8), 0);
    expect(own_file_open(folder, "new", 4096), EINVAL);
    close(folder);
}

/* ---- reports ----------------------------------------------------------------------------- */

static int try_output(const char *path)
{
    return output_try(path) ? 0 : errno;
}

static int write_output(const char *path, const char *words)
{
    FILE *file = output_begin();

    assert_non_null(file);
    assert_true(fileno(file) > STDERR_FILENO);
    fputs(words, file);
    return output_end(file, path) ? 0 : errno;
}

static void expect_output(const char *path, int error)
{
    assert_int_equal(try_output(path), error);
    assert_int_equal(write_output(path, "new"), error);
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

TEST(output__new_or_ours__written_when_it_is_complete)
{
    struct stat status;

    begin();
    assert_int_equal(try_output("new"), 0);
    assert_int_equal(count_entries(), 0);
    expect_output("new", 0);
    assert_int_equal(size_of("new"), 3);
    make_file("old", 0664);
    assert_int_equal(try_output("old"), 0);
    assert_int_equal(size_of("old"), 8);
    expect_output("old", 0);
    assert_int_equal(size_of("old"), 3);
    assert_int_equal(stat("old", &status), 0);
    assert_int_equal(status.st_mode & 0777, 0664);
    assert_int_equal(status.st_uid, geteuid());
    assert_int_equal(count_entries(), 2);
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

/* 0, or at which step not. The limit ends writes after two bytes. */
static int write_beyond_the_limit(void)
{
    const struct rlimit limit = {2, 2};

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit))
        return 1;
    if (write_output("/dev/full", "n") != ENOSPC)
        return 2;
    return write_output("new", "new") == EFBIG && !count_entries() ? 0 : 3;
}

TEST(output__no_room__error_and_no_new_file)
{
    begin();
    test_in_child(write_beyond_the_limit());
}

/* No file can be made beside it. */
static void write_in_a_folder_of_roots(void)
{
    STRANGER_DOES(!try_output("theirs") && size_of("theirs") == 8);
    STRANGER_DOES(!write_output("theirs", "new") && size_of("theirs") == 3);
    STRANGER_DOES(write_output("none", "new") == EACCES);
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
    int reader;

    begin();
    make_file("old", 0600);
    assert_int_equal(symlink("old", "link"), 0);
    assert_int_equal(symlink("new", "dangling"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    expect_output("link", ELOOP);
    expect_output("dangling", ELOOP);
    expect_output("fifo", ENXIO);
    assert_string_equal(output_refusal(ENXIO), output_refusal(EINVAL));
    reader = open("fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    expect_output("fifo", EINVAL);
    close(reader);
    assert_int_equal(link("old", "hard"), 0);
    expect_output("hard", EMLINK);
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
    return !write_output("old", "new") && size_of("other") == 3 ? 0 : 1;
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
    assert_int_equal(write_output(path, "more"), 0);
    assert_int_equal(size_of("old"), 12);
    input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(write_output("/dev/fd/0", "more"), 0);
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
