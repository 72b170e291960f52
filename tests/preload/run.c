/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * `hmreg run` with programs that do not know it, on a simulated libibverbs: what the report says of
 * them, and that they notice nothing.
 */
#include "preload/record_layout.h"
#include "tests/preload/command.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/inotify.h>
#include <sys/stat.h>
/* Runs a scenario of the program; the report is JSON on standard error. */
static json_t *report(const char *name, int status, const char *out)
{
    struct tool tool = tool_run("run", "--json", "--", "env", fake(), environment("PROGRAM"), name);
    json_error_t error;
    json_t *document;

    if (tool.status != status)
        fail_msg("%s: exit status %d: %s", name, tool.status, tool.err);
    assert_string_equal(tool.out, out);
    document = tool_keep(json_loads(tool.err, 0, &error));
    if (!document)
        fail_msg("%s: %s:\n%s", name, error.text, tool.err);
    assert_int_equal(json_array_size(list_at(document, "failures")), 0);
    return document;
}

static void expect_totals(const json_t *document, const char *process, int registrations,
                          int deregistrations, int left)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/totals/registrations", process);
    assert_int_equal(number_at(document, path), registrations);
    snprintf(path, sizeof(path), "%s/totals/deregistrations", process);
    assert_int_equal(number_at(document, path), deregistrations);
    snprintf(path, sizeof(path), "%s/totals/left", process);
    assert_int_equal(number_at(document, path), left);
}

static void expect_processes(const json_t *document, size_t count)
{
    assert_int_equal(json_array_size(list_at(document, "processes")), count);
}

/* ---- what is reported -------------------------------------------------------------------- */

TEST(run__program__its_registrations)
{
    json_t *document = report("plain", 3, "hello\n");

    expect_processes(document, 1);
    expect_totals(document, "processes/0", 3, 2, 1);
    assert_int_equal(number_at(document, "processes/0/totals/left_bytes"), 1 << 20);
    assert_int_equal(number_at(document, "processes/0/totals/bytes"), 4096 + 8192 + (1 << 20));
    assert_string_equal(words_at(document, "processes/0/state"), "exited");
    assert_string_equal(words_at(document, "processes/0/program"), environment("PROGRAM"));
    assert_string_equal(words_at(document, "processes/0/registrations/0/call"), "ibv_reg_mr");
    assert_string_equal(words_at(document, "processes/0/registrations/0/iface"), "system");
    assert_string_equal(words_at(document, "processes/0/registrations/0/path"), "system");
    assert_string_equal(words_at(document, "processes/0/registrations/0/nic"), "simulated0");
    assert_string_equal(words_at(document, "processes/0/registrations/0/caller"),
                        environment("PROGRAM"));
}

TEST(run__other_interposing_library_without_versions__has_its_calls)
{
    test_setenv("LD_PRELOAD", environment("OTHER"));
    report("plain", 3, "other\nother\nother\nhello\n");
}

/* libibverbs' ibv_reg_mr() calls ibv_reg_mr_iova2(), which arrives as well. */
TEST(run__call_of_libibverbs_itself__not_counted)
{
    json_t *document = report("again", 0, "");
    const json_t *rows = list_at(document, "processes/0/registrations");

    assert_int_equal(json_array_size(rows), 1);
    expect_totals(document, "processes/0", 10, 10, 0);
    assert_int_equal(number_at(document, "processes/0/again/count"), 9);
    assert_int_equal(number_at(document, "processes/0/again/ranges/0/count"), 10);
    assert_true(number_at(document, "processes/0/again/ns") > 0);
}

