/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg's cache, above a provider that does nothing or spins for a set time.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/subject.h"
#include "core/cache/cache_set.h"
#include "core/contract/provider.h"

#include <hmreg/group.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum kind { USERFAULT, NOTICE, IMPORT, DEFAULT, COUNTER, DISABLED, GROUP, EIGHT };
#define RAILS 8

static int reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    *out = (struct hmreg_mr_keys){.key = req->requested_key};
    registrations++;
    if (registration_ns > 0)
        burn_ns(registration_ns);
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    return 0;
}

static const struct provider_ops nothing = {.name = "nothing", .reg = reg, .dereg = dereg};

double hmreg_provider_ns(void)
{
    const struct provider_ops *volatile ops = &nothing;
    struct provider_request request = {.requested_key = 0};
    struct hmreg_reason why;
    struct hmreg_mr_keys mr;
    size_t count = 100000;
    double begun = now_ns();

    for (size_t i = 0; i < count; i++) {
        (void)ops->reg(NULL, &request, &mr, &why);
        (void)ops->dereg(NULL, &mr);
    }
    return (now_ns() - begun) / (double)count;
}

void hmreg_must(int rc, const char *what)
{
    if (rc)
        leave("%s: %s", what, hmreg_last_error()->text);
}

static struct hmreg_domain *domain_of(struct hmreg *lib, size_t regions)
{
    struct provider_caps caps = {
        .fabric = "nothing", .key_size = 8, .iov_limit = 1, .max_len = UINT64_MAX};
    struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = regions, .max_bytes = HMREG_LIMIT_NONE};
    struct hmreg_domain *domain = NULL;

    hmreg_must(hmreg_domain_create(lib, &nothing, &caps, NULL, &config, &domain),
               "hmreg_domain_create");
    return domain;
}

struct hmreg_domain *hmreg_another_domain(struct hmreg *lib, size_t regions)
{
    return domain_of(lib, regions);
}

struct state {
    struct hmreg_state hmreg;          /* must be first: other files know only this part */
    struct hmreg_domain *rails[RAILS]; /* for subjects with eight domains; else NULL */
};

/* Opens eight domains; a group has its own cache. */
static void open_rails(struct state *state, enum kind kind, size_t regions)
{
    struct hmreg_domain_config cache = {
        .size = sizeof(cache), .max_regions = regions, .max_bytes = HMREG_LIMIT_NONE};
    struct hmreg_group_config config = {.size = sizeof(config), .domain = &cache};

    for (int i = 0; i < RAILS; i++)
        state->rails[i] = domain_of(state->hmreg.lib, regions);
    if (kind == GROUP)
        hmreg_must(
            hmreg_group_open(state->hmreg.lib, state->rails, RAILS, &config, &state->hmreg.domain),
            "hmreg_group_open");
    else
        state->hmreg.domain = state->rails[0];
}

/* Without the module: hits take the same steps as with it, and read a page of ours. */
static void count_nothing(struct hmreg_domain *domain)
{
    static const uint64_t page[512];
    static const struct gate_counts counts = {.made = page};
    struct gate *gate = domain->caches->pool.thread_caches.gate;

    gate->counts = &counts;
    atomic_fetch_or(&gate->state, GATE_COUNTED);
}

static void *open_state(const struct subject *self, size_t regions)
{
    static const enum hmreg_monitor monitors[] = {
        [USERFAULT] = HMREG_MONITOR_USERFAULTFD, [NOTICE] = HMREG_MONITOR_USERFAULTFD,
        [IMPORT] = HMREG_MONITOR_IMPORT,         [DEFAULT] = HMREG_MONITOR_DEFAULT,
        [DISABLED] = HMREG_MONITOR_DISABLED,     [GROUP] = HMREG_MONITOR_DEFAULT,
        [EIGHT] = HMREG_MONITOR_DEFAULT,         [COUNTER] = HMREG_MONITOR_COUNTER,
    };
    bool stands_in = self->variant == COUNTER && access("/dev/hmreg", F_OK);
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitors[self->variant]};
    struct state *state = calloc(1, sizeof(*state));

    if (!state)
        leave("no memory");
    if (stands_in)
        config.monitor = HMREG_MONITOR_MEMHOOKS;
    setenv("HMREG_CACHE_CHECK", self->variant == NOTICE ? "notice" : "always", 1);
    hmreg_must(hmreg_open(&config, &state->hmreg.lib), "hmreg_open");
    if (self->variant == GROUP || self->variant == EIGHT)
        open_rails(state, self->variant, regions);
    else
        state->hmreg.domain = domain_of(state->hmreg.lib, regions);
    if (stands_in)
        count_nothing(state->hmreg.domain);
    return state;
}

static void close_state(void *arg)
{
    struct state *state = arg;

    if (state->hmreg.domain != state->rails[0])
        hmreg_must(hmreg_domain_close(state->hmreg.domain), "hmreg_domain_close");
    for (int i = 0; i < RAILS; i++)
        hmreg_must(hmreg_domain_close(state->rails[i]), "hmreg_domain_close");
    hmreg_must(hmreg_close(state->hmreg.lib), "hmreg_close");
    free(state);
}

