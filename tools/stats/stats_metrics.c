/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The document of `hmreg stats` as metrics: samples for each domain and each cache of each process.
 */
#include "tools/document.h"
#include "tools/metrics.h"
#include "tools/stats/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A count of a cache. label: distinguishes samples of one family. */
struct source {
    const char *name, *help; /* NULL: the family of the source before it */
    const char *key;         /* "evictions_by_cause/limit" */
    const char *label, *value;
};

static const struct source counters[] = {
    {"hmreg_hits", "Gets that the cache served.", "hits", NULL, NULL},
    {"hmreg_misses", "Gets that registered, and cached the region.", "misses", NULL, NULL},
    {"hmreg_uncached", "Gets that registered, and did not cache the region.",
     "uncached_by_cause/full", "cause", "full"},
    {"hmreg_uncached", NULL, "uncached_by_cause/unwatched", "cause", "unwatched"},
    {"hmreg_uncached", NULL, "uncached_by_cause/other", "cause", "other"},
    {"hmreg_failures", "Gets whose registration failed.", "failures", NULL, NULL},
    {"hmreg_invalidations", "Regions whose memory was freed or changed.", "invalidations", NULL,
     NULL},
    {"hmreg_evictions", "Regions deregistered for others.", "evictions_by_cause/limit", "cause",
     "limit"},
    {"hmreg_evictions", NULL, "evictions_by_cause/memory", "cause", "memory"},
    {"hmreg_evictions", NULL, "evictions_by_cause/room", "cause", "room"},
    {"hmreg_evictions", NULL, "evictions_by_cause/keys", "cause", "keys"},
    {"hmreg_gave_way", "Idle regions that gave way to registrations outside the cache.",
     "gave_explicit", "to", "explicit"},
    {"hmreg_gave_way", NULL, "gave_others", "to", "other_domain"},
};

static const struct source gauges[] = {
    {"hmreg_regions", "Regions in the cache.", "regions", NULL, NULL},
    {"hmreg_regions_limit", "The most regions in the cache; absent without a limit.",
     "limit_regions", NULL, NULL},
    {"hmreg_bytes", "Bytes of the regions in the cache.", "bytes", NULL, NULL},
    {"hmreg_bytes_limit", "The most bytes in the cache; absent without a limit.", "limit_bytes",
     NULL, NULL},
    {"hmreg_retired_regions", "Regions out of the cache that are in use, or busy in the fabric.",
     "retired", NULL, NULL},
};

#define HISTOGRAM "hmreg_registration_seconds"
#define LOST      "hmreg_domain_lost"

/* ---- each domain and cache --------------------------------------------------------------- */

typedef void visitor(const struct metrics_labels *labels, const json_t *visited,
                     const void *context);

static void visit_domain(const json_t *domain, struct metrics_labels labels, visitor *visit,
                         const void *context)
{
    char number[24];

    snprintf(number, sizeof(number), "%" PRIu64, doc_number(domain, "number"));
    metrics_label(&labels, "domain", number);
    metrics_label(&labels, "provider", doc_words(domain, "provider"));
    metrics_label(&labels, "fabric", doc_words(domain, "fabric"));
    visit(&labels, domain, context);
}

static void visit_domains(const json_t *document, visitor *visit, const void *context)
{
    const json_t *process, *library, *domain;
    char pid[24], index[24];

    doc_each(process, json_object_get(document, "processes")) {
        snprintf(pid, sizeof(pid), "%" PRIu64, doc_number(process, "pid"));
        doc_each(library, json_object_get(process, "libraries")) {
            struct metrics_labels labels = {.count = 0};

            metrics_label(&labels, "pid", pid);
            metrics_label(&labels, "process", doc_words(process, "name"));
            snprintf(index, sizeof(index), "%zu", library_i);
            metrics_label(&labels, "library", index);
            doc_each(domain, json_object_get(library, "domains"))
                visit_domain(domain, labels, visit, context);
        }
    }
}

