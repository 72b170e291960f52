/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints metrics to stdout in the text format of OpenMetrics 1.0, which Prometheus and the textfile
 * collector of node_exporter read too. All samples of one family follow its metrics_family().
 */
#ifndef HMREG_TOOLS_METRICS_H
#define HMREG_TOOLS_METRICS_H

#include <stddef.h>

struct metrics_label {
    const char *name, *value;
};
#define METRICS_LABELS 10 /* of one sample, at most */

/* The labels of a sample. */
struct metrics_labels {
    struct metrics_label list[METRICS_LABELS];
    size_t count;
};
/* Adds a label; one without a value is left out. The value must outlive the labels. */
void metrics_label(struct metrics_labels *labels, const char *name, const char *value);

/* type: "counter", "gauge", "histogram" or "info". */
void metrics_family(const char *name, const char *type, const char *help);
/* suffix: "_total" of counters, "_info", "_bucket", "_count", "_sum", or "". */
void metrics_sample(const char *name, const char *suffix, const struct metrics_labels *labels,
                    double value);
void metrics_end(void);

#endif
