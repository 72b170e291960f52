/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg stats: cache statistics of running processes, read from outside without disturbing them.
 */
#include "tools/command.h"
#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/progress.h"
#include "tools/stats/stats.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_WATCH 86400

struct options {
    bool json, metrics;
    pid_t pid;        /* 0: all */
    unsigned seconds; /* between two readings; 0: read once */
};

/* ---- one reading ------------------------------------------------------------------------ */

static json_t *read_document(const struct options *options)
{
    json_t *document = doc_new("stats"), *failures = doc_array();
    char why[512];

    if (!options->pid)
        stats_find_all(document);
    else if (!stats_find_one(document, options->pid, why))
        doc_add(failures, doc_text(why));
    doc_set(document, "failures", failures);
    return document;
}

/* ---- differences between two readings --------------------------------------------------- */

/* The counts of the last reading, keyed by a name for each cache. */
struct history {
    json_t *counts;
    struct timespec at;
};

static const char *const rated[] = {"hits", "misses", "uncached", "evictions", "invalidations"};

static json_t *rates_of(const json_t *cache, const json_t *before, double seconds)
{
    json_t *rates;

    if (!before || seconds <= 0)
        return json_null();
    rates = doc_object();
    for (size_t i = 0; i < COUNT(rated); i++) {
        double more = (double)doc_number(cache, rated[i]) - (double)doc_number(before, rated[i]);

        doc_set(rates, rated[i], doc_made(json_real(more > 0 ? more / seconds : 0)));
    }
    return rates;
}

static json_t *counts_of(const json_t *cache)
{
    json_t *counts = doc_object();

    for (size_t i = 0; i < COUNT(rated); i++)
        doc_set(counts, rated[i], doc_made(json_integer((json_int_t)doc_number(cache, rated[i]))));
    return counts;
}

static void rate_cache(json_t *cache, const char *name, struct history *history, json_t *counts,
                       double seconds)
{
    doc_set(cache, "per_second", rates_of(cache, json_object_get(history->counts, name), seconds));
    doc_set(counts, name, counts_of(cache));
}

static void rate_process(json_t *process, struct history *history, json_t *counts, double seconds)
{
    json_t *library, *domain, *cache;
    size_t i, k;

    json_array_foreach(json_object_get(process, "libraries"), i, library)
        doc_each(domain, json_object_get(library, "domains"))
            json_array_foreach(json_object_get(domain, "caches"), k, cache) {
                char name[128];

                snprintf(name, sizeof(name), "%llu/%zu/%llu/%s/%zu",
                         (unsigned long long)doc_number(process, "pid"), i,
                         (unsigned long long)doc_number(domain, "number"),
                         doc_words(cache, "iface"), k);
                rate_cache(cache, name, history, counts, seconds);
            }
}

static void rate(json_t *document, struct history *history)
{
    json_t *counts = doc_object(), *process;
    struct timespec now;
    double seconds;

    clock_gettime(CLOCK_MONOTONIC, &now);
    seconds = (double)(now.tv_sec - history->at.tv_sec) +
              (double)(now.tv_nsec - history->at.tv_nsec) / 1e9;
    doc_each(process, json_object_get(document, "processes"))
        rate_process(process, history, counts, seconds);
    json_decref(history->counts);
    *history = (struct history){counts, now};
}

/* ---- the command ------------------------------------------------------------------------ */

/* Prints one reading. */
static void print(const json_t *document, const struct options *options)
{
    if (options->json)
        doc_print_json(document);
    else if (options->metrics)
        stats_print_metrics(document);
    else
        stats_print_text(document);
}

/* Prints a reading of --watch: on a terminal in place of the last one; elsewhere as one line, for
 * programs and for later. */
static void print_next(const json_t *document, const struct options *options, bool first)
{
    if (options->json) {
        json_dumpf(document, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (progress_terminal(STDOUT_FILENO)) {
        fputs("\033[H\033[2J", stdout);
        stats_print_text(document);
    } else if (json_array_size(json_object_get(document, "failures"))) {
        stats_print_text(document);
    } else {
        stats_print_line(document, first);
    }
}

static int print_once(const struct options *options)
{
    json_t *document = read_document(options);
    int status = command_failures(document);

    print(document, options);
    json_decref(document);
    return status;
}

/* Repeats until the watched process publishes nothing any more; the first reading must succeed. */
static int watch(const struct options *options)
{
    const struct timespec pause = {.tv_sec = options->seconds};
    struct history history = {0};
    int looks = 0;

    for (;; looks++) {
        json_t *document = read_document(options);
        bool failed = json_array_size(json_object_get(document, "failures")) > 0;

        rate(document, &history);
        if (!failed || !looks)
            print_next(document, options, !looks);
        json_decref(document);
        if (fflush(stdout) || failed)
            break;
        nanosleep(&pause, NULL);
    }
    json_decref(history.counts);
    return looks ? EXIT_GOOD : EXIT_FAILED;
}

static int run(const struct command *self, int argc, char **argv)
{
    struct options options = {0};
    int status = options_parse(self, argc, argv, &options);

    if (status != EXIT_CONTINUE)
        return status;
    if (options.metrics && (options.json || options.seconds)) {
        print_error("hmreg stats: --openmetrics excludes --json and --watch");
        return EXIT_USAGE;
    }
    return options.seconds ? watch(&options) : print_once(&options);
}

/* ---- options ---------------------------------------------------------------------------- */

static const char *take_pid(const char *value, void *options)
{
    long pid;

    if (!options_number(value, 1, INT_MAX, &pid))
        return "the number of a process is accepted";
    ((struct options *)options)->pid = (pid_t)pid;
    return NULL;
}

static const struct option_def options[] = {
    OPTION_NUMBER("watch", "SECONDS", "read again at this interval, until interrupted",
                  offsetof(struct options, seconds), 1, LONGEST_WATCH,
                  "whole seconds are accepted, from 1 to 86400"),
    OPTION_FLAG("openmetrics", "metrics for Prometheus instead of tables",
                offsetof(struct options, metrics)),
    OPTION_JSON("JSON instead of tables; its keys are in hmreg-stats(1)"),
    {0},
};

const struct command command_stats = {
    .name = "stats",
    .summary = "show the counters of the caches of running processes",
    .description = "Shows the counters of processes that use hmreg: of PID, or of all that this\n"
                   "user may read. It neither stops nor slows a process. One row for each cache\n"
                   "that was used, without columns of zeros:\n"
                   "  regions      in the cache now; the limit\n"
                   "  hits         gets served from the cache\n"
                   "  misses       gets that registered and cached the region\n"
                   "  uncached     gets that registered and did not cache it\n"
                   "  evicted      regions deregistered for others: at a limit, or because the\n"
                   "               fabric had no memory, no room or no key for another\n"
                   "  invalidated  regions whose memory was freed or changed\n"
                   "  retired      out of the cache, but still in use, or busy in the fabric\n"
                   "  failed       gets whose registration failed\n"
                   "and how long registrations took. --watch adds what happened per second: on a\n"
                   "terminal in place, elsewhere one line for each look at all caches together.\n"
                   "What the numbers mean, and what to do about them: hmreg-stats(1).\n",
    .examples = "  hmreg stats\n"
                "  hmreg stats 4711 --watch 1\n"
                "  hmreg stats --json | jq '.processes[].libraries[].domains[].caches[].hits'\n",
    .failed = "PID does not exist, publishes nothing, or may not be inspected",
    .operand = "PID",
    .take_operand = take_pid,
    .options = options,
    .run = run,
};
