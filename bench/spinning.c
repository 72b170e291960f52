/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See spinning.h.
 */
#include "bench/spinning.h"

#include "bench/bench.h"
#include "bench/subject.h"
#include "core/contract/provider.h"

static int can(void *reg_ns, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    return 0;
}

static int reg(void *reg_ns, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    double until = now_ns() + *(const double *)reg_ns;

    while (now_ns() < until)
        ;
    *out = (struct hmreg_mr_keys){.key = req->requested_key};
    return 0;
}

static int dereg(void *reg_ns, struct hmreg_mr_keys *mr)
{
    return 0;
}

static const struct provider_ops spinning = {
    .name = "spinning", .can = can, .reg = reg, .dereg = dereg};

struct hmreg_domain *spinning_domain(struct hmreg *lib, double *reg_ns,
                                     const struct hmreg_domain_config *config)
{
    struct provider_caps caps = {.fabric = "spinning",
                                 .key_size = 8,
                                 .iov_limit = 1,
                                 .max_len = UINT64_MAX,
                                 .any_thread = true};
    struct hmreg_domain *domain = NULL;

    hmreg_must(hmreg_domain_create(lib, &spinning, &caps, reg_ns, config, &domain),
               "hmreg_domain_create");
    return domain;
}
