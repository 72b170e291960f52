/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Proves that a fabric moves the bytes of a memory. It exercises the drivers of vendors and
 * fabrics, which may crash or hang: only processes that check call it (verify.h).
 */
#ifndef HMREG_TOOLS_PROOF_H
#define HMREG_TOOLS_PROOF_H

#include "tools/fabric.h"

/* Memory to prove, in 64 KiB of which bytes are written and read through the fabric. */
struct proof_subject {
    enum hmreg_iface iface;
    int device;
    enum hmreg_mem_kind kind;
    bool cached;      /* use hmreg_mr_get(), on a domain with HMREG_DOMAIN_EXACT */
    uint64_t address; /* out: the memory's address, freed by then; 0: none */
};

/* Returns result, text, path, way; and refused, unless the result is "untried". */
json_t *proof_of(struct hmreg *lib, const struct fabric *fabric, struct hmreg_domain *domain,
                 struct proof_subject *subject);

/* The proof of one of a fabric's memories, as fabric.h describes it, by the path that registration
 * takes. */
json_t *proof_try(struct hmreg *lib, const struct fabric *fabric, struct hmreg_domain *domain,
                  const json_t *memory);
/* Proves one way of path dmabuf on a domain of its own. Returns way, result, text. Result
 * "refused": the way is not possible. */
json_t *proof_try_way(struct hmreg *lib, const struct fabric *fabric, const json_t *memory,
                      enum hmreg_way way);

#endif
