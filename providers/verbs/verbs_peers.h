/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Peer memory, as far as the kernel shows it: can this machine's RDMA devices register a vendor's
 * memory by address?
 */
#ifndef HMREG_PROVIDERS_VERBS_VERBS_PEERS_H
#define HMREG_PROVIDERS_VERBS_VERBS_PEERS_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

/* Does the kernel have a peer-memory client for this vendor? sys: the sysfs mount, "/sys". */
bool peers_serve(const char *sys, enum hmreg_iface iface);

/* How to get such a client: part of a sentence. */
const char *peers_remedy(enum hmreg_iface iface);

#endif
