/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See many.h.
 */
#include "tests/model/many.h"

#include "tests/support/kernel_monitor.h"

#include <inttypes.h>

#define ENDS 1024 /* regions deregistered in one call, at most */

static struct {
    struct hmreg_domain *domain;
    uint64_t (*new_evictions)(void);
    uint64_t newest; /* the last region's key before the call */
    unsigned regs;
    uint64_t evictions[MANY + 1]; /* before registration i, since the one before it */
    unsigned ends[MANY + 1];      /* deregistered before registration i */
    struct pinned ended[ENDS];
    unsigned ended_count, told;
} t;

static void note_end(const struct pinned *region)
{
    if (t.ended_count == ENDS)
        oracle_fail("more than %d regions were deregistered in one call", ENDS);
    t.ended[t.ended_count++] = *region;
}

/* Called at each registration, and at the end: the get before is complete, but for dead regions
 * that nothing has deregistered yet. */
static void note_registration(const struct provider_request *request)
{
    if (t.regs > MANY)
        oracle_fail("more registrations than ranges");
    if (hmreg_domain_progress(t.domain))
        oracle_fail("hmreg_domain_progress(): %s", hmreg_last_error()->text);
    t.evictions[t.regs] = t.new_evictions();
    t.ends[t.regs++] = t.ended_count;
}

void many_begin(struct hmreg_domain *domain, uint64_t (*evictions)(void))
{
    t.domain = domain;
    t.new_evictions = evictions;
    t.newest = atomic_load(&pinning.regs);
    t.regs = t.ended_count = t.told = 0;
    pinning.reg_hook = note_registration;
    pinning.dereg_hook = note_end;
}

/* Tells the model what was deregistered before registration i. */
static void tell_ends(uint64_t i)
{
    while (t.told < t.ends[i])
        oracle_deregistered(&t.ended[t.told++]);
}

/* from: the registration after which evictions are the get's; 0: it registered nothing. */
static void judge(const struct many_got *got, uint64_t from)
{
    struct oracle_seen seen = {.region = got->region, .registered = from, .cached = got->cached};

    if (from) {
        for (; from <= got->region->key; from++)
            seen.evictions += t.evictions[from - t.newest];
        tell_ends(got->region->key - t.newest);
    }
    oracle_get(&got->want, &seen);
}

/* Was the region discarded, and the range registered again? The kernel module counts pages that a
 * registration for writing copies. */
static bool may_be_discarded(uint64_t key)
{
    bool ended = false;

    for (unsigned i = 0; i < t.ended_count && !ended; i++)
        ended = t.ended[i].key == key;
    return ended && kernel_monitor() == HMREG_MONITOR_COUNTER;
}

void many_end(const struct many_got *got, unsigned count)
{
    uint64_t last = t.newest;

    note_registration(NULL);
    pinning.reg_hook = NULL;
    pinning.dereg_hook = oracle_deregistered;
    if (t.evictions[0])
        oracle_fail("%" PRIu64 " regions were evicted for no miss", t.evictions[0]);
    tell_ends(0);
    for (unsigned i = 0; i < count; i++) {
        uint64_t key = got[i].region->key, from = last + 1;

        for (; key > last + 1; last++)
            if (!may_be_discarded(last + 1))
                oracle_fail("region %" PRIu64 " was registered for no range", last + 1);
        judge(&got[i], key > last ? from : 0);
        last = key > last ? key : last;
    }
    if (last != t.newest + t.regs - 1)
        oracle_fail("%u registrations for %u ranges", t.regs - 1, count);
}