TEST(run__every_call__named_with_its_failure)
{
    json_t *document = report("calls", 0, "");
    const json_t *rows = list_at(document, "processes/0/registrations");
    const json_t *failures = list_at(document, "processes/0/failures");

    with(rows, "call", "ibv_reg_mr_iova");
    with(rows, "call", "ibv_reg_mr_iova2");
    assert_int_equal(number_at(with(rows, "call", "ibv_rereg_mr"), "size_from"), 8192);
    assert_int_equal(json_array_size(failures), 2); /* and not the probe */
    assert_string_equal(words_at(with(failures, "name", "EFAULT"), "call"), "ibv_reg_mr");
    assert_says(words_at(with(failures, "name", "EFAULT"), "text"), "not mapped");
    assert_string_equal(words_at(with(failures, "name", "EINVAL"), "call"), "ibv_rereg_mr");
    expect_totals(document, "processes/0", 5, 5, 0);
    /* libibverbs makes it by another of these calls, which is not counted; no cache would save it.
     */
    assert_int_equal(number_at(with(rows, "call", "ibv_reg_buf_mr"), "count"), 2);
    assert_int_equal(json_array_size(list_at(document, "processes/0/passed_on")), 0);
    assert_int_equal(number_at(document, "processes/0/again/count"), 0);
}

TEST(run__registered_again__what_a_cache_would_save)
{
    static const char *const rights[] = {"read", "write", "remote"};
    static const int repeated[] = {3, 5, 9};
    json_t *document = report("kinds", 0, "");
    const json_t *rows = list_at(document, "processes/0/registrations");

    assert_int_equal(number_at(document, "processes/0/again/count"), 17);
    assert_int_equal(number_at(document, "processes/0/again/saved"), 17);
    assert_true(number_at(document, "processes/0/again/saved_ns") > 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(number_at(with(rows, "rights", rights[i]), "count"), repeated[i] + 1);
        assert_int_equal(json_is_true(json_object_get(with(rows, "rights", rights[i]), "remote")),
                         i == 2);
    }
}

TEST(run__receive_pending_at_the_deregistration__fails)
{
    static const char *const modes[] = {"--trace", "--gpu"};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct tool tool = tool_run("run", modes[i], "env", fake(), environment("PROGRAM"), "late");

        assert_int_equal(tool.status, 0);
        assert_string_equal(tool.out, "local operation error\n");
    }
}

TEST(run__memory_freed_while_registered__reported)
{
    json_t *document = report("freed", 0, "");

    assert_int_equal(number_at(document, "processes/0/totals/freed"), 1);
}

TEST(run__threads__every_call_counted)
{
    json_t *document = report("threads", 0, "");

    expect_totals(document, "processes/0", 2000, 2000, 0);
}

/* ---- processes --------------------------------------------------------------------------- */

TEST(run__forks__a_report_of_each)
{
    json_t *document = report("forks", 0, ""), *process;
    int bytes = 0;
    size_t i;

    expect_processes(document, 3);
    json_array_foreach(list_at(document, "processes"), i, process) {
        assert_int_equal(number_at(process, "totals/registrations"), 1);
        bytes += (int)number_at(process, "totals/bytes");
    }
    assert_int_equal(bytes, 7 * 4096);
}

TEST(run__region_of_the_parent_in_a_child__harmless)
{
    json_t *document = report("heir", 0, "");

    expect_totals(document, "processes/0", 1, 1, 0);
}

TEST(run__exec__both_programs_reported)
{
    json_t *document = report("exec", 3, "hello\n");

    expect_processes(document, 2);
    expect_totals(document, "processes/0", 1, 0, 1);
    expect_totals(document, "processes/1", 3, 2, 1);
}

TEST(run__end_without_exit__reported)
{
    json_t *document = report("_exit", 4, "");

    expect_totals(document, "processes/0", 1, 0, 1);
    assert_string_equal(words_at(document, "processes/0/state"), "ended");
}

/* The command ends by the program's signal; tool.status is -1 then. */
TEST(run__killed__reported_and_the_same_signal)
{
    json_t *document = report("killed", -1, "");

    expect_totals(document, "processes/0", 1, 0, 1);
}

