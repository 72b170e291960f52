/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The suite on the real verbs provider, over a simulated device (fake_verbs.h) that copies host
 * memory by its regions' keys. It imports no dmabufs and has no messages or atomics.
 */
#include "tests/conformance/suite.h"
#include "tests/support/fake_verbs.h"

#include <hmreg/verbs.h>

static int open_more(struct suite_fixture *fixture, const struct hmreg_domain_config *config,
                     struct hmreg_domain **out)
{
    return hmreg_domain_open_verbs(fixture->lib, fixture->own, config, out);
}

static bool open_pair(struct suite_fixture *fixture, unsigned variant)
{
    fixture->own = fake_verbs_reset();
    fake_verbs.dmabuf_probe = EOPNOTSUPP;
    assert_ok(open_more(fixture, NULL, &fixture->domain));
    assert_ok(open_more(fixture, NULL, &fixture->peer));
    return true;
}

static void close_pair(struct suite_fixture *fixture)
{
    assert_ok(hmreg_domain_close(fixture->peer));
    assert_ok(hmreg_domain_close(fixture->domain));
    assert_int_equal(fake_verbs.live, 0);
}

static int rma(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write, void *local,
               size_t len, void *desc, uint64_t addr, uint64_t key)
{
    return fake_verbs_rma(write, local, len, desc, addr, key) ? 0 : -EIO;
}

/* A refusal does not affect an initiator. */
static void replace(struct suite_fixture *fixture)
{
}

static unsigned registrations(void)
{
    return fake_verbs.regs;
}

const struct suite_fabric *suite_fabric(const char *name)
{
    static const struct suite_fabric fake = {
        .name = "fake_verbs",
        .reports_denials = true,
        .variants = 1,
        .open = open_pair,
        .open_more = open_more,
        .optional_access = IBV_ACCESS_OPTIONAL_RANGE & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING,
        .domain_flags = HMREG_VERBS_RELAXED_ORDERING | HMREG_VERBS_ON_DEMAND |
                        HMREG_VERBS_MEMORY_WINDOWS | HMREG_VERBS_ATOMICS |
                        HMREG_VERBS_ATOMICS_IF_POSSIBLE,
        .registrations = registrations,
        .close = close_pair,
        .rma = rma,
        .replace = replace,
    };

    return &fake;
}
