/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See under.h: loopback, in each mode alone and in the usual combinations, with keys of each size.
 */
#include "tests/conformance/under.h"

#include <hmreg/loopback.h>

static const struct hmreg_loopback_config variants[] = {
    {.mr_mode = 0},
    {.mr_mode = HMREG_MR_LOCAL},
    {.mr_mode = HMREG_MR_RAW},
    {.mr_mode = HMREG_MR_VIRT_ADDR},
    {.mr_mode = HMREG_MR_ALLOCATED},
    {.mr_mode = HMREG_MR_PROV_KEY},
    {.mr_mode = HMREG_MR_MMU_NOTIFY},
    {.mr_mode = HMREG_MR_RMA_EVENT},
    {.mr_mode = HMREG_MR_ENDPOINT},
    {.mr_mode = HMREG_MR_HMEM},
    {.mr_mode = HMREG_MR_BASIC},
    {.mr_mode = HMREG_MR_SCALABLE},
    {.mr_mode = HMREG_MR_LOCAL | HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY},
    {.mr_mode = HMREG_MR_RAW | HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY | HMREG_MR_HMEM},
    {.key_size = 1, .iov_limit = 1, .max_len = 1 << 20},
    {.key_size = 2, .iov_limit = 2},
    {.key_size = 7, .mr_mode = HMREG_MR_VIRT_ADDR},
};
const unsigned under_variants = sizeof(variants) / sizeof(variants[0]);
const uint32_t under_flags = 0;

static struct hmreg_loopback_config current;

int under_open_more(struct under *under, const struct hmreg_domain_config *config,
                    struct hmreg_domain **out)
{
    return hmreg_domain_open_loopback(under->lib, &current, config, out);
}

void under_open(struct under *under, unsigned variant)
{
    current = variants[variant];
    current.size = sizeof(current);
    assert_ok(hmreg_open(NULL, &under->lib));
    assert_ok(under_open_more(under, NULL, &under->domain));
}

void under_close(struct under *under)
{
    assert_ok(hmreg_domain_close(under->domain));
    assert_ok(hmreg_close(under->lib));
}

unsigned under_regs(void)
{
    return 0;
}
