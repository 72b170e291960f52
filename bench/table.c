/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * All targets. The first rows show, in one view, the targets of the default monitor, and the same
 * under userfaultfd; the parts with all measurements follow.
 */
#include "bench/table.h"

#include "bench/subject.h"

/* The targets of the default, and the results with userfaultfd. */
#define REACH_HITS(part, who, n, words, target)                                                    \
    {                                                                                              \
        part, "get + put, " words ", ns", "hits-" #n, who, NULL, WHO_UCX, RATIO, target            \
    }

#define REACH_FILTERED(part, who, n, words)                                                        \
    {                                                                                              \
        part, "in a container, " words ", ns", "hits-filtered-" #n, who, NULL, WHO_UCX, RATIO,     \
            1 / 8.0                                                                                \
    }

#define REACH_MISS(part, who, words, measure)                                                      \
    {                                                                                              \
        part, "miss, " words ", ns", measure, who, NULL, WHO_UCX, RATIO, 1.5                       \
    }

#define REACH_PROGRAM(part, who, words, measure, target)                                           \
    {                                                                                              \
        part, "program: " words, measure, who, NULL, "without hmreg", RATIO, target                \
    }

#define REACH(part, who)                                                                           \
    REACH_HITS(part, who, 1, "1 region", 1 / 8.0),                                                 \
        REACH_HITS(part, who, 10, "10 regions", 1 / 8.0),                                          \
        REACH_HITS(part, who, 100, "100 regions", 1 / 8.0),                                        \
        REACH_HITS(part, who, 1000, "1,000 regions", 1 / 8.0),                                     \
        REACH_HITS(part, who, 10000, "10,000 regions", 1 / 5.0),                                   \
        REACH_HITS(part, who, 100000, "100,000 regions", 1 / 4.0),                                 \
        REACH_FILTERED(part, who, 1, "1 region"), REACH_FILTERED(part, who, 10, "10 regions"),     \
        REACH_FILTERED(part, who, 100, "100 regions"),                                             \
        REACH_FILTERED(part, who, 1000, "1,000 regions"),                                          \
        REACH_MISS(part, who, "new, into a new cache", "miss-first"),                              \
        REACH_MISS(part, who, "new, into a flushed cache", "miss-again"),                          \
        REACH_MISS(part, who, "evicting", "miss-evicting"),                                        \
        REACH_PROGRAM(part, who, "realloc of 64 MiB that moves, us", "program-realloc", 1.05),     \
        REACH_PROGRAM(part, who, "realloc of 64 MiB in place, us", "program-realloc-in-place",     \
                      1.05),                                                                       \
        REACH_PROGRAM(part, who, "mremap of 64 MiB by pages, us", "program-mremap", 1.05),         \
        REACH_PROGRAM(part, who, "mremap of 64 MiB by tables, us", "program-mremap-tables", 1.05), \
        REACH_PROGRAM(part, who, "page fault, ns", "program-fault", 1.05),                         \
        REACH_PROGRAM(part, who, "fork, us", "program-fork", 1.05),                                \
        REACH_PROGRAM(part, who, "touching 32 huge MiB, us", "program-huge", 1.05),                \
        REACH_PROGRAM(part, who, "pages that hold these 32 MiB", "program-huge-pages", 1.05),      \
        REACH_PROGRAM(part, who, "munmap, cached, median, ns", "program-unmap", 2),                \
        REACH_PROGRAM(part, who, "the same, busy, p99.9, us", "program-unmap-busy", 2),            \
    {                                                                                              \
        part, "bytes a region, 100,000 regions", "footprint-100000", who, NULL, WHO_UCX, VALUE,    \
            160                                                                                    \
    }

#define REGION(n, words, who)                                                                      \
    {                                                                                              \
        "get + put, 1 thread, ns", words, "hits-" #n, who, NULL, WHO_UCX, REPORTED, 0              \
    }

#define REGIONS(n, words)                                                                          \
    REGION(n, words, WHO_DEFAULT), REGION(n, words, WHO_NOTICE), REGION(n, words, WHO_IMPORT),     \
        REGION(n, words, WHO_USERFAULT)

/* A target of 0 means no target. */
#define BESIDE(words, measure, who, beside)                                                        \
    {                                                                                              \
        "get + put, 1 thread, ns", words, measure, who, NULL, beside, REPORTED, 0                  \
    }

