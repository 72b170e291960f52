/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * get + put of regions that are not cached, 10,000 of 4 KiB in address order, less the provider's
 * cost: the time of an empty provider, called directly as often in the same turn, is subtracted.
 * Four cases:
 *
 *     opening:  the first get of all, in us: with hooks it installs them
 *     first:    a new cache; none of its memory was touched before
 *     again:    the same cache after a flush, whose time does not count
 *     evicting: a full cache, 20,000 regions in turn through a limit of 10,000: each get also
 *               evicts and deregisters the oldest. UCX's cache has no limit here (Debian 12), so
 *               the benchmark passes the region to drop, in place of the put
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"
#include "bench/opening.h"
#include "bench/subject.h"

#include <fcntl.h>
#include <hmreg/hmreg.h>
#include <linux/userfaultfd.h>
#include <math.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REGIONS 10000

enum { OPENING, FIRST, AGAIN, EVICTING, PROVIDER, MISSES, VALUES = MISSES + OPENING_PARTS };

static const struct measure measures[VALUES] = {
    {"miss-opening", "us"},   {"miss-first", "ns"},    {"miss-again", "ns"},
    {"miss-evicting", "ns"},  {"miss-provider", "ns"}, {"opening-read", "us"},
    {"opening-search", "us"}, {"opening-write", "us"},
};

struct misses {
    const struct subject *subject;
    char *base;
    struct order opening, once, twice; /* opening: a region that the others do not use */
};

static void *open_misses(const void *arg)
{
    struct misses *misses = calloc(1, sizeof(*misses));

    if (!misses)
        leave("no memory");
    misses->subject = arg;
    order_sorted(&misses->opening, 2 * REGIONS, 1);
    order_sorted(&misses->once, 0, REGIONS);
    order_sorted(&misses->twice, 0, 2 * REGIONS);
    return misses;
}

/* NAN: not every get registered, so not all were misses. */
static double walk_ns(const struct misses *misses, void *cache, const struct order *order)
{
    size_t before = registrations;
    double begun = now_ns(), ns;

    walk_once(misses->subject, cache, misses->base, order);
    ns = (now_ns() - begun) / (double)order->count;
    return registrations - before == order->count ? ns : NAN;
}

static double evicting_ns(const struct misses *misses, void *cache)
{
    const struct subject *subject = misses->subject;

    if (subject->replace_ns)
        return subject->replace_ns(cache, misses->base, misses->twice.at, misses->twice.count,
                                   REGIONS);
    walk_once(subject, cache, misses->base, &misses->twice);
    return walk_ns(misses, cache, &misses->twice);
}

/* Empties the cache. UCX has no call for that, so its cache is closed and reopened. */
static void *emptied(const struct misses *misses, void *cache)
{
    if (misses->subject != &subject_ucx) {
        hmreg_must(hmreg_domain_flush(((struct hmreg_state *)cache)->domain), "flush");
        return cache;
    }
    misses->subject->close(cache);
    return misses->subject->open(misses->subject, REGIONS + 1);
}

static void have_none(double *values, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        values[i] = NAN;
}

static void sample_misses(void *state, int worker, double *values)
{
    struct misses *misses = state;
    void *cache = misses->subject->open(misses->subject, REGIONS + 1);
    double provider = hmreg_provider_ns();

    misses->base = fixture_reserve(2 * REGIONS + 1);
    have_none(values, MISSES, VALUES);
    values[PROVIDER] = provider;
    values[OPENING] = walk_ns(misses, cache, &misses->opening) / 1e3;
    values[FIRST] = walk_ns(misses, cache, &misses->once) - provider;
    cache = emptied(misses, cache);
    values[AGAIN] = walk_ns(misses, cache, &misses->once) - provider;
    cache = misses->subject->replace_ns ? emptied(misses, cache) : cache;
    values[EVICTING] = evicting_ns(misses, cache) - provider;
    misses->subject->close(cache);
    munmap(misses->base, (size_t)(2 * REGIONS + 1) * REGION_BYTES);
}

/* ---- the kernel's price for watching ----------------------------------------------------- */

static void watch(int userfault, char *base, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct uffdio_register range = {
            .range = {(uint64_t)(uintptr_t)base + i * REGION_BYTES, REGION_BYTES},
            .mode = UFFDIO_REGISTER_MODE_WP,
        };

        if (ioctl(userfault, UFFDIO_REGISTER, &range))
            leave("this kernel does not watch memory");
    }
}

static void unwatch(int userfault, char *base, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct uffdio_range range = {(uint64_t)(uintptr_t)base + i * REGION_BYTES, REGION_BYTES};

        if (ioctl(userfault, UFFDIO_UNREGISTER, &range))
            leave("this kernel does not stop watching memory");
    }
}

static void *open_watching(const void *arg)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    static int userfault;

    userfault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (userfault < 0 || ioctl(userfault, UFFDIO_API, &api))
        leave("this kernel gives no userfaultfd");
    return &userfault;
}

/* Times only the system calls that this many misses make. */
static void sample_watching(void *state, int worker, double *values)
{
    int userfault = *(int *)state;
    char *base = fixture_reserve(2 * REGIONS);
    double begun = now_ns();

    have_none(values, 0, VALUES);
    watch(userfault, base, 0, REGIONS);
    values[FIRST] = values[AGAIN] = (now_ns() - begun) / REGIONS;
    begun = now_ns();
    for (size_t i = 0; i < REGIONS; i++) {
        unwatch(userfault, base, i, 1);
        watch(userfault, base, REGIONS + i, 1);
    }
    values[EVICTING] = (now_ns() - begun) / REGIONS;
    munmap(base, (size_t)2 * REGIONS * REGION_BYTES);
}

/* ---- the first get's floor ----------------------------------------------------------------- */

static void *open_floor(const void *arg)
{
    return NULL;
}

static void sample_floor(void *state, int worker, double *values)
{
    have_none(values, 0, MISSES);
    opening_floor(&values[MISSES]);
    values[OPENING] = 0;
    for (size_t i = MISSES; i < VALUES; i++)
        values[OPENING] += values[i];
}

void measure_misses(void)
{
    static const struct job job = {.open = open_misses, .sample = sample_misses};
    static const struct job watching = {.open = open_watching, .sample = sample_watching};
    static const struct job floor = {.open = open_floor, .sample = sample_floor};
    const struct subject *subjects[] = {&subject_hmreg_notice, &subject_hmreg_userfault,
                                        &subject_hmreg_import, &subject_hmreg_default,
                                        &subject_ucx};
    struct contestant contestants[7];

    progress("misses: %d regions", REGIONS);
    for (size_t i = 0; i < 5; i++)
        contestants[i] = (struct contestant){.who = subjects[i]->who,
                                             .job = &job,
                                             .arg = subjects[i],
                                             .absent = subjects[i]->absent};
    contestants[5] = (struct contestant){.who = "bare watching", .job = &watching};
    contestants[6] = (struct contestant){.who = WHO_FLOOR, .job = &floor};
    contest(measures, VALUES, contestants, 7, plan.fresh, plan.turns);
}
