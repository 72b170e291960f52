/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See under.h: libhmreg-ofi on the fabric named by HMREG_TEST_FABRIC, in today's mr_mode and in
 * the two old ones.
 */
#include "examples/common/endpoint.h"
#include "tests/conformance/under.h"

#include <hmreg/ofi.h>
#include <stdlib.h>

static const int old_modes[] = {0, HMREG_MR_BASIC, HMREG_MR_SCALABLE};
const unsigned under_variants = 3;
const uint32_t under_flags = HMREG_OFI_ASYNC;

int under_open_more(struct under *under, const struct hmreg_domain_config *config,
                    struct hmreg_domain **out)
{
    struct endpoint *endpoint = under->fabric;

    return hmreg_domain_open_ofi(under->lib, endpoint->domain, endpoint->info, config, out);
}

void under_open(struct under *under, unsigned variant)
{
    const char *fabric = getenv("HMREG_TEST_FABRIC");
    struct endpoint_hints hints = {.provider = fabric ? fabric : "tcp",
                                   .old_mr_mode = old_modes[variant]};
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
    int rc = endpoint_open(&hints, endpoint);

    if (rc) {
        endpoint_close(endpoint);
        free(endpoint);
        test_skip("libfabric has no %s here: %s", hints.provider, fi_strerror(-rc));
    }
    under->fabric = endpoint;
    assert_ok(hmreg_open(NULL, &under->lib));
    assert_ok(under_open_more(under, NULL, &under->domain));
}

void under_close(struct under *under)
{
    assert_ok(hmreg_domain_close(under->domain));
    assert_ok(hmreg_close(under->lib));
    endpoint_close(under->fabric);
    free(under->fabric);
}

unsigned under_regs(void)
{
    return 0;
}
