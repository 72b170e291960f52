/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the table on the terminal, and writes the table with all values as JSON.
 */
#include "bench/report.h"

#include "bench/bench.h"
#include "bench/table.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define JSON_VERSION 2

/* ---- the table -------------------------------------------------------------------------- */

const char *number(char *room, size_t size, double value)
{
    double size_of_it = fabs(value);

    snprintf(room, size, size_of_it < 10 ? "%.2f" : size_of_it < 100 ? "%.1f" : "%.0f", value);
    return room;
}

static void print_target(FILE *to, const struct row *row)
{
    char room[20];

    if (row->judge == REPORTED)
        fprintf(to, " %9s", "-");
    else if (row->judge == RATIO)
        fprintf(to, "  x<=%5.3f", row->target);
    else
        fprintf(to, "   <=%5s", number(room, sizeof(room), row->target));
}

static void print_values(FILE *to, const struct result *result)
{
    char median[20], low[20], high[20], range[60];

    snprintf(range, sizeof(range), "(%s-%s)", number(low, sizeof(low), result->value.low),
             number(high, sizeof(high), result->value.high));
    fprintf(to, " %8s %-15s", number(median, sizeof(median), result->value.median), range);
    if (result->beside)
        number(median, sizeof(median), result->beside_value.median);
    fprintf(to, " %8s", result->beside ? median : "");
    if (result->has_ratio)
        snprintf(range, sizeof(range), "x%6.3f (%5.3f-%5.3f)", result->ratio.median,
                 result->ratio.low, result->ratio.high);
    fprintf(to, " %-23s", result->has_ratio ? range : "");
}

static void print_row(FILE *to, const struct row *row, const struct result *result)
{
    fprintf(to, "  %-41s %-25s", row->title, row->who);
    if (result->absent) {
        fprintf(to, " absent: %s\n", result->absent);
        return;
    }
    print_values(to, result);
    print_target(to, row);
    fprintf(to, "  %-7s%s%s\n", verdict_name(result->verdict), result->beside ? "beside " : "",
            result->beside ? row->beside : "");
}

static void print_machine(FILE *to, const struct machine *machine)
{
    fprintf(to,
            "%s, %d cores%s; frequency governor: %s\n%s; load %s; %s; revision %s\n"
            "Medians of all turns (and the middle half of them). x: ratio of values of the same "
            "turn.\n",
            machine->cpu, machine->cores, machine->virtual ? ", virtual machine" : "",
            machine->governor, machine->kernel, machine->load, machine->date, machine->revision);
}

int report_table(FILE *to, const struct machine *machine)
{
    const char *part = "";
    const struct row *row;
    int missed = 0;

    print_machine(to, machine);
    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        struct result result;

        if (!row_result(row, &result))
            continue;
        if (strcmp(part, row->part))
            fprintf(to, "\n%-69s %8s %-15s %8s %-23s %10s\n", row->part, "ours", "", "beside",
                    "ratio", "target");
        part = row->part;
        print_row(to, row, &result);
        missed += result.verdict == MISSED;
    }
    fprintf(to, "\n%d target%s missed\n", missed, missed == 1 ? "" : "s");
    return missed;
}

void report_targets(FILE *to)
{
    const struct row *row;

    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        fprintf(to, "%-50s %-41s %-25s", row->part, row->title, row->who);
        print_target(to, row);
        fprintf(to, "%s%s\n", row->beside ? "  beside " : "", row->beside ? row->beside : "");
    }
}

/* ---- JSON ------------------------------------------------------------------------------- */

static json_t *json_spread(const struct spread *spread)
{
    return json_pack("{s:f, s:f, s:f}", "low", spread->low, "median", spread->median, "high",
                     spread->high);
}

static json_t *json_of_machine(const struct machine *machine)
{
    return json_pack("{s:s, s:i, s:b, s:s, s:s, s:s}", "cpu", machine->cpu, "cores", machine->cores,
                     "virtual", machine->virtual, "governor", machine->governor, "kernel",
                     machine->kernel, "load", machine->load);
}

