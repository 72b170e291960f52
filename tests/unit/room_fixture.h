/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library with up to four domains of the scarce fabric, for room.c and room_bounds.c, which
 * define PAGES before they include this.
 */
#ifndef HMREG_TESTS_UNIT_ROOM_FIXTURE_H
#define HMREG_TESTS_UNIT_ROOM_FIXTURE_H

#include "tests/support/scarce.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/hmreg.h>

#define PAGE    ((size_t)4096)
#define DOMAINS 4

static char memory[PAGES][PAGE] __attribute__((aligned(65536)));

static struct hmreg *lib;
static struct hmreg_domain *domains[DOMAINS], *group;

static inline void close_all(void)
{
    if (group)
        assert_ok(hmreg_domain_close(group));
    for (size_t i = 0; i < DOMAINS; i++)
        assert_ok(hmreg_domain_close(domains[i]));
    assert_ok(hmreg_close(lib));
    assert_int_equal(atomic_load(&scarce.locked), 0);
    assert_int_equal(atomic_load(&scarce.strayed), 0);
}

/* Domains 0 and 1 are on NIC 0, 2 and 3 on NIC 1; none is open yet. */
static inline void open_lib(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};

    vendors_reset();
    scarce_reset();
    memset(domains, 0, sizeof(domains));
    group = NULL;
    assert_ok(hmreg_open(&config, &lib));
    test_after(close_all);
}

static inline void open_domain(unsigned number, bool any_thread)
{
    domains[number] = scarce_open(lib, number / 2, any_thread, NULL);
}

static inline struct hmreg_mr *get_of(struct hmreg_domain *domain, const void *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(domain, addr, len, HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

/* So many idle regions of a page each. */
static inline void fill(struct hmreg_domain *domain, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        hmreg_mr_put(get_of(domain, memory[i], PAGE));
}

static inline struct hmreg_stats stats_of(struct hmreg_domain *domain)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    assert_ok(hmreg_domain_stats(domain, &stats));
    return stats;
}

static inline uint64_t regions_of(struct hmreg_domain *domain)
{
    return stats_of(domain).regions;
}

#endif
