/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What another user can do to `hmreg run`, to the programs under it, and to `hmreg verify`, by what
 * is in a folder: nothing. This process is root, the victim. And what users do who share folders.
 */
#include "preload/record_layout.h"
#include "tests/preload/command.h"
#include "tests/support/stranger.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static char base[64];
static char theirs[80]; /* a folder of the other user, in a folder of root's */
static char ours[80];   /* one of this user, which another folder has links to */
static char file[160];  /* in theirs */

static void make_base(void)
{
    strcpy(base, "/tmp/hmreg-test-XXXXXX");
    assert_non_null(mkdtemp(base));
    assert_int_equal(chmod(base, 0755), 0);
    snprintf(theirs, sizeof(theirs), "%s/theirs", base);
    snprintf(ours, sizeof(ours), "%s/ours", base);
    assert_int_equal(mkdir(ours, 0700), 0);
}

static void begin(void)
{
    stranger_needed();
    make_base();
    assert_int_equal(mkdir(theirs, 0755), 0);
    assert_int_equal(chown(theirs, STRANGER, STRANGER), 0);
}

static void remove_all(const char *folder)
{
    char command[160];

    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void end(void)
{
    remove_all(base);
}

static unsigned count_entries(const char *folder)
{
    DIR *list = opendir(folder);
    unsigned count = 0;

    assert_non_null(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count - 2;
}

/* ---- hmreg.lost -------------------------------------------------------------------------- */

static void make_lost(const char *path)
{
    const struct record_untraced_file lost = {
        .magic = RECORD_UNTRACED_MAGIC, .version = RECORD_VERSION, .size = sizeof(lost)};
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    STRANGER_DOES(fd >= 0 && write(fd, &lost, sizeof(lost)) == sizeof(lost));
    STRANGER_DOES(!fchmod(fd, 0666));
}

static void make_their_lost(void)
{
    make_lost(file);
}

/* A program with traces in the folder, which can make none and says so, after its owner has
 * truncated the file that it says so in. */
static void run_robbed(const char *folder)
{
    char command[8192];

    snprintf(file, sizeof(file), "%s/" RECORD_UNTRACED_FILE, folder);
    stranger_acts(make_their_lost);
    snprintf(command, sizeof(command),
             "ulimit -f 100; HMREG_RUN_DIR=%s LD_PRELOAD=%s %s %s robbed %d %s", folder,
             environment("PRELOAD"), fake(), environment("PROGRAM"), STRANGER, file);
    assert_int_equal(system(command), 0);
}

TEST(program__its_folder_is_another_users__not_ended_by_a_truncation)
{
    begin();
    run_robbed(theirs);
    end();
}

TEST(program__file_of_another_user_in_a_folder_for_all__not_mapped)
{
    begin();
    assert_int_equal(chmod(ours, 01777), 0);
    run_robbed(ours);
    end();
}

/* ---- a folder's name that is taken again ------------------------------------------------- */

static char retaken[128];

static void retake(void)
{
    STRANGER_DOES(!mkdir(retaken, 0700) && !chmod(retaken, 0777));
    snprintf(file, sizeof(file), "%.100s/" RECORD_UNTRACED_FILE, retaken);
    make_lost(file);
}

/* The command ends, and a child of its program lives on, which begins another program once `go` is
 * written to; that one's status goes to `done`. Returns the folder of the command's traces. */
static void leave_child(const char *go, const char *done)
{
    char words[8192];
    struct tool tool;

    snprintf(words, sizeof(words),
             "printf %%s $HMREG_RUN_DIR; (exec 3>%s; read go <%s; env %s %s plain; echo $? >&3) "
             ">/dev/null 2>&1 &",
             done, go, fake(), environment("PROGRAM"));
    unsetenv("XDG_RUNTIME_DIR");
    tool = tool_run("run", "sh", "-c", words);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "/tmp/hmreg-run-");
    snprintf(retaken, sizeof(retaken), "%.100s", tool.out);
}

TEST(run__its_folders_name_taken_again__children_make_no_trace_there)
{
    char go[96], done[96], status[8] = "";
    int ended, begun;

    begin();
    snprintf(go, sizeof(go), "%s/go", ours);
    snprintf(done, sizeof(done), "%s/done", ours);
    assert_int_equal(mkfifo(go, 0600) | mkfifo(done, 0600), 0);
    leave_child(go, done);
    ended = open(done, O_RDONLY | O_CLOEXEC);
    stranger_acts(retake);
    begun = open(go, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(begun, "\n", 1), 1);
    close(begun);
    assert_int_equal(read(ended, status, sizeof(status) - 1), 2);
    close(ended);
    assert_string_equal(status, "3\n");
    assert_int_equal(count_entries(retaken), 1);
    remove_all(retaken);
    end();
}

/* ---- where the command writes ------------------------------------------------------------ */

static void make_link(void)
{
    snprintf(file, sizeof(file), "%s/link", theirs);
    STRANGER_DOES(!symlink(ours, file));
}

static void run_refused(const char *option, const char *name, const char *why)
{
    struct tool tool = tool_run("run", option, name, "echo", "begun");

    assert_int_equal(tool.status, 125);
    assert_string_equal(tool.out, "");
    assert_says(tool.err, option);
    assert_says(tool.err, name);
    assert_says(tool.err, why);
    assert_says(tool.err, "accepted");
}

static void verify_refused(const char *name, const char *why)
{
    struct tool tool = tool_run("verify", "--out", name);

    assert_int_equal(tool.status, 2);
    assert_says(tool.err, name);
    assert_says(tool.err, why);
    assert_says(tool.err, "accepted");
}

TEST(run__link_of_another_user__nothing_is_made_where_it_leads)
{
    char name[160];
    struct tool tool;

    begin();
    stranger_acts(make_link);
    snprintf(name, sizeof(name), "%s/link", theirs);
    run_refused("--dir", name, "symbolic link");
    setenv("XDG_RUNTIME_DIR", name, 1);
    tool = tool_run("run", "env");
    unsetenv("XDG_RUNTIME_DIR");
    assert_says(tool.out, "HMREG_RUN_DIR=/tmp/hmreg-run-");
    snprintf(name, sizeof(name), "%s/link/made", theirs);
    run_refused("--dir", name, "symbolic link");
    run_refused("--output", name, "symbolic link");
    verify_refused(name, "symbolic link");
    assert_int_equal(count_entries(ours), 0);
    end();
}

TEST(run__dir_of_another_user__refused)
{
    begin();
    run_refused("--dir", theirs, "belongs to another user");
    assert_int_equal(count_entries(theirs), 0);
    end();
}

/* One of each kind, with the endings of `hmreg verify` too. */
static void make_places(void)
{
    static const char *const endings[] = {"", ".txt"};
    char target[96];

    snprintf(target, sizeof(target), "%s/target", ours);
    STRANGER_DOES(!chdir(theirs));
    for (int i = 0; i < 2; i++) {
        int fd;

        snprintf(file, sizeof(file), "link%s", endings[i]);
        STRANGER_DOES(!symlink(target, file));
        snprintf(file, sizeof(file), "fifo%s", endings[i]);
        STRANGER_DOES(!mkfifo(file, 0666));
        snprintf(file, sizeof(file), "file%s", endings[i]);
        fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        STRANGER_DOES(fd >= 0 && write(fd, "theirs", 6) == 6);
    }
}

static void expect_unwritten(const char *name)
{
    struct stat status;

    snprintf(file, sizeof(file), "%s/%s", theirs, name);
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_size, 6);
}