/* Whether a core is dumped is the machine's to say; a limit of 0 bytes makes none. */
TEST(run__killed__program_and_signal_named)
{
    struct tool tool = tool_run("run", "sh", "-c", "ulimit -c 0; kill -SEGV $$");

    assert_int_equal(tool.status, -1);
    assert_says(tool.err, "hmreg run: sh was ended by signal 11, Segmentation fault\n");
    tool = tool_run("run", "sh", "-c", "kill -INT $$");
    assert_int_equal(tool.status, -1);
    assert_silent(tool.err, "ended by signal");
}

TEST(run__module_that_links_libibverbs__reported)
{
    struct tool tool =
        tool_run("run", "env", fake(), environment("LOADER"), environment("MODULE"), "plain");

    assert_int_equal(tool.status, 3);
    assert_string_equal(tool.out, "hello\n");
    assert_says(tool.err, "3 registrations of 1.0 MiB");
    assert_says(tool.err, "libpreload_module.so");
}

/* libibverbs' ibv_reg_mr() jumps to our ibv_reg_mr_iova2(), which must know that. */
TEST(run__functions_looked_up_on_a_handle__passed_on_and_said)
{
    static const char *const modes[] = {"--trace", "--gpu"};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct tool tool =
            tool_run("run", modes[i], "env", fake(), environment("LOADER"), "libibverbs.so.1");

        if (tool.status)
            fail_msg("%s: exit status %d: %s", modes[i], tool.status, tool.err);
        assert_says(tool.err, "0 registrations of 0 B, 0 failed");
        assert_says(tool.err, "(dlsym), past LD_PRELOAD");
    }
}

TEST(run__program__notices_nothing)
{
    json_t *document = report("looks", 0, "");

    expect_totals(document, "processes/0", 1, 1, 0);
}

TEST(run__program_without_standard_streams__their_numbers_stay_unused)
{
    static const char *const modes[] = {"--trace", "--gpu"};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct tool tool = tool_run("run", modes[i], "env", fake(), environment("PROGRAM"), "bare");

        if (tool.status)
            fail_msg("%s: exit status %d", modes[i], tool.status);
        assert_says(tool.err, "3 registrations of 12 KiB, 0 failed");
    }
}

/* ---- text, files, folders ---------------------------------------------------------------- */

TEST(run__text__tables_and_advice_on_standard_error)
{
    struct tool tool = tool_run("run", "env", fake(), environment("PROGRAM"), "again");

    assert_int_equal(tool.status, 0);
    assert_string_equal(tool.out, "");
    assert_says(tool.err, "10 registrations of 40 KiB, 0 failed");
    assert_says(tool.err, "9 registrations repeated earlier ones");
    assert_says(tool.err, "a cache would save: at most 9 registrations, ");
    assert_says(tool.err, "(--trace=watch checks that)");
}

TEST(run__no_registration__said)
{
    struct tool tool = tool_run("run", "sh", "-c", "echo out; echo err >&2; exit 9");

    assert_int_equal(tool.status, 9);
    assert_string_equal(tool.out, "out\n");
    assert_says(tool.err, "err\n");
    assert_says(tool.err, "No registration by libibverbs or libfabric was seen.");
}

/* The report's file then gets the number of standard output. */
TEST(run__standard_output_closed__report_in_its_file)
{
    struct tool tool = tool_run("run", "sh", "-c",
                                "file=$(mktemp) && \"$HMREG_TOOL\" run --output $file true >&- && "
                                "cat $file; result=$?; rm -f $file; exit $result");

    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "No registration");
    assert_null(strstr(tool.err, "cannot be written"));
}

