/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cost for the application of munmap(2) of 64 KiB with one page touched. First on unwatched
 * memory: without the library, and with it for each monitor, while 100 regions are cached, either
 * some megabytes away or directly adjacent. Then on memory that is cached and so watched; if the
 * application must report changes, that call is included.
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"

#include <hmreg/hmreg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES    (16 * REGION_BYTES)
#define CACHED   100
#define EACH_RUN 2000
#define AWAY     1024 /* distance of `away` from the cached regions, in regions */

static const struct measure measures[] = {{"unmap-unwatched", "ns"},
                                          {"unmap-past-libc", "ns"},
                                          {"unmap-beside", "ns"},
                                          {"unmap-cached", "ns"}};

struct unmap {
    const struct subject *subject; /* NULL: without the library */
    struct hmreg_state *cache;
    char *away, *beside; /* BYTES each: far from the cached regions, and adjacent */
};

static void *open_unmap(const void *arg)
{
    struct unmap *unmap = calloc(1, sizeof(*unmap));
    char *away = fixture_reserve(AWAY + 2 * CACHED), *base = away + (size_t)AWAY * REGION_BYTES;
    struct order order;

    if (!unmap)
        leave("no memory");
    unmap->subject = arg;
    unmap->away = away;
    unmap->beside = base + (size_t)CACHED * REGION_BYTES;
    if (!arg)
        return unmap;
    unmap->cache = unmap->subject->open(unmap->subject, 2 * CACHED);
    order_sorted(&order, 0, CACHED);
    walk_once(unmap->subject, unmap->cache, base, &order);
    return unmap;
}

static void *map(void *at)
{
    char *memory =
        mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

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

static bool must_report(const struct unmap *unmap)
{
    return unmap->subject == &subject_hmreg_import;
}

/* munmap(2) as a direct system call, past any hook in libc. */
static void unmap_past_libc(void *memory)
{
#if defined(__x86_64__) && defined(__LP64__)
    long done = SYS_munmap;

    __asm__ volatile("syscall"
                     : "+a"(done)
                     : "D"(memory), "S"((size_t)BYTES)
                     : "rcx", "r11", "memory");
#else
    syscall(SYS_munmap, memory, (size_t)BYTES);
#endif
}

static double past_libc_ns(void *at)
{
    double sum = 0;

    for (size_t i = 0; i < EACH_RUN; i++) {
        void *memory = map(at);
        double begun = now_ns();

        unmap_past_libc(memory);
        sum += now_ns() - begun;
    }
    return sum / EACH_RUN;
}

static double unmap_ns(const struct unmap *unmap, void *at, bool cached)
{
    double sum = 0;

    for (size_t i = 0; i < EACH_RUN; i++) {
        void *memory = map(at);
        double begun;

        if (cached)
            remember(unmap, memory);
        begun = now_ns();
        if (cached && must_report(unmap))
            hmreg_must(hmreg_invalidate(unmap->cache->lib, memory, BYTES), "hmreg_invalidate");
        munmap(memory, BYTES);
        sum += now_ns() - begun;
    }
    return sum / EACH_RUN;
}

static void sample_unmap(void *state, int worker, double *values)
{
    const struct unmap *unmap = state;

    values[0] = unmap_ns(unmap, unmap->away, false);
    values[1] = past_libc_ns(unmap->away);
    values[2] = unmap_ns(unmap, unmap->beside, false);
    values[3] = unmap->subject ? unmap_ns(unmap, unmap->away, true) : values[0];
    if (unmap->subject) /* the entry invalidated last stays watched until the next get */
        remember(unmap, unmap->beside - BYTES);
}

void measure_unmap(void)
{
    static const struct job job = {.open = open_unmap, .sample = sample_unmap};
    const struct contestant contestants[] = {
        {.who = "without hmreg", .job = &job},
        {.who = "userfaultfd",
         .job = &job,
         .arg = &subject_hmreg_userfault,
         .absent = subject_hmreg_userfault.absent},
        {.who = "default",
         .job = &job,
         .arg = &subject_hmreg_default,
         .absent = subject_hmreg_default.absent},
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
    contest(measures, 4, contestants, 5, plan.fresh, plan.turns);
}
