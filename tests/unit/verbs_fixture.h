/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library, a domain on the simulated libibverbs, and memory of a device, for the tests of the
 * verbs provider.
 */
#ifndef TESTS_UNIT_VERBS_FIXTURE_H
#define TESTS_UNIT_VERBS_FIXTURE_H

#include "tests/support/fake_verbs.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/verbs.h>

#define DEVICE_BYTES 65536

static struct verbs_fixture {
    struct hmreg *lib;
    struct ibv_pd *pd;
    struct hmreg_domain *domain;
    char *there; /* DEVICE_BYTES of cuda's device 1 */
} fixture;

static void verbs_end(void)
{
    vendor_memory_free(fixture.there);
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    assert_int_equal(fake_verbs.live, 0);
}

/* Opens the library until the case returns; a test may then change fake_verbs. */
static void verbs_begin(void)
{
    test_after(verbs_end);
    vendors_reset();
    fixture = (struct verbs_fixture){.pd = fake_verbs_reset()};
    assert_ok(hmreg_open(NULL, &fixture.lib));
    fixture.there = vendor_memory(HMREG_IFACE_CUDA, 1, HMREG_MEM_DEVICE, DEVICE_BYTES);
}

static int verbs_open_domain(const struct hmreg_domain_config *config)
{
    return hmreg_domain_open_verbs(fixture.lib, fixture.pd, config, &fixture.domain);
}

static inline void verbs_open_with(uint32_t flags)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = flags};

    assert_ok(verbs_open_domain(&config));
}

#endif
