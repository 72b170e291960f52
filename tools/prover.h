/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Proofs run in a process of their own: a transfer goes through the vendors' and the fabrics'
 * drivers in ways that no query does, and one that crashes or never returns must not take the
 * doctor with it, but be what he finds.
 */
#ifndef HMREG_TOOLS_PROVER_H
#define HMREG_TOOLS_PROVER_H

#include <jansson.h>

#define PROVER_ARGUMENT "--prove-for-parent" /* the only argument of that process */
#define PROVER_PATIENCE 60                   /* seconds without a word from it, unless said */

/* In the parent: has everything proven that is worth it; sets "proof" of each memory of each
 * fabric of the facts, null where nothing was to be tried. */
void prover_run(json_t *facts, int patience);

/* In the process: proves, and tells the parent. The exit status. */
int prover_main(void);

#endif