static void hits(void *arg, char *base, const uint32_t *order, size_t count)
{
    struct hmreg_domain *domain = ((struct hmreg_state *)arg)->domain;
    struct hmreg_mr *mr;

    for (size_t i = 0; i < count; i++) {
        if (hmreg_mr_get(domain, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES, HMREG_SEND,
                         &mr))
            hmreg_must(-1, "hmreg_mr_get");
        hmreg_mr_put(mr);
    }
}

static volatile uintptr_t posted;

/* Reads a region's descriptor and key, which a transfer needs. */
static void hits_with_head(void *arg, char *base, const uint32_t *order, size_t count)
{
    struct hmreg_domain *domain = ((struct hmreg_state *)arg)->domain;
    struct hmreg_mr *mr;

    for (size_t i = 0; i < count; i++) {
        const struct hmreg_mr_keys *keys;

        if (hmreg_mr_get(domain, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES, HMREG_SEND,
                         &mr))
            hmreg_must(-1, "hmreg_mr_get");
        keys = hmreg_mr_head_of(mr)->keys;
        posted = (uintptr_t)keys->desc + keys->key;
        hmreg_mr_put(mr);
    }
}

static void hits_with_calls(void *arg, char *base, const uint32_t *order, size_t count)
{
    struct hmreg_domain *domain = ((struct hmreg_state *)arg)->domain;
    struct hmreg_mr *mr;

    for (size_t i = 0; i < count; i++) {
        if (hmreg_mr_get(domain, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES, HMREG_SEND,
                         &mr))
            hmreg_must(-1, "hmreg_mr_get");
        posted = (uintptr_t)hmreg_mr_desc(mr) + hmreg_mr_key(mr);
        hmreg_mr_put(mr);
    }
}

static void whole(void *arg, char *base, size_t bytes)
{
    struct hmreg_mr *mr;

    hmreg_must(hmreg_mr_get(((struct hmreg_state *)arg)->domain, base, bytes, HMREG_SEND, &mr),
               "hmreg_mr_get");
    hmreg_mr_put(mr);
}

/* Gets each rail, like a program without groups. */
static void hits_of_eight(void *arg, char *base, const uint32_t *order, size_t count)
{
    struct state *state = arg;
    struct hmreg_mr *mr[RAILS];

    for (size_t i = 0; i < count; i++) {
        for (int rail = 0; rail < RAILS; rail++)
            if (hmreg_mr_get(state->rails[rail], base + (size_t)order[i] * REGION_BYTES,
                             REGION_BYTES, HMREG_SEND, &mr[rail]))
                hmreg_must(-1, "hmreg_mr_get");
        for (int rail = 0; rail < RAILS; rail++)
            hmreg_mr_put(mr[rail]);
    }
}

/* Without this check a cache that does not cache would be measured as one that does. */
static void check(void *arg, size_t regions)
{
    struct hmreg_state *state = arg;
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    hmreg_must(hmreg_domain_stats(state->domain, &stats), "hmreg_domain_stats");
    if (stats.uncached || stats.evictions || stats.misses != regions)
        leave("failed: %zu regions, but %llu misses, %llu uncached, %llu evicted", regions,
              (unsigned long long)stats.misses, (unsigned long long)stats.uncached,
              (unsigned long long)stats.evictions);
    hmreg_must(hmreg_monitor_query(state->lib, &info), "hmreg_monitor_query");
    if (info.asked == HMREG_MONITOR_DEFAULT && info.active != HMREG_MONITOR_MEMHOOKS &&
        info.active != HMREG_MONITOR_COUNTER)
        leave("the default is %s here: %s", hmreg_monitor_name(info.active), info.why);
}

#define SUBJECT_BY(how, name, kind, why)                                                           \
    {                                                                                              \
        .who = name, .variant = kind, .absent = why, .open = open_state, .close = close_state,     \
        .hits = how, .whole = whole, .check = check,                                               \
    }
#define SUBJECT(name, kind, why) SUBJECT_BY(hits, name, kind, why)

const struct subject subject_hmreg_userfault = SUBJECT(WHO_USERFAULT, USERFAULT, NULL);
#ifdef BENCH_POLICIES
const struct subject subject_hmreg_notice = SUBJECT(WHO_NOTICE, NOTICE, NULL);
#else
const struct subject subject_hmreg_notice =
    SUBJECT(WHO_NOTICE, NOTICE, "this library knows no policy but the default");
#endif
const struct subject subject_hmreg_import = SUBJECT(WHO_IMPORT, IMPORT, NULL);
const struct subject subject_hmreg_default = SUBJECT(WHO_DEFAULT, DEFAULT, NULL);
const struct subject subject_hmreg_counter = SUBJECT(WHO_COUNTER, COUNTER, NULL);
const struct subject subject_hmreg_head = SUBJECT_BY(hits_with_head, WHO_HEAD, DEFAULT, NULL);
const struct subject subject_hmreg_calls = SUBJECT_BY(hits_with_calls, WHO_CALLS, DEFAULT, NULL);
const struct subject subject_hmreg_group = SUBJECT(WHO_GROUP, GROUP, NULL);
const struct subject subject_hmreg_eight = SUBJECT_BY(hits_of_eight, WHO_EIGHT, EIGHT, NULL);
const struct subject subject_hmreg_disabled = SUBJECT("hmreg disabled", DISABLED, NULL);
