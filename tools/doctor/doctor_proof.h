/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Proves by a transfer that an open fabric can access a kind of memory.
 */
#ifndef HMREG_TOOLS_DOCTOR_DOCTOR_PROOF_H
#define HMREG_TOOLS_DOCTOR_DOCTOR_PROOF_H

#include "tools/fabric.h"

/* Is a fabric worth a proof? And, while it is open, the proof for one of its memories. */
bool proof_is_worth_it(const struct fabric_list *list, const struct fabric *fabric);
json_t *proof_try(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, const json_t *memory);

#endif
