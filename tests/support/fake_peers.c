/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In place of the verbs provider's look at sysfs: see fake_peers in fake_verbs.h.
 */
#include "providers/verbs/verbs_peers.h"
#include "tests/support/fake_verbs.h"

unsigned fake_peers;

bool peers_serve(const char *sys, enum hmreg_iface iface)
{
    return fake_peers & HMREG_IFACE_BIT(iface) && strcmp(sys, "/sys") == 0;
}

const char *peers_remedy(enum hmreg_iface iface)
{
    return "get a client";
}
