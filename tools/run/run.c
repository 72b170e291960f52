/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg run: starts a program with the libraries of preload/ in it, and reports what it registered.
 * The program's standard output is its own: the report goes to standard error, or to a file.
 */
#include "tools/run/run.h"

#include "tools/command.h"
#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/output.h"
#include "tools/table.h"

#include "core/base/own_path.h"
#include "preload/record_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST_FOLDER 460 /* preload/mode.c takes 511 bytes */
#define NAME_TRIES     100

#define FOLDER_ACCEPTED                                                                            \
    "A new name, or your own folder that no other user may write to, is accepted"
#define OUTPUT_ACCEPTED "A new name, your own file, or a device such as /dev/null is accepted"

static int fail(const char *words, const char *why)
{
    print_error("hmreg run: %s%s%s", words, why[0] ? ": " : "", why);
    return RUN_FAILED;
}

/* Prints errno of opening a folder or file; if the name was refused, also `accepted`, the accepted
 * names. */
static int fail_to_open(const char *option, const char *name, const char *accepted)
{
    const char *refusal = output_refusal(errno);

    print_error("hmreg run: %s%s: %s%s%s", option, name, refusal ? refusal : strerror(errno),
                refusal ? ". " : "", refusal ? accepted : "");
    return RUN_FAILED;
}

/* ---- the folder of the trace files ------------------------------------------------------- */

struct folder {
    int fd; /* O_PATH: what is at its path later may be another user's */
    char path[PATH_MAX];
};

/* Takes the descriptor. */
static bool set_folder(struct folder *folder, const char *path, int fd)
{
    folder->fd = fd;
    if (fd >= 0 && realpath(path, folder->path))
        return true;
    if (fd >= 0)
        close(fd);
    return false;
}

/* Ignores another user's TMPDIR, which su(1) leaves in the environment. */
static bool is_private(const char *path)
{
    int fd = path && path[0] == '/' ? own_folder(path) : -1;
    struct stat found;
    bool private =
        fd >= 0 && !fstat(fd, &found) && found.st_uid == geteuid() && !(found.st_mode & 077);

    if (fd >= 0)
        close(fd);
    return private;
}

static bool make_new_folder(const char *above, struct folder *folder)
{
    char path[PATH_MAX];
    int fd = -1;

    errno = EEXIST;
    for (int i = 0; i < NAME_TRIES && fd < 0 && errno == EEXIST; i++) {
        uint64_t number;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            return false;
        snprintf(path, sizeof(path), "%.4000s/hmreg-run-%08" PRIx32, above, (uint32_t)number);
        fd = own_folder_make(path);
    }
    return set_folder(folder, path, fd);
}

/* Makes a private folder, or uses --dir's, which it makes if it is missing. */
static bool make_folder(const struct run_options *options, struct folder *folder)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int fd;

    if (!options->dir)
        return (is_private(runtime) && make_new_folder(runtime, folder)) ||
               make_new_folder("/tmp", folder);
    fd = own_folder_make(options->dir);
    if (fd < 0 && errno == EEXIST)
        fd = own_folder(options->dir);
    return set_folder(folder, options->dir, fd);
}

/* Can a trace file be made? Otherwise the report would wrongly show that nothing was registered.
 * Returns an errno value. */
static int try_folder(const struct folder *folder)
{
    struct rlimit limit;
    uint64_t number = 0;
    char name[64];
    int fd, error;

    if (strlen(folder->path) > LONGEST_FOLDER)
        return ENAMETOOLONG;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < sizeof(struct record_layout))
        return EFBIG; /* instead of SIGXFSZ */
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return errno;
    snprintf(name, sizeof(name), "hmreg-%016" PRIx64, number);
    fd = own_file_create(folder->fd, name);
    if (fd < 0)
        return errno;
    error = posix_fallocate(fd, 0, sizeof(struct record_layout));
    close(fd);
    unlinkat(folder->fd, name, 0);
    return error;
}

/* Removes the trace files and the folder, unless --dir named it. */
static void remove_folder(const struct run_options *options, const struct folder *folder)
{
    int fd = options->dir ? -1 : openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (list) {
        while ((entry = readdir(list)))
            if (strstr(entry->d_name, RECORD_SUFFIX) ||
                !strcmp(entry->d_name, RECORD_UNTRACED_FILE))
                unlinkat(folder->fd, entry->d_name, 0);
        closedir(list);
        rmdir(folder->path);
    }
    close(folder->fd);
}

/* ---- reports ----------------------------------------------------------------------------- */

struct reporting {
    const struct run_options *options;
    const struct folder *folder;
    char output[PATH_MAX]; /* the file; "": standard error */
    bool failed;           /* a report could not be written */
};

