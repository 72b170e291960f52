/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Writes the results as a page of the documentation, with the plots in the same folder.
 */
#include "bench/bench.h"
#include "bench/report.h"
#include "bench/table.h"

#include <string.h>
#include <unistd.h>

static void write_head(FILE *to, const struct machine *machine)
{
    fprintf(
        to,
        "<!-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only -->\n"
        "# Figures\n\n"
        "Written by `./run bench --docs`; [performance.md](../performance.md) says how they are "
        "taken and how\nto read them. All values of a run are in its `figures.json`.\n\n"
        "%s, %d cores%s; frequency governor: %s; %s; load when it began: %s; %s; revision "
        "%s.%s\n\n"
        "Medians of all turns, in brackets the middle half of them. The ratio is the median of "
        "the ratios of\neach turn.\n",
        machine->cpu, machine->cores, machine->virtual ? " of a virtual machine" : "",
        machine->governor, machine->kernel, machine->load, machine->date, machine->revision,
        plan.quick ? " **A quick run: no figures.**" : "");
}

static void write_spread(FILE *to, const struct spread *spread)
{
    char median[20], low[20], high[20];

    fprintf(to, "%s (%s–%s)", number(median, sizeof(median), spread->median),
            number(low, sizeof(low), spread->low), number(high, sizeof(high), spread->high));
}

static void write_target(FILE *to, const struct row *row, const struct result *result)
{
    static const char *const names[] = {
        [NO_TARGET] = "", [MET] = "met", [MISSED] = "**missed**", [NOT_MEASURED] = "not measured"};
    char target[20];

    if (row->judge == REPORTED)
        fputs(" | ", to);
    else if (row->judge == RATIO)
        fprintf(to, "ratio ≤ %.3f | ", row->target);
    else
        fprintf(to, "≤ %s | ", number(target, sizeof(target), row->target));
    fprintf(to, "%s |\n", names[result->verdict]);
}

static void write_row(FILE *to, const struct row *row, const struct result *result)
{
    fprintf(to, "| %s | %s | ", row->title, row->who);
    if (result->absent) {
        fprintf(to, "%s | | | ", result->absent);
        write_target(to, row, result);
        return;
    }
    write_spread(to, &result->value);
    fputs(" | ", to);
    if (result->beside) {
        fprintf(to, "%s: ", row->beside);
        write_spread(to, &result->beside_value);
    }
    fputs(" | ", to);
    if (result->has_ratio)
        write_spread(to, &result->ratio);
    fputs(" | ", to);
    write_target(to, row, result);
}

static void write_picture(FILE *to, const char *folder, const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s.svg", folder, name);
    if (!access(path, R_OK))
        fprintf(to, "\n![%s](%s.svg)\n", name, name);
}

void report_markdown(const char *folder, const struct machine *machine)
{
    static const char *const pictures[] = {"hits", "many", "threads", "misses", "stalls", "memory"};
    const struct row *row;
    const char *part = "";
    char path[400];
    FILE *to;

    snprintf(path, sizeof(path), "%s/figures.md", folder);
    to = fopen(path, "we");
    if (!to)
        die("%s: cannot be written: %m", path);
    write_head(to, machine);
    for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++)
        write_picture(to, folder, pictures[i]);
    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        struct result result;

        if (!row_result(row, &result))
            continue;
        if (strcmp(part, row->part))
            fprintf(to,
                    "\n## %s\n\n| what | who | measured | beside | ratio | target | |\n"
                    "|---|---|---|---|---|---|---|\n",
                    row->part);
        part = row->part;
        write_row(to, row, &result);
    }
    if (fclose(to))
        die("%s: cannot be written: %m", path);
}