/* Longer than the libraries in the program take, which would use /tmp. */
TEST(run__dir_with_a_long_path__refused)
{
    char folder[480] = "/tmp/hmreg-test-XXXXXX", part[231];
    struct tool tool;
    size_t base;

    assert_non_null(mkdtemp(folder));
    base = strlen(folder);
    memset(part, 'd', sizeof(part) - 1);
    part[sizeof(part) - 1] = '\0';
    snprintf(folder + base, sizeof(folder) - base, "/%.220s", part);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(folder + base + 221, sizeof(folder) - base - 221, "/%s", part);
    tool = tool_run("run", "--dir", folder, "true");
    assert_int_equal(tool.status, 125);
    assert_says(tool.err, "File name too long");
    rmdir(folder);
    folder[base + 221] = '\0';
    rmdir(folder);
    folder[base] = '\0';
    rmdir(folder);
}

/* As after su(1): its owner could replace what hmreg makes there by links. */
TEST(run__runtime_folder_of_others__not_used)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", expected[64];
    struct tool tool;

    assert_non_null(mkdtemp(folder));
    test_setenv("XDG_RUNTIME_DIR", folder);
    snprintf(expected, sizeof(expected), "HMREG_RUN_DIR=%s/", folder);
    tool = tool_run("run", "env");
    assert_says(tool.out, expected);
    assert_int_equal(chmod(folder, 0770), 0);
    tool = tool_run("run", "env");
    assert_says(tool.out, "HMREG_RUN_DIR=/tmp/hmreg-run-");
    if (!geteuid()) {
        assert_int_equal(chmod(folder, 0700), 0);
        assert_int_equal(chown(folder, 12345, 12345), 0);
        tool = tool_run("run", "env");
        assert_says(tool.out, "HMREG_RUN_DIR=/tmp/hmreg-run-");
    }
    rmdir(folder);
}

TEST(run__output_and_dir__report_in_a_file_and_traces_kept)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", file[64], command[128];
    struct tool tool;
    json_t *document;

    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/report", folder);
    setenv("SLURM_PROCID", "2", 1);
    tool = tool_run("run", "--json", "--output", file, "--dir", folder, "env", fake(),
                    environment("PROGRAM"), "plain");
    unsetenv("SLURM_PROCID");
    assert_int_equal(tool.status, 3);
    assert_string_equal(tool.err, "");
    snprintf(file, sizeof(file), "%s/report.2", folder);
    document = tool_keep(json_load_file(file, 0, NULL));
    assert_non_null(document);
    assert_string_equal(words_at(document, "processes/0/rank"), "2");

    document = tool_document(0, "run", "--json", "--report", folder);
    expect_totals(document, "processes/0", 3, 2, 1);
    snprintf(file, sizeof(file), "%s/again", folder);
    tool = tool_run("run", "--json", "--report", folder, "--output", file);
    assert_int_equal(tool.status, 0);
    assert_string_equal(tool.out, "");
    document = tool_keep(json_load_file(file, 0, NULL));
    assert_non_null(document);
    expect_totals(document, "processes/0", 3, 2, 1);
    tool = tool_run("run", "--report", folder, "--output", "/dev/full");
    assert_int_equal(tool.status, 125);
    assert_says(tool.err, "the report cannot be written");
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

TEST(run__preload_alone__records_as_well)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", words[8192];
    json_t *document;

    assert_non_null(mkdtemp(folder));
    snprintf(words, sizeof(words),
             "cd / && %s HMREG_RUN_DIR=%s LD_PRELOAD=%s %s plain >/dev/null; test $? = 3", fake(),
             folder, environment("PRELOAD"), environment("PROGRAM"));
    assert_int_equal(system(words), 0);
    document = tool_document(0, "run", "--json", "--report", folder);
    expect_totals(document, "processes/0", 3, 2, 1);
    snprintf(words, sizeof(words), "rm -r %s", folder);
    assert_int_equal(system(words), 0);
}

TEST(run__dlopen_path_with_other_preloads__kept)
{
    struct tool tool;

    test_setenv("LD_PRELOAD", "libm.so.6");
    tool = tool_run("run", "sh", "-c", "echo $LD_PRELOAD");
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "libhmreg-preload.so:libm.so.6\n");
}

