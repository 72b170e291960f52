/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For tests of hits, in programs linked with -Wl,--wrap=cache_drain: a domain whose memory is not
 * monitored, and how many requests left the fast path.
 */
#ifndef HMREG_TESTS_UNIT_HITS_H
#define HMREG_TESTS_UNIT_HITS_H

#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"

#define LEN  64
#define MANY 5000

static char memory[MANY][LEN];

static void open_fixture(uint64_t max_regions)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = max_regions};

    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

/* Each request that the fast path does not serve drains first. */
static _Thread_local unsigned drains;

struct cache_pool;

bool __real_cache_drain(struct cache_pool *pool);
bool __wrap_cache_drain(struct cache_pool *pool);
bool __wrap_cache_drain(struct cache_pool *pool)
{
    drains++;
    return __real_cache_drain(pool);
}

#endif
