/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The provider a test of what all providers have in common runs on: loopback in many modes, verbs
 * on a fake libibverbs, libfabric. Each executable is linked with one file that defines these.
 */
#ifndef TESTS_CONFORMANCE_UNDER_H
#define TESTS_CONFORMANCE_UNDER_H

#include "tests/support/test.h"

#include <hmreg/hmreg.h>

struct under {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    void *fabric; /* the provider's */
};

extern const unsigned under_variants; /* 0 <= variant < under_variants */
extern const uint32_t under_flags;    /* flags of a domain's config of the provider's own */

/* A library and a domain. The test is skipped, with the reason, where the fabric is not here. */
void under_open(struct under *under, unsigned variant);
/* Another domain on the same fabric. */
int under_open_more(struct under *under, const struct hmreg_domain_config *config,
                    struct hmreg_domain **out);
void under_close(struct under *under);

/* Registrations the fabric was asked for so far; always 0 where it does not tell. */
unsigned under_regs(void);

#endif
