/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg's cache, above a provider that does nothing or spins for a set time.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/subject.h"
#include "providers/provider.h"

#include <stdlib.h>

enum variant { USERFAULT, NOTICE, IMPORT, DEFAULT, DISABLED };

static int reg(void *self, const struct provider_request *req, struct provider_mr *out,
               struct hmreg_reason *why)
{
    *out = (struct provider_mr){.key = req->requested_key};
    registrations++;
    if (registration_ns > 0)
        burn_ns(registration_ns);
    return 0;
}

static int dereg(void *self, struct provider_mr *mr)
{
    return 0;
}

static const struct provider_ops nothing = {.name = "nothing", .reg = reg, .dereg = dereg};

double hmreg_provider_ns(void)
{
    const struct provider_ops *volatile ops = &nothing;
    struct provider_request request = {.requested_key = 0};
    struct hmreg_reason why;
    struct provider_mr mr;
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

static void *open_state(const struct subject *self, size_t regions)
{
    static const enum hmreg_monitor monitors[] = {
        [USERFAULT] = HMREG_MONITOR_USERFAULTFD, [NOTICE] = HMREG_MONITOR_USERFAULTFD,
        [IMPORT] = HMREG_MONITOR_IMPORT,         [DEFAULT] = HMREG_MONITOR_DEFAULT,
        [DISABLED] = HMREG_MONITOR_DISABLED,
    };
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitors[self->variant]};
    struct hmreg_state *state = calloc(1, sizeof(*state));

    if (!state)
        leave("no memory");
    setenv("HMREG_CACHE_CHECK", self->variant == NOTICE ? "notice" : "always", 1);
    hmreg_must(hmreg_open(&config, &state->lib), "hmreg_open");
    state->domain = domain_of(state->lib, regions);
    return state;
}

static void close_state(void *arg)
{
    struct hmreg_state *state = arg;

    hmreg_must(hmreg_domain_close(state->domain), "hmreg_domain_close");
    hmreg_must(hmreg_close(state->lib), "hmreg_close");
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
    if (info.asked == HMREG_MONITOR_DEFAULT && info.active != HMREG_MONITOR_MEMHOOKS)
        leave("the default is %s here: %s", hmreg_monitor_name(info.active), info.why);
}

#define SUBJECT(name, kind, why)                                                                   \
    {                                                                                              \
        .who = name, .variant = kind, .absent = why, .open = open_state, .close = close_state,     \
        .hits = hits, .check = check,                                                              \
    }

const struct subject subject_hmreg_userfault = SUBJECT(WHO_USERFAULT, USERFAULT, NULL);
#ifdef BENCH_POLICIES
const struct subject subject_hmreg_notice = SUBJECT(WHO_NOTICE, NOTICE, NULL);
#else
const struct subject subject_hmreg_notice =
    SUBJECT(WHO_NOTICE, NOTICE, "this library knows no policy but the default");
#endif
const struct subject subject_hmreg_import = SUBJECT(WHO_IMPORT, IMPORT, NULL);
const struct subject subject_hmreg_default = SUBJECT(WHO_DEFAULT, DEFAULT, NULL);
const struct subject subject_hmreg_disabled = SUBJECT("hmreg disabled", DISABLED, NULL);
