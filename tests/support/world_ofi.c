/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See world_ofi.h.
 */
#include "tests/support/world_ofi.h"

#include <hmreg/ofi.h>

static void begin(void)
{
    fake_fabric_begin();
}

static int open_domain(struct hmreg *lib, const struct hmreg_domain_config *config,
                       struct hmreg_domain **out)
{
    return hmreg_domain_open_ofi(lib, &fake_fabric.domain, fake_fabric.info, config, out);
}

const struct world_fabric world_ofi = {begin, open_domain, fake_fabric_end};
