/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A member of a group of three that is withdrawn and replaced under 10,000 held regions, on
 * providers whose registration takes 5 us.
 *
 * - withdraw: hits of one thread while another withdraws the member
 * - replace: hmreg_group_replace() until each region has the new member, beside the application's
 *   own registration of as many regions on one domain
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/fixture.h"
#include "bench/probe.h"
#include "bench/spinning.h"

#include <hmreg/group.h>
#include <pthread.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#define REGIONS 10000
#define HOT     1000 /* of these, that are hit meanwhile */
#define RAILS   3
#define REG_NS  5e3

enum { LONGEST, SLEPT, WITHDRAW, REPLACE, VALUES };

static const struct measure measures[VALUES] = {{"withdraw-longest", "us"},
                                                {"withdraw-slept", "us"},
                                                {"withdraw-10000", "ms"},
                                                {"replace-10000", "ms"}};

struct bench {
    struct hmreg_state hmreg; /* its domain is the group; first, for the prober */
    struct hmreg_domain *spare;
    struct prober prober;
    struct order order;
    struct hmreg_mr *mrs[REGIONS];
    pthread_t thread;
    double withdraw_ns;
    atomic_bool withdrawn;
};

/* ---- the group ---------------------------------------------------------------------------- */

static void open_group(struct bench *bench)
{
    static double reg_ns = REG_NS;
    struct hmreg_domain_config cache = {
        .size = sizeof(cache), .max_regions = 2 * REGIONS, .max_bytes = HMREG_LIMIT_NONE};
    struct hmreg_group_config config = {.size = sizeof(config), .domain = &cache};
    struct hmreg_domain *rails[RAILS];

    hmreg_must(hmreg_open(NULL, &bench->hmreg.lib), "hmreg_open");
    for (int i = 0; i < RAILS; i++)
        rails[i] = spinning_domain(bench->hmreg.lib, &reg_ns, &cache);
    bench->spare = spinning_domain(bench->hmreg.lib, &reg_ns, &cache);
    hmreg_must(hmreg_group_open(bench->hmreg.lib, rails, RAILS, &config, &bench->hmreg.domain),
               "hmreg_group_open");
}

static void *open_bench(const void *arg)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        leave("no memory");
    open_group(bench);
    order_shuffle(&bench->order, 0, HOT, 1);
    bench->prober = (struct prober){&subject_hmreg_default, &bench->hmreg, fixture_reserve(REGIONS),
                                    &bench->order};
    return bench;
}

static void *open_held(const void *arg)
{
    struct bench *bench = open_bench(arg);

    for (size_t i = 0; i < REGIONS; i++)
        hmreg_must(hmreg_mr_get(bench->hmreg.domain, bench->prober.base + i * REGION_BYTES,
                                REGION_BYTES, HMREG_SEND, &bench->mrs[i]),
                   "hmreg_mr_get");
    return bench;
}

/* ---- the contestants ---------------------------------------------------------------------- */

static void *withdraw(void *arg)
{
    struct bench *bench = arg;
    double start;

    pin(1);
    burn_ns(1e6); /* so that the other thread hits */
    start = now_ns();
    hmreg_must(hmreg_group_withdraw(bench->hmreg.domain, 1, "measured"), "hmreg_group_withdraw");
    bench->withdraw_ns = now_ns() - start;
    atomic_store(&bench->withdrawn, true);
    return NULL;
}

static struct hmreg_group_member member(struct bench *bench)
{
    struct hmreg_group_member info = {.size = sizeof(info)};

    hmreg_must(hmreg_group_query(bench->hmreg.domain, 1, &info), "hmreg_group_query");
    return info;
}

/* The withdrawn domain is the next turn's spare. */
static double replace_ns(struct bench *bench)
{
    static const struct timespec pause = {.tv_nsec = 100000};
    struct hmreg_domain *before = member(bench).domain;
    double start = now_ns(), end;

    hmreg_must(hmreg_group_replace(bench->hmreg.domain, 1, bench->spare), "hmreg_group_replace");
    while (member(bench).state == HMREG_MEMBER_REPLACING)
        nanosleep(&pause, NULL);
    end = now_ns();
    if (member(bench).done != REGIONS)
        leave("failed: %zu of %d regions have the member", member(bench).done, REGIONS);
    bench->spare = before;
    return end - start;
}

static void sample_group(void *state, int worker, double *values)
{
    struct bench *bench = state;
    struct until until = {.stop = &bench->withdrawn};
    struct gaps gaps;

    atomic_store(&bench->withdrawn, false);
    if (pthread_create(&bench->thread, NULL, withdraw, bench))
        leave("no thread");
    probe_gaps(&bench->prober, &until, &gaps);
    pthread_join(bench->thread, NULL);
    values[LONGEST] = gaps.longest_us;
    values[SLEPT] = gaps.slept_us;
    values[WITHDRAW] = bench->withdraw_ns / 1e6;
    values[REPLACE] = replace_ns(bench) / 1e6;
}

static void sample_alone(void *state, int worker, double *values)
{
    struct bench *bench = state;
    double start = now_ns();

    for (size_t i = 0; i < REGIONS; i++)
        hmreg_must(hmreg_mr_reg(bench->spare, bench->prober.base + i * REGION_BYTES, REGION_BYTES,
                                HMREG_SEND, 0, i + 1, 0, &bench->mrs[i], NULL),
                   "hmreg_mr_reg");
    values[LONGEST] = values[SLEPT] = values[WITHDRAW] = NAN;
    values[REPLACE] = (now_ns() - start) / 1e6;
    for (size_t i = 0; i < REGIONS; i++)
        hmreg_must(hmreg_mr_close(bench->mrs[i]), "hmreg_mr_close");
}

/* ---- the part ----------------------------------------------------------------------------- */

void measure_rails(void)
{
    static const struct job group = {.open = open_held, .sample = sample_group};
    static const struct job alone = {.open = open_bench, .sample = sample_alone};
    const struct contestant contestants[] = {
        {.who = "a member of a group", .job = &group},
        {.who = "registered by itself", .job = &alone},
    };

    progress("rails: a member withdrawn and replaced under 10,000 held regions");
    contest(measures, VALUES, contestants, 2, plan.fresh, plan.turns);
}