/* Hits on device memory whose end is reported. */
#define DEVICES_ON(n, words, who, rails)                                                           \
    {                                                                                              \
        "hit of device memory whose end is reported, ns", words, "device-hit-" #n, who rails,      \
            NULL, WHO_HOST rails, RATIO, 1.2                                                       \
    }
#define DEVICES(n, words)                                                                          \
    DEVICES_ON(n, words, WHO_CUDA, ""), DEVICES_ON(n, words, WHO_ROCR, ""),                        \
        DEVICES_ON(n, words, WHO_ZE, ""), DEVICES_ON(n, words, WHO_CUDA, ", 8 rails"),             \
        DEVICES_ON(n, words, WHO_ROCR, ", 8 rails"), DEVICES_ON(n, words, WHO_ZE, ", 8 rails")

/* Until the provider deregisters freed device memory. Targets, in ms: what the documents promise.
 */
#define FREED(who, target)                                                                         \
    {"freed device memory: until it is deregistered, ms",                                          \
     "median of a turn",                                                                           \
     "freed-median",                                                                               \
     who,                                                                                          \
     NULL,                                                                                         \
     NULL,                                                                                         \
     VALUE,                                                                                        \
     target},                                                                                      \
    {                                                                                              \
        "freed device memory: until it is deregistered, ms", "longest of a turn", "freed-longest", \
            who, NULL, NULL, WORST, target                                                         \
    }

#define GROUPS(n, words)                                                                           \
    {"get + put on 8 rails, ns",                                                                   \
     words ", beside one domain",                                                                  \
     "hits-group-" #n,                                                                             \
     WHO_GROUP,                                                                                    \
     NULL,                                                                                         \
     WHO_DEFAULT,                                                                                  \
     RATIO,                                                                                        \
     1.3},                                                                                         \
    {                                                                                              \
        "get + put on 8 rails, ns", words ", beside a get on each of 8 domains", "hits-group-" #n, \
            WHO_GROUP, NULL, WHO_EIGHT, REPORTED, 0                                                \
    }

#define MANY(words, measure, who, judge, target)                                                   \
    {                                                                                              \
        "64 buffers in one call beside 64 calls, ns a buffer", words, measure,                     \
            who ", 64 in one call", NULL, who, judge, target                                       \
    }

