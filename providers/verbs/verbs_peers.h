/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Peer memory, as far as the kernel shows it: can RDMA devices of this machine reach a vendor's
 * memory by its address?
 */
#ifndef HMREG_PROVIDERS_VERBS_VERBS_PEERS_H
#define HMREG_PROVIDERS_VERBS_VERBS_PEERS_H

#include <hmreg/hmreg.h>
#include <stdbool.h>

/* Has the kernel a client for this vendor's memory? sys: where sysfs is, "/sys". */
bool peers_serve(const char *sys, enum hmreg_iface iface);

/* What would give it one: a part of a sentence. */
const char *peers_remedy(enum hmreg_iface iface);

#endif