/* libfabric's variables name our hook behind what is there, where it is installed. */
TEST(run__libfabric__hooked_if_the_hook_is_there)
{
    char hook[4200];
    struct tool tool;
    bool there;

    snprintf(hook, sizeof(hook), "%s", environment("PRELOAD"));
    strcpy(strrchr(hook, '/'), "/libhmreg_hook-fi.so");
    there = !access(hook, R_OK);
    setenv("FI_HOOK", "trace", 1);
    setenv("FI_PROVIDER_PATH", "/other", 1);
    tool = tool_run("run", "sh", "-c", "echo $FI_HOOK $FI_PROVIDER_PATH");
    unsetenv("FI_HOOK");
    unsetenv("FI_PROVIDER_PATH");
    *strrchr(hook, '/') = '\0';
    assert_says(tool.out, there ? "trace;hmreg /other:" : "trace /other\n");
    assert_says(tool.out, there ? hook : "");
}

/* NCCL looks libibverbs' functions up, in the library that the variable names. */
TEST(run__nccl__its_variable_unless_it_is_set)
{
    struct tool tool = tool_run("run", "sh", "-c", "echo $NCCL_IBVERBS_LIB; echo $LD_AUDIT.");
    char expected[4200];

    snprintf(expected, sizeof(expected), "%s", environment("PRELOAD"));
    strcpy(strrchr(expected, '/'), "/libhmreg-ibverbs.so\n.\n");
    assert_string_equal(tool.out, expected);
    test_setenv("NCCL_IBVERBS_LIB", "other");
    tool = tool_run("run", "sh", "-c", "echo $NCCL_IBVERBS_LIB");
    assert_string_equal(tool.out, "other\n");
}

/* A program that looks libibverbs' functions up on its own handle. */
TEST(run__by_audit__looked_up_calls_seen)
{
    const char *program = getenv("LOOKED_UP");
    char file[] = "/tmp/hmreg-test-XXXXXX";
    struct tool tool;
    json_t *document;
    int fd;

    if (!program)
        test_skip("this hmreg has no libhmreg-audit.so");
    fd = mkostemp(file, O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    tool = tool_run("run", "--by", "audit", "--json", "--output", file, "env", fake(), program,
                    "reg__again");
    document = tool_keep(json_load_file(file, 0, NULL));
    unlink(file);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "1 passed");
    assert_non_null(document);
    assert_true(number_at(document, "processes/0/totals/registrations") > 0);
    assert_string_equal(words_at(document, "processes/0/by/0"), "preload");
    assert_string_equal(words_at(document, "processes/0/by/1"), "audit");
    tool = tool_run("run", "--by", "magic", "true");
    assert_int_equal(tool.status, 125);
    assert_says(tool.err, "accepted are preload, audit");
}

TEST(run__output_while_the_program_runs__the_previous_report)
{
    char file[] = "/tmp/hmreg-test-XXXXXX";
    int fd = mkstemp(file);
    struct tool tool;
    struct stat status;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "previous", 8), 8);
    close(fd);
    tool = tool_run("run", "--output", file, "cat", file);
    assert_string_equal(tool.out, "previous");
    assert_int_equal(stat(file, &status), 0);
    assert_int_not_equal(status.st_size, 8);
    unlink(file);
}

TEST(run__output_that_cannot_be_written__said_before)
{
    struct tool tool = tool_run("run", "--output", "/no/such/folder/report", "echo", "hello");

    assert_int_equal(tool.status, 125);
    assert_string_equal(tool.out, "");
    assert_says(tool.err, "/no/such/folder/report: No such file");
}

/* The report would say that nothing was registered. */
TEST(run__folder_without_room_for_traces__said_before)
{
    struct tool tool = tool_run("run", "--dir", "/proc", "echo", "hello");

    assert_int_equal(tool.status, 125);
    assert_string_equal(tool.out, "");
    assert_says(tool.err, geteuid()
                              ? "--dir /proc: it, or a folder above it, belongs to another user"
                              : "/proc: no trace file can be made in it: ");
}