#define MANY_OVER(n, words, who, judge, target)                                                    \
    MANY("get, " words, "many-get-" #n, who, judge, target),                                       \
        MANY("put, " words, "many-put-" #n, who, REPORTED, 0),                                     \
        MANY("get + put, " words, "many-both-" #n, who, judge, target)

#define CREW(words, measure, who)                                                                  \
    {                                                                                              \
        "get + put, 2 threads beside 2 processes, ns", words, measure, who ", 2 threads", NULL,    \
            who ", 2 processes", RATIO, 1.15                                                       \
    }

#define CREWS(words, measure)                                                                      \
    CREW(words, measure, WHO_NOTICE), CREW(words, measure, WHO_IMPORT),                            \
        CREW(words, measure, WHO_DEFAULT), CREW(words, measure, WHO_USERFAULT),                    \
    {                                                                                              \
        "get + put, 2 threads beside 2 processes, ns", words, measure, WHO_UCX ", 2 threads",      \
            NULL, WHO_UCX ", 2 processes", REPORTED, 0                                             \
    }

#define INSTRUCTIONS(words, measure, who)                                                          \
    {                                                                                              \
        "get + put, 100 regions, instructions", words, measure, who, "instructions", WHO_UCX,      \
            REPORTED, 0                                                                            \
    }

#define MISS(words, measure, who, judge, target)                                                   \
    {                                                                                              \
        "miss beyond the provider, 10,000 regions, ns", words, measure, who, NULL, WHO_UCX, judge, \
            target                                                                                 \
    }

#define MISSES(words, measure)                                                                     \
    MISS(words, measure, WHO_NOTICE, REPORTED, 0), MISS(words, measure, WHO_IMPORT, REPORTED, 0),  \
        MISS(words, measure, WHO_DEFAULT, REPORTED, 0),                                            \
        MISS(words, measure, WHO_USERFAULT, REPORTED, 0),                                          \
        MISS(words, measure, "bare watching", REPORTED, 0)

#define STALLS_OF(who, judge_mean, judge_worst)                                                    \
    {"hits while another thread registers, 200 us each",                                           \
     "mean, ns, beside idle",                                                                      \
     "stall-mean-registering",                                                                     \
     who,                                                                                          \
     "stall-mean-idle",                                                                            \
     who,                                                                                          \
     judge_mean,                                                                                   \
     1.2},                                                                                         \
        {"hits while another thread registers, 200 us each",                                       \
         "mean, ns, beside spinning",                                                              \
         "stall-mean-registering",                                                                 \
         who,                                                                                      \
         "stall-mean-spinning",                                                                    \
         who,                                                                                      \
         REPORTED,                                                                                 \
         0},                                                                                       \
        {"hits while another thread registers, 200 us each",                                       \
         "longest wait for a lock, us",                                                            \
         "stall-slept-registering",                                                                \
         who,                                                                                      \
         "stall-slept-spinning",                                                                   \
         who,                                                                                      \
         judge_worst,                                                                              \
         20},                                                                                      \
        {"hits while another thread registers, 200 us each",                                       \
         "longest hit, us, beside spinning",                                                       \
         "stall-longest-registering",                                                              \
         who,                                                                                      \
         "stall-longest-spinning",                                                                 \
         who,                                                                                      \
         REPORTED,                                                                                 \
         0},                                                                                       \
    {                                                                                              \
        "hits while another thread registers, 200 us each", "p99.9, us, beside spinning",          \
            "stall-p999-registering", who, "stall-p999-spinning", who, REPORTED, 0                 \
    }

#define INVALIDATION(who)                                                                          \
    {"invalidating all of 100,000 regions",                                                        \
     "in all, ms",                                                                                 \
     "invalidate-total",                                                                           \
     who,                                                                                          \
     NULL,                                                                                         \
     NULL,                                                                                         \
     REPORTED,                                                                                     \
     0},                                                                                           \
        {"invalidating all of 100,000 regions",                                                    \
         "another cache's hits, ns, beside spinning",                                              \
         "invalidate-mean-during",                                                                 \
         who,                                                                                      \
         "invalidate-mean-spinning",                                                               \
         who,                                                                                      \
         RATIO,                                                                                    \
         1.2},                                                                                     \
    {                                                                                              \
        "invalidating all of 100,000 regions", "another cache's longest wait, us",                 \
            "invalidate-slept-during", who, "invalidate-slept-spinning", who, WORST, 20            \
    }

#define HELD(who)                                                                                  \
    {"invalidating all of 100,000 regions",                                                        \
     "longest hold of a lock, us",                                                                 \
     "invalidate-held",                                                                            \
     who,                                                                                          \
     NULL,                                                                                         \
     NULL,                                                                                         \
     VALUE,                                                                                        \
     100},                                                                                         \
        {"invalidating all of 100,000 regions",                                                    \
         "the same, by the holder's clock",                                                        \
         "invalidate-held-own",                                                                    \
         who,                                                                                      \
         NULL,                                                                                     \
         NULL,                                                                                     \
         REPORTED,                                                                                 \
         0},                                                                                       \
        {"invalidating all of 100,000 regions",                                                    \
         "longest hold in the flush after it, us",                                                 \
         "invalidate-flush-held",                                                                  \
         who,                                                                                      \
         NULL,                                                                                     \
         NULL,                                                                                     \
         VALUE,                                                                                    \
         100},                                                                                     \
    {                                                                                              \
        "invalidating all of 100,000 regions", "the same, by the holder's clock",                  \
            "invalidate-flush-held-own", who, NULL, NULL, REPORTED, 0                              \
    }

/* The work of the library in one call is bounded (CACHE_WORK_MOST). */
#define PAUSE(n, words, who, title, measure, judge, target)                                        \
    {                                                                                              \
        "longest calls beside " words " regions", title, measure "-" #n, who, NULL,                \
            WHO_UCX_EVENTS, judge, target                                                          \
    }

#define PAUSES_OF(n, words, who)                                                                   \
    PAUSE(n, words, who, "get while the cache fills, us", "pause-fill", VALUE, 200),               \
        PAUSE(n, words, who, "munmap of all of them, us", "pause-unmap", VALUE, 200),              \
        PAUSE(n, words, who, "get of other memory after it, us", "pause-after", VALUE, 200),       \
        PAUSE(n, words, who, "closing, ns a region", "pause-close", VALUE, 1000),                  \
        PAUSE(n, words, who, "fork, more than without them, ms", "pause-fork", REPORTED, 0)

#define PAUSES(n, words) PAUSES_OF(n, words, WHO_DEFAULT), PAUSES_OF(n, words, WHO_USERFAULT)

#define BYTES(words, n, who)                                                                       \
    {                                                                                              \
        "memory of a cached region, bytes", words, "footprint-" #n, who, NULL, WHO_UCX, VALUE, 160 \
    }

#define FOOTPRINT(words, n)                                                                        \
    BYTES(words, n, WHO_DEFAULT), BYTES(words, n, WHO_NOTICE), BYTES(words, n, WHO_IMPORT),        \
        BYTES(words, n, WHO_USERFAULT)

#define UNMAP(monitor)                                                                             \
    {"munmap, 64 KiB, ns",                                                                         \
     "not watched",                                                                                \
     "unmap-unwatched",                                                                            \
     monitor,                                                                                      \
     NULL,                                                                                         \
     "disabled",                                                                                   \
     RATIO,                                                                                        \
     1.05},                                                                                        \
        {"munmap, 64 KiB, ns",                                                                     \
         "not watched, beside a process without it",                                               \
         "unmap-unwatched",                                                                        \
         monitor,                                                                                  \
         NULL,                                                                                     \
         "without hmreg",                                                                          \
         REPORTED,                                                                                 \
         0},                                                                                       \
        {"munmap, 64 KiB, ns",                                                                     \
         "not watched, its neighbour is",                                                          \
         "unmap-beside",                                                                           \
         monitor,                                                                                  \
         NULL,                                                                                     \
         "disabled",                                                                               \
         RATIO,                                                                                    \
         1.05},                                                                                    \
    {                                                                                              \
        "munmap, 64 KiB, ns", "cached", "unmap-cached", monitor, NULL, "without hmreg", REPORTED,  \
            0                                                                                      \
    }

/* A target of 0 means no target. */
#define REMOTES_OF(who, words, measure, target)                                                    \
    {                                                                                              \
        "tokens and remotes", words, measure, who, NULL, NULL, (target) > 0 ? VALUE : REPORTED,    \
            target                                                                                 \
    }

#define REMOTES(words, measure, target)                                                            \
    REMOTES_OF("hmreg", words, measure, target),                                                   \
        REMOTES_OF("hmreg loopback", words, measure, target)

/* Targets: for host memory that no simulated runtime is asked about. */
#define EXPLICIT(who, reg, close)                                                                  \
    {"explicit registration, 4 KiB, ns",                                                           \
     "registering, beside libfabric alone",                                                        \
     "explicit-reg",                                                                               \
     who,                                                                                          \
     "explicit-bare-reg",                                                                          \
     who,                                                                                          \
     REPORTED,                                                                                     \
     0},                                                                                           \
        {"explicit registration, 4 KiB, ns",                                                       \
         "closing, beside libfabric alone",                                                        \
         "explicit-close",                                                                         \
         who,                                                                                      \
         "explicit-bare-close",                                                                    \
         who,                                                                                      \
         REPORTED,                                                                                 \
         0},                                                                                       \
        {"explicit registration, 4 KiB, ns",                                                       \
         "registering, more than libfabric alone",                                                 \
         "explicit-reg-above",                                                                     \
         who,                                                                                      \
         NULL,                                                                                     \
         NULL,                                                                                     \
         (reg) > 0 ? VALUE : REPORTED,                                                             \
         reg},                                                                                     \
    {                                                                                              \
        "explicit registration, 4 KiB, ns", "closing, more than libfabric alone",                  \
            "explicit-close-above", who, NULL, NULL, (close) > 0 ? VALUE : REPORTED, close         \
    }

/* Two workers are 1.6 times as fast as one, where two threads without hmreg are; what hmreg chooses
 * is never slower. */
#define LARGE_OF(words, measure, who, beside, target)                                              \
    {                                                                                              \
        "a large range, ms/GiB", words, measure, who, NULL, beside,                                \
            (target) > 0 ? RATIO : REPORTED, target                                                \
    }

#define LARGE(words, measure)                                                                      \
    LARGE_OF(words, measure, "two workers", "one worker", 0.625),                                  \
        LARGE_OF(words, measure, "as hmreg chooses", "one worker", 1.05),                          \
        LARGE_OF(words, measure, "two threads, bare calls", "one worker", 0)

static const struct row rows[] = {
    REACH("the default monitor: what must be reached", WHO_DEFAULT),
    REACH("userfaultfd, chosen: the same", WHO_USERFAULT),

    REGIONS(1, "1 region"),
    REGIONS(10, "10 regions"),
    REGIONS(100, "100 regions"),
    REGIONS(1000, "1,000 regions"),
    REGIONS(10000, "10,000 regions"),
    REGIONS(100000, "100,000 regions"),
    REGIONS(1000000, "1,000,000 regions"),
    BESIDE("1,000 regions, scattered", "hits-scattered-1000", WHO_DEFAULT, WHO_UCX),
    BESIDE("10,000 regions, scattered", "hits-scattered-10000", WHO_DEFAULT, WHO_UCX),
    BESIDE("100,000 regions, scattered", "hits-scattered-100000", WHO_DEFAULT, WHO_UCX),
    BESIDE("parts of one region, other ones each time", "hits-parts", WHO_DEFAULT, WHO_UCX),
    BESIDE("1 region: the floor of two calls", "hits-1", WHO_EMPTY, WHO_UCX),
    BESIDE("1,000 regions: the floor of two calls", "hits-1000", WHO_EMPTY, WHO_UCX),
    BESIDE("1 region: the kernel's floor", "hits-1", WHO_USERFAULT, "bare ioctl"),
    BESIDE("1 region: the kernel's floor", "hits-1", WHO_USERFAULT, "bare getpid"),
    BESIDE("1,000 regions", "hits-1000", WHO_IMPORT, "libfabric tcp, no cache"),
    BESIDE("1,000 regions", "hits-1000", WHO_IMPORT, "libfabric shm, no cache"),

    GROUPS(1, "1 region"),
    GROUPS(100, "100 regions"),
    GROUPS(10000, "10,000 regions"),

    MANY_OVER(64, "64 regions", WHO_DEFAULT, RATIO, 0.6),
    MANY_OVER(1024, "1,024 regions", WHO_DEFAULT, RATIO, 0.6),
    MANY_OVER(65536, "65,536 regions", WHO_DEFAULT, REPORTED, 0),
    MANY_OVER(64, "64 regions", WHO_USERFAULT, RATIO, 0.6),
    MANY_OVER(1024, "1,024 regions", WHO_USERFAULT, RATIO, 0.6),
    MANY_OVER(65536, "65,536 regions", WHO_USERFAULT, REPORTED, 0),

    CREWS("1,000 regions each", "threads-distinct-1000"),
    CREWS("the same region", "threads-same-1"),
    CREWS("the same 1,000 regions", "threads-same-1000"),

    INSTRUCTIONS("callgrind", "instructions", WHO_IMPORT),
    INSTRUCTIONS("single steps", "instructions-stepped", WHO_IMPORT),
    INSTRUCTIONS("single steps", "instructions-stepped", WHO_NOTICE),
    INSTRUCTIONS("single steps", "instructions-stepped", WHO_DEFAULT),
    {"get + put, 100 regions, instructions", "single steps, beside single calls",
     "instructions-stepped", WHO_DEFAULT_MANY, NULL, WHO_DEFAULT, REPORTED, 0},
    INSTRUCTIONS("single steps, kernel not counted", "instructions-stepped", WHO_USERFAULT),

    MISSES("the first get of all, us", "miss-opening"),
    MISSES("into a new cache", "miss-first"),
    MISSES("into a flushed cache", "miss-again"),
    MISSES("evicting one each", "miss-evicting"),

    STALLS_OF(WHO_NOTICE, RATIO, WORST),
    STALLS_OF(WHO_IMPORT, RATIO, WORST),
    STALLS_OF(WHO_DEFAULT, RATIO, WORST),
    STALLS_OF(WHO_USERFAULT, RATIO, WORST),
    STALLS_OF(WHO_UCX, REPORTED, REPORTED),

    INVALIDATION(WHO_NOTICE),
    INVALIDATION(WHO_IMPORT),
    INVALIDATION(WHO_NOTICE ", munmap"),
    INVALIDATION(WHO_USERFAULT ", munmap"),
    HELD(WHO_NOTICE),
    HELD(WHO_IMPORT),
    HELD(WHO_USERFAULT),

    PAUSES(100000, "100,000"),
    PAUSES(1000000, "1,000,000"),
    FOOTPRINT("100,000 regions", 100000),
    FOOTPRINT("1,000,000 regions", 1000000),

    DEVICES(1, "1 region"),
    DEVICES(100, "100 regions"),
    DEVICES(10000, "10,000 regions"),

    {"hit of CUDA memory, identity checked, ns", "100 regions", "device-asks",
     WHO_DEFAULT ", simulated", NULL, "driver, simulated", RATIO, 1.15},
    {"hit of CUDA memory, identity checked, ns", "100 regions", "device-asks", WHO_DEFAULT ", GPU",
     NULL, "driver, GPU", RATIO, 1.15},
    {"cuMemFree of nothing, ns", "with a hook", "device-free", "hooked, simulated", NULL,
     "not hooked, simulated", MORE, 30},

    FREED(WHO_CUDA, 10),
    FREED(WHO_ROCR, 10),
    FREED(WHO_ZE, 10),
    FREED(WHO_CUDA ", not reported", 10010), /* ten seconds until all are compared */

    REMOTES("packing, ns", "remotes-pack", 200),
    REMOTES("packing 1,000 in one call, ns each", "remotes-pack-many", 0),
    REMOTES("opening, ns", "remotes-open", 200),
    REMOTES("opening 1,000 in one call, ns each", "remotes-open-many", 200),
    REMOTES("closing, ns", "remotes-close", 0),
    REMOTES("an address, ns", "remotes-addr", 4),
    REMOTES("an address in the caller's code, ns", "remotes-addr-inline", 4),
    REMOTES("bytes a remote, 100,000 open", "remotes-bytes-100000", 96),
    REMOTES("bytes a remote, 1,000,000 open", "remotes-bytes-1000000", 96),
    REMOTES("opening 1,000,000, ns each", "remotes-open-1000000", 200),

    EXPLICIT(WHO_TCP_HOST, 700, 200),
    EXPLICIT(WHO_SHM_HOST, 700, 200),
    EXPLICIT(WHO_TCP_BASIC, 700, 200),
    EXPLICIT(WHO_TCP_ASKING, 0, 0),
    EXPLICIT(WHO_SHM_ASKING, 0, 0),
    EXPLICIT(WHO_TCP_CUDA, 0, 0),
    EXPLICIT(WHO_TCP_ROCR, 0, 0),
    EXPLICIT(WHO_TCP_ZE, 0, 0),

    LARGE("pages of 4 KiB, never touched", "large-4k-first"),
    LARGE("pages of 4 KiB, resident", "large-4k-again"),
    LARGE("pages of 2 MiB, never touched", "large-2m-first"),
    LARGE("pages of 2 MiB, resident", "large-2m-again"),

    UNMAP("userfaultfd"),
    UNMAP("default"),
    {"munmap, 64 KiB, ns", "not watched, beside the same past libc", "unmap-unwatched", "default",
     "unmap-past-libc", "default", RATIO, 1.05},
    UNMAP("import"),
    {"munmap, 64 KiB, ns", "not watched, beside a process without it", "unmap-unwatched",
     "disabled", NULL, "without hmreg", REPORTED, 0},
};

const struct row *row_at(size_t index)
{
    return index < sizeof(rows) / sizeof(rows[0]) ? &rows[index] : NULL;
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {"-", "met", "MISSED", "not measured"};

    return names[verdict];
}

static double worst(const struct series *series)
{
    double most = series->values[0];

    for (size_t i = 1; i < series->count; i++)
        most = series->values[i] > most ? series->values[i] : most;
    return most;
}

static double judged(const struct row *row, const struct result *result)
{
    switch (row->judge) {
    case RATIO:
        return result->ratio.median;
    case WORST:
        return worst(result->ours);
    case MORE:
        return (result->ratio.median - 1) * result->beside_value.median;
    default:
        return result->value.median;
    }
}

static void find_beside(const struct row *row, struct result *out)
{
    if (!row->beside)
        return;
    out->beside =
        series_find(row->beside_measure ? row->beside_measure : row->measure, row->beside);
    if (!out->beside || out->beside->absent[0]) {
        if (row->judge == RATIO || row->judge == MORE)
            out->absent = out->beside ? out->beside->absent : "nothing to compare with";
        out->beside = NULL;
        return;
    }
    out->beside_value = spread_of(out->beside->values, out->beside->count);
    if (out->ours)
        out->has_ratio = spread_of_ratios(out->ours, out->beside, &out->ratio);
    if ((row->judge == RATIO || row->judge == MORE) && out->ours && !out->has_ratio)
        out->absent = "nothing to divide by";
}

bool row_result(const struct row *row, struct result *out)
{
    *out = (struct result){.verdict = NO_TARGET};
    out->ours = series_find(row->measure, row->who);
    if (!out->ours)
        return false;
    if (out->ours->absent[0]) {
        out->absent = out->ours->absent;
        out->ours = NULL;
    } else {
        out->value = spread_of(out->ours->values, out->ours->count);
    }
    find_beside(row, out);
    if (!out->absent)
        out->judged = judged(row, out);
    if (row->judge != REPORTED)
        out->verdict = out->absent ? NOT_MEASURED : out->judged <= row->target ? MET : MISSED;
    return true;
}