static json_t *json_target(const struct row *row, const struct result *result)
{
    static const char *const judges[] = {"reported", "ratio", "value"};

    if (row->judge == REPORTED)
        return json_null();
    return json_pack("{s:s, s:f, s:f}", "of", judges[row->judge], "at_most", row->target, "is",
                     result->judged);
}

static json_t *json_row(const struct row *row, const struct result *result)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "part", row->part, "title",
                             row->title, "measure", row->measure, "who", row->who, "verdict",
                             verdict_name(result->verdict), "target", json_target(row, result));

    if (result->absent) {
        json_object_set_new(json, "absent", json_string(result->absent));
        return json;
    }
    json_object_set_new(json, "value", json_spread(&result->value));
    if (result->beside) {
        json_object_set_new(json, "beside", json_string(row->beside));
        json_object_set_new(json, "beside_value", json_spread(&result->beside_value));
        if (result->has_ratio)
            json_object_set_new(json, "ratio", json_spread(&result->ratio));
    }
    return json;
}

static json_t *json_rows(void)
{
    json_t *rows = json_array();
    const struct row *row;

    for (size_t i = 0; (row = row_at(i)) != NULL; i++) {
        struct result result;

        if (row_result(row, &result))
            json_array_append_new(rows, json_row(row, &result));
    }
    return rows;
}

static json_t *json_series(void)
{
    json_t *all = json_array();
    const struct series *series;

    for (size_t i = 0; (series = series_at(i)) != NULL; i++) {
        json_t *values = json_array();

        for (size_t v = 0; v < series->count; v++)
            json_array_append_new(values, json_real(series->values[v]));
        json_array_append_new(all,
                              json_pack("{s:s, s:s, s:s, s:s, s:o}", "measure", series->measure,
                                        "who", series->who, "unit", series->unit, "absent",
                                        series->absent, "values", values));
    }
    return all;
}

void report_json(const char *path, const struct machine *machine)
{
    json_t *json = json_pack("{s:s, s:i, s:s, s:s, s:b, s:o, s:o, s:o}", "licence",
                             "SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only", "version",
                             JSON_VERSION, "date", machine->date, "revision", machine->revision,
                             "quick", plan.quick, "machine", json_of_machine(machine), "rows",
                             json_rows(), "series", json_series());

    if (!json || json_dump_file(json, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)))
        die("%s: cannot be written", path);
    json_decref(json);
}

/* ---- and back --------------------------------------------------------------------------- */

static void read_series(const json_t *json)
{
    const char *measure, *who, *unit, *absent;
    const json_t *values, *value;
    size_t i;

    if (json_unpack((json_t *)json, "{s:s, s:s, s:s, s:s, s:o}", "measure", &measure, "who", &who,
                    "unit", &unit, "absent", &absent, "values", &values))
        die("a series of the values has not all its members");
    json_array_foreach(values, i, value)
        series_add(measure, who, unit, json_number_value(value));
    if (absent[0])
        series_absent(measure, who, unit, absent);
}

static void read_text(char *room, size_t size, const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    snprintf(room, size, "%s", text ? text : "unknown");
}

void report_read(const char *path, struct machine *out)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error), *all = json_object_get(json, "series");
    json_t *machine = json_object_get(json, "machine"), *series;
    size_t i;

    if (json_integer_value(json_object_get(json, "version")) != JSON_VERSION)
        die("%s: these are not values of version %d: %s", path, JSON_VERSION, error.text);
    plan.quick = json_is_true(json_object_get(json, "quick"));
    out->cores = (int)json_integer_value(json_object_get(machine, "cores"));
    out->virtual = json_is_true(json_object_get(machine, "virtual"));
    read_text(out->cpu, sizeof(out->cpu), machine, "cpu");
    read_text(out->governor, sizeof(out->governor), machine, "governor");
    read_text(out->kernel, sizeof(out->kernel), machine, "kernel");
    read_text(out->load, sizeof(out->load), machine, "load");
    read_text(out->date, sizeof(out->date), json, "date");
    read_text(out->revision, sizeof(out->revision), json, "revision");
    json_array_foreach(all, i, series)
        read_series(series); /* their units point into json, which stays */
}
