/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What munmap(2) of 64 KiB, one page of it touched, costs the application. Of memory that nothing
 * watches: without the library, and with it open, for each monitor, while 100 regions elsewhere
 * are cached. And of memory that is cached, and so watched; where the application must tell, that
 * is part of it.
 */
#include "bench/actor.h"
#include "bench/bed.h"
#include "bench/bench.h"

#include <hmreg/hmreg.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES    (16 * REGION_BYTES)
#define CACHED   100
#define EACH_RUN 2000

static const struct measure measures[] = {{"unmap-unwatched", "ns"}, {"unmap-cached", "ns"}};

struct unmap {
    const struct subject *subject; /* NULL: without the library */
    struct hmreg_state *cache;
};

static void *open_unmap(const void *arg)
{
    struct unmap *unmap = calloc(1, sizeof(*unmap));
    struct order order;

    if (!unmap)
        leave("no memory");
    unmap->subject = arg;
    if (!arg)
        return unmap;
    unmap->cache = unmap->subject->open(unmap->subject, 2 * CACHED);
    order_sorted(&order, 0, CACHED);
    walk_once(unmap->subject, unmap->cache, bed_reserve(CACHED), &order);
    return unmap;
}

static void *map(void)
{
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        leave("no memory");
    *memory = 1;
    return memory;
}

static void remember(const struct unmap *unmap, void *memory)
{
    struct hmreg_mr *mr = NULL;

    hmreg_must(hmreg_mr_get(unmap->cache->domain, memory, BYTES, HMREG_SEND, &mr), "hmreg_mr_get");
    hmreg_mr_put(mr);
}

static bool must_tell(const struct unmap *unmap)
{
    return unmap->subject == &subject_hmreg_import;
}

static double unmap_ns(const struct unmap *unmap, bool cached)
{
    double sum = 0;

    for (size_t i = 0; i < EACH_RUN; i++) {
        void *memory = map();
        double begun;

        if (cached)
            remember(unmap, memory);
        begun = now_ns();
        if (cached && must_tell(unmap))
            hmreg_must(hmreg_invalidate(unmap->cache->lib, memory, BYTES), "hmreg_invalidate");
        munmap(memory, BYTES);
        sum += now_ns() - begun;
    }
    return sum / EACH_RUN;
}

static void sample_unmap(void *state, int worker, double *values)
{
    const struct unmap *unmap = state;

    values[0] = unmap_ns(unmap, false);
    values[1] = unmap->subject ? unmap_ns(unmap, true) : values[0];
}

void measure_unmap(void)
{
    static const struct job job = {.open = open_unmap, .sample = sample_unmap};
    const struct contestant contestants[] = {
        {.who = "without hmreg", .job = &job},
        {.who = "userfaultfd",
         .job = &job,
         .arg = &subject_hmreg_default,
         .absent = subject_hmreg_default.absent},
        {.who = "memhooks",
         .job = &job,
         .arg = &subject_hmreg_memhooks,
         .absent = subject_hmreg_memhooks.absent},
        {.who = "import",
         .job = &job,
         .arg = &subject_hmreg_import,
         .absent = subject_hmreg_import.absent},
        {.who = "disabled",
         .job = &job,
         .arg = &subject_hmreg_disabled,
         .absent = subject_hmreg_disabled.absent},
    };

    progress("unmap: munmap of memory that is watched, and that is not");
    contest(measures, 2, contestants, 5, plan.fresh, plan.turns);
}
