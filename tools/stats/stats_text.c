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
static const char *time_words(double ns, char buf[CELL])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;

    for (; ns >= 1000 && unit + 1 < COUNT(units); unit++)
        ns /= 1000;
    snprintf(buf, CELL, unit ? "%.1f %s" : "%.0f %s", ns, units[unit]);
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

/* Iterates over the caches of a library that get a row, with their domains. */
#define FOR_EACH_CACHE(library, domain, cache)                                                     \
    doc_each(domain, json_object_get(library, "domains"))                                          \
        doc_each(cache, json_object_get(domain, "caches"))                                         \
            if (was_used(cache))

/* ---- tables of caches ------------------------------------------------------------------- */

static const char *cell_cache(const json_t *cache, char buf[CELL], json_t *notes)
{
    if (doc_has(cache, "device"))
        return doc_device_words(cache, buf);
    snprintf(buf, CELL, "%s, host", doc_words(cache, "iface"));
    return buf;
}

static const char *cell_regions(const json_t *cache, char buf[CELL], json_t *notes)
{
    size_t used = (size_t)snprintf(buf, CELL, "%" PRIu64, doc_number(cache, "regions"));

    if (doc_has(cache, "limit_regions"))
        snprintf(buf + used, CELL - used, " of %" PRIu64, doc_number(cache, "limit_regions"));
    return buf;
}

static const char *cell_hit_rate(const json_t *cache, char buf[CELL], json_t *notes)
{
    uint64_t gets = gets_of(cache);

    if (!gets)
        return "";
    snprintf(buf, CELL, "%.1f%%", 100.0 * (double)doc_number(cache, "hits") / (double)gets);
    return buf;
}

static const char *cell_time(const json_t *ns, char buf[CELL], json_t *notes)
{
    return time_words(json_number_value(ns), buf);
}

static const char *cell_mean(const json_t *registrations, char buf[CELL], json_t *notes)
{
    return time_words(
        (double)doc_number(registrations, "ns") / (double)doc_number(registrations, "timed"), buf);
}

/* The time that this fraction of registrations stays below, rounded up to a power of two, but never
 * above the longest. */
static const char *time_below(const json_t *registrations, double part, char buf[CELL])
{
    double wanted = part * (double)doc_number(registrations, "timed"), sum = 0;
    double longest = (double)doc_number(registrations, "longest_ns");
    const json_t *time;

    doc_each(time, json_object_get(registrations, "times")) {
        double from = (double)doc_number(time, "from_ns"), below = from > 0 ? 2 * from : 2;

        sum += (double)doc_number(time, "count");
        if (sum >= wanted)
            return time_words(below < longest ? below : longest, buf);
    }
    return time_words(0, buf);
}

static const char *cell_half(const json_t *registrations, char buf[CELL], json_t *notes)
{
    return time_below(registrations, 0.5, buf);
}

static const char *cell_most(const json_t *registrations, char buf[CELL], json_t *notes)
{
    return time_below(registrations, 0.99, buf);
}

static const char *cell_rate(const json_t *rate, char buf[CELL], json_t *notes)
{
    snprintf(buf, CELL, "%.0f", json_number_value(rate));
    return buf;
}

static bool has_evicted(const json_t *cache)
{
    return doc_number(cache, "evictions");
}

static bool was_timed(const json_t *cache)
{
    return doc_number(json_object_get(cache, "registrations"), "timed");
}

static bool has_rates(const json_t *cache)
{
    return json_is_object(json_object_get(cache, "per_second"));
}

/* Most terminals are narrow: a rare count that is always 0 gets no column. */
static const struct column counts[] = {COLUMN(">domain", "of"),
                                       COLUMN("cache", NULL, .cell = cell_cache),
                                       COLUMN(">regions", NULL, .cell = cell_regions),
                                       COLUMN(">bytes", "bytes", .cell = cell_bytes),
                                       COLUMN(">hits", "hits"),
                                       COLUMN(">hit rate", NULL, .cell = cell_hit_rate),
                                       COLUMN(">misses", "misses"),
                                       COLUMN(">uncached", "uncached", .usual = "0"),
                                       COLUMN(">evicted", "evictions", .usual = "0"),
                                       COLUMN(">invalidated", "invalidations", .usual = "0"),
                                       COLUMN(">retired", "retired", .usual = "0"),
                                       COLUMN(">failed", "failures", .usual = "0"),
                                       {0}};
