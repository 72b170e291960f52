/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See under.h: libhmreg-verbs, as it is built, on a fake libibverbs.
 */
#include "tests/conformance/under.h"
#include "tests/support/fake_verbs.h"

#include <hmreg/verbs.h>

const unsigned under_variants = 1;
const uint32_t under_flags = HMREG_VERBS_RELAXED_ORDERING | HMREG_VERBS_ON_DEMAND |
                             HMREG_VERBS_MEMORY_WINDOWS | HMREG_VERBS_ATOMICS;

int under_open_more(struct under *under, const struct hmreg_domain_config *config,
                    struct hmreg_domain **out)
{
    return hmreg_domain_open_verbs(under->lib, under->fabric, config, out);
}

void under_open(struct under *under, unsigned variant)
{
    under->fabric = fake_verbs_reset();
    assert_ok(hmreg_open(NULL, &under->lib));
    assert_ok(under_open_more(under, NULL, &under->domain));
}

void under_close(struct under *under)
{
    assert_ok(hmreg_domain_close(under->domain));
    assert_ok(hmreg_close(under->lib));
    assert_int_equal(fake_verbs.live, 0);
}

unsigned under_regs(void)
{
    return fake_verbs.regs;
}
