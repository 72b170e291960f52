/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library to load and unload: it contains a copy of hmreg, which dlclose(3) removes with it, and
 * memory of its own that it leaves unmapped.
 */
#include "tests/support/plugin.h"

#include "tests/support/sanitizer.h"

#include <hmreg/loopback.h>
#include <stdlib.h>

#define PAGE 65536

static char zeros[32 * PAGE] __attribute__((aligned(PAGE)));
static struct hmreg *lib;
static struct hmreg_domain *domain;

static int open_monitor(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    int rc = hmreg_open(&config, &lib);

    if (rc)
        return rc;
    rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domain);
    if (rc)
        hmreg_close(lib);
    return rc;
}

static bool get(void *addr, size_t len, bool *cached)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;

    if (hmreg_mr_get(domain, addr, len, HMREG_REMOTE_READ, &mr))
        return false;
    hmreg_mr_query(mr, &info);
    *cached = info.cached;
    hmreg_mr_put(mr);
    return true;
}

static uint64_t invalidations(void)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    hmreg_domain_stats(domain, &stats);
    return stats.invalidations;
}

static int close_all(void)
{
    int rc = hmreg_domain_close(domain);

    return rc ? rc : hmreg_close(lib);
}

__attribute__((visibility("default"))) const struct plugin plugin = {
    .open = open_monitor,
    .get = get,
    .invalidations = invalidations,
    .close = close_all,
    .zeros = zeros + PAGE, /* the rest of a page of .data lies before it */
    .zeros_len = sizeof(zeros) - 2 * PAGE,
};

#if TEST_TSAN
/* ThreadSanitizer's atexit(3) does not record which library called it, and so would call the
 * reaper's handler after dlclose(3). This is libc's. */
int __cxa_atexit(void (*function)(void *), void *arg, void *library);
extern __attribute__((visibility("hidden"))) void *__dso_handle;

__attribute__((visibility("hidden"))) int atexit(void (*function)(void))
{
    return __cxa_atexit((void (*)(void *))function, NULL, &__dso_handle);
}
#endif
