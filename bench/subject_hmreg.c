/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg's cache, above a provider that does nothing.
 */
#include "bench/bench.h"
#include "providers/provider.h"

#include <stdio.h>
#include <stdlib.h>

struct state {
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

static int reg(void *self, const struct provider_request *req, struct provider_mr *out,
               struct hmreg_reason *why)
{
    *out = (struct provider_mr){.key = req->requested_key};
    return 0;
}

static int dereg(void *self, struct provider_mr *mr)
{
    return 0;
}

static void must(int rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "%s: %s\n", what, hmreg_last_error()->text);
    exit(1);
}

static void *open_state(size_t regions)
{
    static const struct provider_ops ops = {.name = "nothing", .reg = reg, .dereg = dereg};
    struct provider_caps caps = {.fabric = "nothing", .key_size = 8, .iov_limit = 1,
                                 .max_len = UINT64_MAX};
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = regions,
                                         .max_bytes = HMREG_LIMIT_NONE};
    struct state *state = calloc(1, sizeof(*state));

    must(hmreg_open(NULL, &state->lib), "hmreg_open");
    must(hmreg_domain_create(state->lib, &ops, &caps, NULL, &config, &state->domain),
         "hmreg_domain_create");
    return state;
}

static void close_state(void *arg)
{
    struct state *state = arg;

    must(hmreg_domain_close(state->domain), "hmreg_domain_close");
    must(hmreg_close(state->lib), "hmreg_close");
    free(state);
}

static void hits(void *arg, char *base, const uint32_t *order, size_t count)
{
    struct state *state = arg;
    struct hmreg_mr *mr;

    for (size_t i = 0; i < count; i++) {
        if (hmreg_mr_get(state->domain, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES,
                         HMREG_SEND, &mr))
            must(-1, "hmreg_mr_get");
        hmreg_mr_put(mr);
    }
}

const struct subject subject_hmreg = {
    .name = "hmreg",
    .open = open_state,
    .close = close_state,
    .hits = hits,
};
