/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * All rows. The first part has all targets: times that a user notices, beside a lower bound or
 * beside UCX. The parts after it report every measurement and judge none.
 */
#include "bench/table.h"

#include "bench/subject.h"

#define ROW(part, title, measure, who, beside)                                                     \
    {                                                                                              \
        part, title, measure, who, NULL, beside, REPORTED, 0                                       \
    }
#define ROW_OF(part, title, measure, who, beside_measure, beside)                                  \
    {                                                                                              \
        part, title, measure, who, beside_measure, beside, REPORTED, 0                             \
    }
#define TARGET(title, measure, who, beside, judge, target)                                         \
    {                                                                                              \
        "what must be reached", title, measure, who, NULL, beside, judge, target                   \
    }

/* ---- targets ---------------------------------------------------------------------------- */

#define HIT(n, words, target)                                                                      \
    TARGET("get + put, " words ", ns", "hits-" #n, WHO_DEFAULT, WHO_UCX, RATIO, target)
#define MISS_TARGET(words, measure)                                                                \
    TARGET("miss above the provider, " words ", ns", measure, WHO_DEFAULT, NULL, VALUE, 600)
#define PROGRAM_TARGET(words, measure, target)                                                     \
    TARGET("program: " words, measure, WHO_DEFAULT, "without hmreg", RATIO, target)
#define THREADS_TARGET(words, measure)                                                             \
    TARGET("2 threads, " words ", ns", measure, WHO_DEFAULT ", 2 threads",                         \
           WHO_DEFAULT ", 2 processes", RATIO, 1.5)
#define PAUSE_TARGET(words, measure)                                                               \
    TARGET("longest " words ", us", measure "-1000000", WHO_DEFAULT, NULL, VALUE, 200)
#define FREED_TARGET(who)                                                                          \
    TARGET("freed device memory, longest, ms", "freed-longest", who, NULL, VALUE, 10)
#define LARGE_TARGET(words, measure)                                                               \
    TARGET("large range of " words ", ms/GiB", measure, "as hmreg chooses", "one worker", RATIO,   \
           1.05)

#define PLUGIN_TARGET(words, measure, beside_measure, beside, target)                              \
    {                                                                                              \
        "what must be reached", "plugin, registered again while held, " words ", ns", measure,     \
            WHO_PLUGIN, beside_measure, beside, RATIO, target                                      \
    }

#define HELD_TARGET(who)                                                                           \
    TARGET("claimed host memory given back at once, above libfabric alone, ns", "held-above", who, \
           NULL, VALUE, 400)
#define HIT_BY_TARGET(words, measure)                                                              \
    {                                                                                              \
        "what must be reached", "a hit by " words ", ns", measure, WHO_TCP_HOST, "held-hit",       \
            WHO_TCP_HOST, RATIO, 1.5                                                               \
    }

#define TARGETS                                                                                    \
    HIT(1, "1 region", 0.4), HIT(10, "10 regions", 0.4), HIT(100, "100 regions", 0.4),             \
        HIT(1000, "1,000 regions", 0.4), HIT(10000, "10,000 regions", 0.5),                        \
        HIT(100000, "100,000 regions", 0.5), HIT(1000000, "1,000,000 regions", 0.5),               \
        TARGET("get + put, 1 region, ns", "hits-1", WHO_USERFAULT, "bare ioctl", RATIO, 1.6),      \
        THREADS_TARGET("1,000 regions each", "threads-distinct-1000"),                             \
        THREADS_TARGET("the same region", "threads-same-1"),                                       \
        MISS_TARGET("new cache", "miss-first"), MISS_TARGET("flushed", "miss-again"),              \
        MISS_TARGET("evicting", "miss-evicting"),                                                  \
        TARGET("1,265 tensors in 60 allocations, ms", "cover-tensors", "covering", "each exactly", \
               RATIO, 0.067),                                                                      \
        TARGET("sleep and wake of 10,000 regions, ms", "suspend-10000", "suspend and resume",      \
               "close and register", RATIO, 1.1),                                                  \
        TARGET("longest wait while a member is withdrawn, us", "withdraw-slept",                   \
               "a member of a group", NULL, VALUE, 200),                                           \
        TARGET("a member of 10,000 regions replaced, ms", "replace-10000", "a member of a group",  \
               "registered by itself", RATIO, 1.1),                                                \
        TARGET("longest wait while another registers, us", "stall-slept-registering", WHO_DEFAULT, \
               NULL, VALUE, 20),                                                                   \
        PAUSE_TARGET("get while filling 1,000,000", "pause-fill"),                                 \
        PAUSE_TARGET("munmap of 1,000,000", "pause-unmap"),                                        \
        PAUSE_TARGET("get after it", "pause-after"),                                               \
        PROGRAM_TARGET("fork, us", "program-fork", 1.05),                                          \
        PROGRAM_TARGET("mremap of 64 MiB by tables, us", "program-mremap-tables", 1.1),            \
        FREED_TARGET(WHO_CUDA), FREED_TARGET(WHO_ROCR), FREED_TARGET(WHO_ZE),                      \
        HELD_TARGET(WHO_TCP_HOST), HELD_TARGET(WHO_SHM_HOST), HELD_TARGET(WHO_TCP_ASKING),         \
        HIT_BY_TARGET("attributes", "held-hit-attr"),                                              \
        HIT_BY_TARGET("a trusted claim", "held-hit-claim"),                                        \
        PLUGIN_TARGET("1 buffer", "plugin-again-1", NULL, WHO_LIST, 1.2),                          \
        PLUGIN_TARGET("10,000 beside a list of 1", "plugin-again-10000", "plugin-again-1",         \
                      WHO_LIST, 1.2),                                                              \
        LARGE_TARGET("4 KiB pages", "large-4k-first"),                                             \
        LARGE_TARGET("2 MiB pages", "large-2m-first"),                                             \
        TARGET("search of 64 MiB of loaded code, ms", "inlined-64m", "search", "memchr", RATIO,    \
               2),                                                                                 \
        TARGET("bytes a region, 100,000 regions", "footprint-100000", WHO_DEFAULT, NULL, VALUE,    \
               176),                                                                               \
        TARGET("bytes a remote, 100,000 open", "remotes-bytes-100000", "hmreg", NULL, VALUE, 96)

/* ---- measurements ----------------------------------------------------------------------- */

#define HITS "get + put, 1 thread, ns"
#define REGIONS(n, words)                                                                          \
    ROW(HITS, words, "hits-" #n, WHO_DEFAULT, WHO_UCX),                                            \
        ROW(HITS, words, "hits-" #n, WHO_NOTICE, WHO_UCX),                                         \
        ROW(HITS, words, "hits-" #n, WHO_IMPORT, WHO_UCX),                                         \
        ROW(HITS, words, "hits-" #n, WHO_COUNTER, WHO_DEFAULT),                                    \
        ROW(HITS, words, "hits-" #n, WHO_USERFAULT, "bare ioctl")
#define FILTERED(n, words)                                                                         \
    ROW(HITS, words ", in a container", "hits-filtered-" #n, WHO_DEFAULT, WHO_UCX)

#define PROGRAM(words, measure)                                                                    \
    ROW("the program's own calls", words, measure, WHO_DEFAULT, "without hmreg"),                  \
        ROW("the program's own calls", words, measure, WHO_USERFAULT, "without hmreg")

/* Hits on device memory whose end is reported. */
#define DEVICES_ON(n, words, who, rails)                                                           \
    ROW("hit of device memory whose end is reported, ns", words, "device-hit-" #n, who rails,      \
        WHO_HOST rails)
#define DEVICES(n, words)                                                                          \
    DEVICES_ON(n, words, WHO_CUDA, ""), DEVICES_ON(n, words, WHO_ROCR, ""),                        \
        DEVICES_ON(n, words, WHO_ZE, ""), DEVICES_ON(n, words, WHO_CUDA, ", 8 rails"),             \
        DEVICES_ON(n, words, WHO_ROCR, ", 8 rails"), DEVICES_ON(n, words, WHO_ZE, ", 8 rails")

/* Until the provider deregisters freed device memory. */
#define FREED_PART "freed device memory: until it is deregistered, ms"
#define FREED(who)                                                                                 \
    ROW(FREED_PART, "median of a turn", "freed-median", who, NULL),                                \
        ROW(FREED_PART, "longest of a turn", "freed-longest", who, NULL)

#define RAILS "get + put on 8 rails, ns"
#define GROUPS(n, words)                                                                           \
    ROW(RAILS, words ", beside one domain", "hits-group-" #n, WHO_GROUP, WHO_DEFAULT),             \
        ROW(RAILS, words ", beside a get on each of 8 domains", "hits-group-" #n, WHO_GROUP,       \
            WHO_EIGHT)

#define KEYS_OVER(n, words)                                                                        \
    ROW("get + desc + key + put, ns", words ", beside get + put", "hits-keys-" #n, WHO_HEAD,       \
        WHO_DEFAULT),                                                                              \
        ROW("get + desc + key + put, ns", words ", beside calls", "hits-keys-" #n, WHO_HEAD,       \
            WHO_CALLS)

#define CREW(words, measure, who)                                                                  \
    ROW("get + put, 2 threads beside 2 processes, ns", words, measure, who ", 2 threads",          \
        who ", 2 processes")
#define CREWS(words, measure)                                                                      \
    CREW(words, measure, WHO_NOTICE), CREW(words, measure, WHO_IMPORT),                            \
        CREW(words, measure, WHO_DEFAULT), CREW(words, measure, WHO_USERFAULT),                    \
        CREW(words, measure, WHO_UCX)

#define INSTRUCTIONS_BESIDE(words, measure, who, beside_measure, beside)                           \
    ROW_OF("get + put, 100 regions, instructions", words, measure, who, beside_measure, beside)
#define INSTRUCTIONS(words, measure, who)                                                          \
    INSTRUCTIONS_BESIDE(words, measure, who, "instructions", WHO_UCX)

#define MISS(words, measure, who, beside)                                                          \
    ROW("miss beyond the provider, 10,000 regions, ns", words, measure, who, beside)
#define MISSES(words, measure)                                                                     \
    MISS(words, measure, WHO_NOTICE, WHO_UCX), MISS(words, measure, WHO_IMPORT, WHO_UCX),          \
        MISS(words, measure, WHO_DEFAULT, WHO_UCX),                                                \
        MISS(words, measure, WHO_USERFAULT, "bare watching")

#define STALL(words, measure, who, beside_measure)                                                 \
    ROW_OF("hits while another thread registers, 200 us each", words, measure, who,                \
           beside_measure, who)
#define STALLS(who)                                                                                \
    STALL("mean, ns, beside idle", "stall-mean-registering", who, "stall-mean-idle"),              \
        STALL("mean, ns, beside spinning", "stall-mean-registering", who, "stall-mean-spinning"),  \
        STALL("longest wait for a lock, us", "stall-slept-registering", who,                       \
              "stall-slept-spinning"),                                                             \
        STALL("longest hit, us, beside spinning", "stall-longest-registering", who,                \
              "stall-longest-spinning"),                                                           \
        STALL("p99.9, us, beside spinning", "stall-p999-registering", who, "stall-p999-spinning")

#define CHANGE "invalidating all of 100,000 regions"
#define INVALIDATION(who)                                                                          \
    ROW(CHANGE, "in all, ms", "invalidate-total", who, NULL),                                      \
        ROW_OF(CHANGE, "another cache's hits, ns, beside spinning", "invalidate-mean-during", who, \
               "invalidate-mean-spinning", who),                                                   \
        ROW_OF(CHANGE, "another cache's longest wait, us", "invalidate-slept-during", who,         \
               "invalidate-slept-spinning", who)
#define HELD(who)                                                                                  \
    ROW(CHANGE, "longest hold of a lock, us", "invalidate-held", who, NULL),                       \
        ROW(CHANGE, "the same, by the holder's clock", "invalidate-held-own", who, NULL),          \
        ROW(CHANGE, "longest hold in the flush after it, us", "invalidate-flush-held", who, NULL), \
        ROW(CHANGE, "the same, by the holder's clock", "invalidate-flush-held-own", who, NULL)

#define PAUSES_OF(n, words, who, beside)                                                           \
    ROW("longest calls beside " words " regions", "get while the cache fills, us",                 \
        "pause-fill-" #n, who, beside),                                                            \
        ROW("longest calls beside " words " regions", "munmap of all of them, us",                 \
            "pause-unmap-" #n, who, beside),                                                       \
        ROW("longest calls beside " words " regions", "get of other memory after it, us",          \
            "pause-after-" #n, who, beside),                                                       \
        ROW("longest calls beside " words " regions", "closing, ns a region", "pause-close-" #n,   \
            who, beside),                                                                          \
        ROW("longest calls beside " words " regions", "fork, more than without them, ms",          \
            "pause-fork-" #n, who, beside)
#define PAUSES(n, words)                                                                           \
    PAUSES_OF(n, words, WHO_DEFAULT, WHO_UCX_EVENTS), PAUSES_OF(n, words, WHO_USERFAULT, NULL)

#define BYTES(words, n, who, beside)                                                               \
    ROW("memory of a cached region, bytes", words, "footprint-" #n, who, beside)
#define FOOTPRINT(words, n)                                                                        \
    BYTES(words, n, WHO_DEFAULT, WHO_UCX), BYTES(words, n, WHO_NOTICE, WHO_UCX),                   \
        BYTES(words, n, WHO_IMPORT, WHO_UCX), BYTES(words, n, WHO_USERFAULT, NULL)

#define UNMAP_PART "munmap, 64 KiB, ns"
#define UNMAP(monitor)                                                                             \
    ROW(UNMAP_PART, "not watched", "unmap-unwatched", monitor, "disabled"),                        \
        ROW(UNMAP_PART, "not watched, beside a process without it", "unmap-unwatched", monitor,    \
            "without hmreg"),                                                                      \
        ROW(UNMAP_PART, "not watched, its neighbour is", "unmap-beside", monitor, "disabled"),     \
        ROW(UNMAP_PART, "cached", "unmap-cached", monitor, "without hmreg")

#define REMOTES(words, measure) ROW("tokens and remotes", words, measure, "hmreg", NULL)

#define RANKS(words, measure) ROW("100,000 ranks on 8 rails", words, measure, "hmreg", NULL)

#define EXPLICIT_PART "explicit registration, 4 KiB, ns"
#define EXPLICIT(who)                                                                              \
    ROW_OF(EXPLICIT_PART, "registering, beside libfabric alone", "explicit-reg", who,              \
           "explicit-bare-reg", who),                                                              \
        ROW_OF(EXPLICIT_PART, "closing, beside libfabric alone", "explicit-close", who,            \
               "explicit-bare-close", who),                                                        \
        ROW(EXPLICIT_PART, "registering, more than libfabric alone", "explicit-reg-above", who,    \
            NULL),                                                                                 \
        ROW(EXPLICIT_PART, "closing, more than libfabric alone", "explicit-close-above", who,      \
            NULL)

#define HELD_PART                     "a buffer registered and given back at once, 4 KiB, ns"
#define HELD_HIT(words, measure, who) ROW_OF(HELD_PART, words, measure, who, "held-hit", who)
#define GIVEN_BACK(who)                                                                            \
    ROW_OF(HELD_PART, "get + last put of claimed host memory, beside libfabric alone", "held",     \
           who, "held-bare", who),                                                                 \
        ROW(HELD_PART, "the same, more than libfabric alone", "held-above", who, NULL),            \
        ROW(HELD_PART, "a region's memory and two locks", "held-floor", who, NULL),                \
        HELD_HIT("a hit by attributes, beside a plain one", "held-hit-attr", who),                 \
        HELD_HIT("a hit by a trusted claim, beside a plain one", "held-hit-claim", who)

#define PLUGIN_PART "a NCCL plugin's registration, simulated device, ns"
#define PLUGIN(n, words)                                                                           \
    ROW(PLUGIN_PART, words ", first", "plugin-first-" #n, WHO_PLUGIN, WHO_LIST),                   \
        ROW(PLUGIN_PART, words ", again while held", "plugin-again-" #n, WHO_PLUGIN, WHO_LIST),    \
        ROW(PLUGIN_PART, words ", again after", "plugin-after-" #n, WHO_PLUGIN, WHO_LIST)

#define LARGE_OF(words, measure, who)                                                              \
    ROW("a large range, ms/GiB", words, measure, who, "one worker")
#define LARGE(words, measure)                                                                      \
    LARGE_OF(words, measure, "two workers"), LARGE_OF(words, measure, "as hmreg chooses"),         \
        LARGE_OF(words, measure, "two threads, bare calls")

static const struct row rows[] = {
    TARGETS,

    REGIONS(1, "1 region"),
    REGIONS(10, "10 regions"),
    REGIONS(100, "100 regions"),
    REGIONS(1000, "1,000 regions"),
    REGIONS(10000, "10,000 regions"),
    REGIONS(100000, "100,000 regions"),
    REGIONS(1000000, "1,000,000 regions"),
    FILTERED(1, "1 region"),
    FILTERED(10, "10 regions"),
    FILTERED(100, "100 regions"),
    FILTERED(1000, "1,000 regions"),
    ROW(HITS, "1,000 regions, scattered", "hits-scattered-1000", WHO_DEFAULT, WHO_UCX),
    ROW(HITS, "10,000 regions, scattered", "hits-scattered-10000", WHO_DEFAULT, WHO_UCX),
    ROW(HITS, "100,000 regions, scattered", "hits-scattered-100000", WHO_DEFAULT, WHO_UCX),
    ROW(HITS, "parts of one region, other ones each time", "hits-parts", WHO_DEFAULT, WHO_UCX),
    ROW(HITS, "1 region: the lower bound of two calls", "hits-1", WHO_EMPTY, WHO_UCX),
    ROW(HITS, "1,000 regions: the lower bound of two calls", "hits-1000", WHO_EMPTY, WHO_UCX),
    ROW(HITS, "1 region: the cheapest system call", "hits-1", WHO_USERFAULT, "bare getpid"),
    ROW(HITS, "1,000 regions", "hits-1000", WHO_IMPORT, "libfabric tcp, no cache"),
    ROW(HITS, "1,000 regions", "hits-1000", WHO_IMPORT, "libfabric shm, no cache"),

    GROUPS(1, "1 region"),
    GROUPS(100, "100 regions"),
    GROUPS(10000, "10,000 regions"),
    KEYS_OVER(1, "1 region"),
    KEYS_OVER(100, "100 regions"),
    KEYS_OVER(10000, "10,000 regions"),

    CREWS("1,000 regions each", "threads-distinct-1000"),
    CREWS("the same region", "threads-same-1"),
    CREWS("the same 1,000 regions", "threads-same-1000"),

    INSTRUCTIONS("callgrind", "instructions", WHO_IMPORT),
    INSTRUCTIONS("single steps", "instructions-stepped", WHO_IMPORT),
    INSTRUCTIONS("single steps", "instructions-stepped", WHO_NOTICE),
    INSTRUCTIONS("single steps", "instructions-stepped", WHO_DEFAULT),
    INSTRUCTIONS_BESIDE("single steps", "instructions-stepped", WHO_COUNTER, NULL, WHO_DEFAULT),
    INSTRUCTIONS_BESIDE("single steps, kernel not counted", "instructions-stepped", WHO_USERFAULT,
                        NULL, WHO_DEFAULT),

    MISSES("the first get of all, us", "miss-opening"),
    MISS("the first get of all, us", "miss-opening", WHO_DEFAULT, WHO_FLOOR),
    MISS("its floor: reading the mappings, us", "opening-read", WHO_FLOOR, NULL),
    MISS("its floor: searching the functions, us", "opening-search", WHO_FLOOR, NULL),
    MISS("its floor: writing the jumps, us", "opening-write", WHO_FLOOR, NULL),
    MISSES("into a new cache", "miss-first"),
    MISSES("into a flushed cache", "miss-again"),
    MISSES("evicting one each", "miss-evicting"),

    STALLS(WHO_NOTICE),
    STALLS(WHO_IMPORT),
    STALLS(WHO_DEFAULT),
    STALLS(WHO_USERFAULT),
    STALLS(WHO_UCX),

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

    ROW("hit of CUDA memory, identity checked, ns", "100 regions", "device-asks",
        WHO_DEFAULT ", simulated", "driver, simulated"),
    ROW("hit of CUDA memory, identity checked, ns", "100 regions", "device-asks",
        WHO_DEFAULT ", GPU", "driver, GPU"),
    ROW("cuMemFree of nothing, ns", "with a hook", "device-free", "hooked, simulated",
        "not hooked, simulated"),

    FREED(WHO_CUDA),
    FREED(WHO_ROCR),
    FREED(WHO_ZE),
    FREED(WHO_CUDA ", not reported"),

    REMOTES("packing, ns", "remotes-pack"),
    REMOTES("packing 1,000 in one call, ns each", "remotes-pack-many"),
    REMOTES("opening, ns", "remotes-open"),
    REMOTES("opening 1,000 in one call, ns each", "remotes-open-many"),
    REMOTES("closing, ns", "remotes-close"),
    REMOTES("an address, ns", "remotes-addr"),
    REMOTES("an address in the caller's code, ns", "remotes-addr-inline"),
    REMOTES("an entry of a key table, 1,000 in one call, ns each", "remotes-table"),
    REMOTES("the owner's life in a token, written and read, ns", "remotes-life"),
    REMOTES("bytes a remote, 100,000 open", "remotes-bytes-100000"),
    REMOTES("bytes a remote, 1,000,000 open", "remotes-bytes-1000000"),
    REMOTES("opening 1,000,000, ns each", "remotes-open-1000000"),
    RANKS("bytes of a token", "ranks-token"),
    RANKS("packing, ns", "ranks-pack"),
    RANKS("opening a table, ns an entry", "ranks-table-open"),
    RANKS("first write, ns an entry", "ranks-table"),
    RANKS("a later write, ns an entry", "ranks-table-again"),
    RANKS("bytes an entry, after the writes", "ranks-left"),

    EXPLICIT(WHO_TCP_HOST),
    EXPLICIT(WHO_SHM_HOST),
    EXPLICIT(WHO_TCP_BASIC),
    EXPLICIT(WHO_TCP_ASKING),
    EXPLICIT(WHO_SHM_ASKING),
    EXPLICIT(WHO_TCP_CUDA),
    EXPLICIT(WHO_TCP_ROCR),
    EXPLICIT(WHO_TCP_ZE),

    GIVEN_BACK(WHO_TCP_HOST),
    GIVEN_BACK(WHO_SHM_HOST),
    GIVEN_BACK(WHO_TCP_ASKING),

    PLUGIN(1, "1 buffer"),
    PLUGIN(100, "100 buffers"),
    PLUGIN(10000, "10,000 buffers"),

    LARGE("pages of 4 KiB, never touched", "large-4k-first"),
    LARGE("pages of 4 KiB, resident", "large-4k-again"),
    LARGE("pages of 2 MiB, never touched", "large-2m-first"),
    LARGE("pages of 2 MiB, resident", "large-2m-again"),

    UNMAP("userfaultfd"),
    UNMAP("default"),
    ROW_OF(UNMAP_PART, "not watched, beside the same past libc", "unmap-unwatched", "default",
           "unmap-past-libc", "default"),
    UNMAP("import"),
    ROW(UNMAP_PART, "not watched, beside a process without it", "unmap-unwatched", "disabled",
        "without hmreg"),

    PROGRAM("realloc of 64 MiB that moves, us", "program-realloc"),
    PROGRAM("realloc of 64 MiB in place, us", "program-realloc-in-place"),
    PROGRAM("mremap of 64 MiB by pages, us", "program-mremap"),
    PROGRAM("mremap of 64 MiB by tables, us", "program-mremap-tables"),
    PROGRAM("page fault, ns", "program-fault"),
    PROGRAM("fork, us", "program-fork"),
    PROGRAM("touching 32 huge MiB, us", "program-huge"),
    PROGRAM("pages that hold these 32 MiB", "program-huge-pages"),
    PROGRAM("munmap, cached, median, ns", "program-unmap"),
    PROGRAM("the same, busy, p99.9, us", "program-unmap-busy"),
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

static void find_beside(const struct row *row, struct result *out)
{
    if (!row->beside)
        return;
    out->beside =
        series_find(row->beside_measure ? row->beside_measure : row->measure, row->beside);
    if (!out->beside || out->beside->absent[0]) {
        if (row->judge == RATIO)
            out->absent = out->beside ? out->beside->absent : "nothing to compare with";
        out->beside = NULL;
        return;
    }
    out->beside_value = spread_of(out->beside->values, out->beside->count);
    if (out->ours)
        out->has_ratio = spread_of_ratios(out->ours, out->beside, &out->ratio);
    if (row->judge == RATIO && out->ours && !out->has_ratio)
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
        out->judged = row->judge == RATIO ? out->ratio.median : out->value.median;
    if (row->judge != REPORTED)
        out->verdict = out->absent ? NOT_MEASURED : out->judged <= row->target ? MET : MISSED;
    return true;
}
