/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A small program that uses the library as any application does, by its public interface and with
 * its defaults. It registers buffers twice, changes their memory, registers them again, and
 * succeeds if all of the second registrations were hits and none of the third. places.c runs it in
 * many environments; host.c loads it as a plugin and unloads it.
 *
 *     OUTSIDE_LOAD=FILE: loads that library once buffers are cached.
 *     OUTSIDE_MAY_LOSE=1: caching nothing, and saying so, is success too.
 *     OUTSIDE_WAIT=1:    waits for the end of its standard input while its domain is open.
 */
#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <hmreg/loopback.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFERS 32
#define LEN     ((size_t)64 << 10)

int outside_run(void);

static struct hmreg *lib;
static struct hmreg_domain *domain;
static char *buffers[BUFFERS];

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, hmreg_last_error()->text); \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static struct hmreg_stats stats_now(void)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    hmreg_domain_stats(domain, &stats);
    return stats;
}

static bool use(void *addr, size_t len)
{
    struct hmreg_mr *mr;

    MUST(hmreg_mr_get(domain, addr, len, HMREG_ACCESS_REMOTE, &mr) == 0);
    hmreg_mr_put(mr);
    return true;
}

static bool use_all(uint64_t *hits)
{
    uint64_t before = stats_now().hits;

    for (int i = 0; i < BUFFERS; i++)
        if (!use(buffers[i], LEN))
            return false;
    *hits = stats_now().hits - before;
    return true;
}

static char *map_at(void *addr, int flag)
{
    char *at = mmap(addr, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flag, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    memset(at, 1, LEN);
    return at;
}

/* At the same address, unless another thread's memory is there by now. */
static bool map_again(int i)
{
    char *at = map_at(buffers[i], MAP_FIXED_NOREPLACE);

    return (buffers[i] = at ? at : map_at(NULL, 0));
}

/* Gives the buffer other pages, each time in a different way. */
static bool change(int i)
{
    char *moved;

    switch (i % 4) {
    case 0:
        MUST(munmap(buffers[i], LEN) == 0);
        return map_again(i);
    case 1:
        return map_at(buffers[i], MAP_FIXED);
    case 2:
        MUST(madvise(buffers[i], LEN, MADV_DONTNEED) == 0);
        return true;
    default:
        moved = mremap(buffers[i], LEN, 2 * LEN, MREMAP_MAYMOVE);
        MUST(moved != MAP_FAILED && munmap(moved, 2 * LEN) == 0);
        return map_again(i);
    }
}

/* As an allocator does: it may return the same memory. */
static bool use_heap(void)
{
    for (size_t len = 1000; len < 8 << 20; len *= 3) {
        char *block = malloc(len);

        MUST(block && use(block, len));
        block = realloc(block, 2 * len);
        MUST(block && use(block, 2 * len));
        free(block);
    }
    return true;
}

static bool try_cache(void)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    const char *load = getenv("OUTSIDE_LOAD");
    uint64_t first, second, third;

    for (int i = 0; i < BUFFERS; i++)
        MUST((buffers[i] = map_at(NULL, 0)));
    MUST(use_all(&first) && use_all(&second));
    if (load && !dlopen(load, RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    MUST(use_heap() && use_all(&second)); /* installing hooks may have ended cached regions */
    MUST(use_all(&second));
    for (int i = 0; i < BUFFERS; i++)
        MUST(change(i));
    MUST(use_all(&third));
    MUST(hmreg_monitor_query(lib, &info) == 0);
    printf("monitor %s (%s), hits %d of %d, stale %d, uncached %d\n",
           hmreg_monitor_name(info.active), info.why, (int)second, BUFFERS, (int)third,
           (int)stats_now().uncached);
    if (getenv("OUTSIDE_MAY_LOSE") && info.active == HMREG_MONITOR_DISABLED)
        return second == 0 && *info.why;
    return second == BUFFERS && third == 0;
}

static bool run(void)
{
    char byte;
    bool good;

    MUST(hmreg_open(NULL, &lib) == 0);
    MUST(hmreg_domain_open_loopback(lib, NULL, NULL, &domain) == 0);
    good = try_cache();
    fflush(stdout);
    while (getenv("OUTSIDE_WAIT") && read(0, &byte, 1) > 0)
        ;
    MUST(hmreg_domain_close(domain) == 0);
    MUST(hmreg_close(lib) == 0);
    for (int i = 0; i < BUFFERS; i++)
        munmap(buffers[i], LEN);
    return good;
}

__attribute__((visibility("default"))) int outside_run(void)
{
    return run() ? 0 : 1;
}

#ifndef OUTSIDE_MODULE
int main(void)
{
    return outside_run();
}
#endif
