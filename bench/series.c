/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See series.h.
 */
#include "bench/series.h"

#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct series **all; /* each stays where it is */
static size_t count_of_all;

const struct series *series_find(const char *measure, const char *who)
{
    for (size_t i = 0; i < count_of_all; i++)
        if (!strcmp(all[i]->measure, measure) && !strcmp(all[i]->who, who))
            return all[i];
    return NULL;
}

const struct series *series_at(size_t index)
{
    return index < count_of_all ? all[index] : NULL;
}

static struct series *make(void)
{
    struct series **more = realloc(all, (count_of_all + 1) * sizeof(struct series *));
    struct series *made = calloc(1, sizeof(*made));

    if (!more || !made)
        die("no memory for a series");
    all = more;
    all[count_of_all++] = made;
    return made;
}

static struct series *find_or_make(const char *measure, const char *who, const char *unit)
{
    struct series *found = (struct series *)series_find(measure, who);

    if (found)
        return found;
    found = make();
    snprintf(found->measure, sizeof(found->measure), "%s", measure);
    snprintf(found->who, sizeof(found->who), "%s", who);
    found->unit = unit;
    return found;
}

void series_add(const char *measure, const char *who, const char *unit, double value)
{
    struct series *series = find_or_make(measure, who, unit);
    double *more = realloc(series->values, (series->count + 1) * sizeof(*more));

    if (!more)
        die("no memory for a series");
    more[series->count++] = value;
    series->values = more;
}

void series_absent(const char *measure, const char *who, const char *unit, const char *why)
{
    struct series *series = find_or_make(measure, who, unit);

    snprintf(series->absent, sizeof(series->absent), "%s", why);
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

struct spread spread_of(const double *values, size_t count)
{
    double *sorted = malloc(count * sizeof(*sorted));
    struct spread spread;

    if (!sorted)
        die("no memory for a series");
    memcpy(sorted, values, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_size);
    spread.low = sorted[count / 4];
    spread.median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    spread.high = sorted[count - 1 - count / 4];
    free(sorted);
    return spread;
}

static double median_of(const struct series *series)
{
    return spread_of(series->values, series->count).median;
}

bool spread_of_ratios(const struct series *ours, const struct series *beside, struct spread *out)
{
    size_t count = ours->count == beside->count ? ours->count : 1;
    double *ratios = malloc(count * sizeof(*ratios));
    bool finite = true;

    if (!ratios)
        die("no memory for a series");
    for (size_t i = 0; i < count; i++) {
        ratios[i] = ours->count == beside->count ? ours->values[i] / beside->values[i]
                                                 : median_of(ours) / median_of(beside);
        finite = finite && isfinite(ratios[i]);
    }
    if (finite)
        *out = spread_of(ratios, count);
    free(ratios);
    return finite;
}
