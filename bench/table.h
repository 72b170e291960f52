/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The result's rows: what is read from which series, and what it must reach.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "bench/series.h"

#include <stdbool.h>
#include <stddef.h>

enum judge {
    REPORTED, /* no target */
    RATIO,    /* ours / beside of the same turn, the median: at most the target */
    VALUE,    /* ours, the median */
    WORST,    /* ours, the worst turn */
};

struct row {
    const char *part, *title;
    const char *measure, *who;
    const char *beside_measure, *beside; /* the series compared with; NULL: the measure is ours,
                                            nothing stands beside */
    enum judge judge;
    double target;
};

/* NULL: there are no more. Rows of a part follow each other. */
const struct row *row_at(size_t index);

enum verdict { NO_TARGET, MET, MISSED, NOT_MEASURED };

struct result {
    const struct series *ours, *beside; /* NULL where there are no values */
    struct spread value, beside_value, ratio;
    bool has_ratio;
    double judged; /* what is compared with the target */
    enum verdict verdict;
    const char *absent; /* NULL, or why it is not measured */
};

/* False: nothing of it was asked for. */
bool row_result(const struct row *row, struct result *out);
const char *verdict_name(enum verdict verdict);

#endif
