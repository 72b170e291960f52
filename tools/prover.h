/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Runs the proofs in a separate process: unlike a query, a transfer exercises the vendors' and the
 * fabrics' drivers, and a driver that crashes or hangs must not take hmreg doctor with it; instead
 * the doctor reports it.
 */
#ifndef HMREG_TOOLS_PROVER_H
#define HMREG_TOOLS_PROVER_H

#include "tools/fabric.h"

#define PROVER_ARGUMENT "--prove-for-parent" /* the only argument of that process */
#define PROVER_TIMEOUT  60                   /* seconds without a line, default */

/* In the parent: runs all proofs worth running, and sets "proof" in each memory of each fabric of
 * the facts; null: nothing to try. patience: the timeout in seconds. */
void prover_run(json_t *facts, int patience);

/* In the separate process: runs the proofs and reports to the parent. Returns the exit status. */
int prover_main(void);

/* Is a fabric worth a proof? And, while it is open, the proof for one of its memories. */
bool proof_is_worth_it(const struct fabric_list *list, const struct fabric *fabric);
json_t *proof_try(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, const json_t *memory);

#endif
