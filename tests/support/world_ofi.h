/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A world (world.h) whose NIC is libfabric's, simulated by fake_fabric.h: the provider's own code
 * runs. What the domain is and was asked for is in fake_fabric; the log has the vendors only.
 */
#ifndef TESTS_WORLD_OFI_H
#define TESTS_WORLD_OFI_H

#include "tests/support/fake_fabric.h"
#include "tests/support/world.h"

extern const struct world_fabric world_ofi;

#endif
