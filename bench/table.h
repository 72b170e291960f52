/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The rows of the result: which series each reads, and its target.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "bench/series.h"

#include <stdbool.h>
#include <stddef.h>

enum judge {
    REPORTED, /* no target */
    RATIO,    /* median of ours / beside per turn: at most the target */
    VALUE,    /* ours, the median */
};

struct row {
    const char *part, *title;
    const char *measure, *who;
    const char *beside_measure, *beside; /* the series to compare with; measure NULL: the same,
                                            contestant NULL: no comparison */
    enum judge judge;
    double target;
};

/* NULL: no more. Rows of a part are adjacent. */
const struct row *row_at(size_t index);

enum verdict { NO_TARGET, MET, MISSED, NOT_MEASURED };

struct result {
    const struct series *ours, *beside; /* NULL: no values */
    struct spread value, beside_value, ratio;
    bool has_ratio;
    double judged; /* the value compared with the target */
    enum verdict verdict;
    const char *absent; /* NULL, or why it was not measured */
};

/* False: the row's series was not requested. */
bool row_result(const struct row *row, struct result *out);
const char *verdict_name(enum verdict verdict);

#endif
