/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg verify: runs every check that this machine allows, and writes a report. See verify.h.
 */
#include "tools/verify/verify.h"

#include "tools/command.h"
#include "tools/foreign.h"
#include "tools/output.h"
#include "tools/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE     30 /* seconds, default */
#define DEFAULT_NAME "hmreg-verify"

struct options {
    bool json, list;
    int patience;
    const char *out;
    json_t *names; /* of --check */
};

/* ---- in a separate process -------------------------------------------------------------- */

/* Standard output for the document only: what libraries print goes to standard error. */
static FILE *take_stdout(void)
{
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    if (fd < 0 || dup3(STDERR_FILENO, STDOUT_FILENO, O_CLOEXEC) < 0)
        return NULL;
    return fdopen(fd, "w");
}

static int list_checks(const struct options *options, FILE *out)
{
    struct hmreg *lib;
    json_t *document;
    const json_t *check;

    if (signals_after(hmreg_open(NULL, &lib))) {
        print_error("hmreg verify: %s", hmreg_last_error()->text);
        return EXIT_FAILED;
    }
    document = verify_inventory(lib);
    if (options->json)
        json_dumpf(document, out, JSON_INDENT(2));
    else
        doc_each(check, json_object_get(document, "checks"))
            fprintf(out, "%s\n", doc_words(check, "name"));
    json_decref(document);
    return hmreg_close(lib) ? EXIT_FAILED : EXIT_GOOD;
}

/* Runs --list or --check in this process. The checks of the report run it as a child. */
static int run_here(const struct options *options)
{
    FILE *out = take_stdout();
    int status;

    if (!out) {
        perror("hmreg verify: standard output");
        return EXIT_FAILED;
    }
    status = options->list ? list_checks(options, out)
                           : verify_run_checks(options->names, options->json, out);
    if (fclose(out)) {
        perror("hmreg verify: standard output");
        return EXIT_FAILED;
    }
    return status;
}

/* ---- the report ------------------------------------------------------------------------- */

static int count_of(const json_t *report, const char *result)
{
    const json_t *check;
    int count = 0;

    doc_each(check, json_object_get(report, "checks"))
        count += doc_equals(check, "result", result);
    return count;
}

static bool any_simulated(const json_t *report)
{
    const json_t *device;

    doc_each(device, json_object_get(json_object_get(report, "inventory"), "devices"))
        if (doc_is(device, "simulated"))
            return true;
    return false;
}

static json_t *make_report(int patience)
{
    json_t *report = doc_new("verify"), *results = doc_array();
    struct checks checks = {.command = "verify",
                            .patience = patience,
                            .total = VERIFY_LIMIT,
                            .began = verify_now(),
                            .results = results};

    doc_set(report, "checks", results);
    verify_list(report, patience);
    checks.list = json_object_get(json_object_get(report, "inventory"), "checks");
    checks_run(&checks);
    json_object_del(json_object_get(report, "inventory"), "checks");
    doc_set(report, "seconds",
            doc_count((uint64_t)(verify_now() - checks.began) / 1000, UINT64_MAX));
    doc_set(report, "counts",
            doc_pack("{s:i, s:i, s:i}", "ok", count_of(report, "ok"), "failed",
                     count_of(report, "failed"), "skipped", count_of(report, "skipped")));
    doc_set(report, "verdict", doc_text(count_of(report, "failed") ? "FAILED" : "OK"));
    doc_set(report, "simulated", json_boolean(any_simulated(report)));
    verify_scrub(report);
    return report;
}

/* ---- the command ------------------------------------------------------------------------ */

static const char *const endings[] = {".txt", ".json"};

#define FILE_NAME 4096

static bool name_file(char path[FILE_NAME], const char *name, const char *ending)
{
    errno = ENAMETOOLONG;
    return snprintf(path, FILE_NAME, "%s%s", name, ending) < FILE_NAME;
}

/* Call before the checks, so that a wrong name does not cost their time. False: an error is
 * printed. */
static bool can_write(const char *name)
{
    char path[FILE_NAME];

    for (size_t i = 0; i < COUNT(endings); i++) {
        const char *refusal;

        if (name_file(path, name, endings[i]) && output_try(path))
            continue;
        refusal = output_refusal(errno);
        print_error("hmreg verify: --out %s: %s%s is not written: %s%s", name, name, endings[i],
                    refusal ? refusal : strerror(errno),
                    refusal ? ". A new name and files of your own are accepted" : "");
        return false;
    }
    return true;
}

