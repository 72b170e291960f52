/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See metrics.h.
 */
#include "tools/metrics.h"

#include "tools/document.h"

#include <stdio.h>
#include <string.h>

void metrics_label(struct metrics_labels *labels, const char *name, const char *value)
{
    if (value && value[0] && labels->count < METRICS_LABELS)
        labels->list[labels->count++] = (struct metrics_label){name, value};
}

void metrics_family(const char *name, const char *type, const char *help)
{
    printf("# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

static void print_value(const char *value)
{
    for (; *value; value++)
        if (*value == '\n')
            fputs("\\n", stdout);
        else
            printf("%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
}

void metrics_sample(const char *name, const char *suffix, const struct metrics_labels *labels,
                    double value)
{
    printf("%s%s", name, suffix);
    for (size_t i = 0; i < labels->count; i++) {
        printf("%s%s=\"", i ? "," : "{", labels->list[i].name);
        print_value(labels->list[i].value);
        putchar('"');
    }
    printf("%s %.17g\n", labels->count ? "}" : "", value);
}

void metrics_end(void)
{
    puts("# EOF");
}
