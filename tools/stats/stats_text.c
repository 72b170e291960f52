/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints the document of `hmreg stats`. A cache without any request so far gets no row.
 */
#include "tools/stats/stats.h"

#include "tools/document.h"
#include "tools/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- words ------------------------------------------------------------------------------ */

/* "12.3 us" */
static const char *time_words(double ns, char buf[32])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;

    for (; ns >= 1000 && unit + 1 < COUNT(units); unit++)
        ns /= 1000;
    snprintf(buf, 32, unit ? "%.1f %s" : "%.0f %s", ns, units[unit]);
    return buf;
}

static uint64_t gets_of(const json_t *cache)
{
    return doc_number(cache, "hits") + doc_number(cache, "misses") + doc_number(cache, "uncached");
}

static bool was_used(const json_t *cache)
{
    return gets_of(cache) || doc_number(cache, "failures") || doc_number(cache, "waiting");
}

static void add_count(struct table *table, const json_t *object, const char *key)
{
    table_add(table, "%" PRIu64, doc_number(object, key));
}

static void add_cache(struct table *table, const json_t *domain, const json_t *cache)
{
    char name[32];

    table_add(table, "%" PRIu64, doc_number(domain, "number"));
    if (doc_has(cache, "device"))
        table_add(table, "%s", doc_device_words(cache, name));
    else
        table_add(table, "%s, host", doc_words(cache, "iface"));
}

/* Iterates over the caches of a library that get a row, with their domains. */
#define FOR_EACH_CACHE(library, domain, cache)                                                     \
    doc_each(domain, json_object_get(library, "domains"))                                          \
        doc_each(cache, json_object_get(domain, "caches"))                                         \
            if (was_used(cache))

/* Prints a table, if it has rows, after an empty line. */
static void print_table(struct table *table)
{
    if (table_has_rows(table))
        putchar('\n');
    table_print(table);
}

/* ---- what the caches did ---------------------------------------------------------------- */

static void add_of_limit(struct table *table, const json_t *cache, const char *key,
                         const char *limit)
{
    if (doc_has(cache, limit))
        table_add(table, "%" PRIu64 " of %" PRIu64, doc_number(cache, key),
                  doc_number(cache, limit));
    else
        add_count(table, cache, key);
}

static void add_hit_rate(struct table *table, const json_t *cache)
{
    uint64_t gets = gets_of(cache);

    if (gets)
        table_add(table, "%.1f%%", 100.0 * (double)doc_number(cache, "hits") / (double)gets);
    else
        table_add(table, "%s", "");
}

/* Columns shown only if a value is non-zero, since most terminals are narrow. */
static const struct {
    const char *heading, *key;
} rare[] = {
    {">uncached", "uncached"}, {">evicted", "evictions"}, {">invalidated", "invalidations"},
    {">retired", "retired"},   {">failed", "failures"},
};

static bool any_has(const json_t *library, const char *key)
{
    const json_t *domain, *cache;
    uint64_t sum = 0;

    FOR_EACH_CACHE(library, domain, cache)
        sum |= doc_number(cache, key);
    return sum;
}

static void add_usual(struct table *table, const json_t *domain, const json_t *cache)
{
    char bytes[32];

    add_cache(table, domain, cache);
    add_of_limit(table, cache, "regions", "limit_regions");
    table_add(table, "%s", doc_bytes_words(doc_number(cache, "bytes"), bytes));
    add_count(table, cache, "hits");
    add_hit_rate(table, cache);
    add_count(table, cache, "misses");
}

static void print_counts(const json_t *library)
{
    struct table *table =
        table_new(">domain", "cache", ">regions", ">bytes", ">hits", ">hit rate", ">misses", NULL);
    const json_t *domain, *cache;
    bool shown[COUNT(rare)];

    for (size_t k = 0; k < COUNT(rare); k++) {
        shown[k] = any_has(library, rare[k].key);
        if (shown[k])
            table_add_column(table, rare[k].heading);
    }
    FOR_EACH_CACHE(library, domain, cache) {
        add_usual(table, domain, cache);
        for (size_t k = 0; k < COUNT(rare); k++)
            if (shown[k])
                add_count(table, cache, rare[k].key);
    }
    print_table(table);
}