static bool write_file(const json_t *report, const char *name, const char *ending)
{
    FILE *file = output_begin();
    char path[FILE_NAME];

    if (file && ending == endings[0]) {
        verify_print(report, file);
    } else if (file) {
        json_dumpf(report, file, JSON_INDENT(2));
        fputc('\n', file);
    }
    if (name_file(path, name, ending) && output_end(file, path))
        return true;
    perror("hmreg verify: the report");
    return false;
}

static int verify(const struct options *options)
{
    const char *name = options->out ? options->out : options->json ? NULL : DEFAULT_NAME;
    json_t *report;
    bool written = true;
    int status;

    if (name && !can_write(name))
        return EXIT_USAGE;
    report = make_report(options->patience);
    for (size_t i = 0; name && i < COUNT(endings); i++)
        written = write_file(report, name, endings[i]) && written;
    if (options->json)
        doc_print_json(report);
    else
        verify_print_summary(report, stdout);
    status = doc_equals(report, "verdict", "OK") ? EXIT_GOOD : EXIT_FAILED;
    json_decref(report);
    if (!written)
        return EXIT_FAILED;
    if (name && !options->json)
        printf("\nThe report is in %s.txt and %s.json.\n", name, name);
    return status;
}

/* The command `hmreg verify`: makes the report unless --list or --check is given. Returns its exit
 * status. */
static int verify_command(const struct command *self, int argc, char **argv)
{
    struct options options = {.patience = PATIENCE, .names = doc_array()};
    int status = options_parse(self, argc, argv, &options);

    if (status == EXIT_CONTINUE && (options.list || json_array_size(options.names)))
        status = run_here(&options);
    else if (status == EXIT_CONTINUE)
        status = verify(&options);
    json_decref(options.names);
    return status;
}

/* ---- options ---------------------------------------------------------------------------- */

static const char *take_check(const char *value, void *options)
{
    if (!strchr(value, '/') || strlen(value) >= VERIFY_NAME)
        return "the names that hmreg verify --list prints are accepted";
    doc_add(((struct options *)options)->names, doc_text(value));
    return NULL;
}

static const struct option_def options[] = {
    OPTION_TEXT("out", "FILE", "write FILE.txt and FILE.json; hmreg-verify unless said",
                offsetof(struct options, out),
                "the name of a file is accepted, without its ending"),
    OPTION_NUMBER("patience", "SECONDS", "how long one check may take; 30 unless said",
                  offsetof(struct options, patience), 1, VERIFY_LIMIT,
                  "seconds are accepted, from 1 to 280"),
    OPTION_FLAG("list", "print the names of the checks and run none",
                offsetof(struct options, list)),
    OPTION("check", "NAME", "run this check only, in this process; may be repeated", take_check),
    OPTION_JSON("JSON instead of text; files only with --out"),
    {0},
};

const struct command command_verify = {
    .name = "verify",
    .summary = "run every check that the hardware allows and write a report",
    .description =
        "Checks the library on this machine's devices and fabrics, and writes a report\n"
        "that can be attached to an issue. It allocates, identifies, exports, copies and\n"
        "frees every kind of memory of each device. On loopback, libfabric's tcp and shm\n"
        "and each NIC it registers the memory by each path, writes and reads bytes\n"
        "through the fabric, and compares them. It also tests cached regions while\n"
        "memory is freed and allocated again. Harmless checks come first, NICs last. A\n"
        "check that crashes or hangs counts as failed; the other checks still run. All\n"
        "checks together take less than five minutes.\n"
        "\n"
        "The report has no names of hosts or users, no IP, MAC or GID addresses, no\n"
        "serial numbers, no environment except HMREG_* and FI_*, and no paths outside of\n"
        "/usr and /sys. Simulated devices are marked \"simulated\".\n",
    .examples = "  hmreg verify\n"
                "  hmreg verify --out /tmp/node7\n"
                "  hmreg verify --list\n"
                "  hmreg verify --check loopback/cuda-0/device/peermem\n"
                "  HMREG_IFACES=system hmreg verify    host memory only\n",
    .failed = "a check failed, or the report was not written",
    .options = options,
    .run = verify_command,
};
