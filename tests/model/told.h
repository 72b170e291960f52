/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a domain tells its owner of its regions: the callback made comes once before a get returns
 * the region, ended once before it is deregistered, with its description; and the region's context
 * is what was set, until its end.
 */
#ifndef TESTS_MODEL_TOLD_H
#define TESTS_MODEL_TOLD_H

#include "tests/support/pinning.h"

/* Sets the callbacks of a domain that will be opened. */
void told_open(struct hmreg_domain_config *config);

/* Judges a region that a get returns. registered: for this get. */
void told_get(struct hmreg_mr *mr, bool registered);
/* Judges the end of a get's registration. */
void told_deregistered(const struct pinned *region);

#endif