TEST(report__place_that_another_user_made__refused_and_not_waited_for)
{
    static const struct {
        const char *name, *why;
    } places[] = {{"link", "symbolic link"},
                  {"fifo", "it is not a regular file"},
                  {"file", "belongs to another user"}};

    begin();
    stranger_acts(make_places);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char name[128];

        snprintf(name, sizeof(name), "%s/%s", theirs, places[i].name);
        run_refused("--output", name, places[i].why);
        verify_refused(name, places[i].why);
    }
    expect_unwritten("file");
    expect_unwritten("file.txt");
    assert_int_equal(count_entries(ours), 0);
    end();
}

/* ---- what users do ----------------------------------------------------------------------- */

static void expect_run(const char *dir, const char *output)
{
    struct tool tool = tool_run("run", "--dir", dir, "--output", output, "env", fake(),
                                environment("PROGRAM"), "plain");

    if (tool.status != 3)
        fail_msg("%s, %s: exit status %d: %s", dir, output, tool.status, tool.err);
    assert_string_equal(tool.err, "");
}

TEST(run__folders_that_users_share__used)
{
    struct tool tool;

    make_base();
    assert_int_equal(chdir(base), 0);
    assert_int_equal(mkdir("project", 0755) | chmod("project", 02775), 0);
    assert_int_equal(mkdir("project/mine", 0755) | symlink("project/mine", "link"), 0);
    expect_run("project/mine", "project/mine/report");
    expect_run("project/mine/new", "project/report");
    expect_run("link", "link/report");
    expect_run("link/", "report");
    expect_run("link/", "report"); /* again */
    tool = tool_run("run", "--report", "link", "--output", "/dev/stdout");
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "3 registrations");
    assert_int_equal(chdir("/"), 0);
    end();
}

TEST_MAIN()