struct of_caches {
    visitor *visit;
    const void *context;
};

static void visit_caches_of(const struct metrics_labels *labels, const json_t *domain,
                            const void *context)
{
    const struct of_caches *caches = context;
    const json_t *cache;
    char device[24];

    doc_each(cache, json_object_get(domain, "caches")) {
        struct metrics_labels of = *labels;

        metrics_label(&of, "iface", doc_words(cache, "iface"));
        snprintf(device, sizeof(device), "%" PRIu64, doc_number(cache, "device"));
        metrics_label(&of, "device", doc_has(cache, "device") ? device : NULL);
        caches->visit(&of, cache, caches->context);
    }
}

static void visit_caches(const json_t *document, visitor *visit, const void *context)
{
    visit_domains(document, visit_caches_of, &(struct of_caches){visit, context});
}

/* ---- families ----------------------------------------------------------------------------- */

static const json_t *value_at(const json_t *cache, const char *key)
{
    const char *slash = strchr(key, '/');
    char first[32];

    if (!slash)
        return json_object_get(cache, key);
    snprintf(first, sizeof(first), "%.*s", (int)(slash - key), key);
    return json_object_get(json_object_get(cache, first), slash + 1);
}

struct sampled {
    const struct source *source;
    const char *suffix;
};

static void sample(const struct metrics_labels *labels, const json_t *cache, const void *context)
{
    const struct sampled *sampled = context;
    const json_t *value = value_at(cache, sampled->source->key);
    struct metrics_labels of = *labels;

    metrics_label(&of, sampled->source->label, sampled->source->value);
    if (json_is_number(value))
        metrics_sample(sampled->source->name, sampled->suffix, &of, json_number_value(value));
}

static void print_sources(const json_t *document, const struct source *sources, size_t count,
                          const char *type, const char *suffix)
{
    for (size_t i = 0; i < count; i++) {
        const struct sampled sampled = {&sources[i], suffix};

        if (sources[i].help)
            metrics_family(sources[i].name, type, sources[i].help);
        visit_caches(document, sample, &sampled);
    }
}

static void sample_times(const struct metrics_labels *labels, const json_t *cache,
                         const void *context)
{
    const json_t *registrations = json_object_get(cache, "registrations"), *time;
    struct metrics_labels of = *labels;
    double sum = 0;
    char below[32];

    doc_each(time, json_object_get(registrations, "times")) {
        uint64_t from = doc_number(time, "from_ns");
        struct metrics_labels bucket = of;

        sum += (double)doc_number(time, "count");
        snprintf(below, sizeof(below), "%.9g", (from ? 2.0 * (double)from : 2.0) / 1e9);
        metrics_label(&bucket, "le", below);
        metrics_sample(HISTOGRAM, "_bucket", &bucket, sum);
    }
    metrics_label(&of, "le", "+Inf");
    metrics_sample(HISTOGRAM, "_bucket", &of, (double)doc_number(registrations, "timed"));
    metrics_sample(HISTOGRAM, "_count", labels, (double)doc_number(registrations, "timed"));
    metrics_sample(HISTOGRAM, "_sum", labels, (double)doc_number(registrations, "ns") / 1e9);
}

static void sample_lost(const struct metrics_labels *labels, const json_t *domain,
                        const void *context)
{
    metrics_sample(LOST, "", labels, doc_is(domain, "lost"));
}

void stats_print_metrics(const json_t *document)
{
    print_sources(document, counters, COUNT(counters), "counter", "_total");
    print_sources(document, gauges, COUNT(gauges), "gauge", "");
    metrics_family(HISTOGRAM, "histogram", "How long registrations of cached regions took.");
    visit_caches(document, sample_times, NULL);
    metrics_family(LOST, "gauge", "1: the domain's NIC is gone (hmreg_domain_lost(3)).");
    visit_domains(document, sample_lost, NULL);
    metrics_end();
}