TEST(run__limit_of_files__said_before)
{
    struct tool tool =
        tool_run("run", "sh", "-c", "ulimit -f 100; exec \"$HMREG_TOOL\" run echo hello");

    assert_int_equal(tool.status, 125);
    assert_string_equal(tool.out, "");
    assert_says(tool.err, "no trace file can be made in it: File too large");
}

/* ---- a folder that another user has filled ------------------------------------------------ */

#define FULL_FILES 64

/* A trace file with as many different rows as there can be. */
static void write_full(const char *folder, int number)
{
    struct record_layout *file = calloc(1, sizeof(*file));
    char path[64];
    FILE *out;

    assert_non_null(file);
    file->header.magic = RECORD_MAGIC;
    file->header.version = RECORD_VERSION;
    file->header.size = sizeof(*file);
    for (int i = 0; i < RECORD_ROWS; i++) {
        file->rows[i].state = RECORD_READY;
        file->rows[i].key =
            (struct record_key){.call = 1, .how = 1, .path = 1, .device = (int16_t)i};
        file->rows[i].count = 1;
    }
    snprintf(path, sizeof(path), "%s/hmreg-%d-0" RECORD_SUFFIX, folder, number);
    out = fopen(path, "we");
    assert_non_null(out);
    assert_int_equal(fwrite(file, sizeof(*file), 1, out), 1);
    assert_int_equal(fclose(out), 0);
    free(file);
}

static void remove_all(const char *folder)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* 1,024 such files took 4 GB. */
TEST(report__folder_of_full_files__so_many_rows_and_no_more)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX";
    json_t *document;

    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < FULL_FILES; i++)
        write_full(folder, i);
    document = tool_document(1, "run", "--json", "--report", folder);
    remove_all(folder);
    assert_int_equal(json_array_size(list_at(document, "processes")), 32);
    assert_says(words_at(document, "failures/0"), "has 64 trace files; the first 32 were read");
}

/* What a terminal would obey, and what has an effect when it is opened: a writer of a FIFO waits
 * for a reader. */
TEST(report__names_and_kinds_of_another_user__printable_and_not_opened)
{
    static const char evil[] = "\033]0;a\007\xc2\x9b\nhmreg: b" RECORD_SUFFIX;
    char folder[] = "/tmp/hmreg-test-XXXXXX", path[128];
    int fd, watch;
    struct inotify_event seen;
    struct tool tool;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/%s", folder, evil);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    snprintf(path, sizeof(path), "%s/fifo" RECORD_SUFFIX, folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
    tool = tool_run("run", "--json", "--report", folder);
    assert_int_equal(read(watch, &seen, sizeof(seen)), -1);
    close(watch);
    remove_all(folder);
    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "/?]0;a???hmreg: b.hmreg-trace: ");
    assert_says(tool.out, "/fifo.hmreg-trace: it is not a regular file");
}

/* A program of this processor whose dynamic linker has a name that a terminal obeys. */
static void make_program(const char *path)
{
    static const char linker[] = "/musl\033]0;a\007\xc2\x9b\xe2\x80\xae";
    struct {
        ElfW(Ehdr) header;
        ElfW(Phdr) part;
        char linker[sizeof(linker)];
    } file;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    assert_int_equal(read(fd, &file.header, sizeof(file.header)), sizeof(file.header));
    close(fd);
    file.header.e_phoff = (ElfW(Off))((char *)&file.part - (char *)&file);
    file.header.e_phnum = 1;
    file.part = (ElfW(Phdr)){.p_type = PT_INTERP,
                             .p_offset = (ElfW(Off))(file.linker - (char *)&file),
                             .p_filesz = sizeof(linker)};
    memcpy(file.linker, linker, sizeof(linker));
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(write(fd, &file, sizeof(file)), sizeof(file));
    close(fd);
}

