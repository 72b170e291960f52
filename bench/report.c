/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The table on the terminal as it grows, and the same rows as JSON.
 */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

static FILE *json;
static int rows, missed;

void report_begin(const char *json_path)
{
    json = json_path ? fopen(json_path, "we") : NULL;
    if (json_path && !json) {
        perror(json_path);
        exit(1);
    }
    if (json)
        fprintf(json, "{\"unit\": \"ns per get + put\", \"rows\": [");
    printf("%-62s %9s %9s %7s  %s\n", "ns per get + put", "hmreg", "peer", "ratio", "target");
}

static const char *judge(const struct row *row)
{
    if (row->target <= 0)
        return "-";
    if (row->ratio <= row->target)
        return "met";
    missed++;
    return "MISSED";
}

void report_row(const struct row *row)
{
    const char *verdict = judge(row);

    printf("%-62s %9.1f %9.1f %7.3f  ", row->name, row->ours, row->peer, row->ratio);
    if (row->target > 0)
        printf("<= %.3f ", row->target);
    printf("%s\n", verdict);
    fflush(stdout);
    if (!json)
        return;
    fprintf(json,
            "%s\n  {\"name\": \"%s\", \"hmreg\": %.2f, \"peer\": %.2f, \"ratio\": %.4f, "
            "\"target\": %.4f, \"verdict\": \"%s\"}",
            rows++ ? "," : "", row->name, row->ours, row->peer, row->ratio, row->target, verdict);
}

int report_end(void)
{
    if (json) {
        fprintf(json, "\n]}\n");
        fclose(json);
    }
    return missed;
}
