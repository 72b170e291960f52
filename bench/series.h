/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The measured values: for each measure ("hits-100") and contestant ("UCX"), the values of all
 * turns in order. Values of the same turn have the same index in all contestants' series.
 */
#ifndef BENCH_SERIES_H
#define BENCH_SERIES_H

#include <stdbool.h>
#include <stddef.h>

struct series {
    char measure[40], who[40];
    const char *unit;
    double *values;
    size_t count;
    char absent[160]; /* why there are no values; "": there are some */
};

/* The median and the lower and upper quartile. */
struct spread {
    double low, median, high;
};

void series_add(const char *measure, const char *who, const char *unit, double value);
void series_absent(const char *measure, const char *who, const char *unit, const char *why);

/* NULL: not measured. */
const struct series *series_find(const char *measure, const char *who);
/* The series at an index, in order of creation; NULL: no more. */
const struct series *series_at(size_t index);

/* The spread of count >= 1 values. */
struct spread spread_of(const double *values, size_t count);
/* The spread of the ratios ours / beside per turn; if the series differ in length, the ratio of
 * their medians. False: a value of beside is 0. */
bool spread_of_ratios(const struct series *ours, const struct series *beside, struct spread *out);

#endif
