/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The parts of `hmreg doctor`, one noun a file. First facts are gathered, all of them, into one
 * JSON object; then judges look at the facts and at nothing else, and add findings. So a test
 * gives a judge any machine it likes, and the facts of a user's --json can be judged again.
 * hmreg-doctor(1) documents the keys.
 */
#ifndef HMREG_TOOLS_DOCTOR_DOCTOR_H
#define HMREG_TOOLS_DOCTOR_DOCTOR_H

#include "tools/document.h"

/* ---- facts ------------------------------------------------------------------------------ */

json_t *kernel_facts(void);
json_t *process_facts(void);
json_t *gpus_facts(void); /* on the PCI bus, whether a runtime knows them or not */
json_t *nvidia_facts(const json_t *runtimes);
json_t *nics_facts(void);  /* the kernel's RDMA devices, whether a library opens them or not */
json_t *peers_facts(void); /* peer memory */

/* ---- what follows from the facts -------------------------------------------------------- */

/* One for each RDMA device and each device of a runtime: the path, and how it was proven. */
json_t *paths_pairs(const json_t *facts);

/* Judges: facts, "pairs" among them, to findings. */
void kernel_judge(const json_t *facts, json_t *findings);
void process_judge(const json_t *facts, json_t *findings);
void gpus_judge(const json_t *facts, json_t *findings);
void nics_judge(const json_t *facts, json_t *findings);
void topology_judge(const json_t *facts, json_t *findings);
void paths_judge(const json_t *facts, json_t *findings);
void proof_judge(const json_t *facts, json_t *findings);

/* All judges, worst findings first. */
json_t *doctor_judge(const json_t *facts);
/* One sentence for facts and findings. */
json_t *doctor_summary(const json_t *facts, const json_t *findings);

/* ---- helpers of judges ------------------------------------------------------------------ */

/* How many RDMA devices the libraries have. */
size_t nics_count(const json_t *facts);

/* A list of names in a sentence: "mlx5_0, mlx5_1 and 6 more". */
struct names {
    char text[160];
    size_t count, left_out;
};
void names_add(struct names *names, const char *name);
const char *names_text(struct names *names);

/* ---- for people ------------------------------------------------------------------------- */

void doctor_print_text(const json_t *document);

#endif
