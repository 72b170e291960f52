/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library, a domain on the simulated fid_domain, and memory of a device where a test wants it.
 */
#ifndef TESTS_UNIT_OFI_FIXTURE_H
#define TESTS_UNIT_OFI_FIXTURE_H

#include <hmreg/hmreg.h>

extern struct ofi_fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory; /* vendor_memory(), or NULL; freed with the domain */
} fixture;

/* Opens the library until the case returns; a test may then change fake_fabric.info. */
void ofi_begin(void);
int ofi_open_domain(const struct hmreg_domain_config *config);
/* Both, with this mode. */
void ofi_begin_with(int mr_mode);

/* Changes the provider's name in fake_fabric.info; NULL: it has none. */
void ofi_set_provider(const char *name);

#endif
