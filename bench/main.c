/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg-bench: the cost of cached registration, compared with peers in the same run.
 */
#include "bench/bench.h"
#include "bench/report.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*measure)(void);
} parts[] = {
    {"hits", measure_hits},
    {"groups", measure_groups},
    {"threads", measure_threads},
    {"misses", measure_misses},
    {"stalls", measure_stalls},
    {"invalidation", measure_invalidation},
    {"pauses", measure_pauses},
    {"footprint", measure_footprint},
    {"device", measure_device},
    {"freed", measure_freed},
    {"cover", measure_cover},
    {"suspend", measure_suspend},
    {"rails", measure_rails},
    {"remotes", measure_remotes},
    {"explicit", measure_explicit},
    {"plugin", measure_plugin},
    {"large", measure_large},
    {"unmap", measure_unmap},
    {"program", measure_program},
    {"inlined", measure_inlined},
    {"instructions", measure_instructions},
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static struct {
    bool wanted[PARTS];
    bool some; /* parts were named */
    const char *json, *plots, *docs, *revision, *values;
} options = {.revision = "unknown"};

static void usage(FILE *to)
{
    fputs(
        "usage: hmreg-bench [OPTION]...\n\n"
        "Measures hmreg's cached registration beside its peers and prints what was measured, the\n"
        "targets and whether they are met. docs/performance.md says how to read it.\n\n"
        "  --quick          fewer turns and regions: under a minute; not for figures\n"
        "  --instructions   only the instructions of a hit, counted by valgrind\n"
        "  --only PART,...  only these parts:",
        to);
    for (size_t i = 0; i < PARTS; i++)
        fprintf(to, " %s%s", parts[i].name, i + 1 < PARTS ? "," : "\n");
    fputs("  --json FILE      all values, for programs\n"
          "  --plots FOLDER   SVG files, by gnuplot\n"
          "  --docs FOLDER    all of these for the documentation: figures.md, figures.json, plots\n"
          "  --revision TEXT  what is measured, for the reports\n"
          "  --values FILE    measure nothing: report the values of an earlier run's JSON\n"
          "  --targets        print the table of targets, measure nothing\n\n"
          "Exit status: 0 all targets met, 1 some missed (never with --quick), 2 it cannot run,\n"
          "130 interrupted: Ctrl-C prints what was measured so far, and writes no --docs.\n",
          to);
}

static void want(const char *name, size_t length)
{
    for (size_t i = 0; i < PARTS; i++)
        if (strlen(parts[i].name) == length && !strncmp(parts[i].name, name, length)) {
            options.wanted[i] = options.some = true;
            return;
        }
    die("--only %.*s: no such part; --help has the names", (int)length, name);
}

static void want_list(const char *names)
{
    for (;;) {
        size_t length = strcspn(names, ",");

        want(names, length);
        if (!names[length])
            return;
        names += length + 1;
    }
}

static void be_quick(void)
{
    plan = (struct plan){
        .quick = true, .fresh = 1, .turns = 3, .sample_ms = 5, .most_regions = 100000};
}

static int inside(const char *what, char **arguments, int count)
{
    if (!strcmp(what, "instructions") && count == 3)
        return instructions_inside(arguments[0], arguments[1], arguments[2]);
    if (!strcmp(what, "locks") && count == 1)
        return locks_inside(arguments[0]);
    die("--inside is for this program's own use");
}

static void read_option(int option, char **argv, int argc)
{
    switch (option) {
    case 'q':
        be_quick();
        break;
    case 'i':
        want("instructions", strlen("instructions"));
        break;
    case 'o':
        want_list(optarg);
        break;
    case 'j':
        options.json = optarg;
        break;
    case 'p':
        options.plots = optarg;
        break;
    case 'd':
        options.docs = optarg;
        break;
    case 'r':
        options.revision = optarg;
        break;
    case 'v':
        options.values = optarg;
        break;
    case 't':
        report_targets(stdout);
        exit(0);
    case 'I':
        exit(inside(optarg, argv + optind, argc - optind));
    case 'h':
        usage(stdout);
        exit(0);
    default:
        usage(stderr);
        exit(2);
    }
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"quick", no_argument, NULL, 'q'},          {"instructions", no_argument, NULL, 'i'},
        {"only", required_argument, NULL, 'o'},     {"json", required_argument, NULL, 'j'},
        {"plots", required_argument, NULL, 'p'},    {"docs", required_argument, NULL, 'd'},
        {"revision", required_argument, NULL, 'r'}, {"values", required_argument, NULL, 'v'},
        {"targets", no_argument, NULL, 't'},        {"inside", required_argument, NULL, 'I'},
        {"help", no_argument, NULL, 'h'},           {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        read_option(option, argv, argc);
    if (optind < argc)
        die("%s: what is this? --help has the options", argv[optind]);
}

/* Fails now rather than after minutes of measuring. */
static void check_outputs(void)
{
    FILE *json = options.json ? fopen(options.json, "ae") : NULL;

    if (options.json && !json)
        die("%s: cannot be written: %m", options.json);
    if (json)
        fclose(json);
    if (options.plots && access(options.plots, W_OK))
        die("%s: plots cannot be put there: %m", options.plots);
    if (options.docs && access(options.docs, W_OK))
        die("%s: figures cannot be put there: %m", options.docs);
}

static void write_docs(const struct machine *machine)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/figures.json", options.docs);
    report_json(path, machine);
    report_plots(options.docs, machine);
    report_markdown(options.docs, machine);
}

static void measure(struct machine *machine)
{
    machine_read(machine, options.revision);
    interrupt_catch();
    for (size_t i = 0; i < PARTS && !interrupted(); i++)
        if (options.wanted[i] || !options.some)
            parts[i].measure();
    progress(interrupted() ? "interrupted: what was measured follows" : "done");
}

int main(int argc, char **argv)
{
    struct machine machine;
    int missed;

    progress_begin();
    read_options(argc, argv);
    check_outputs();
    if (options.values)
        report_read(options.values, &machine);
    else
        measure(&machine);
    missed = report_table(stdout, &machine);
    if (options.json)
        report_json(options.json, &machine);
    if (options.plots)
        report_plots(options.plots, &machine);
    if (interrupted())
        return 128 + SIGINT;
    if (options.docs)
        write_docs(&machine);
    return missed && !plan.quick;
}
