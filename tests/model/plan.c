/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See plan.h.
 */
#include "tests/model/plan.h"

#include "tests/support/sanitizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if TEST_TSAN
#define MAY_FORK 0 /* ThreadSanitizer does not follow forks of a process with threads */
#else
#define MAY_FORK 1
#endif

/* xorshift64*: the same sequence everywhere. */
static uint64_t draw(uint64_t *random)
{
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return *random * 0x2545f4914f6cdd1dull;
}

static unsigned below(uint64_t *random, unsigned limit)
{
    return (unsigned)((draw(random) >> 33) % limit);
}

static struct step draw_step(uint64_t *random, enum act act, unsigned thread)
{
    return (struct step){.act = (uint8_t)act,
                         .thread = (uint8_t)thread,
                         .a = (uint16_t)draw(random),
                         .b = (uint32_t)(draw(random) >> 16),
                         .c = (uint32_t)(draw(random) >> 16),
                         .form = (uint32_t)(draw(random) >> 16)};
}

/* How often an act is drawn, per ten thousand; the rest are gets and puts. */
static unsigned weight(const struct plan_kind *kind, enum act act)
{
    switch (act) {
    case ACT_MAP:
        return kind->host ? kind->changes * 10 / 2 : 0;
    case ACT_UNMAP:
    case ACT_DROP:
    case ACT_MOVE:
        return kind->host ? kind->changes * 10 / 6 : 0;
    case ACT_FREE:
        return kind->devices ? 300 : 0;
    case ACT_LEAVE:
        return kind->devices ? 50 : 0;
    case ACT_INVALIDATE:
        return 40;
    case ACT_PEER:
        return 300;
    case ACT_GET_FAILS:
    case ACT_GET_INVALIDATED:
        return 100;
    case ACT_FLUSH:
        return 20;
    case ACT_BUSY:
        return 4;
    case ACT_RENEW:
        return 10;
    case ACT_FORK:
        return 0; /* at most once in an episode: see plan_make() */
    default:
        return 0;
    }
}

static enum act draw_act(const struct plan_kind *kind, uint64_t *random)
{
    unsigned at = below(random, 10000);

    for (enum act act = 0; act < ACT_COUNT; act++) {
        if (at < weight(kind, act))
            return act;
        at -= weight(kind, act);
    }
    return below(random, 5) < 3 ? ACT_GET : ACT_PUT;
}

static void draw_limits(struct plan *plan, uint64_t *random)
{
    static const uint64_t regions[] = {1, 2, 4, 8, 12, 16, 32, 0, HMREG_LIMIT_NONE};
    static const uint64_t all_regions[] = {1,
                                           5,
                                           12,
                                           24,
                                           40,
                                           HMREG_LIMIT_NONE,
                                           HMREG_LIMIT_NONE,
                                           HMREG_LIMIT_NONE,
                                           HMREG_LIMIT_NONE,
                                           HMREG_LIMIT_NONE};
    static const uint64_t all_bytes[] = {3000,
                                         40000,
                                         150000,
                                         HMREG_LIMIT_NONE,
                                         HMREG_LIMIT_NONE,
                                         HMREG_LIMIT_NONE,
                                         HMREG_LIMIT_NONE,
                                         HMREG_LIMIT_NONE};
    static const uint64_t bytes[] = {0, 0, HMREG_LIMIT_NONE, 3000, 20000, 60000, 200000};

    plan->max_regions = regions[below(random, 9)];
    plan->max_bytes = bytes[below(random, 7)];
    plan->all_regions = all_regions[below(random, 10)];
    plan->all_bytes = all_bytes[below(random, 8)];
}

void plan_make(struct plan *plan, const struct plan_kind *kind, unsigned long seed,
               unsigned long episode)
{
    uint64_t random = (seed * 0x9e3779b97f4a7c15u) ^ (episode * 0xd1342543de82ef95u) ^ 1;
    unsigned thread = 0;

    *plan = (struct plan){.kind = kind, .seed = seed, .episode = episode, .count = PLAN_STEPS};
    random ^= (uint64_t)kind->monitor << 40 ^ (uint64_t)kind->fabric << 48;
    for (int i = 0; i < 8; i++) /* separates similar seeds */
        (void)draw(&random);
    plan->threads = 1 + below(&random, PLAN_THREADS);
    plan->flags = below(&random, 4) ? 0 : HMREG_DOMAIN_EXACT;
    if (below(&random, 40) == 0)
        plan->flags = HMREG_DOMAIN_NO_CACHE;
    draw_limits(plan, &random);
    for (unsigned i = 0; i < PLAN_RANGES; i++)
        plan->ranges[i] = draw_step(&random, ACT_GET, 0);
    for (unsigned i = 0; i < plan->count; i++) {
        if (below(&random, 24) == 0)
            thread = below(&random, plan->threads);
        plan->steps[i] = draw_step(&random, draw_act(kind, &random), thread);
        plan->keep[i] = true;
    }
    plan->rights = (enum hmreg_rights)below(&random, HMREG_RIGHTS_ANY + 1);
    plan->policy = below(&random, 6) ? HMREG_POLICY_DEFAULT : HMREG_POLICY_LAST_PUT;
    if (MAY_FORK && below(&random, 4) == 0)
        plan->steps[below(&random, plan->count)].act = ACT_FORK;
}

void plan_print(const struct plan *plan, FILE *out)
{
    static const char *const names[ACT_COUNT] = {"get",
                                                 "get, which fails",
                                                 "get, invalidated meanwhile",
                                                 "put",
                                                 "peer",
                                                 "map",
                                                 "unmap",
                                                 "drop",
                                                 "move",
                                                 "free",
                                                 "leave",
                                                 "invalidate",
                                                 "flush",
                                                 "busy",
                                                 "renew",
                                                 "fork"};

    fprintf(out,
            "%s: flags %#x, rights %d, policy %d, limits %" PRIu64 " regions, %" PRIu64
            " bytes, of all %" PRIu64 " and %" PRIu64 ", %u threads\n",
            plan->kind->name, plan->flags, (int)plan->rights, (int)plan->policy, plan->max_regions,
            plan->max_bytes, plan->all_regions, plan->all_bytes, plan->threads);
    for (unsigned i = 0; i < plan->count; i++)
        if (plan->keep[i])
            fprintf(out, "  step %4u, thread %u: %s %u %u %u %u\n", i, plan->steps[i].thread,
                    names[plan->steps[i].act], plan->steps[i].a, plan->steps[i].b, plan->steps[i].c,
                    plan->steps[i].form);
}
