/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What was measured: for each measure ("hits-100") and each contestant ("UCX") the values of all
 * turns, in their order. Values of the same turn have the same index with every contestant.
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
    char absent[160]; /* why there are no values; "": there are */
};

/* A median, and the quarters of the values below and above. */
struct spread {
    double low, median, high;
};

void series_add(const char *measure, const char *who, const char *unit, double value);
void series_absent(const char *measure, const char *who, const char *unit, const char *why);

/* NULL: it was not measured. */
const struct series *series_find(const char *measure, const char *who);
/* All of them, in the order they came; NULL: no more. */
const struct series *series_at(size_t index);

/* Of count values, one at least. */
struct spread spread_of(const double *values, size_t count);
/* Of the ratios of each turn; of the medians where the turns are not the same. False: none can be
 * had, since something beside is 0. */
bool spread_of_ratios(const struct series *ours, const struct series *beside, struct spread *out);

#endif