static const struct column causes[] = {
    COLUMN(">domain", "of"),
    COLUMN("cache", NULL, .cell = cell_cache),
    COLUMN(">evicted: limit", "evictions_by_cause/limit"),
    COLUMN(">no memory", "evictions_by_cause/memory"),
    COLUMN(">no room", "evictions_by_cause/room"),
    COLUMN(">no key", "evictions_by_cause/keys"),
    COLUMN(">for explicit regions", "gave_explicit", .usual = "0"),
    COLUMN(">for other domains", "gave_others", .usual = "0"),
    {0}};
static const struct column times[] = {
    COLUMN(">domain", "of"),
    COLUMN("cache", NULL, .cell = cell_cache),
    COLUMN(">timed", "registrations/timed"),
    COLUMN(">mean", "registrations", .cell = cell_mean),
    COLUMN(">half below", "registrations", .cell = cell_half),
    COLUMN(">99% below", "registrations", .cell = cell_most),
    COLUMN(">longest", "registrations/longest_ns", .cell = cell_time),
    {0}};
static const struct column rates[] = {
    COLUMN(">domain", "of"),
    COLUMN("cache", NULL, .cell = cell_cache),
    COLUMN(">hits/s", "per_second/hits", .cell = cell_rate),
    COLUMN(">misses/s", "per_second/misses", .cell = cell_rate),
    COLUMN(">evicted/s", "per_second/evictions", .cell = cell_rate),
    COLUMN(">invalidated/s", "per_second/invalidations", .cell = cell_rate),
    {0}};

static const struct {
    const struct column *columns;
    bool (*wants)(const json_t *cache);
} tables[] = {{counts, was_used}, {causes, has_evicted}, {times, was_timed}, {rates, has_rates}};

/* Prints each table that has rows after an empty line. A row is a cache with its domain's number
 * ("of"). */
static void print_caches(const json_t *library)
{
    const json_t *domain, *cache;

    for (size_t i = 0; i < COUNT(tables); i++) {
        json_t *rows = doc_array(), *row;

        FOR_EACH_CACHE(library, domain, cache) {
            if (!tables[i].wants(cache))
                continue;
            row = doc_made(json_copy((json_t *)(uintptr_t)cache));
            doc_set(row, "of", json_incref(json_object_get(domain, "number")));
            doc_add(rows, row);
        }
        if (json_array_size(rows))
            putchar('\n');
        print_rows(tables[i].columns, rows);
        json_decref(rows);
    }
}

/* ---- libraries and processes ------------------------------------------------------------ */

static void print_domain(const json_t *domain)
{
    char mark[32];

    snprintf(mark, sizeof(mark), "domain %" PRIu64 ": ", doc_number(domain, "number"));
    print_paragraph(
        mark, "%s, %s%s%s", doc_words(domain, "provider"), doc_words(domain, "fabric"),
        doc_is(domain, "caching") ? "" : "; it caches nothing",
        doc_is(domain, "lost") ? "; it is lost: if the NIC comes back, open another domain" : "");
}

static void print_not_shown(const json_t *library)
{
    const json_t *lost = json_object_get(library, "not_shown");

    if (!doc_number(lost, "domains") && !doc_number(lost, "caches") && !doc_number(lost, "threads"))
        return;
    print_paragraph("",
                    "Not shown, because the memory file is full: %" PRIu64 " domains, %" PRIu64
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
        print_paragraph("", "Some of these numbers are inconsistent: a cache changed during each "
                            "attempt to read it, or its process ended during a change.");
}

static void print_library(const json_t *library)
{
    const json_t *domains = json_object_get(library, "domains"), *domain;

    if (doc_has(library, "error")) {
        print_paragraph("Its counters cannot be read: ", "%s", doc_words(library, "error"));
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
    print_caches(library);
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
    print_line("%" PRIu64 " processes of other users may not be inspected; try as root.",
               doc_number(document, "unreadable"));
}

static void print_left_out(const json_t *document)
{
    if (!doc_number(document, "left_out"))
        return;
    print_line("%" PRIu64 " processes were not read, or only partly: this reading reached its "
               "limits (see hmreg-stats(1)). `hmreg stats PID` reads one of them.",
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
