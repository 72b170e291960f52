/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A world (world.h) whose NIC is libibverbs', simulated by fake_verbs.h: the provider's own code
 * runs. What the device is and was asked for is in fake_verbs; the log has the vendors only.
 */
#ifndef TESTS_WORLD_VERBS_H
#define TESTS_WORLD_VERBS_H

#include "tests/support/fake_verbs.h"
#include "tests/support/world.h"

extern const struct world_fabric world_verbs;

/* The protection domain that the world's domain is opened on; borrowed. */
struct ibv_pd *world_verbs_pd(void);

#endif