/* Appends the rank of a job's process to the file's name, so that each process has its own file. */
static void name_output(struct reporting *reporting)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    const char *rank = NULL, *output = reporting->options->output;

    for (size_t i = 0; i < COUNT(ranks) && !rank; i++)
        rank = getenv(ranks[i]);
    if (rank && (!rank[0] || strspn(rank, "0123456789") != strlen(rank)))
        rank = NULL;
    if (output)
        snprintf(reporting->output, sizeof(reporting->output), "%s%s%s", output, rank ? "." : "",
                 rank ? rank : "");
}

static const char *output_of(const struct reporting *reporting)
{
    return reporting->output[0] ? reporting->output : "/dev/stderr";
}

static void print(const json_t *document, bool json)
{
    if (json)
        doc_print_json(document);
    else
        report_print(document);
}

/* Prints the document with standard output redirected to fd. */
static bool print_to(int fd, const json_t *document, bool json)
{
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    bool good;

    fflush(stdout);
    /* fd is STDOUT_FILENO if standard output was closed. Nothing is executed any more. */
    good = fd == STDOUT_FILENO || dup3(fd, STDOUT_FILENO, O_CLOEXEC) >= 0;
    if (good)
        print(document, json);
    good = !fflush(stdout) && !ferror(stdout) && good;
    clearerr(stdout);
    if (kept >= 0) {
        dup3(kept, STDOUT_FILENO, O_CLOEXEC);
        close(kept);
    } else {
        close(STDOUT_FILENO); /* as it was */
    }
    return good;
}

static bool try_to_write(const struct reporting *reporting, const json_t *document)
{
    FILE *made = output_begin();

    if (made && !print_to(fileno(made), document, reporting->options->json)) {
        fclose(made);
        return false;
    }
    return output_end(made, output_of(reporting));
}

static void write_report(struct reporting *reporting, const json_t *document)
{
    bool good = try_to_write(reporting, document);

    if (!good && !reporting->failed)
        fail_to_open("the report cannot be written: ", reporting->output, OUTPUT_ACCEPTED);
    reporting->failed = !good;
}

static void report(void *context)
{
    struct reporting *reporting = context;
    json_t *document = report_of_folder(reporting->folder->fd, reporting->folder->path);

    write_report(reporting, document);
    json_decref(document);
}

/* --report: of a folder or a file, to standard output or --output's file. */
static int report_only(const struct run_options *options)
{
    struct reporting reporting = {.options = options};
    json_t *document = report_of(options->report);
    int status = json_array_size(json_object_get(document, "failures")) ? EXIT_FAILED : EXIT_GOOD;

    if (options->output)
        snprintf(reporting.output, sizeof(reporting.output), "%s", options->output);
    if (reporting.output[0])
        write_report(&reporting, document);
    else
        print(document, options->json);
    json_decref(document);
    return reporting.failed ? RUN_FAILED : status;
}

/* ---- the command ------------------------------------------------------------------------- */

