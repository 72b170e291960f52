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
/* The proof by one way of path dmabuf, on a domain of its own: way, result, text. Result "refused":
 * the way is not possible. */
json_t *proof_try_way(struct fabric_list *list, const struct fabric *fabric, const json_t *memory,
                      enum hmreg_way way);
json_t *proof_try(struct fabric_list *list, const struct fabric *fabric,
                  struct hmreg_domain *domain, const json_t *memory);

/* Memory to prove, in 64 KiB of which bytes are written and read through the fabric. */
struct proof_subject {
    enum hmreg_iface iface;
    int device;
    enum hmreg_mem_kind kind;
    bool cached;      /* by a region of hmreg_mr_get(), on a domain with HMREG_DOMAIN_EXACT */
    uint64_t address; /* out: of the memory, which is freed by then; 0: there was none */
};

/* The proof of it: result, text, path, way; and refused, unless the result is "untried". */
json_t *proof_of(struct hmreg *lib, const struct fabric *fabric, struct hmreg_domain *domain,
                 struct proof_subject *subject);

#endif