static void print_causes(const json_t *library)
{
    struct table *table =
        table_new(">domain", "cache", ">evicted: limit", ">no memory", ">no room", ">no key",
                  ">of these, for explicit regions", ">for other domains", NULL);
    const json_t *domain, *cache;

    FOR_EACH_CACHE(library, domain, cache) {
        const json_t *causes = json_object_get(cache, "evictions_by_cause");

        if (!doc_number(cache, "evictions"))
            continue;
        add_cache(table, domain, cache);
        add_count(table, causes, "limit");
        add_count(table, causes, "memory");
        add_count(table, causes, "room");
        add_count(table, causes, "keys");
        add_count(table, cache, "gave_explicit");
        add_count(table, cache, "gave_others");
    }
    print_table(table);
}

/* ---- how long registrations took -------------------------------------------------------- */

/* The time, rounded up to a power of two, that this fraction of registrations stays below. */
static double time_below(const json_t *registrations, double part)
{
    double wanted = part * (double)doc_number(registrations, "timed"), sum = 0;
    const json_t *time;

    doc_each(time, json_object_get(registrations, "times")) {
        uint64_t from = doc_number(time, "from_ns");

        sum += (double)doc_number(time, "count");
        if (sum >= wanted)
            return from ? 2 * (double)from : 2;
    }
    return 0;
}

static void print_times(const json_t *library)
{
    struct table *table = table_new(">domain", "cache", ">timed", ">mean", ">half below",
                                    ">99% below", ">longest", NULL);
    const json_t *domain, *cache;
    char words[32];

    FOR_EACH_CACHE(library, domain, cache) {
        const json_t *registrations = json_object_get(cache, "registrations");
        uint64_t timed = doc_number(registrations, "timed");

        if (!timed)
            continue;
        add_cache(table, domain, cache);
        add_count(table, registrations, "timed");
        table_add(table, "%s",
                  time_words((double)doc_number(registrations, "ns") / (double)timed, words));
        table_add(table, "%s", time_words(time_below(registrations, 0.5), words));
        table_add(table, "%s", time_words(time_below(registrations, 0.99), words));
        table_add(table, "%s", time_words((double)doc_number(registrations, "longest_ns"), words));
    }
    print_table(table);
}

/* ---- since the last reading ------------------------------------------------------------- */

static void print_rates(const json_t *library)
{
    static const char *const rates[] = {"hits", "misses", "evictions", "invalidations"};
    struct table *table =
        table_new(">domain", "cache", ">hits/s", ">misses/s", ">evicted/s", ">invalidated/s", NULL);
    const json_t *domain, *cache;

    FOR_EACH_CACHE(library, domain, cache) {
        const json_t *rate = json_object_get(cache, "per_second");

        if (!json_is_object(rate))
            continue;
        add_cache(table, domain, cache);
        for (size_t k = 0; k < COUNT(rates); k++)
            table_add(table, "%.0f", json_number_value(json_object_get(rate, rates[k])));
    }
    print_table(table);
}

/* ---- libraries and processes ------------------------------------------------------------ */

static void print_domain(const json_t *domain)
{
    char mark[32];

    snprintf(mark, sizeof(mark), "domain %" PRIu64 ": ", doc_number(domain, "number"));
    print_paragraph(mark, "%s, %s%s", doc_words(domain, "provider"), doc_words(domain, "fabric"),
                    doc_is(domain, "caching") ? "" : "; it caches nothing");
}

static void print_not_shown(const json_t *library)
{
    const json_t *lost = json_object_get(library, "not_shown");

    if (!doc_number(lost, "domains") && !doc_number(lost, "caches") && !doc_number(lost, "threads"))
        return;
    print_paragraph("",
                    "Not shown, since the memory file is full: %" PRIu64 " domains, %" PRIu64
                    " caches, the hits of %" PRIu64 " threads in a cache each.",
                    doc_number(lost, "domains"), doc_number(lost, "caches"),
                    doc_number(lost, "threads"));
}

