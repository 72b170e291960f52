/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ofi_fixture.h.
 */
#include "tests/unit/ofi_fixture.h"

#include "tests/support/fake_fabric.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/ofi.h>

struct ofi_fixture fixture;

static void end(void)
{
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    if (fixture.memory)
        vendor_memory_free(fixture.memory);
    fake_fabric_end();
}

void ofi_begin(void)
{
    test_after(end);
    vendors_reset();
    fake_fabric_begin();
    fixture = (struct ofi_fixture){.lib = NULL};
    assert_ok(hmreg_open(NULL, &fixture.lib));
}

int ofi_open_domain(const struct hmreg_domain_config *config)
{
    return hmreg_domain_open_ofi(fixture.lib, &fake_fabric.domain, fake_fabric.info, config,
                                 &fixture.domain);
}

void ofi_begin_with(int mr_mode)
{
    ofi_begin();
    fake_fabric.info->domain_attr->mr_mode = mr_mode;
    assert_ok(ofi_open_domain(NULL));
}

void ofi_set_provider(const char *name)
{
    free(fake_fabric.info->fabric_attr->prov_name);
    fake_fabric.info->fabric_attr->prov_name = name ? strdup(name) : NULL;
}