/* Ends by the program's signal, so that the caller sees it. */
static void end_by(int signal_number)
{
    const struct rlimit none = {0, 0};
    sigset_t set;

    setrlimit(RLIMIT_CORE, &none); /* only the program's core is useful */
    fflush(NULL);
    signal(signal_number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(signal_number);
}

/* Names the signal as shells do, which see hmreg's end and not the program's. Silent for SIGINT and
 * SIGPIPE, which users cause, and where JSON is printed to standard error. */
static void name_signal(const struct reporting *reporting, const char *program, int status)
{
    int number = WTERMSIG(status);

    if (number == SIGINT || number == SIGPIPE ||
        (reporting->options->json && !reporting->output[0]))
        return;
    print_error("hmreg run: %s was ended by signal %d, %s%s", program, number, strsignal(number),
                WCOREDUMP(status) ? " (core dumped)" : "");
}

/* Call before the program runs for hours. */
static bool can_write(const struct reporting *reporting)
{
    return !reporting->output[0] || output_try(reporting->output);
}

static int run_in(const struct run_options *options, const struct folder *folder, char **words,
                  const char *path)
{
    struct reporting reporting = {.options = options, .folder = folder};
    char why[512];
    int status, killed;

    name_output(&reporting);
    if (!can_write(&reporting)) {
        fail_to_open("--output ", reporting.output, OUTPUT_ACCEPTED);
        remove_folder(options, folder);
        return RUN_FAILED;
    }
    if (!environment_set(options, folder->path, why)) {
        remove_folder(options, folder);
        return fail(why, "");
    }
    status = program_run(words, path, options->seconds, report, &reporting, &killed);
    report(&reporting);
    remove_folder(options, folder);
    if (killed) {
        name_signal(&reporting, words[0], killed);
        end_by(WTERMSIG(killed));
    }
    return status;
}

static int run_program(const struct run_options *options, char **words)
{
    char path[PATH_MAX], why[512];
    struct folder folder;
    int status = program_find(words[0], path, why);

    if (status) {
        fail(why, "");
        return status;
    }
    if (!program_takes_libraries(path, why)) {
        fail(why, "");
        return RUN_NOT_EXECUTABLE;
    }
    if (!make_folder(options, &folder))
        return fail_to_open(options->dir ? "--dir " : "no folder for trace files",
                            options->dir ? options->dir : "", FOLDER_ACCEPTED);
    status = try_folder(&folder);
    if (status) {
        remove_folder(options, &folder);
        snprintf(why, sizeof(why), "no trace file can be made in it: %s", strerror(status));
        return fail(folder.path, why);
    }
    untraced_make(folder.fd);
    return run_in(options, &folder, words, path);
}

static int run(const struct command *self, int argc, char **argv)
{
    struct run_options options = {0};
    int status = options_parse(self, argc, argv, &options);

    if (status != EXIT_CONTINUE)
        return status;
    if (options.report && options.words)
        return fail("--report and a program: one of them is accepted", "");
    if (options.report)
        return report_only(&options);
    if (options.words)
        return run_program(&options, argv + argc - options.words);
    return fail("a program to run is missing\nTry: hmreg help run", "");
}

/* ---- options ----------------------------------------------------------------------------- */

static const char *take_trace(const char *value, void *options)
{
    struct run_options *to = options;

    if (value && strcmp(value, "watch"))
        return "--trace and --trace=watch are accepted";
    to->trace = true;
    to->watch = to->watch || value;
    return NULL;
}

static const char *take_by(const char *value, void *options)
{
    ((struct run_options *)options)->audit = !strcmp(value, "audit");
    return strcmp(value, "audit") && strcmp(value, "preload") ? "accepted are preload, audit"
                                                              : NULL;
}

static const char *take_word(const char *value, void *options)
{
    ((struct run_options *)options)->words++;
    return NULL;
}

static const struct option_def options[] = {
    OPTION("trace", "[=watch]", "only record; watch: repeats only of memory that was not freed",
           take_trace),
    OPTION_FLAG("gpu", "make registrations of device memory succeed",
                offsetof(struct run_options, gpu)),
    OPTION("by", "WAY", "hook calls by: preload, audit; audit hooks dlsym(3) too", take_by),
    OPTION_JSON("JSON instead of tables; its keys are in hmreg-run(1)"),
    OPTION_NUMBER("follow", "SECONDS", "report again after so many seconds, while the program runs",
                  offsetof(struct run_options, seconds), 1, 86400,
                  "whole seconds are accepted, from 1 to 86400"),
    OPTION_TEXT("output", "FILE", "write the report to FILE", offsetof(struct run_options, output),
                "the name of a file is accepted"),
    OPTION_TEXT("dir", "DIR", "keep the trace files in DIR", offsetof(struct run_options, dir),
                "the name of a folder is accepted"),
    OPTION_TEXT("report", "PATH", "run nothing: report of trace files",
                offsetof(struct run_options, report),
                "a trace file or a folder of them is accepted"),
    {0},
};

const struct command command_run_program = {
    .name = "run",
    .summary = "show the registrations of a program, and how many a cache would save",
    .description =
        "Runs PROGRAM, unchanged, with its arguments, and reports at the end what it and\n"
        "its children registered by libibverbs or libfabric: calls, memory, paths, sizes,\n"
        "callers, and how long that took; failures and what to do about them; regions\n"
        "never deregistered; memory freed while registered; ranges registered again and\n"
        "again, which a cache would save. The report goes to standard error, and on\n"
        "SIGRTMIN so far. hmreg-run(1) says what the program may notice.\n",
    .examples = "  hmreg run ib_write_bw\n"
                "  hmreg run --json --output report.json -- ./program --its options\n"
                "  mpirun -n 4 hmreg run --output report ./program\n"
                "  hmreg run --dir traces ./server & hmreg run --report traces\n",
    .statuses = "  N    the program's own; if a signal ended it, the same signal\n"
                "  125  hmreg failed, or its command line is wrong\n"
                "  126  the program cannot be executed, or takes no libraries\n"
                "  127  there is no such program\n"
                "  of --report: 0; 1 if something could not be read; 125 as above\n",
    .error_status = RUN_FAILED,
    .operand = "PROGRAM",
    .take_operand = take_word,
    .operands = true,
    .rest = true,
    .options = options,
    .run = run,
};