static void print_unsteady(const json_t *library)
{
    const json_t *domain, *cache;
    unsigned unsteady = 0;

    FOR_EACH_CACHE(library, domain, cache)
        unsteady += !doc_is(cache, "steady");
    if (unsteady)
        print_paragraph("", "Some of these numbers do not belong together: a cache was being "
                            "changed each time it was looked at, or its process ended in a "
                            "change.");
}

static void print_library(const json_t *library)
{
    const json_t *domains = json_object_get(library, "domains"), *domain;

    if (doc_has(library, "error")) {
        print_paragraph("What it shows cannot be read: ", "%s", doc_words(library, "error"));
        return;
    }
    print_paragraph("", "hmreg %s, monitor %s", doc_words(library, "hmreg"),
                    !doc_equals(library, "monitor", "default") ? doc_words(library, "monitor")
                                                               : "not chosen yet");
    if (doc_words(library, "monitor_why")[0])
        print_paragraph("Why this monitor: ", "%s", doc_words(library, "monitor_why"));
    if (!json_array_size(domains))
        print_paragraph("", "no domain is open");
    doc_each(domain, domains)
        print_domain(domain);
    print_counts(library);
    print_causes(library);
    print_times(library);
    print_rates(library);
    print_not_shown(library);
    print_unsteady(library);
}

static void print_process(const json_t *process)
{
    const json_t *library;

    print_heading("Process %" PRIu64 ", %s", doc_number(process, "pid"),
                  doc_words(process, "name"));
    doc_each(library, json_object_get(process, "libraries"))
        print_library(library);
}

static void print_unreadable(const json_t *document)
{
    if (!doc_number(document, "unreadable"))
        return;
    print_line("%" PRIu64 " processes of other users could not be looked into; try as root.",
               doc_number(document, "unreadable"));
}

static void print_left_out(const json_t *document)
{
    if (!doc_number(document, "left_out"))
        return;
    print_line("%" PRIu64 " processes were not read, or not wholly: the limits of one reading (see "
               "hmreg-stats(1)) are reached. `hmreg stats PID` reads one of them.",
               doc_number(document, "left_out"));
}

void stats_print_text(const json_t *document)
{
    const json_t *processes = json_object_get(document, "processes"), *process, *failure;

    print_line("hmreg %s, %s", doc_words(document, "hmreg"), doc_words(document, "time"));
    doc_each(process, processes)
        print_process(process);
    if (!json_array_size(processes) && !json_array_size(json_object_get(document, "failures")))
        print_line("No process shows counters of hmreg.");
    print_unreadable(document);
    print_left_out(document);
    doc_each(failure, json_object_get(document, "failures"))
        print_line("%s", json_string_value(failure));
}

/* ---- one line for all ------------------------------------------------------------------- */

static const char *const summed[] = {"hits", "misses", "uncached", "evictions", "invalidations"};

struct sums {
    uint64_t caches, regions, bytes;
    double rates[COUNT(summed)];
};

static void add_up(struct sums *sums, const json_t *library)
{
    const json_t *domain, *cache;

    FOR_EACH_CACHE(library, domain, cache) {
        const json_t *rate = json_object_get(cache, "per_second");

        sums->caches++;
        sums->regions += doc_number(cache, "regions");
        sums->bytes += doc_number(cache, "bytes");
        for (size_t k = 0; k < COUNT(summed); k++)
            sums->rates[k] += json_number_value(json_object_get(rate, summed[k]));
    }
}

void stats_print_line(const json_t *document, bool first)
{
    const json_t *process, *library;
    static const int widths[COUNT(summed)] = {9, 8, 10, 9, 13};
    struct sums sums = {0};
    char bytes[32];

    doc_each(process, json_object_get(document, "processes"))
        doc_each(library, json_object_get(process, "libraries"))
            add_up(&sums, library);
    if (first)
        puts("time                 caches  regions     bytes    hits/s misses/s uncached/s "
             "evicted/s invalidated/s");
    printf("%-20s %6" PRIu64 " %8" PRIu64 " %9s", doc_words(document, "time"), sums.caches,
           sums.regions, doc_bytes_words(sums.bytes, bytes));
    for (size_t k = 0; k < COUNT(summed); k++)
        if (first)
            printf(" %*s", widths[k], "-");
        else
            printf(" %*.0f", widths[k], sums.rates[k]);
    putchar('\n');
}
