/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See world_verbs.h.
 */
#include "tests/support/world_verbs.h"

#include <hmreg/verbs.h>

static struct ibv_pd *pd;

static void begin(void)
{
    pd = fake_verbs_reset();
}

struct ibv_pd *world_verbs_pd(void)
{
    return pd;
}

static int open_domain(struct hmreg *lib, const struct hmreg_domain_config *config,
                       struct hmreg_domain **out)
{
    return hmreg_domain_open_verbs(lib, pd, config, out);
}

static void end(void)
{
    assert_int_equal(fake_verbs.live, 0);
}

const struct world_fabric world_verbs = {begin, open_domain, end};