TEST(program__linker_with_a_name_that_a_terminal_obeys__printable)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", path[128];
    struct tool tool;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/program", folder);
    make_program(path);
    tool = tool_run("run", "--", path);
    remove_all(folder);
    assert_says(tool.err, "(/musl?]0;a?\?\?)");
}

/* Nothing is known of a process whose file cannot be read. */
TEST(report__no_trace_file__the_error_only)
{
    struct tool tool = tool_run("run", "--report", "/proc/self/exe");

    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "/proc/self/exe: it is not a regular file\n");
    assert_null(strstr(tool.out, "No registration"));
    tool = tool_run("run", "--report", environment("PROGRAM"));
    assert_int_equal(tool.status, 1);
    assert_says(tool.out, environment("PROGRAM"));
    assert_null(strstr(tool.out, "No registration"));
}

/* ---- processes without a trace file ------------------------------------------------------- */

/* Runs a shell's words, in which $RUN runs a scenario with traces in the folder $DIR, and returns
 * the report. */
static json_t *run_shell(const char *words)
{
    char folder[] = "/tmp/hmreg-test-XXXXXX", file[] = "/tmp/hmreg-test-XXXXXX", run[12000];
    int fd = mkostemp(file, O_CLOEXEC), status;
    json_t *document;

    assert_true(fd >= 0);
    close(fd);
    assert_non_null(mkdtemp(folder));
    snprintf(run, sizeof(run), "%s run --json --output %s --dir %s env %s %s",
             environment("HMREG_TOOL"), file, folder, fake(), environment("PROGRAM"));
    setenv("RUN", run, 1);
    setenv("DIR", folder, 1);
    status = system(words);
    document = tool_keep(json_load_file(file, 0, NULL));
    unlink(file);
    remove_all(folder);
    assert_int_equal(status, 0);
    assert_non_null(document);
    return document;
}

static void need_namespaces(void)
{
    if (system("unshare --user --map-root-user --mount true 2>/dev/null"))
        test_skip("user namespaces are refused here");
}

/* Its parent has the only trace file that there is room for. */
TEST(run__full_file_system__processes_counted_and_unharmed)
{
    json_t *document;

    need_namespaces();
    document = run_shell("unshare --user --map-root-user --mount sh -c "
                         "'mount -t tmpfs -o size=1200k none $DIR && $RUN forks'");
    expect_processes(document, 1);
    assert_int_equal(json_array_size(list_at(document, "lost")), 1);
    assert_int_equal(number_at(document, "lost/0/count"), 2);
    assert_string_equal(words_at(document, "lost/0/slug"), "no-room");
    assert_string_equal(words_at(document, "lost/0/name"), "ENOSPC");
    assert_string_equal(words_at(document, "lost/0/program"), "preload_program");
}

TEST(run__process_with_another_root_folder__counted_and_unharmed)
{
    json_t *document;

    need_namespaces();
    document = run_shell("test $(unshare --user --map-root-user --mount sh -c '$RUN confined') = "
                         "registered");
    expect_processes(document, 0);
    assert_int_equal(number_at(document, "lost/0/count"), 1);
    assert_string_equal(words_at(document, "lost/0/slug"), "no-library");
    assert_string_equal(words_at(document, "lost/0/name"), "ENOENT");
}

TEST(run__limit_of_files__counted_and_said)
{
    struct tool tool = tool_run("run", "sh", "-c", "ulimit -f 100 && exec \"$@\"", "sh", "env",
                                fake(), environment("PROGRAM"), "plain");

    assert_int_equal(tool.status, 3);
    assert_says(tool.err, "no trace: 1 process registered and could not be recorded: no file of");
    assert_says(tool.err, "ulimit -f");
    assert_null(strstr(tool.err, "No registration"));
}

TEST_MAIN()
